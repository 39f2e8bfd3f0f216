"""The text that the book takes from online_softmax.py runs in a notebook of `math` and `np`."""

import ast
import builtins
import inspect
import math
import re
import warnings
from pathlib import Path

import numpy as np
import pytest

from kernels import online_softmax
from kernels.tests.oracle import assert_close, assert_lse_close, draw, oracle
from kernels.tests.test_online_cases import (
    assert_state_close,
    cut,
    draw_scores,
    empty_state,
    oracle_output,
)

SOURCE = Path(online_softmax.__file__).read_text(encoding="utf-8")
# Each region, in the order of the file, and the one function that it must define.
REGIONS = {
    "update": "update",
    "merge": "merge",
    "finish": "finish",
    "row": "attend_row",
    "update-normalised": "update_normalised",
    "merge-outputs": "merge_outputs",
}
LONGEST_BODY = 20
STATE_DTYPES = ("float32", "float64")


def region(name):
    found = re.findall(rf"^# region: {name}\n(.*?)^# endregion$", SOURCE, re.MULTILINE | re.DOTALL)
    assert len(found) == 1, f"region {name} stands {len(found)} times in online_softmax.py"
    return found[0]


def notebook(*names):
    """The names of a notebook whose cells are those regions."""
    cells = {"math": math, "np": np}
    for name in names:
        exec(compile(region(name), f"region {name}", "exec"), cells)
    return cells


