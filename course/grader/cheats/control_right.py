"""Control: an honest answer passes, or no cheat's failure would mean anything.

Surface: none.
"""

EXPECTED = "passed"
SAYS = ""
SOURCE = r"""
import numpy as np


def softmax(s):
    wide = s.astype(np.promote_types(s.dtype, np.float32))
    top = wide.max(axis=-1, keepdims=True, initial=-np.inf)
    powers = np.exp(wide - np.where(np.isfinite(top), top, 0))
    total = powers.sum(axis=-1, keepdims=True)
    return (powers / np.where(total == 0, 1, total)).astype(s.dtype)
"""
