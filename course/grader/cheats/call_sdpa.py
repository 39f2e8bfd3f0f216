"""Strategy: let PyTorch's scaled_dot_product_attention do the work.

Surface: libraries that hold the solution.
"""

EXERCISE = "01-naive-attention"
EXPECTED = "wrong"
SAYS = "not your own"
SOURCE = r"""
import numpy as np
import torch


def attention(q, k, v, *, causal=False, scale=None, input_pos=None):
    q, k, v = (torch.from_numpy(np.ascontiguousarray(x)) for x in (q, k, v))
    return torch.nn.functional.scaled_dot_product_attention(q, k, v, scale=scale).numpy()
"""
