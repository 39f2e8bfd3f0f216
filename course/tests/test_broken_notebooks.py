"""Broken notebooks: each gets its own verdict with a plain reason, and spoils nothing else."""

import contextlib
import copy
import dataclasses
import json
import os
import tempfile
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from handed_in import SOFTMAX, TRAFFIC, answered, blank, place_of, solved, with_cell, write

from course.exercise import find_exercise
from course.grader.tiers import grade

FULL = bool(os.environ.get("FULL"))
SHORT = 2.0  # seconds for what never ends; all else has the usual limit, for slow machines
MARGIN = 5.0  # to kill and to clean up

POSIX = pytest.mark.skipif(os.name != "posix", reason="needs a POSIX system")
RIGHT = solved()["cells"][place_of(solved(), SOFTMAX)]["source"]


@dataclass(frozen=True)
class Row:
    """A notebook, the verdict of its softmax, and a part of the message.

    `others` is the verdict of the other exercises: a notebook that can't be read has none left.
    """

    make: object  # (folder) -> the notebook's path
    verdict: str
    says: str
    others: str = "passed"
    marks: tuple = ()
    seconds: float = 20.0


def built(notebook: dict):
    return lambda folder: write(folder, notebook)


def answer(body: str, before: str = ""):
    """A notebook whose softmax has this body, `before` standing above it."""
    lines = "\n".join(f"    {line}" for line in body.split("\n"))
    return built(answered(f"{before}\ndef softmax(s):\n{lines}\n"))


def holding(content: bytes):
    def make(folder):
        path = folder / "01-naive.ipynb"
        path.write_bytes(content)
        return path

    return make


def deleted(folder):
    notebook = solved()
    del notebook["cells"][place_of(notebook, SOFTMAX)]
    return write(folder, notebook)


def duplicated(stub_first, folder):
    notebook = solved()
    place = place_of(notebook, SOFTMAX)
    stub = copy.deepcopy(blank()["cells"][place])
    notebook["cells"].insert(place if stub_first else place + 1, stub)
    return write(folder, notebook)


def two_answers(folder):
    notebook = solved()
    place = place_of(notebook, SOFTMAX)
    second = copy.deepcopy(notebook["cells"][place])
    notebook["cells"][place]["source"] = "def softmax(s):\n    return s"
    notebook["cells"].insert(place + 1, second)
    return write(folder, notebook)


def a_folder(folder):
    path = folder / "01-naive.ipynb"
    path.mkdir()
    return path


def link_to_nothing(folder):
    path = folder / "01-naive.ipynb"
    path.symlink_to(folder / "gone.ipynb")
    return path


def a_pipe(folder):
    path = folder / "01-naive.ipynb"
    os.mkfifo(path)
    return path


def too_large(folder):
    path = folder / "01-naive.ipynb"
    with path.open("wb") as file:
        file.truncate(201 << 20)
    return path


def large(folder):
    notebook = solved()
    text = {
        "name": "stdout",
        "output_type": "stream",
        "text": "x" * (190 << 20 if FULL else 9 << 20),
    }
    notebook["cells"][place_of(notebook, SOFTMAX)]["outputs"] = [text]
    return write(folder, notebook)


def beside(name, content, source, folder):
    """An answer with a file beside the notebook."""
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).write_text(content, encoding="utf-8")
    return write(folder, answered(source))


