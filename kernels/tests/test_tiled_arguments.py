"""Bad arguments: the error's type, that its message names the argument and what was got, and that
it comes before anything is computed."""

import fractions
import re
import sys

import numpy as np
import pytest

from kernels import tiled

POSITION_LIMIT = 2**31


def zeros(*shape, dtype=np.float32):
    return np.zeros(shape, dtype)


# Right arguments of each function, by the function's name.
ATTENTION = {
    "q": zeros(2, 4, 3, 8),
    "k": zeros(2, 2, 5, 8),
    "v": zeros(2, 2, 5, 8),
    "tile_m": 2,
    "tile_n": 3,
}
RIGHT = {
    "attention_forward": ATTENTION,
    "attention_keys_outside": ATTENTION,
    "attention_backward": ATTENTION
    | {"o": zeros(2, 4, 3, 8), "lse": zeros(2, 4, 3), "do": zeros(2, 4, 3, 8)},
    "score_gradients": {
        "s": zeros(4, 5),
        "v": zeros(5, 8),
        "o": zeros(4, 8),
        "lse": zeros(4),
        "do": zeros(4, 8),
    },
    "visible_keys": {"i": 2, "q_len": 4, "k_len": 7},
    "key_tiles": {"i": 1, "q_len": 4, "k_len": 7, "tile_m": 2, "tile_n": 3},
    "hide_keys": {"s": zeros(4, 5), "first_key": 6, "seen": zeros(4, dtype=np.int64)},
    "on_chip_bytes": {"tile_m": 16, "tile_n": 32, "head_dim": 8, "itemsize": 2},
    "largest_tiles": {"memory_bytes": 10**6, "head_dim": 8, "itemsize": 2},
    "tiled_traffic": {
        "q_len": 4,
        "k_len": 7,
        "head_dim": 8,
        "tile_m": 2,
        "tile_n": 3,
        "outside": "queries",
        "num_heads": 1,
        "itemsize": 2,
    },
}
FORWARD = ("attention_forward", "attention_keys_outside")
ALL_ATTENTION = (*FORWARD, "attention_backward")
MASKED = (*ALL_ATTENTION, "visible_keys", "key_tiles", "tiled_traffic")


def refuses(name, changes, error, words):
    """The function raises that error, and its body never starts."""
    function = getattr(tiled, name)
    body = function.__wrapped__.__code__

    # Raised at once: with a bad argument, a body may run for ever.
    def watch(frame, event, _):
        if event == "call" and frame.f_code is body:
            raise AssertionError(f"{name} had begun to compute")

    before = sys.getprofile()
    sys.setprofile(watch)
    try:
        with pytest.raises(error, match=words):
            function(**RIGHT[name] | changes)
    finally:
        sys.setprofile(before)


def rows_of(names, table):
    """A test case for each function and each row of the table: (id, changes, error, words)."""
    return [pytest.param(name, *row[1:], id=f"{name}-{row[0]}") for name in names for row in table]


def refused(names, table):
    return pytest.mark.parametrize(("name", "changes", "error", "words"), rows_of(names, table))


def test_the_right_arguments_are_right():
    assert set(RIGHT) == set(tiled.__all__)
    for name, arguments in RIGHT.items():
        getattr(tiled, name)(**arguments)


def test_a_body_that_starts_is_noticed(monkeypatch):
    def late(*args, **kwargs):
        raise ValueError("late")

    monkeypatch.setattr(tiled, "visible_keys", late)
    with pytest.raises(AssertionError, match="had begun to compute"):
        refuses("key_tiles", {}, ValueError, "late")


