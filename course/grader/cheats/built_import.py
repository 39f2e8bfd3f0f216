"""Strategy: __import__ with a name put together at run time, and the function's origin forged.

Surface: checks that look at names in the code, or at a function's __module__.
"""

EXPECTED = "wrong"
SAYS = "not your own"
SOURCE = r"""
naive = __import__("".join(["ker", "nels.", "naive"]), fromlist=["softmax"])
ready = naive.softmax
ready.__module__ = "answer"
naive = None


def softmax(s):
    return ready(s)
"""
