"""Strategy: import the course's own solution with importlib, inside the function.

Surface: no import statement that a search of the code would find.
"""

EXPECTED = "wrong"
SAYS = "not your own"
SOURCE = r"""
import importlib


def softmax(s):
    return importlib.import_module("kernels.naive").softmax(s)
"""
