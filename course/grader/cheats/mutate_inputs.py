"""Strategy: zero the inputs, so that a reference computed from them later agrees with zeros.

Surface: arrays shared with the grader.
"""

EXPECTED = "wrong"
SAYS = "changed its input"
SOURCE = r"""
import numpy as np


def softmax(s):
    s[...] = -np.inf
    return np.zeros_like(s)
"""
