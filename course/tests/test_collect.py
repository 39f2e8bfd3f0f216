"""What is taken from a notebook: the statements that an answer needs, and no others."""

import ast
import json
from dataclasses import dataclass

import pytest

from course.grader import answer
from course.grader.collect import CodeCell, Unusable, collect, read_cells

ID = "01-naive-thing"
BOOM = "raise_an_alarm_that_does_not_exist()"  # NameError if it ever runs
STUB = 'def f():\n    """Return 7."""\n    raise NotImplementedError'


@dataclass(frozen=True)
class Row:
    """Cells of a notebook, one of them the exercise's; what is kept of them, and f()."""

    cells: tuple[str, ...]
    kept: tuple[str, ...]  # the first line of each statement that has to run
    value: object = 7
    solves: int = -1  # which of the cells is the exercise's


ROWS = {
    "import": Row(
        ("import math\nimport json", "def f():\n    return math.floor(7.5)"),
        ("import math", "def f():"),
    ),
    "one import of several in a statement": Row(
        ("import math, no_such_package", "def f():\n    return math.floor(7.5)"),
        ("import math", "def f():"),
    ),
    "one name of several in a from-import": Row(
        ("from math import floor as down, no_such_name", "def f():\n    return down(7.5)"),
        ("from math import floor as down", "def f():"),
    ),
    "dotted import": Row(
        ("import os.path", "def f():\n    return len(os.path.join('abc', 'def'))"),
        ("import os.path", "def f():"),
    ),
    "import inside the function": Row(
        ("def f():\n    import math\n    return math.floor(7.5)",), ("def f():",)
    ),
    "constant that rests on an import": Row(
        ("import math", f"BASE = math.floor(7.5)\nOTHER = {BOOM}", "def f():\n    return BASE"),
        ("import math", "BASE = math.floor(7.5)", "def f():"),
    ),
    "helper in a cell added after": Row(
        ("def f():\n    return helper()", "def helper():\n    return 7"),
        ("def f():", "def helper():"),
        solves=0,
    ),
    "helper of a helper": Row(
        (
            "def inner():\n    return SEVEN",
            "SEVEN = 7",
            "def outer():\n    return inner()",
            "def f():\n    return outer()",
        ),
        ("def inner():", "SEVEN = 7", "def outer():", "def f():"),
    ),
    "global used only inside a nested function": Row(
        ("N = 7", "def f():\n    def g():\n        return [N for _ in 'a'][0]\n    return g()"),
        ("N = 7", "def f():"),
    ),
    "closure": Row(
        ("def make(n):\n    def f():\n        return n\n    return f", "f = make(7)"),
        ("def make(n):", "f = make(7)"),
    ),
    "decorator": Row(
        ("def twice(g):\n    return lambda: 2 * g()", "@twice\ndef f():\n    return 3.5"),
        ("def twice(g):", "@twice"),
    ),
    "default value": Row(
        ("START = 7\nUNUSED = 1", "def f(n=START):\n    return n"),
        ("START = 7", "def f(n=START):"),
    ),
    "annotation": Row(
        ("Kind = int", "def f() -> Kind:\n    return 7"), ("Kind = int", "def f() -> Kind:")
    ),
    "comprehension's own name": Row(
        (f"i = {BOOM}", "def f():\n    return sum(i for i in [3, 4])"), ("def f():",)
    ),
    "comprehension in a demo binds nothing": Row(
        (
            "N = 7",
            f"demo = [{BOOM} for N in range(3)]",
            f"shown = sum({BOOM} for N in range(3))",
            "def f():\n    return N",
        ),
        ("N = 7", "def f():"),
    ),
    "augmented assignment": Row(
        ("n = 3", "n += 4", "def f():\n    return n"), ("n = 3", "n += 4", "def f():")
    ),
    "subscript assignment": Row(
        ("table = {}", "table['a'] = 7", "def f():\n    return table['a']"),
        ("table = {}", "table['a'] = 7", "def f():"),
    ),
    "attribute assignment": Row(
        ("class Box:\n    pass", "Box.n = 7", "def f():\n    return Box.n"),
        ("class Box:", "Box.n = 7", "def f():"),
    ),
    "star import": Row(
        ("from math import *", "def f():\n    return floor(7.5)"),
        ("from math import *", "def f():"),
    ),
    "star import that nobody needs": Row(
        ("from no_such_package import *", "def f():\n    return len('1234567')"), ("def f():",)
    ),
    "class": Row(
        ("class Counter:\n    n = 7", "def f():\n    return Counter().n"),
        ("class Counter:", "def f():"),
    ),
    "import that may fail": Row(
        (
            "try:\n    import no_such_package as m\nexcept ImportError:\n    import math as m",
            "def f():\n    return m.floor(7.5)",
        ),
        ("try:", "def f():"),
    ),
    "definition under if and else": Row(
        ("FAST = False", "if FAST:\n    f = None\nelse:\n    def f():\n        return 7"),
        ("FAST = False", "if FAST:"),
    ),
    "rebinding later": Row(
        ("def f():\n    return 3.5", "def twice(g):\n    return lambda: 2 * g()", "f = twice(f)"),
        ("def f():", "def twice(g):", "f = twice(f)"),
        solves=0,
    ),
    "demo with the function's local names": Row(
        (f"s = {BOOM}", f"p, total = {BOOM}, 3", "def f():\n    s = p = 7\n    return s"),
        ("def f():",),
    ),
    "demo with the function's arguments": Row(
        (f"q = {BOOM}", "def f(q=7):\n    return q"), ("def f(q=7):",)
    ),
    "bare calls and plots": Row(
        (BOOM, f"plt.show({BOOM})\nprint({BOOM})", "def f():\n    return 7", BOOM),
        ("def f():",),
        solves=2,
    ),
    "loops and branches for show": Row(
        (f"for s in range(3):\n    {BOOM}", f"if True:\n    {BOOM}", "def f():\n    return 7"),
        ("def f():",),
    ),
    "the check cell's call copied": Row(
        ("def f():\n    return 7", f'check("{ID}", f)'), ("def f():",), solves=0
    ),
    "line magics": Row(
        ("%matplotlib inline\nimport math\n%load_ext autoreload", "def f():\n    return 7"),
        ("def f():",),
    ),
    "magic in the answer's cell": Row(
        ("%timeit 1 + 1\ndef f():\n    # is that right?\n    return 7\n!ls /\nf?",),
        ("def f():", "pass", "pass"),
    ),
    "assigned magics": Row(
        ("files = !ls /\nt = %timeit 1", "def f():\n    return 7"), ("def f():",)
    ),
    "%%time": Row(("%%time\ndef f():\n    return 7",), ("def f():",)),
    "%%time after an empty line": Row(("\n%%time\ndef f():\n    return 7",), ("def f():",)),
    "%%bash": Row(("%%bash\nf = 1\nls /", "def f():\n    return 7"), ("def f():",)),
    "%%bash after an empty line": Row(
        ("\n%%bash\nf() { ls /; }\nf = (", "def f():\n    return 7"), ("def f():",)
    ),
    "syntax error elsewhere": Row(
        ("print(1", "def f():\n    return 7", "x = = 2"), ("def f():",), solves=1
    ),
    "nesting too deep for the parser, elsewhere": Row(
        ("x = " + "-" * 50_000 + "1", "def f():\n    return 7"), ("def f():",)
    ),
    "stub copied after the answer": Row(
        ("def f():\n    return 7", STUB), ("def f():",), solves=0
    ),
    "stub copied before the answer": Row((STUB, "def f():\n    return 7"), ("def f():",)),
    "helper called like a variable of a demo": Row(
        (
            f"state = {BOOM}",
            "def state():\n    return 7\ndef f():\n    return state()",
            f"state = {BOOM}",
        ),
        ("def state():", "def f():"),
        solves=1,
    ),
    "constant called like a variable of a demo": Row(
        (f"size = {BOOM}", "size = 7\ndef f():\n    return size", f"size = {BOOM}"),
        ("size = 7", "def f():"),
        solves=1,
    ),
    "helper in an added cell, called like variables of demos": Row(
        (
            f"state = {BOOM}",
            "def state():\n    return 7",
            "def f():\n    return state()",
            f"state = {BOOM}",
        ),
        ("def state():", "def f():"),
        solves=2,
    ),
    "helper in a cell added after, called like a variable above": Row(
        (f"state = {BOOM}", "def f():\n    return state()", "def state():\n    return 7"),
        ("def f():", "def state():"),
        solves=1,
    ),
    "the last helper above": Row(
        (
            f"def state():\n    return {BOOM}",
            "def state():\n    return 7",
            "def f():\n    return state()",
        ),
        ("def state():", "def f():"),
    ),
    "helper that is wrapped": Row(
        (
            f"state = {BOOM}",
            "def state():\n    return 3.5",
            "def twice(g):\n    return lambda: 2 * g()",
            "state = twice(state)",
            "def f():\n    return state()",
        ),
        ("def state():", "def twice(g):", "state = twice(state)", "def f():"),
    ),
    "own import of what others import": Row(
        ("import math", "import math\ndef f():\n    return math.floor(7.5)"),
        ("import math", "def f():"),
    ),
    "table made above and filled in the answer's cell": Row(
        ("table = {}", "table['a'] = 7\ndef f():\n    return table['a']"),
        ("table = {}", "table['a'] = 7", "def f():"),
    ),
    "the last of two answers": Row(
        ("def f():\n    return 1", "def f():\n    return 7"), ("def f():", "def f():")
    ),
}  # fmt: skip