def shadowed(folder):
    for name in ("numpy.py", "json.py", "course/__init__.py", "kernels/__init__.py"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text("raise SystemExit('shadowed')")
    return write(folder, solved())


WAYS_TO_DELETE = {
    "os.remove": "import os\nos.remove(VICTIM)",
    "os.remove, relative": "import os\nos.remove(os.path.relpath(VICTIM))",
    "os.unlink by descriptor": (
        "import os\nfolder = os.open(os.path.dirname(VICTIM), os.O_RDONLY)\n"
        "os.unlink(os.path.basename(VICTIM), dir_fd=folder)"
    ),
    "os.rename": "import os\nos.rename(VICTIM, 'mine')",
    "os.replace onto it": "import os\nopen('mine', 'w').close()\nos.replace('mine', VICTIM)",
    "os.truncate": "import os\nos.truncate(VICTIM, 0)",
    "open for writing": "open(VICTIM, 'w').close()",
    "append": "with open(VICTIM, 'a') as file:\n    file.write('x')",
    "os.open": "import os\nos.close(os.open(VICTIM, os.O_WRONLY | os.O_TRUNC))",
    "pathlib": "import pathlib\npathlib.Path(VICTIM).unlink()",
    "shutil.rmtree": "import os, shutil\nshutil.rmtree(os.path.dirname(VICTIM))",
    "shutil.rmtree, errors ignored": (
        "import os, shutil\nshutil.rmtree(os.path.dirname(VICTIM), ignore_errors=True)\n"
        "raise PermissionError('it went on')"
    ),
    "shutil.move": "import shutil\nshutil.move(VICTIM, 'mine')",
    "through a link": (
        "import os\nos.symlink(os.path.dirname(VICTIM), 'way')\nos.remove('way/precious.txt')"
    ),
    "hard link": "import os\nos.link(VICTIM, 'mine')\nopen('mine', 'w').close()",
    "os.chmod": "import os\nos.chmod(VICTIM, 0)",
    "np.save": "np.save(VICTIM, s)",
    "os.system": "import os\nos.system(f'rm -rf {VICTIM}')",
    "subprocess": "import subprocess\nsubprocess.run(['rm', '-rf', VICTIM])",
    "os.execv": "import os\nos.execv('/bin/rm', ['rm', VICTIM])",
    "after os.chdir": "import os\nos.chdir(os.path.dirname(VICTIM))\nos.remove('precious.txt')",
}  # fmt: skip

PROGRAMS = {"os.system", "subprocess", "os.execv"}


ROWS = {
    # what cannot be read
    "empty file": Row(holding(b""), "error", "isn't valid JSON", "error"),
    "invalid JSON": Row(holding(b'{"cells": ['), "error", "isn't valid JSON", "error"),
    "not a notebook": Row(holding(b'{"a": 1}'), "error", "so it's no notebook", "error"),
    "binary": Row(holding(bytes(range(256))), "error", "isn't valid JSON", "error"),
    "no file": Row(
        lambda folder: folder / "01-naive.ipynb", "error", "there is no notebook", "error"
    ),
    "a folder": Row(a_folder, "error", "01-naive.ipynb is a folder", "error"),
    "a link to nothing": Row(
        link_to_nothing, "error", "a link to a file that isn't there", "error", (POSIX,)
    ),
    "a pipe": Row(a_pipe, "error", "01-naive.ipynb is no file", "error", (POSIX,)),
    "more than 200 MiB": Row(too_large, "error", "has 201 MiB; clear its outputs", "error"),
    "large outputs": Row(large, "passed", ""),
    # what was edited
    "untouched": Row(built(blank()), "not attempted", "", "not attempted"),
    "a syntax error in the answer": Row(
        built(answered("def softmax(s):\n    return (s")), "error",
        "the cell of 01-naive-softmax isn't valid Python: '(' was never closed in line 2",
    ),
    "a syntax error elsewhere": Row(built(with_cell("print(1", solved(), 2)), "passed", ""),
    "a deleted cell": Row(deleted, "error", "the cell of 01-naive-softmax was deleted. Copy it"),
    "a stub copied after the answer": Row(partial(duplicated, False), "passed", ""),
    "a stub copied before the answer": Row(partial(duplicated, True), "passed", ""),
    "two answers": Row(two_answers, "passed", ""),
    "the function renamed": Row(
        built(answered(RIGHT.replace("def softmax", "def my_softmax"))), "error",
        "the cell of 01-naive-softmax defines `my_softmax`. The exercise is graded by its name, so "
        "call it `softmax`",
    ),
    "a helper in an added cell at the end": Row(
        built(
            with_cell(
                RIGHT.replace("def softmax", "def helper"),
                answered("def softmax(s):\n    return helper(s)"),
                -1,
            )
        ),
        "passed", "",
    ),
    "defined only by a branch not taken": Row(
        built(answered("if False:\n    def softmax(s):\n        return s")), "error",
        "`softmax` isn't defined after its cells have run",
    ),
    "no longer a function": Row(
        built(answered("softmax = 3")), "error", "'int' object is not callable"
    ),
    # what ends or never ends
    "endless loop": Row(answer("while True: pass"), "error", "ran longer than 2 s", seconds=SHORT),
    "endless loop above the function": Row(
        built(answered("N = 0\nwhile N < 1:\n    N *= 2\ndef softmax(s):\n    return N * s")),
        "error",
        "look for a loop that never ends",
        seconds=SHORT,
    ),
    "sleeps": Row(
        answer("import time\ntime.sleep(600)"), "error", "longer than 2 s", seconds=SHORT
    ),
    "sys.exit": Row(answer("import sys\nsys.exit(0)"), "error", "it raised SystemExit: 0"),
    "sys.exit above the function": Row(
        answer("return N", "import sys\nN = sys.exit('done')"), "error",
        "SystemExit: done (the cell of 01-naive-softmax, line 2",
    ),
    "exit()": Row(answer("exit()"), "error", "SystemExit"),
    "os._exit": Row(answer("import os\nos._exit(0)"), "error", "before it returned anything"),
    "os._exit with a status": Row(answer("import os\nos._exit(7)"), "error", "(exit status 7)"),
    "os.abort": Row(answer("import os\nos.abort()"), "error", "SIGABRT", marks=(POSIX,)),
    "null pointer": Row(
        answer("import ctypes\nctypes.string_at(0)"), "error",
        "killed by SIGSEGV: look for what can crash Python itself", marks=(POSIX,),
    ),
    "KeyboardInterrupt": Row(
        answer("raise KeyboardInterrupt"), "error", "it raised KeyboardInterrupt (`softmax`, line 3"
    ),
    "BaseException": Row(
        answer("raise Stop('now')", "class Stop(BaseException):\n    pass"), "error",
        "it raised Stop: now (`softmax`",
    ),
    "an error whose text fails": Row(
        answer(
            "raise Bad()", "class Bad(Exception):\n    def __str__(self):\n        return 1 / 0"
        ),
        "error", "ZeroDivisionError",
    ),
    "an error whose text is no Unicode": Row(
        answer("raise ValueError('\\ud800')"), "error", "it raised ValueError"
    ),
    "deep recursion": Row(answer("return softmax(s)"), "error", "RecursionError"),
    "deep recursion without a limit": Row(
        answer("import sys\nsys.setrecursionlimit(10**9)\nreturn softmax(s)"),
        "error",
        "",
        seconds=SHORT,
    ),
    "fork in a loop": Row(
        answer("import os\nwhile True: os.fork()"), "error", "may start no program", marks=(POSIX,)
    ),
    "multiprocessing": Row(
        answer("import multiprocessing as m\nm.Process(target=print).start()"), "error",
        "may start no program", marks=(POSIX,),
    ),
    "threads that never end": Row(
        answer(
            "import threading, time\n"
            "for _ in range(3): threading.Thread(target=time.sleep, args=(600,)).start()\n"
            "return right(s)",
            RIGHT.replace("def softmax", "def right"),
        ),
        "passed", "",
    ),
    "a thread that prints for ever": Row(
        answer(
            "import threading\n"
            "def chat():\n    while True: print('x' * 10_000)\n"
            "threading.Thread(target=chat).start()\n"
            "return right(s)",
            RIGHT.replace("def softmax", "def right"),
        ),
        "passed", "",
    ),
    # what takes too much
    "50 GB allocated": Row(
        answer("return np.ones(50 << 30, np.uint8)"), "error", "Unable to allocate 50.0 GiB"
    ),
    "50 GB allocated above the function": Row(
        answer("return N[: len(s)]", "N = np.ones(50 << 30, np.uint8)"), "error",
        "Unable to allocate 50.0 GiB",
    ),
    "memory filled bit by bit": Row(
        answer("kept = []\nwhile True: kept.append(bytearray(64 << 20))"), "error", "memory",
        marks=(POSIX,),
    ),
    "100 MB printed": Row(
        answer(
            "for _ in range(10): print('x' * 10_000_000 if s.ndim == 1 else '')\nreturn right(s)",
            RIGHT.replace("def softmax", "def right"),
        ),
        "passed", "",
    ),
    "a huge array returned": Row(
        answer("return np.zeros(200 << 20, np.uint8)"), "wrong", "a NumPy array of 200 MiB where"
    ),
    # what comes from elsewhere
    "a missing package": Row(
        answer("return pandas.DataFrame(s)", "import no_such_package as pandas"), "error",
        "No package `no_such_package` is installed here",
    ),
    "a helper module beside the notebook": Row(
        partial(
            beside, "helpers.py", RIGHT, "from helpers import softmax as f\nsoftmax = f"
        ),
        "error", "files beside the notebook are not graded: put their code into a cell",
    ),
    "a data file beside the notebook": Row(
        partial(
            beside, "data.txt", "1", "def softmax(s):\n    return s * len(open('data.txt').read())"
        ),
        "error", "No such file or directory: 'data.txt'",
    ),
    "modules beside the notebook named like ours": Row(shadowed, "passed", ""),
    # what is no array
    "None returned": Row(answer("s + 1"), "wrong", "it returned None where a NumPy array"),
    "NotImplementedError left in a branch": Row(
        answer("if s.ndim < 9: raise NotImplementedError\nreturn s"), "error",
        "`softmax` still has its `raise NotImplementedError`",
    ),
    "a generator returned": Row(answer("yield s"), "wrong", "it returned a generator where"),
    "a list returned": Row(answer("return s.tolist()"), "wrong", "(list) where a NumPy array"),
    "a recursive list": Row(answer("x = []\nx.append(x)\nreturn x"), "wrong", "(list) where"),
    "a huge dict": Row(
        answer("return dict.fromkeys(map(str, range(10**5)))"), "wrong", "it returned a dict where"
    ),
    "an object array": Row(
        answer("return s.astype(object)"), "wrong", "it returned a NumPy array of dtype object"
    ),
    "an array subclass": Row(
        answer("return np.ma.masked_array(s)"), "wrong", "it returned a MaskedArray where"
    ),
    "a class": Row(answer("return type(s)"), "wrong", "it returned a type where"),
    "a huge integer": Row(answer("return 10**10_000"), "wrong", "it returned an int of 33220 bits"),
    "a long text": Row(answer("return 'x' * 10**6"), "wrong", "a str of 1000000 characters"),
    # what deletes files around it
    **{
        f"deletes by {name}": Row(
            answer(source, "VICTIM = {victim!r}"),
            "error",
            "may start no program" if name in PROGRAMS else "PermissionError",
            marks=(POSIX,),
        )
        for name, source in WAYS_TO_DELETE.items()
    },
    "deletes in a call for show": Row(
        built(with_cell("import os\nos.remove({victim!r})", solved(), 2)),
        "passed", "",
    ),
}  # fmt: skip


def tree(folder: Path) -> dict:
    return {
        path.relative_to(folder): path.read_bytes() if path.is_file() else None
        for path in folder.rglob("*")
    }


def limited(exercise_id, seconds=20.0):
    return dataclasses.replace(find_exercise(exercise_id), seconds=seconds, memory_bytes=1 << 30)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=row.marks, id=name) for name, row in ROWS.items()]
)
def test_a_broken_notebook_gets_its_own_verdict(name, tmp_path):
    row = ROWS[name]
    victim = tmp_path / "precious" / "precious.txt"
    victim.parent.mkdir()
    victim.write_text("keep me")
    folder = tmp_path / "learner"
    folder.mkdir()
    notebook = row.make(folder)
    if name.startswith("deletes"):
        notebook.write_text(notebook.read_text().replace("{victim!r}", repr(str(victim))))
    before = tree(tmp_path)

    started = time.monotonic()
    result = grade(notebook, limited(SOFTMAX, row.seconds))
    took = time.monotonic() - started

    message = result.verdict.message
    assert result.verdict.kind == row.verdict, message
    assert row.says in message
    assert (result.points > 0) == (row.verdict == "passed")
    assert message or row.verdict in ("passed", "not attempted"), "a failure gives its reason"
    assert took < row.seconds + MARGIN
    assert tree(tmp_path) == before, "files around the notebook have changed"
    # One exercise is graded in one process, so that a sample shows what is true of all.
    if FULL or row.others != "passed" or name in ("endless loop", "a deleted cell", "os._exit"):
        other = grade(notebook, limited(TRAFFIC))
        assert other.verdict.kind == row.others, other.verdict.message
    json.dumps(result.as_json())


