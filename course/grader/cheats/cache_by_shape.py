"""Strategy: compute the first result of each shape, and hand it out again afterwards.

Surface: graders that repeat one input, or never two of a shape.
"""

EXPECTED = "wrong"
SAYS = "relative error"
SOURCE = r"""
import numpy as np

seen = {}


def softmax(s):
    if s.shape in seen:
        return seen[s.shape]
    wide = s.astype(np.promote_types(s.dtype, np.float32))
    top = wide.max(axis=-1, keepdims=True, initial=-np.inf)
    powers = np.exp(wide - np.where(np.isfinite(top), top, 0))
    total = powers.sum(axis=-1, keepdims=True)
    result = (powers / np.where(total == 0, 1, total)).astype(s.dtype)
    seen[s.shape] = result
    return result
"""
