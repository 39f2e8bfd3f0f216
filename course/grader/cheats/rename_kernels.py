"""Strategy: bind the course's own solution to the graded name.

Surface: as import_kernels, with no function of one's own around it.
"""

EXPECTED = "wrong"
SAYS = "not your own"
SOURCE = r"""
from kernels.naive import softmax
"""