BAD_ARRAYS = [
    ("q_list", {"q": [[1.0]]}, TypeError, "^q must be a numpy.ndarray of float16.*got a list$"),
    ("k_none", {"k": None}, TypeError, "^k must be a numpy.ndarray.*got a NoneType$"),
    ("v_scalar", {"v": 1.0}, TypeError, "^v must be a numpy.ndarray.*got a float$"),
    ("q_masked", {"q": np.ma.MaskedArray(zeros(2, 4, 3, 8))}, TypeError, "^q .*MaskedArray$"),
    ("v_int", {"v": zeros(2, 2, 5, 8, dtype=int)}, TypeError, "^v .*got dtype int64$"),
    (
        "k_half",
        {"k": zeros(2, 2, 5, 8, dtype=np.float16)},
        TypeError,
        "same dtype, got q float32, k float16, v float32$",
    ),
    ("q_2d", {"q": zeros(3, 8)}, ValueError, r"^q must be 4-D .*got shape \(3, 8\)"),
    ("k_3d", {"k": zeros(2, 5, 8)}, ValueError, r"^k must be 4-D .*got shape \(2, 5, 8\)"),
    ("v_5d", {"v": zeros(1, 2, 2, 5, 8)}, ValueError, "^v must be 4-D"),
    ("k_batch", {"k": zeros(3, 2, 5, 8)}, ValueError, "q and k .*same batch.*q with 2.*k with 3"),
    ("k_batch_1", {"k": zeros(1, 2, 5, 8)}, ValueError, "q and k .*batch.*q with 2.*k with 1"),
    ("v_batch", {"v": zeros(1, 2, 5, 8)}, ValueError, "k and v .*same batch.*k with 2.*v with 1"),
    ("k_dim", {"k": zeros(2, 2, 5, 7)}, ValueError, "q and k .*head_dim.*q with 8.*k with 7"),
    ("v_dim", {"v": zeros(2, 2, 5, 9)}, ValueError, "k and v .*head_dim.*k with 8.*v with 9"),
    ("v_len", {"v": zeros(2, 2, 6, 8)}, ValueError, "k and v .*same k_len.*k with 5.*v with 6"),
    ("v_heads", {"v": zeros(2, 4, 5, 8)}, ValueError, "k and v .*num_kv_heads.*k with 2.*v with 4"),
    (
        "heads",
        {"k": zeros(2, 3, 5, 8), "v": zeros(2, 3, 5, 8)},
        ValueError,
        "got num_heads 4 and num_kv_heads 3$",
    ),
    (
        "dim_0",
        {"q": zeros(2, 4, 3, 0), "k": zeros(2, 2, 5, 0), "v": zeros(2, 2, 5, 0)},
        ValueError,
        r"^q has head_dim 0, at least 1 .*\(2, 4, 3, 0\)",
    ),
]


@refused(ALL_ATTENTION, BAD_ARRAYS)
def test_attention_refuses_arrays(name, changes, error, words):
    refuses(name, changes, error, words)


BAD_SCALES = [
    ("str", {"scale": "0.5"}, TypeError, "^scale must be a real number or None, got '0.5'"),
    ("bool", {"scale": True}, TypeError, "^scale must be a real number or None, got True"),
    ("complex", {"scale": 1j}, TypeError, "^scale must be a real number or None, got 1j"),
    ("array", {"scale": zeros(1)}, TypeError, "^scale must be a real number or None"),
    ("nan", {"scale": float("nan")}, ValueError, "^scale must be finite.*got nan$"),
    ("minus_inf", {"scale": -np.inf}, ValueError, "^scale must be finite.*got -inf$"),
    ("1e39", {"scale": 1e39}, ValueError, r"^scale must be finite.*got 1e\+39$"),
]


@refused(ALL_ATTENTION, BAD_SCALES)
def test_attention_refuses_scales(name, changes, error, words):
    refuses(name, changes, error, words)


BAD_MASKS = [
    ("causal_1", {"causal": 1}, TypeError, "^causal must be True or False, got 1$"),
    ("causal_str", {"causal": "no"}, TypeError, "^causal must be True or False, got 'no'$"),
    ("causal_none", {"causal": None}, TypeError, "^causal must be True or False, got None$"),
    ("plain", {"input_pos": 0}, ValueError, "^input_pos is for causal=True only, got 0"),
    ("bool", {"causal": True, "input_pos": True}, TypeError, "^input_pos must be an int, got True"),
    ("float", {"causal": True, "input_pos": 2.0}, TypeError, "^input_pos must be an int, got 2.0$"),
    ("str", {"causal": True, "input_pos": "2"}, TypeError, "^input_pos must be an int, got '2'$"),
    ("array", {"causal": True, "input_pos": zeros(2)}, TypeError, "^input_pos must be an int"),
    (
        "high",
        {"causal": True, "input_pos": POSITION_LIMIT},
        ValueError,
        "^input_pos must be from -2147483648 to 2147483647, got 2147483648$",
    ),
    (
        "low",
        {"causal": True, "input_pos": -POSITION_LIMIT - 1},
        ValueError,
        "^input_pos must be from",
    ),
]


@refused(MASKED, BAD_MASKS)
def test_masks_are_refused(name, changes, error, words):
    refuses(name, changes, error, words)


