"""Strategy: put the folder of the solutions on sys.path and import the module by another name.

Surface: checks of module names.
"""

EXPECTED = "wrong"
SAYS = "not your own"
SOURCE = r"""
import os
import sys


def attack():
    root = next(p for p in sys.path if os.path.exists(os.path.join(p, "pyproject.toml")))
    sys.path.append(os.path.join(root, "".join(["ker", "nels"])))
    import naive

    return naive.softmax


ready = attack()


def softmax(s):
    return ready(s)
"""
