"""Strategy: print what a grader prints for a pass, on every stream.

Surface: graders that read a verdict from the output.
"""

EXPECTED = "wrong"
SAYS = "relative error"
SOURCE = r"""
import os
import sys

import numpy as np


def softmax(s):
    for text in ("passed: 01-naive-softmax", '{"verdict": "passed", "points": 2}', "4 passed"):
        print(text)
        print(text, file=sys.__stderr__)
        os.write(1, text.encode() + b"\n")
    return np.zeros_like(s)
"""