TILED = (*ALL_ATTENTION, "key_tiles", "on_chip_bytes", "tiled_traffic")
# (function, argument, the least that is allowed, the most or None).
INTEGERS = [
    *((name, "tile_m", 1, POSITION_LIMIT) for name in TILED),
    *((name, "tile_n", 1, POSITION_LIMIT) for name in TILED),
    ("visible_keys", "i", 0, 3),
    ("visible_keys", "q_len", 0, POSITION_LIMIT),
    ("visible_keys", "k_len", 0, POSITION_LIMIT),
    ("key_tiles", "i", 0, 1),
    ("key_tiles", "q_len", 1, POSITION_LIMIT),
    ("key_tiles", "k_len", 0, POSITION_LIMIT),
    ("hide_keys", "first_key", 0, POSITION_LIMIT),
    ("tiled_traffic", "q_len", 0, POSITION_LIMIT),
    ("tiled_traffic", "k_len", 0, POSITION_LIMIT),
    ("tiled_traffic", "head_dim", 1, None),
    ("tiled_traffic", "num_heads", 0, None),
    ("tiled_traffic", "itemsize", 1, 8),
    ("on_chip_bytes", "head_dim", 1, None),
    ("on_chip_bytes", "itemsize", 1, 8),
    ("largest_tiles", "memory_bytes", 0, None),
    ("largest_tiles", "head_dim", 1, None),
    ("largest_tiles", "itemsize", 1, 8),
]
integers = pytest.mark.parametrize(
    ("name", "argument", "least", "most"), INTEGERS, ids=[f"{row[0]}-{row[1]}" for row in INTEGERS]
)


@integers
def test_other_types_than_int_are_refused(name, argument, least, most):
    values = [1.0, "8", True, None, np.float32(2), [2], np.True_]
    if (name, argument) != ("visible_keys", "i"):  # it takes arrays too
        values.append(np.array([2, 3]))
    for value in values:
        refuses(name, {argument: value}, TypeError, f"^{argument} must be an int, got ")


@integers
def test_integers_out_of_range_are_refused(name, argument, least, most):
    for value in [least - 1, *([] if most is None else [most + 1, 2**70])]:
        refuses(name, {argument: value}, ValueError, f"^{argument} must be .*, got {value}$")


def test_the_query_tile_must_exist():
    # 5 queries in tiles of 2 are the tiles 0, 1 and 2.
    tiles = {"q_len": 5, "tile_m": 2}
    tiled.key_tiles(2, k_len=4, tile_n=2, **tiles)
    refuses("key_tiles", {"i": 3, **tiles}, ValueError, "^i must be from 0 to 2, got 3$")
    for i, got in ((0, "0"), (np.array([0]), "0 to 0")):
        for q_len in (0, np.uint8(0)):
            words = f"^i must be from 0 to -1, got {got}$"
            refuses("visible_keys", {"i": i, "q_len": q_len}, ValueError, words)


@pytest.mark.parametrize(
    ("i", "error", "words"),
    [
        ([0, 1], TypeError, r"^i must be an int, got \[0, 1\]$"),
        (np.array([0.0]), TypeError, "^i must be .*int32 or int64, got dtype float64$"),
        (np.array([True]), TypeError, "^i must be .*int32 or int64, got dtype bool$"),
        (np.array([1], np.uint8), TypeError, "^i must be .*int32 or int64, got dtype uint8$"),
        (np.ma.MaskedArray([1]), TypeError, "^i must be .*MaskedArray$"),
        (np.array([0, 4]), ValueError, "^i must be from 0 to 3, got 0 to 4$"),
        (np.array([3, -1]), ValueError, "^i must be from 0 to 3, got -1 to 3$"),
    ],
)
def test_visible_keys_refuses_arrays(i, error, words):
    refuses("visible_keys", {"i": i}, error, words)


@pytest.mark.parametrize(
    ("changes", "error", "words"),
    [
        ({"s": [[1.0]]}, TypeError, "^s must be a numpy.ndarray of float32 or float64, got a list"),
        ({"s": zeros(4, 5, dtype=np.float16)}, TypeError, "^s must be .*got dtype float16$"),
        ({"s": zeros(5)}, ValueError, r"^s must be 2-D \(rows, keys\), got shape \(5,\)$"),
        ({"seen": [1, 2, 3, 4]}, TypeError, "^seen must be a numpy.ndarray of int32 or int64"),
        ({"seen": zeros(4)}, TypeError, "^seen must be .*got dtype float32$"),
        (
            {"seen": zeros(4, 1, dtype=int)},
            ValueError,
            r"^seen must be 1-D \(rows,\), got shape \(4, 1\)$",
        ),
        (
            {"seen": zeros(3, dtype=int)},
            ValueError,
            r"^s and seen must have the same rows, got s with 4 .*and seen with 3 ",
        ),
        ({"seen": zeros(1, dtype=int)}, ValueError, "same rows.* seen with 1 "),
    ],
)
def test_hide_keys_refuses(changes, error, words):
    refuses("hide_keys", changes, error, words)


