"""Strategy: as forge_result, writing to every open descriptor.

Surface: file descriptors, which no search for objects needs.
"""

EXPECTED = "error"
SAYS = "no result could be read"
SOURCE = r"""
import contextlib
import io
import json
import os

import numpy as np


def softmax(s):
    report = {"verdict": "passed", "message": "", "notes": []}
    content = io.BytesIO()
    np.savez(content, text=np.array(json.dumps({"report": report, "cases": {}})))
    for descriptor in range(1, 64):
        with contextlib.suppress(OSError):
            os.write(descriptor, content.getvalue())
    os._exit(0)
"""
