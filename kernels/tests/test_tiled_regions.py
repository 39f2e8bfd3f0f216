"""The text that the book takes from tiled.py runs in a notebook that has `math`, `np`, and the
regions `update` and `finish` of chapter 02."""

import ast
import builtins
import dis
import inspect
import math
import re
import types
import warnings
from pathlib import Path

import numpy as np
import pytest

from kernels import online_softmax, tiled
from kernels.tests.oracle import assert_close, assert_lse_close, draw, oracle

# Each region, and the function of tiled.py that it must define first.
REGIONS = {
    "visible": "visible_keys",
    "range": "key_tiles",
    "hide": "hide_keys",
    "forward": "attention_forward",
    "keys-outside": "head_keys_outside",
    "on-chip": "on_chip_bytes",
    "budget": "largest_tiles",
    "traffic": "tiled_traffic",
    "gradients": "score_gradients",
    "backward": "attention_backward",
}
LONGEST_BODY = (
    24  # that of tiled_traffic, whose result takes nine lines; all others have 18 at most
)


def source(module):
    return Path(module.__file__).read_text(encoding="utf-8")


def region(name, module=tiled):
    pattern = rf"^# region: {name}\n(.*?)^# endregion$"
    found = re.findall(pattern, source(module), re.MULTILINE | re.DOTALL)
    assert len(found) == 1, f"region {name} stands {len(found)} times in {module.__name__}"
    return found[0]


def notebook(last):
    """The names of a notebook whose cells are those of chapter 02, and the regions up to `last`."""
    cells = {"math": math, "np": np}
    for name in ("update", "finish"):
        exec(compile(region(name, online_softmax), f"region {name}", "exec"), cells)
    for name in REGIONS:
        exec(compile(region(name), f"region {name}", "exec"), cells)
        if name == last:
            return cells
    raise ValueError(f"no region {last}")


def test_these_are_all_the_regions():
    assert re.findall(r"^# region: (\S+)$", source(tiled), re.MULTILINE) == list(REGIONS)
    assert len(re.findall(r"^# endregion$", source(tiled), re.MULTILINE)) == len(REGIONS)


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
    assert inspect.signature(cell) == inspect.signature(getattr(tiled, function))
    assert cell.__doc__ == getattr(tiled, function).__doc__


def global_names(code):
    """All names that a function, with what is defined inside it, looks for in its module."""
    names = {i.argval for i in dis.get_instructions(code) if i.opname.startswith("LOAD_GLOBAL")}
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            names |= global_names(constant)
    return names


@pytest.mark.parametrize("name", REGIONS)
def test_region_needs_only_what_stands_before_it(name):
    cells = notebook(name)
    for function in ast.parse(region(name)).body:
        missing = {x for x in global_names(cells[function.name].__code__) if x not in cells}
        unknown = {x for x in missing if not hasattr(builtins, x)}
        assert not unknown, f"{function.name} needs {sorted(unknown)}"


OPTIONS = [{}, {"causal": True}, {"causal": True, "input_pos": -2}, {"scale": 0.0}]


@pytest.mark.parametrize("options", OPTIONS)
def test_attention_of_a_notebook(options):
    # Not `strictly`: underflow is no warning unless somebody asks for it, and no cell asks.
    cells = notebook("keys-outside")
    q, k, v = draw(61, (2, 4, 9, 16), (2, 2, 5, 16), "float16")
    tiles = {"tile_m": 4, "tile_n": 2}
    for keys in (k, 40 * k):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            o, lse = cells["attention_forward"](q, keys, v, **tiles, **options)
        expected, expected_lse = oracle(q, keys, v, **options)
        assert_close(o, expected, "float16", f"seed 61, {options}")
        assert_lse_close(lse, expected_lse, "float16", f"seed 61, {options}")


@pytest.mark.parametrize("options", OPTIONS[:3])
def test_keys_outside_of_a_notebook(options):
    cells = notebook("keys-outside")
    q, k, v = draw(62, (1, 1, 9, 16), (1, 1, 5, 16), "float32")
    mask = {"causal": False, "input_pos": None} | options
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        o, lse = cells["head_keys_outside"](q[0, 0], k[0, 0], v[0, 0], 4, 2, 0.25, mask)
    expected, expected_lse = oracle(q, k, v, **options)
    assert_close(o, expected[0, 0], "float32", f"seed 62, {options}")
    assert_lse_close(lse, expected_lse[0, 0], "float32", f"seed 62, {options}")


@pytest.mark.parametrize("options", OPTIONS)
def test_backward_of_a_notebook(options):
    cells = notebook("backward")
    q, k, v = draw(63, (1, 4, 9, 8), (1, 2, 5, 8), "float64")
    do = np.random.default_rng(64).standard_normal(q.shape)
    tiles = {"tile_m": 4, "tile_n": 2}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        o, lse = cells["attention_forward"](q, k, v, **tiles, **options)
        actual = cells["attention_backward"](q, k, v, o, lse, do, **tiles, **options)
    expected = tiled.attention_backward(q, k, v, o, lse, do, **tiles, **options)
    assert all(map(np.array_equal, actual, expected)), f"seeds 63 and 64, {options}"


@pytest.mark.parametrize(
    ("used", "called"),
    [
        ("attention_forward", ["visible_keys", "key_tiles", "hide_keys", "update", "finish"]),
        ("attention_backward", ["visible_keys", "key_tiles", "hide_keys", "score_gradients"]),
    ],
)
def test_a_notebook_uses_the_cells_before(used, called):
    # A learner's own cells are what runs, not a copy of ours that is hidden somewhere.
    class Called(Exception):
        pass

    def stub(*args, **kwargs):
        raise Called

    x = np.ones((1, 1, 2, 4))
    arrays = (x, x, x) if used == "attention_forward" else (x, x, x, x, x[..., 0], x)
    for name in called:
        cells = notebook("backward")
        cells[name] = stub
        with pytest.raises(Called):
            cells[used](*arrays, tile_m=2, tile_n=2, causal=True)


def test_masks_of_a_notebook():
    cells = notebook("hide")
    rows = np.arange(5)
    for mask in ({}, {"causal": True}, {"causal": True, "input_pos": -2}):
        seen = cells["visible_keys"](rows, 5, 7, **mask)
        assert np.array_equal(seen, tiled.visible_keys(rows, 5, 7, **mask))
        assert cells["visible_keys"](3, 5, 7, **mask) == tiled.visible_keys(3, 5, 7, **mask)
        for i in range(3):
            sizes = (i, 5, 7, 2, 3)
            assert cells["key_tiles"](*sizes, **mask) == tiled.key_tiles(*sizes, **mask)
        s = np.ones((5, 3), np.float32)
        hidden = cells["hide_keys"](s, 2, seen)
        assert hidden.dtype == s.dtype
        assert np.array_equal(hidden, tiled.hide_keys(s, 2, seen))


def test_counts_of_a_notebook():
    cells = notebook("traffic")
    assert cells["on_chip_bytes"](16, 32, 64) == tiled.on_chip_bytes(16, 32, 64)
    for memory_bytes in (10**4, 10**5, 10**6):
        expected = tiled.largest_tiles(memory_bytes, 128, itemsize=2)
        assert cells["largest_tiles"](memory_bytes, 128) == expected
    for options in ({}, {"outside": "keys", "causal": True, "num_heads": 2}):
        options |= {"tile_m": 3, "tile_n": 4}
        traffic = cells["tiled_traffic"](10, 11, 8, **options)
        assert traffic == tiled.tiled_traffic(10, 11, 8, **options)