def cells_of(sources, solves=-1):
    solves %= len(sources)
    return [
        CodeCell(number, source, ID if number == solves + 1 else None)
        for number, source in enumerate(sources, start=1)
    ]


@pytest.mark.parametrize("name", ROWS)
def test_exactly_what_the_answer_needs_is_kept(name):
    row = ROWS[name]
    program = collect(cells_of(row.cells, row.solves), ("f",), ID)
    kept = [ast.unparse(statement.node).split("\n")[0] for statement in program.statements]
    # What stands for a magic may stay, since it does nothing.
    assert [line for line in kept if line != "pass"] == [s for s in row.kept if s != "pass"]
    assert answer.define(program)["f"]() == row.value


@pytest.mark.parametrize("other", ["before", "after"])
def test_a_duplicated_cell_gets_a_note_that_says_which_was_graded(other):
    sources = ["def f():\n    return 7", STUB]
    program = collect(cells_of(sources if other == "after" else sources[::-1], 0), ("f",), ID)
    (note,) = program.notes
    graded = 1 if other == "after" else 2
    assert note == f"`f` is defined in cells 1 and 2, from the top; {graded} was graded"


def test_an_answer_that_uses_another_one_says_so():
    other = CodeCell(1, "def g():\n    return 7", "01-naive-other")
    (note,) = collect([other, CodeCell(2, "def f():\n    return g()", ID)], ("f",), ID).notes
    assert note == "it uses your answer to 01-naive-other"
    assert collect([other, CodeCell(2, "def f():\n    return 7", ID)], ("f",), ID).notes == []


