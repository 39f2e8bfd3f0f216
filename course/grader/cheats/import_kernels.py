"""Strategy: import the course's own solution.

Surface: `kernels` can be imported where the notebook runs.
"""

EXPECTED = "wrong"
SAYS = "not your own"
SOURCE = r"""
from kernels import naive


def softmax(s):
    return naive.softmax(s)
"""
