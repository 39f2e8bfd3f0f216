"""What counts as an answer's own, and what does the exercise for it."""

import pytest

from course.chapter import find_chapters
from course.exercise import find_exercise
from course.grader import answer
from course.grader.collect import CodeCell, collect
from course.grader.ownership import foreign_name
from course.notebooks import blank_notebook

ID = "01-naive-softmax"


def foreign(*cells, forbidden=()):
    program = collect([CodeCell(i, text) for i, text in enumerate(cells, 1)], ("f",))
    return foreign_name([answer.define(program)["f"]], forbidden)


OWN = {
    "a helper with a library's name": (
        "def scaled_dot_product_attention(x):\n    return x",
        "def f(x):\n    return scaled_dot_product_attention(x)",
    ),
    "a local with a library's name": (
        "def f(x):\n    flex_attention = x\n    return flex_attention",
    ),
    "words that are also our modules": (
        "def f(x):\n    print('course', 'solutions', 'kernels')\n    return x",
    ),
    "numpy": ("import numpy as np\ndef f(x):\n    return np.exp(x)",),
    "torch, unless it is forbidden": ("import math as torch\ndef f(x):\n    return torch.exp(x)",),
    "recursion": ("def f(x):\n    return f(x - 1) if x else 0",),
    "a foreign name that nothing uses": (
        "from kernels import naive",
        "def f(x):\n    return x",
    ),
}
FOREIGN = {
    "our module": ("from kernels import naive\ndef f(x):\n    return naive.softmax(x)", "kernels"),
    "our function": ("from kernels.naive import softmax\nf = softmax", "kernels"),
    "our function under another name": (
        "from kernels.naive import softmax as g\ndef f(x):\n    return g(x)",
        "kernels",
    ),
    "imported inside": ("def f(x):\n    from kernels import naive\n    return naive", "kernels"),
    "in a helper": (
        "import kernels.naive\ndef g(x):\n    return kernels.naive.softmax(x)\n"
        "def f(x):\n    return g(x)",
        "kernels",
    ),
    "in a default": (
        "from kernels import naive\ndef f(x, g=naive.softmax):\n    return g",
        "kernels",
    ),
    "in a partial": (
        "from functools import partial\nfrom kernels import naive\nf = partial(naive.softmax)",
        "kernels",
    ),
    "in a closure": (
        "from kernels import naive\ndef make(g):\n    return lambda x: g(x)\n"
        "f = make(naive.softmax)",
        "kernels",
    ),
    "in a table": (
        "from kernels import naive\nTABLE = {'g': [naive.softmax]}\n"
        "def f(x):\n    return TABLE['g'][0](x)",
        "kernels",
    ),
    "a library's attention": (
        "def f(x, torch=None):\n    return torch.nn.functional.scaled_dot_product_attention(x)",
        "scaled_dot_product_attention",
    ),
    "a forbidden library": ("import math\ndef f(x):\n    return math.exp(x)", "math"),
}


@pytest.mark.parametrize("name", OWN)
def test_own(name):
    assert foreign(*OWN[name]) is None


@pytest.mark.parametrize("name", FOREIGN)
def test_foreign(name):
    source, found = FOREIGN[name]
    assert foreign(source, forbidden=("math",)).startswith(found)


def test_a_future_import_holds_for_later_cells():
    cells = ["from __future__ import annotations", "def f(x: NotDefined):\n    return x"]
    assert foreign(*cells) is None
    with pytest.raises(answer.DefinitionFailed, match="NotDefined"):
        foreign(cells[1])


def test_a_statement_says_what_is_forbidden():
    assert find_exercise(ID).forbidden == ("scipy", "torch")
    for chapter in find_chapters():
        cells = iter(blank_notebook(chapter).cells)
        for cell in cells:
            if cell.source.startswith("### Exercise: "):
                statement, solution = cell.source, next(cells)
                names = find_exercise(solution.metadata.nbgrader.grade_id).forbidden
                assert ("Not allowed here" in statement) == bool(names)
                assert all(f"`{name}`" in statement for name in names)
