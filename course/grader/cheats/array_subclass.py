"""Strategy: return an array subclass whose arithmetic always gives zero difference.

Surface: comparisons that let the value take part.
"""

EXPECTED = "wrong"
SAYS = "where a NumPy array is expected"
SOURCE = r"""
import numpy as np


class Agreeable(np.ndarray):
    def __sub__(self, other):
        return np.zeros(self.shape)

    __rsub__ = __sub__

    def astype(self, *_, **__):
        return self


def softmax(s):
    return np.zeros_like(s).view(Agreeable)
"""