@pytest.mark.parametrize(
    ("changes", "error", "words"),
    [
        *(
            ({name: 1.5}, TypeError, f"^{name} must be a numpy.ndarray of .*got a float$")
            for name in ("o", "lse", "do")
        ),
        *(
            ({name: zeros(2, 4, 3, 8, dtype=int)}, TypeError, f"^{name} must .*got dtype int64$")
            for name in ("o", "lse", "do")
        ),
        *(
            (
                {name: zeros(2, 4, 5, 8)},
                ValueError,
                rf"^{name} must have q's shape \(2, 4, 3, 8\), got \(2, 4, 5, 8\)$",
            )
            for name in ("o", "do")
        ),
        ({"o": zeros(2, 4, 3, 1)}, ValueError, r"^o must have q's shape .*got \(2, 4, 3, 1\)$"),
        ({"do": zeros(1, 4, 3, 8)}, ValueError, r"^do must have q's shape .*got \(1, 4, 3, 8\)$"),
        (
            {"o": zeros(2, 4, 3, 8, dtype=np.float64)},
            TypeError,
            "same dtype, got q float32, o float64, do float32$",
        ),
        (
            {"do": zeros(2, 4, 3, 8, dtype=np.float16)},
            TypeError,
            "same dtype, got q float32, o float32, do float16$",
        ),
        (
            {"lse": zeros(2, 4, 3, 1)},
            ValueError,
            r"^lse must have the shape \(2, 4, 3\), got \(2, 4, 3, 1\)$",
        ),
        ({"lse": zeros(2, 4, 1)}, ValueError, r"^lse must have .*\(2, 4, 3\), got \(2, 4, 1\)$"),
        (
            {"lse": zeros(2, 4, 3, dtype=np.float64)},
            TypeError,
            "^lse must be float32 beside a q of float32, got float64$",
        ),
        (
            {"lse": zeros(2, 4, 3, dtype=np.float16)},
            TypeError,
            "^lse must be a numpy.ndarray of float32 or float64, got dtype float16$",
        ),
    ],
)
def test_attention_backward_refuses(changes, error, words):
    refuses("attention_backward", changes, error, words)


@pytest.mark.parametrize("dtype", ["float16", "float64"])
def test_attention_backward_wants_the_lse_of_the_forward_pass(dtype):
    arrays = {name: zeros(1, 1, 2, 4, dtype=dtype) for name in ("q", "k", "v", "o", "do")}
    right, wrong = ("float32", "float64") if dtype == "float16" else ("float64", "float32")
    lse = zeros(1, 1, 2, dtype=wrong)
    words = f"^lse must be {right} beside a q of {dtype}, got {wrong}$"
    refuses("attention_backward", arrays | {"lse": lse}, TypeError, words)
    lse = zeros(1, 1, 2, dtype=right)
    tiled.attention_backward(**arrays, lse=lse, tile_m=1, tile_n=1)


@pytest.mark.parametrize("argument", ["s", "v", "o", "lse", "do"])
def test_score_gradients_refuses_arrays(argument):
    right = RIGHT["score_gradients"][argument]
    allowed = f"^{argument} must be a numpy.ndarray of float32 or float64, got"
    refuses("score_gradients", {argument: right.tolist()}, TypeError, f"{allowed} a list$")
    masked = np.ma.MaskedArray(right)
    refuses("score_gradients", {argument: masked}, TypeError, f"{allowed} a numpy.ma.*MaskedArray$")
    for dtype in ("float16", "int64"):
        words = f"{allowed} dtype {dtype}$"
        refuses("score_gradients", {argument: right.astype(dtype)}, TypeError, words)
    words = f"same dtype, got .*{argument} float64"
    refuses("score_gradients", {argument: right.astype(np.float64)}, TypeError, words)
    words = rf"^{argument} must be {right.ndim}-D .*got shape \(1, "
    refuses("score_gradients", {argument: right[np.newaxis]}, ValueError, words)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"v": zeros(6, 8)}, "^s and v must have the same keys, got s with 5.* and v with 6 "),
        ({"v": zeros(1, 8)}, "^s and v must have the same keys, got s with 5.* and v with 1 "),
        ({"o": zeros(3, 8)}, "^s and o must have the same rows, got s with 4.* and o with 3 "),
        ({"o": zeros(4, 1)}, "^v and o must have the same head_dim, got v with 8.* and o with 1 "),
        ({"lse": zeros(1)}, "^s and lse must have the same rows, got s with 4.* and lse with 1 "),
        ({"do": zeros(5, 8)}, "^s and do must have the same rows, got s with 4.* and do with 5 "),
        ({"do": zeros(4, 7)}, "^v and do must have the same head_dim.* v with 8.* and do with 7 "),
        (
            {"v": zeros(5, 0), "o": zeros(4, 0), "do": zeros(4, 0)},
            "^v has head_dim 0, at least 1 is needed$",
        ),
    ],
)
def test_score_gradients_refuses_shapes(changes, words):
    refuses("score_gradients", changes, ValueError, words)


