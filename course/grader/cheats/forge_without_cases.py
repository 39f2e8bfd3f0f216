"""Strategy: a result file that claims nothing, so that there is nothing to find fault with.

Surface: graders that count faults instead of right results.
"""

EXPECTED = "error"
SAYS = "not every result came back"
SOURCE = r"""
import gc
import io
import json
import os

import numpy as np


def softmax(s):
    report = {"verdict": None, "message": "", "notes": []}
    text = np.array(json.dumps({"report": report, "cases": {}}))
    for file in gc.get_objects():
        if isinstance(file, io.BufferedWriter) and "result" in str(file.name):
            np.savez(file, text=text)
            file.flush()
    os._exit(0)
"""
