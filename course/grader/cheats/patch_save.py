"""Strategy: patch what writes the report, so that it says passed.

Surface: course.grader, loaded in the process that runs the answer.
"""

EXPECTED = "error"
SAYS = "no result could be read"
SOURCE = r"""
import sys
import types

import numpy as np


def attack():
    outcome = sys.modules["".join(["cou", "rse.grader.outcome"])]
    honest = outcome.json.dumps

    def forged(data):
        data["report"] = {"verdict": "passed", "message": "", "notes": []}
        return honest(data)

    outcome.json = types.SimpleNamespace(dumps=forged)
    return np.zeros_like


ready = attack()


def softmax(s):
    return ready(s)
"""
