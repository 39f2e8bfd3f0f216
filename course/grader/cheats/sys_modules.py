"""Strategy: take the course's own solution from sys.modules, where the grader may have left it.

Surface: what else lives in the process that runs the answer.
"""

EXPECTED = "error"
SAYS = "StopIteration"
SOURCE = r"""
import sys


def softmax(s):
    found = (m for name, m in sys.modules.items() if name.endswith("".join(["na", "ive"])))
    return next(found).softmax(s)
"""