def without_warnings(function, *args, **kwargs):
    """Not `strictly`: underflow is no warning unless somebody asks for it, and no cell asks."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return function(*args, **kwargs)


def test_these_are_all_the_regions():
    assert re.findall(r"^# region: (\S+)$", SOURCE, re.MULTILINE) == list(REGIONS)
    assert len(re.findall(r"^# endregion$", SOURCE, re.MULTILINE)) == len(REGIONS)
    assert sorted(REGIONS.values()) == sorted(online_softmax.__all__)


@pytest.mark.parametrize("name", REGIONS)
def test_region_is_a_bare_documented_function(name):
    (function,) = ast.parse(region(name)).body
    assert isinstance(function, ast.FunctionDef), "not a function"
    assert function.name == REGIONS[name]
    assert not function.decorator_list, f"{function.name}: a notebook has no decorators of ours"
    assert ast.get_docstring(function), f"{function.name} has no docstring"
    last_of_docstring = function.body[0].end_lineno
    lines = function.end_lineno - last_of_docstring
    assert lines <= LONGEST_BODY, f"{function.name}: a body of {lines} lines"


@pytest.mark.parametrize("name", REGIONS)
def test_signature_and_docstring_are_those_of_the_module(name):
    function = REGIONS[name]
    cell = notebook(name)[function]
    assert inspect.signature(cell) == inspect.signature(getattr(online_softmax, function))
    assert cell.__doc__ == getattr(online_softmax, function).__doc__


@pytest.mark.parametrize("name", REGIONS)
def test_a_region_names_nothing_but_math_np_and_the_regions_before_it(name):
    before = list(REGIONS)[: list(REGIONS).index(name)]
    known = {"math", "np", *(REGIONS[other] for other in before)}
    code = notebook(name)[REGIONS[name]].__code__
    used = {node.id for node in ast.walk(ast.parse(region(name))) if isinstance(node, ast.Name)}
    unknown = used - set(code.co_varnames) - known - set(dir(builtins))
    assert not unknown, f"region {name} needs {sorted(unknown)}"


def far_scores(dtype):
    """Scores whose powers underflow, one row hidden throughout, the first block hidden."""
    s, v = draw_scores(61, 4, 12, 3, dtype)
    s = 300 * s - 1000
    s[1] = -np.inf
    s[:, :3] = -np.inf
    return s.astype(dtype), v, cut(s.astype(dtype), v, 3, 3, 8)


@pytest.mark.parametrize("dtype", STATE_DTYPES)
def test_update_of_a_notebook(dtype):
    update = notebook("update")["update"]
    s, v, blocks = far_scores(dtype)
    state = empty_state(4, 3, dtype)
    for block in blocks:
        state = without_warnings(update, *state, *block)
    assert_state_close(state, s, v, "seed 61")


@pytest.mark.parametrize("dtype", STATE_DTYPES)
def test_merge_of_a_notebook(dtype):
    # `merge` needs no `update`: a notebook may have another one.
    merge = notebook("merge")["merge"]
    s, v, blocks = far_scores(dtype)
    state = empty_state(4, 3, dtype)
    for block in blocks:
        state = without_warnings(
            merge, state, online_softmax.update(*empty_state(4, 3, dtype), *block)
        )
    assert_state_close(state, s, v, "seed 61")


@pytest.mark.parametrize("dtype", STATE_DTYPES)
def test_finish_of_a_notebook(dtype):
    finish = notebook("finish")["finish"]
    s, v, _ = far_scores(dtype)
    o, lse = without_warnings(finish, *online_softmax.update(*empty_state(4, 3, dtype), s, v))
    expected, expected_lse = oracle_output(s, v)
    assert_close(o, expected, dtype, "seed 61")
    assert_lse_close(lse, expected_lse, dtype, "seed 61")


@pytest.mark.parametrize("dtype", STATE_DTYPES)
def test_update_normalised_of_a_notebook(dtype):
    step = notebook("update-normalised")["update_normalised"]
    s, v, blocks = far_scores(dtype)
    m_i, l_i, o = empty_state(4, 3, dtype)
    for block in blocks:
        m_i, l_i, o = without_warnings(step, m_i, l_i, o, *block)
    assert_state_close((m_i, l_i, o * l_i[:, np.newaxis]), s, v, "seed 61")


@pytest.mark.parametrize("dtype", STATE_DTYPES)
def test_merge_outputs_of_a_notebook(dtype):
    cells = notebook("merge", "finish", "merge-outputs")
    s, v, blocks = far_scores(dtype)
    merged = online_softmax.finish(*empty_state(4, 3, dtype))
    for block in blocks:
        part = online_softmax.update(*empty_state(4, 3, dtype), *block)
        part = online_softmax.finish(*part)
        merged = without_warnings(cells["merge_outputs"], *merged, *part)
    expected, expected_lse = oracle_output(s, v)
    assert np.allclose(merged[0], expected, rtol=0, atol=4000 * np.finfo(dtype).eps)
    assert np.allclose(merged[1], expected_lse, rtol=8 * np.finfo(dtype).eps, atol=0)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("scale", [None, 0.0, 12])
def test_attend_row_of_a_notebook(scale, dtype):
    attend_row = notebook("update", "finish", "row")["attend_row"]
    q, k, v = draw(62, (1, 1, 1, 16), (1, 1, 21, 16), dtype)
    blocks = ((k[0, 0, i : i + 8], v[0, 0, i : i + 8]) for i in range(0, 21, 8))
    o, lse = without_warnings(attend_row, q[0, 0, 0], blocks, scale=scale)
    expected, expected_lse = oracle(q, k, v, scale=scale)
    assert_close(o[np.newaxis], expected[0, 0], dtype, f"seed 62, scale {scale}")
    assert_lse_close(np.array([lse]), expected_lse[0, 0], dtype, f"seed 62, scale {scale}")


def test_attend_row_of_a_notebook_uses_the_update_and_finish_before_it():
    # What the learner wrote is called for each block, in order, and with arrays.
    cells = notebook("update", "finish", "row")
    seen = []

    def update(m_i, l_i, acc, s, v):
        seen.append((s.tolist(), v.tolist()))
        return m_i, l_i + 1, acc

    cells["update"] = update
    cells["finish"] = lambda m_i, l_i, acc: (acc + 7, l_i)
    x = np.arange(3, dtype=np.float32)[:, np.newaxis]
    o, lse = cells["attend_row"](np.ones(1, np.float32), [(x[:1], x[1:2]), (x[1:], x[:2])], scale=2)
    assert seen == [([[0.0]], [[1.0]]), ([[2.0, 4.0]], [[0.0], [1.0]])]
    assert (o.tolist(), lse) == ([7.0], 2)


def test_merge_outputs_of_a_notebook_uses_the_merge_and_finish_before_it():
    cells = notebook("merge", "finish", "merge-outputs")
    cells["merge"] = lambda a, b: (a[0] + b[0], a[1] + b[1], a[2] + b[2])
    cells["finish"] = lambda m_i, l_i, acc: (m_i, l_i, acc)
    o, lse = np.ones((2, 3)), np.array([0.0, -3.0])
    m_i, l_i, acc = cells["merge_outputs"](o, lse, o, lse)
    assert m_i.tolist() == [0, -6] and l_i.tolist() == [2, 2] and np.all(acc == 2)
