"""Bad arguments: the error's type, and that its message names the argument and what was got."""

import fractions

import numpy as np
import pytest

from kernels import naive


def zeros(*shape, dtype=np.float32):
    return np.zeros(shape, dtype)


def arguments(**changes):
    """Arguments of `attention` that are right but for the changes."""
    right = {"q": zeros(2, 4, 3, 8), "k": zeros(2, 2, 5, 8), "v": zeros(2, 2, 5, 8)}
    return right | changes


# (id, changed arguments, error, words of the message as a regular expression)
BAD_ATTENTION = [
    ("q_list", {"q": [[1.0]]}, TypeError, "^q must be a numpy.ndarray of float16.*got a list$"),
    ("k_none", {"k": None}, TypeError, "^k must be a numpy.ndarray.*got a NoneType$"),
    ("v_none", {"v": None}, TypeError, "^v must be a numpy.ndarray.*got a NoneType$"),
    ("v_scalar", {"v": 1.0}, TypeError, "^v must be a numpy.ndarray.*got a float$"),
    (
        "q_masked",
        {"q": np.ma.MaskedArray(zeros(2, 4, 3, 8))},
        TypeError,
        "^q must be .*got a numpy.ma.*MaskedArray$",
    ),
    ("q_2d", {"q": zeros(3, 8)}, ValueError, r"^q must be 4-D .*got shape \(3, 8\)"),
    ("k_3d", {"k": zeros(2, 5, 8)}, ValueError, r"^k must be 4-D .*got shape \(2, 5, 8\)"),
    ("v_5d", {"v": zeros(1, 2, 2, 5, 8)}, ValueError, "^v must be 4-D"),
    ("k_batch", {"k": zeros(3, 2, 5, 8)}, ValueError, "q and k .*same batch.*q with 2.*k with 3"),
    ("k_batch_1", {"k": zeros(1, 2, 5, 8)}, ValueError, "q and k .*batch.*q with 2.*k with 1"),
    ("v_batch", {"v": zeros(1, 2, 5, 8)}, ValueError, "k and v .*same batch.*k with 2.*v with 1"),
    ("k_dim", {"k": zeros(2, 2, 5, 7)}, ValueError, "q and k .*head_dim.*q with 8.*k with 7"),
    ("v_dim", {"v": zeros(2, 2, 5, 9)}, ValueError, "k and v .*head_dim.*k with 8.*v with 9"),
    ("v_dim_1", {"v": zeros(2, 2, 5, 1)}, ValueError, "k and v .*head_dim.*k with 8.*v with 1"),
    ("v_len", {"v": zeros(2, 2, 6, 8)}, ValueError, "k and v .*same k_len.*k with 5.*v with 6"),
    ("v_heads", {"v": zeros(2, 4, 5, 8)}, ValueError, "k and v .*num_kv_heads.*k with 2.*v with 4"),
    (
        "dim_0",
        {"q": zeros(2, 4, 3, 0), "k": zeros(2, 2, 5, 0), "v": zeros(2, 2, 5, 0)},
        ValueError,
        r"^q has head_dim 0, at least 1 .*\(2, 4, 3, 0\)",
    ),
    ("causal_1", {"causal": 1}, TypeError, "^causal must be True or False, got 1$"),
    ("causal_str", {"causal": "no"}, TypeError, "^causal must be True or False, got 'no'$"),
    ("causal_none", {"causal": None}, TypeError, "^causal must be True or False, got None$"),
    ("scale_str", {"scale": "0.5"}, TypeError, "^scale must be a real number or None, got '0.5'"),
    ("scale_bool", {"scale": True}, TypeError, "^scale must be a real number or None, got True"),
    ("scale_npbool", {"scale": np.True_}, TypeError, "^scale must be a real number"),
    ("scale_complex", {"scale": 1j}, TypeError, "^scale must be a real number or None, got 1j"),
    ("scale_array", {"scale": zeros(1)}, TypeError, "^scale must be a real number or None"),
    ("scale_nan", {"scale": float("nan")}, ValueError, "^scale must be finite.*got nan$"),
    ("scale_inf", {"scale": float("inf")}, ValueError, "^scale must be finite.*got inf$"),
    ("scale_minus_inf", {"scale": -np.inf}, ValueError, "^scale must be finite.*got -inf$"),
    ("scale_half_inf", {"scale": np.float16("inf")}, ValueError, "^scale must be finite"),
    ("scale_1e39", {"scale": 1e39}, ValueError, r"^scale must be finite.*got 1e\+39$"),
    ("scale_huge_int", {"scale": 10**400}, ValueError, "^scale must be finite"),
    ("input_pos_plain", {"input_pos": 0}, ValueError, "^input_pos is for causal=True only, got 0"),
    (
        "input_pos_bool",
        {"causal": True, "input_pos": True},
        TypeError,
        "^input_pos must be an int, got True$",
    ),
    ("input_pos_float", {"causal": True, "input_pos": 2.0}, TypeError, "^input_pos .*got 2.0$"),
    ("input_pos_str", {"causal": True, "input_pos": "2"}, TypeError, "^input_pos .*got '2'$"),
    (
        "input_pos_array",
        {"causal": True, "input_pos": np.array([1, 2])},
        TypeError,
        "^input_pos must be an int, got array",
    ),
    (
        "input_pos_big",
        {"causal": True, "input_pos": 2**31},
        ValueError,
        "^input_pos must be from -2147483648 to 2147483647, got 2147483648$",
    ),
    ("input_pos_low", {"causal": True, "input_pos": -(2**31) - 1}, ValueError, "^input_pos must"),
]
BAD_IDS = [row[0] for row in BAD_ATTENTION]


