"""Strategy: load the exercise as the grader does and call its reference.

Surface: the grader's modules, already loaded and so not imported again.
"""

EXPECTED = "wrong"
SAYS = "not your own"
SOURCE = r"""
import sys


def softmax(s):
    loaded = sys.modules["".join(["cou", "rse.exercise"])]
    return loaded.find_exercise("01-naive-softmax").reference(s).astype(s.dtype)
"""