# Cells, which of them is the exercise's, and what the learner is told.
UNUSABLE = {
    "syntax error in the answer": (
        ["x = 1", "def f():\n    return ("], 1, f"the cell of {ID} isn't valid Python: '('"
    ),
    "syntax error in an added cell that defines it": (
        ["def f(:\n    pass", STUB], 1, "cell 1 isn't valid Python"
    ),
    "wrong indent": (["def f():\nreturn 7"], 0, "in line 2: return 7"),
    "null byte": (["def f():\n    return '\0'"], 0, f"the cell of {ID} isn't valid Python"),
    "function renamed": (["def g():\n    return 7"], 0, "so call it `f` again"),
    "function deleted, cell kept": (["x = 1"], 0, "`f` isn't defined in any cell"),
    "the only trace is a use": (["x = f()"], 0, "`f` isn't defined in any cell"),
}  # fmt: skip


@pytest.mark.parametrize("name", UNUSABLE)
def test_an_unusable_notebook_says_which_cell_or_name(name):
    sources, solves, says = UNUSABLE[name]
    with pytest.raises(Unusable) as caught:
        collect(cells_of(sources, solves), ("f",), ID)
    assert says in str(caught.value)


def test_a_deleted_cell_says_where_to_get_it_back():
    with pytest.raises(Unusable, match="was deleted") as caught:
        collect([CodeCell(1, "x = 1")], ("f",), ID)
    assert ID in str(caught.value) and "python -m course notebooks --to DIR" in str(caught.value)