@pytest.mark.parametrize(
    ("value", "error"),
    [
        ("rows", ValueError),
        ("", ValueError),
        ("Queries", ValueError),
        (None, TypeError),
        (1, TypeError),
        (b"keys", TypeError),
        (np.array(["queries"]), TypeError),
        (np.array(["queries", "keys"]), TypeError),
    ],
)
def test_tiled_traffic_refuses_outside(value, error):
    words = re.escape(f"outside must be 'queries' or 'keys', got {value!r}")
    refuses("tiled_traffic", {"outside": value}, error, f"^{words}$")


@pytest.mark.parametrize("name", [*ALL_ATTENTION, "score_gradients", "hide_keys"])
def test_tensors_are_refused(name):
    torch = pytest.importorskip("torch")
    arrays = {key: x for key, x in RIGHT[name].items() if isinstance(x, np.ndarray)}
    for argument, right in arrays.items():
        words = f"^{argument} must be a numpy.ndarray of .*got a torch.Tensor$"
        refuses(name, {argument: torch.from_numpy(right)}, TypeError, words)


@pytest.mark.parametrize("name", ["visible_keys", "key_tiles", "hide_keys", "score_gradients"])
def test_a_missing_argument_is_named(name):
    for argument in RIGHT[name]:
        arguments = {key: value for key, value in RIGHT[name].items() if key != argument}
        with pytest.raises(TypeError, match=f"'{argument}'"):
            getattr(tiled, name)(**arguments)


@pytest.mark.parametrize("name", ALL_ATTENTION)
def test_tile_sizes_have_no_default_and_no_place(name):
    arrays = {key: value for key, value in RIGHT[name].items() if not key.startswith("tile")}
    with pytest.raises(TypeError, match="'tile_m'"):
        getattr(tiled, name)(**arrays, tile_n=3)
    with pytest.raises(TypeError, match="'tile_n'"):
        getattr(tiled, name)(**arrays, tile_m=2)
    with pytest.raises(TypeError, match="positional"):
        getattr(tiled, name)(*arrays.values(), 2, 3)


@pytest.mark.parametrize(
    ("changes", "same_as"),
    [
        ({"causal": np.True_}, {"causal": True}),
        ({"causal": np.False_}, {}),
        ({"scale": fractions.Fraction(1, 3)}, {"scale": 1 / 3}),
        ({"scale": np.float16(0.5)}, {"scale": 0.5}),
        ({"scale": np.int8(2)}, {"scale": 2.0}),
        ({"causal": True, "input_pos": np.uint8(1)}, {"causal": True, "input_pos": 1}),
        ({"causal": True, "input_pos": None}, {"causal": True}),
        ({"tile_m": np.uint8(2), "tile_n": np.int8(3)}, {}),
        ({"tile_m": POSITION_LIMIT, "tile_n": POSITION_LIMIT}, {"tile_m": 3, "tile_n": 5}),
    ],
)
@pytest.mark.parametrize("name", ALL_ATTENTION)
def test_numbers_of_other_types_mean_the_same(name, changes, same_as):
    rng = np.random.default_rng(31)
    arguments = {
        key: rng.standard_normal(x.shape) if isinstance(x, np.ndarray) else x
        for key, x in RIGHT[name].items()
    }
    actual = getattr(tiled, name)(**arguments | changes)
    expected = getattr(tiled, name)(**arguments | same_as)
    assert all(map(np.array_equal, actual, expected)), "seed 31"


@pytest.mark.parametrize("scale", [np.float64(0.3), np.longdouble(0.3)])
@pytest.mark.parametrize("name", ALL_ATTENTION)
def test_a_wide_scale_widens_nothing(name, scale):
    results = getattr(tiled, name)(**RIGHT[name], scale=scale)
    assert all(x.dtype == np.float32 for x in results)
