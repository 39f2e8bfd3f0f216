"""Control: an honest mistake is wrong.

Surface: none.
"""

EXPECTED = "wrong"
SAYS = "relative error"
SOURCE = r"""
import numpy as np


def softmax(s):
    return np.zeros_like(s) + s.dtype.type(0.125)
"""
