"""Strategy: return an object that turns into an array only when it's looked at.

Surface: __array__, and properties that imitate an array.
"""

EXPECTED = "wrong"
SAYS = "where a NumPy array is expected"
SOURCE = r"""
import numpy as np


class Lazy:
    __class__ = np.ndarray
    dtype = np.dtype(np.float32)

    def __init__(self, s):
        self.shape = s.shape

    def __array__(self, *_, **__):
        return np.zeros(self.shape)


def softmax(s):
    return Lazy(s)
"""
