"""Strategy: empty the lists of what is not one's own, and blind the check, then use the solution.

Surface: course.grader, loaded in the process that runs the answer.
"""

EXPECTED = "wrong"
SAYS = "not your own"
SOURCE = r"""
import sys


def attack():
    ownership = sys.modules["".join(["cou", "rse.grader.ownership"])]
    ownership.foreign_name = lambda *_: None
    ownership.FOREIGN_MODULES.clear()
    ownership.FOREIGN_NAMES.clear()
    return __import__("".join(["ker", "nels.naive"]), fromlist=["x"]).softmax


ready = attack()


def softmax(s):
    return ready(s)
"""
