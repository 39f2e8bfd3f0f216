"""Strategy: call torch.softmax.

Surface: libraries that hold the solution.
"""

EXPECTED = "wrong"
SAYS = "not your own"
SOURCE = r"""
import torch


def softmax(s):
    return torch.softmax(torch.from_numpy(s), -1).numpy()
"""
