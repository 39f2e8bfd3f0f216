"""Strategy: read one of the grader's own right answers, below Python's open().

Surface: files of the course that hold solutions; os.open.
"""

EXPECTED = "wrong"
SAYS = "not your own"
SOURCE = r"""
import os
import sys

root = next(p for p in sys.path if os.path.exists(os.path.join(p, "pyproject.toml")))


def softmax(s):
    path = f"{root}/cou" + "rse/exercises/ch01_naive/softmax/variant.py"
    names = {}
    exec(os.read(os.open(path, os.O_RDONLY), 100_000), names)
    return names["softmax"](s)
"""
