"""Strategy: return NaN, which compares as neither larger nor smaller than any bound.

Surface: tests written as `error > bound`.
"""

EXPECTED = "wrong"
SAYS = "nan where"
SOURCE = r"""
import numpy as np


def softmax(s):
    return np.full_like(s, np.nan)
"""
