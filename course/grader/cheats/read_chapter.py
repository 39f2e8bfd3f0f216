"""Strategy: read the solution from the book's source.

Surface: files of the course that hold solutions; pathlib, and a path with detours in it.
"""

EXPECTED = "wrong"
SAYS = "not your own"
SOURCE = r"""
import pathlib
import sys

root = next(p for p in map(pathlib.Path, sys.path) if (p / "pyproject.toml").exists())


def softmax(s):
    text = (root / "tests" / ".." / "book" / "chapters" / "01-naive.md").read_text()
    return s * len(text)
"""