@POSIX
@pytest.mark.parametrize("name", sorted(WAYS_TO_DELETE.keys() - PROGRAMS))
def test_a_way_to_delete_works_without_the_grader(name, tmp_path, monkeypatch):
    """Or its row above would prove nothing."""
    victim = tmp_path / "precious" / "precious.txt"
    victim.parent.mkdir()
    victim.write_text("keep me")
    before, mode = tree(tmp_path), victim.stat().st_mode
    (tmp_path / "place").mkdir()
    monkeypatch.chdir(tmp_path / "place")
    with contextlib.suppress(PermissionError):
        exec(WAYS_TO_DELETE[name], {"VICTIM": str(victim), "np": np, "s": np.ones(2)})
    after = {path: content for path, content in tree(tmp_path).items() if "place" not in path.parts}
    assert after != before or victim.stat().st_mode != mode


@POSIX
def test_a_notebook_without_permission_is_named():
    with tempfile.TemporaryDirectory() as name:
        os.chmod(name, 0o755)
        notebook = write(Path(name), solved())
        notebook.chmod(0)
        root = os.geteuid() == 0
        if root:
            os.seteuid(65534)  # root may read everything
        try:
            result = grade(notebook, limited(SOFTMAX))
        finally:
            if root:
                os.seteuid(0)
    assert result.verdict.kind == "error"
    assert result.verdict.message == (
        "01-naive.ipynb can't be read: Permission denied. Look at the file's permissions"
    )
