"""The text that the book takes from naive.py runs in a notebook that has `math` and `np` only."""

import ast
import inspect
import math
import re
import warnings
from pathlib import Path

import numpy as np
import pytest

from kernels import naive
from kernels.tests.oracle import assert_close, draw, oracle

SOURCE = Path(naive.__file__).read_text(encoding="utf-8")
# Each region, and the function of naive.py that it must define first.
REGIONS = {"softmax": "softmax", "attention": "attention", "traffic": "naive_traffic"}
LONGEST_BODY = 20


def region(name):
    found = re.findall(rf"^# region: {name}\n(.*?)^# endregion$", SOURCE, re.MULTILINE | re.DOTALL)
    assert len(found) == 1, f"region {name} stands {len(found)} times in naive.py"
    return found[0]


def notebook(*names):
    """The names of a notebook whose cells are those regions."""
    cells = {"math": math, "np": np}
    for name in names:
        exec(compile(region(name), f"region {name}", "exec"), cells)
    return cells


def test_these_are_all_the_regions():
    assert re.findall(r"^# region: (\S+)$", SOURCE, re.MULTILINE) == list(REGIONS)
    assert len(re.findall(r"^# endregion$", SOURCE, re.MULTILINE)) == len(REGIONS)


@pytest.mark.parametrize("name", REGIONS)
def test_region_is_bare_documented_functions(name):
    functions = ast.parse(region(name)).body
    assert functions[0].name == REGIONS[name]
    for function in functions:
        assert isinstance(function, ast.FunctionDef), "only functions"
        assert not function.decorator_list, f"{function.name}: a notebook has no decorators of ours"
        assert ast.get_docstring(function), f"{function.name} has no docstring"
        last_of_docstring = function.body[0].end_lineno
        lines = function.end_lineno - last_of_docstring
        assert lines <= LONGEST_BODY, f"{function.name}: a body of {lines} lines"


@pytest.mark.parametrize("name", REGIONS)
def test_signature_and_docstring_are_those_of_the_module(name):
    function = REGIONS[name]
    cell = notebook(name)[function]
    assert inspect.signature(cell) == inspect.signature(getattr(naive, function))
    assert cell.__doc__ == getattr(naive, function).__doc__


@pytest.mark.parametrize("options", [{}, {"causal": True}, {"causal": True, "input_pos": -2}])
def test_attention_of_a_notebook(options):
    # Not `strictly`: underflow is no warning unless somebody asks for it, and no cell asks.
    attention = notebook("softmax", "attention")["attention"]
    q, k, v = draw(61, (2, 4, 9, 16), (2, 2, 5, 16), "float16")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        actual = attention(q, k, v, **options)
        far = attention(q, 40 * k, v, **options)
    assert_close(actual, oracle(q, k, v, **options)[0], "float16", f"seed 61, {options}")
    assert_close(far, oracle(q, 40 * k, v, **options)[0], "float16", f"seed 61, 40k, {options}")


def test_attention_of_a_notebook_uses_the_softmax_before_it():
    cells = notebook("softmax", "attention")
    cells["softmax"] = lambda s: np.ones_like(s)
    q = np.ones((1, 1, 2, 4))
    assert np.all(cells["attention"](q, q, q) == 2)


def test_traffic_of_a_notebook():
    traffic = notebook("traffic")["naive_traffic"]
    assert traffic(8, 16, 4, num_heads=2) == naive.naive_traffic(8, 16, 4, num_heads=2)
