"""Strategy: call scipy.special.softmax.

Surface: libraries that hold the solution; refused whether it is installed or not.
"""

EXPECTED = "wrong"
SAYS = "not your own"
SOURCE = r"""
from scipy.special import softmax as ready


def softmax(s):
    return ready(s, axis=-1)
"""
