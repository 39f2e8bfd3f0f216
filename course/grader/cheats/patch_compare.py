"""Strategy: widen the grader's bounds.

Surface: course.grader.compare.
"""

EXPECTED = "wrong"
SAYS = "not your own"
SOURCE = r"""
import numpy as np


def attack():
    compare = __import__("".join(["cou", "rse.grader.compare"]), fromlist=["BOUNDS"])
    for kind in compare.BOUNDS:
        compare.BOUNDS[kind] = (np.inf, np.inf)
    return np.zeros_like


ready = attack()


def softmax(s):
    return ready(s)
"""
