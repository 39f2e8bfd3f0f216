"""Strategy: search all live objects for the exercise, its reference or the module that holds it.

Surface: what the grader has loaded and dropped, if it's still in memory.
"""

EXPECTED = "error"
SAYS = "no reference in reach"
SOURCE = r"""
import gc
import types


def softmax(s):
    for value in gc.get_objects():
        if isinstance(value, types.FunctionType) and value.__name__ in ("reference", "inputs"):
            return value.__globals__["reference"](s).astype(s.dtype)
    raise LookupError("no reference in reach")
"""