def notebook_of(*sources, **extra):
    return {"cells": [{"cell_type": "code", "source": source} for source in sources], **extra}


# The bytes of a file, and the sources that are read from it.
READABLE = {
    "source as text": (json.dumps(notebook_of("a = 1\nb = 2")).encode(), ["a = 1\nb = 2"]),
    "source as lines": (json.dumps(notebook_of(["a = 1\n", "b = 2"])).encode(), ["a = 1\nb = 2"]),
    "byte order mark": (json.dumps(notebook_of("é = 1")).encode("utf-8-sig"), ["é = 1"]),
    "no metadata": (json.dumps(notebook_of("a = 1")).encode(), ["a = 1"]),
    "odd metadata": (
        json.dumps({"cells": [{"cell_type": "code", "source": "a", "metadata": 3}]}).encode(),
        ["a"],
    ),
    "odd cells": (json.dumps({"cells": [3, None, {"cell_type": "code"}]}).encode(), [""]),
    "a Markdown cell and a check cell": (
        json.dumps(
            {
                "cells": [
                    {"cell_type": "markdown", "source": "text"},
                    {
                        "cell_type": "code",
                        "source": "check()",
                        "metadata": {"nbgrader": {"grade": True, "grade_id": "x-check"}},
                    },
                    {"cell_type": "code", "source": "a = 1"},
                ]
            }
        ).encode(),
        ["a = 1"],
    ),
}


@pytest.mark.parametrize("name", READABLE)
def test_read_cells(name, tmp_path):
    content, sources = READABLE[name]
    path = tmp_path / "01-naive.ipynb"
    path.write_bytes(content)
    assert [cell.source for cell in read_cells(path)] == sources


def test_cells_are_numbered_as_the_reader_counts_them(tmp_path):
    path = tmp_path / "01-naive.ipynb"
    path.write_bytes(READABLE["a Markdown cell and a check cell"][0])
    assert [cell.name for cell in read_cells(path)] == ["cell 3"]


UNREADABLE = {
    "empty": (b"", "isn't valid JSON"),
    "cut off": (b'{"cells": [{"cell_type": "co', "isn't valid JSON"),
    "not UTF-8": (b"\xff\xfe{}", "isn't valid JSON"),
    "deeply nested": (b"[" * 200_000, "isn't valid JSON"),
    "a list": (b"[]", "no list of cells"),
    "cells that are no list": (b'{"cells": {}}', "no list of cells"),
    "format 3": (b'{"worksheets": [{"cells": []}], "nbformat": 3}', "open it in JupyterLab"),
    "a source that is a number": (
        b'{"cells": [{"cell_type": "code", "source": 3}]}', "cell 1 has no text"
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", UNREADABLE)
def test_an_unreadable_notebook_is_named_with_the_reason(name, tmp_path):
    content, says = UNREADABLE[name]
    path = tmp_path / "01-naive.ipynb"
    path.write_bytes(content)
    with pytest.raises(Unusable) as caught:
        read_cells(path)
    assert str(caught.value).startswith("01-naive.ipynb") and says in str(caught.value)
    advice = ("python -m course notebooks --to DIR", "open it in JupyterLab", "cell 1")
    assert any(text in str(caught.value) for text in advice)
