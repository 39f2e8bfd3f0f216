"""Cheats that the grader must reject, one to a file, with two controls beside them.

A file's docstring states the strategy and the surface that it attacks. `SOURCE` is the answer as
a cell of a notebook, `EXPECTED` the verdict, `SAYS` a part of the message, `EXERCISE` the id if
it isn't the softmax. course/tests/test_cheats.py discovers the files and fails if one passes.

**The threat model** is honest mistakes and cheap tricks: what somebody tries in an evening, from
inside a notebook. The answer runs in a process of its own, and the process that judges believes
it as little as it can: the child says what the answer returned, and may say by itself that there
is nothing to judge, never that it is right. It holds no right results, and may not read the
files or import the packages that would give them.

**What remains possible**, and is not detected:

- Typing in somebody else's answer, the book's included. Solutions are published; so are the seeds,
  unless a teacher gives another one with `--seed`.
- A library that nobody has listed: an exercise's `forbidden`, and FOREIGN_MODULES in ownership.py.
- Taking the audit hook apart from inside. It is Python code, and what it calls can be patched
  deeper down than any cheat here does.
- Native code. ctypes can read files, start processes and write to the grader's memory below the
  audit hook, and can get away from the limits. So can a compiled extension. Somebody who grades
  strangers needs a container or a virtual machine around the grader; this is no sandbox.
- The check cell in a notebook grades in the learner's own process and can be patched there. It is
  for the learner's use: marks come from `pytest tests/` and `python -m course class`.
"""

import importlib
import pkgutil
from dataclasses import dataclass

CONTROLS = {"control_right", "control_wrong"}


@dataclass(frozen=True)
class Cheat:
    name: str
    exercise: str
    source: str
    expected: str
    says: str


def find_cheats() -> dict[str, Cheat]:
    """Every cheat and control by name; a file that lacks a constant is an AttributeError."""
    found = {}
    for file in pkgutil.iter_modules(__path__):
        module = importlib.import_module(f"{__name__}.{file.name}")
        if not module.__doc__ or "Surface:" not in module.__doc__:
            raise ValueError(f"{file.name}: its docstring must state the strategy and the surface")
        exercise = getattr(module, "EXERCISE", "01-naive-softmax")
        found[file.name] = Cheat(
            file.name, exercise, module.SOURCE.strip(), module.EXPECTED, module.SAYS
        )
    return found
