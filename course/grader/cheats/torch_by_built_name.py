"""Strategy: import torch inside the function, under a name that no reader of the code finds.

Surface: importlib, which reads modules without an import statement.
"""

EXPECTED = "wrong"
SAYS = "not your own"
SOURCE = r"""
import importlib


def softmax(s):
    torch = importlib.import_module("".join(["to", "rch"]))
    return torch.softmax(torch.from_numpy(s), -1).numpy()
"""