@pytest.mark.parametrize(("changes", "error", "words"), [r[1:] for r in BAD_ATTENTION], ids=BAD_IDS)
def test_attention_refuses(changes, error, words):
    with pytest.raises(error, match=words):
        naive.attention(**arguments(**changes))


BAD_LSE = [row for row in BAD_ATTENTION if "v" not in row[1] or "q" in row[1]]


@pytest.mark.parametrize(
    ("changes", "error", "words"), [r[1:] for r in BAD_LSE], ids=[r[0] for r in BAD_LSE]
)
def test_attention_lse_refuses(changes, error, words):
    bad = arguments(**changes)
    del bad["v"]
    with pytest.raises(error, match=words):
        naive.attention_lse(**bad)


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
    ],
)
def test_numbers_of_other_types_mean_the_same(changes, same_as):
    rng = np.random.default_rng(31)
    arrays = {name: rng.standard_normal(x.shape) for name, x in arguments().items()}
    actual = naive.attention(**arrays, **changes)
    assert np.array_equal(actual, naive.attention(**arrays, **same_as)), "seed 31"


@pytest.mark.parametrize("scale", [np.float64(0.3), np.longdouble(0.3)])
def test_a_wide_scale_does_not_widen_the_lse(scale):
    q, k = zeros(1, 1, 2, 4), zeros(1, 1, 3, 4)
    assert naive.attention_lse(q, k, scale=scale).dtype == np.float32


def test_what_comes_after_v_is_by_keyword_only():
    with pytest.raises(TypeError, match="positional"):
        naive.attention(*arguments().values(), True)


def test_softmax_refuses():
    with pytest.raises(TypeError, match=r"^s must be a numpy.ndarray .*got a list$"):
        naive.softmax([1.0, 2.0])
    with pytest.raises(ValueError, match=r"^s must have at least one axis, got a 0-D array$"):
        naive.softmax(np.array(1.0))


@pytest.mark.parametrize("name", ["q_len", "k_len", "head_dim", "num_heads", "num_kv_heads"])
@pytest.mark.parametrize(
    ("value", "error"),
    [(-1, ValueError), (1.0, TypeError), ("8", TypeError), (True, TypeError), (None, TypeError)],
)
def test_naive_traffic_refuses(name, value, error):
    sizes = {"q_len": 8, "k_len": 8, "head_dim": 4, "num_heads": 2, "num_kv_heads": 1}
    with pytest.raises(error, match=f"^{name} must be .*got {value!r}$"):
        naive.naive_traffic(**(sizes | {name: value}))


@pytest.mark.parametrize(
    ("itemsize", "error", "words"),
    [
        (0, ValueError, "^itemsize must be from 1 to 8, got 0$"),
        (9, ValueError, "^itemsize must be from 1 to 8, got 9$"),
        (2.0, TypeError, r"^itemsize must be an int, got 2\.0$"),
        (True, TypeError, "^itemsize must be an int, got True$"),
    ],
)
def test_naive_traffic_refuses_itemsize(itemsize, error, words):
    with pytest.raises(error, match=words):
        naive.naive_traffic(8, 8, 4, itemsize=itemsize)
