"""Strategy: read the solved notebook and execute its cell.

Surface: files of the course that hold solutions.
"""

EXPECTED = "wrong"
SAYS = "not your own"
SOURCE = r"""
import json
import os
import sys

root = next(p for p in sys.path if os.path.exists(os.path.join(p, "pyproject.toml")))


def softmax(s):
    with open(os.path.join(root, "".join(["solut", "ions"]), "01-naive.ipynb")) as file:
        cells = json.load(file)["cells"]
    names = {}
    exec("import numpy as np", names)
    exec(next("".join(c["source"]) for c in cells if "def softmax" in "".join(c["source"])), names)
    return names["softmax"](s)
"""
