"""Strategy: have another Python, which nobody watches, compute the result.

Surface: subprocess.
"""

EXPECTED = "error"
SAYS = "start no program"
SOURCE = r"""
import subprocess
import sys


def softmax(s):
    subprocess.run([sys.executable, "-c", "import kernels.naive"], check=True)
    return s
"""
