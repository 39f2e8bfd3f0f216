"""Strategy: be right on the first three calls, then stop working.

Surface: graders that look only at the first results.
"""

EXPECTED = "wrong"
SAYS = "relative error"
SOURCE = r"""
import numpy as np

calls = []


def softmax(s):
    calls.append(s.shape)
    if len(calls) > 3:
        return np.zeros_like(s)
    wide = s.astype(np.promote_types(s.dtype, np.float32))
    top = wide.max(axis=-1, keepdims=True, initial=-np.inf)
    powers = np.exp(wide - np.where(np.isfinite(top), top, 0))
    total = powers.sum(axis=-1, keepdims=True)
    result = (powers / np.where(total == 0, 1, total)).astype(s.dtype)
    return result
"""
