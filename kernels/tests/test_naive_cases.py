"""Field cases: public reports about attention kernels, each with its whole kind.

A test's name carries the id of its case, such as g1_03. `test_case_list.py` has the list of ids,
and says of those that no test carries why they do not apply.
"""

import importlib
import math

import numpy as np
import pytest

from kernels import naive
from kernels.tests.oracle import (
    DTYPES,
    assert_close,
    assert_lse_close,
    draw,
    dtype_called,
    oracle,
    oracle_softmax,
    strictly,
)

HALVES = ("float16", "bfloat16")


def check(q, k, v, dtype, what, **options):
    """attention and attention_lse against the oracle; returns what attention gave."""
    expected, expected_lse = oracle(q, k, v, **options)
    what = f"{what}, q {q.shape}, kv {k.shape}, {dtype}, {options}"
    actual = strictly(naive.attention, q, k, v, **options)
    assert_close(actual, expected, dtype, what)
    actual_lse = strictly(naive.attention_lse, q, k, **options)
    assert_lse_close(actual_lse, expected_lse, dtype, what)
    return actual


def check_drawn(seed, q_shape, kv_shape, dtype, **options):
    q, k, v = draw(seed, q_shape, kv_shape, dtype)
    return check(q, k, v, dtype, f"seed {seed}", **options)


def test_softmax_example():
    # exp(0), exp(log 3) are 1 and 3, so the weights are 1/4 and 3/4.
    s = np.array([[0.0, math.log(3.0)], [-np.inf, 5.0]])
    expected = np.array([[0.25, 0.75], [0.0, 1.0]])
    assert_close(strictly(naive.softmax, s), expected, "float64", "two rows by hand")


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(7,), (3, 1), (2, 3, 65), (2, 1, 3, 4, 5)])
def test_softmax_takes_any_leading_axes(shape, dtype):
    seed = 11
    s = (3 * np.random.default_rng(seed).standard_normal(shape)).astype(dtype_called(dtype))
    assert_close(strictly(naive.softmax, s), oracle_softmax(s), dtype, f"seed {seed}, {shape}")


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(0,), (3, 0), (0, 4), (2, 0, 3)])
def test_softmax_of_empty_axes(shape, dtype):
    p = strictly(naive.softmax, np.zeros(shape, dtype_called(dtype)))
    assert (p.shape, p.dtype) == (shape, dtype_called(dtype))


@pytest.mark.parametrize("dtype", DTYPES)
def test_softmax_of_large_scores(dtype):
    # exp overflows float32 at 89: only a softmax that subtracts the largest score gets these.
    s = np.array([[1000, 1000, -1000], [-3000, -3000, -3000], [60000, 0, -60000]])
    expected = np.array([[0.5, 0.5, 0], [1 / 3, 1 / 3, 1 / 3], [1, 0, 0]])
    p = strictly(naive.softmax, s.astype(dtype_called(dtype)))
    assert_close(p, expected, dtype, "scores in the thousands")


@pytest.mark.parametrize("dtype", HALVES)
def test_softmax_of_halves_is_computed_in_float32(dtype):
    seed = 12
    s = (5 * np.random.default_rng(seed).standard_normal((9, 300))).astype(dtype_called(dtype))
    in_float32 = naive.softmax(s.astype(np.float32))
    expected = in_float32.astype(s.dtype)
    assert np.array_equal(strictly(naive.softmax, s), expected), f"seed {seed}"


# ---- G1: odd shapes ----


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("length", [1, 2, 7, 8, 9, 15, 17, 63, 65])
def test_g1_01_any_length(length, causal, dtype):
    check_drawn(101, (1, 3, length, 128), (1, 3, length, 128), dtype, causal=causal, scale=0.5)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("length", [127, 129, 200])
def test_g1_01_longer_than_a_tile(length, causal):
    check_drawn(102, (1, 1, length, 128), (1, 1, length, 128), "float16", causal=causal, scale=0.5)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("k_len", [1, 2, 3, 15, 20, 127, 129, 1000])
def test_g1_02_one_query_row(k_len, dtype):
    q, k, v = draw(103, (2, 2, 1, 128), (2, 2, k_len, 128), dtype)
    plain = check(q, k, v, dtype, "seed 103")
    # The only query stands at the last position, so the mask hides nothing.
    causal = strictly(naive.attention, q, k, v, causal=True)
    assert np.array_equal(causal, plain), f"seed 103, k_len {k_len}: the mask hid a key"


# Which of 5 keys each of 3 queries sees: the last query stands at the last key. Written by hand.
MASK_3_BY_5 = np.array(
    [
        [1, 1, 1, 0, 0],
        [1, 1, 1, 1, 0],
        [1, 1, 1, 1, 1],
    ]
)


def weights_of(q_len, k_len, **options):
    """The weights p themselves: equal scores, and each key's value is its own unit vector."""
    q = np.zeros((1, 1, q_len, k_len))
    k = np.zeros((1, 1, k_len, k_len))
    v = np.eye(k_len)[np.newaxis, np.newaxis]
    return strictly(naive.attention, q, k, v, **options)[0, 0]


def test_g1_03_mask_written_by_hand():
    expected = MASK_3_BY_5 / MASK_3_BY_5.sum(axis=1, keepdims=True)
    assert_close(weights_of(3, 5, causal=True), expected, "float64", "3 queries, 5 keys")
    assert_close(weights_of(3, 5, causal=True, input_pos=2), expected, "float64", "input_pos 2")


@pytest.mark.parametrize(
    ("q_len", "k_len", "input_pos", "counts"),
    [
        (2, 5, None, [4, 5]),
        (1, 5, None, [5]),
        (5, 5, None, [1, 2, 3, 4, 5]),
        (5, 2, None, [0, 0, 0, 1, 2]),
        (3, 5, 0, [1, 2, 3]),
        (3, 5, 1, [2, 3, 4]),
        (3, 5, 7, [5, 5, 5]),
        (3, 5, -1, [0, 1, 2]),
        (3, 5, -3, [0, 0, 0]),
        (3, 5, -(2**31), [0, 0, 0]),
        (3, 5, 2**31 - 1, [5, 5, 5]),
        (3, 5, np.int64(1), [2, 3, 4]),
        (64, 200, None, list(range(137, 201))),
    ],
)
def test_g1_03_keys_seen_per_row(q_len, k_len, input_pos, counts):
    p = weights_of(q_len, k_len, causal=True, input_pos=input_pos)
    for i, count in enumerate(counts):
        seen = np.arange(k_len) < count
        assert np.array_equal(p[i] > 0, seen), f"row {i} sees {np.flatnonzero(p[i])}, not {count}"


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("input_pos", [None, 0, 3, -4, 500])
@pytest.mark.parametrize(("q_len", "k_len"), [(2, 5), (1, 5), (5, 2), (20, 33), (64, 70)])
def test_g1_03_causal_values(q_len, k_len, input_pos, dtype):
    options = {"causal": True, "input_pos": input_pos}
    check_drawn(104, (2, 2, q_len, 16), (2, 1, k_len, 16), dtype, **options)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("head_dim", [64, 128, 256])
def test_g1_05_every_column_counts(head_dim, dtype):
    q, k, v = draw(105, (1, 2, 20, head_dim), (1, 2, 20, head_dim), dtype)
    for x in (q, k, v):
        x[..., : head_dim // 2] = 0
    output = check(q, k, v, dtype, "seed 105, signal in the last half")
    assert np.all(output[..., head_dim // 2 :] != 0), "a column of the last half was not written"


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("head_dim", [1, 3, 31, 63, 80, 96, 160])
def test_g1_06_any_head_dim(head_dim, dtype):
    check_drawn(106, (2, 2, 20, head_dim), (2, 2, 20, head_dim), dtype, causal=True)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("causal", "input_pos"), [(False, None), (True, None), (True, 3)])
def test_g1_08_no_keys(causal, input_pos, dtype):
    q, k, v = draw(107, (2, 8, 64, 64), (2, 8, 0, 64), dtype)
    output = check(q, k, v, dtype, "seed 107", causal=causal, input_pos=input_pos)
    assert np.all(output == 0)
    lse = strictly(naive.attention_lse, q, k, causal=causal, input_pos=input_pos)
    assert np.all(lse == -np.inf)


def test_g1_12_unknown_arguments_are_refused():
    # The padding of a batch with lengths 5 and 3. There is no mask argument, and that must show.
    q, k, v = draw(108, (2, 1, 5, 4), (2, 1, 5, 4), "float32")
    mask = np.arange(5) < np.array([[5], [3]])
    with pytest.raises(TypeError, match="attn_mask"):
        naive.attention(q, k, v, attn_mask=mask)
    with pytest.raises(TypeError, match="positional"):
        naive.attention(q, k, v, mask)
    with pytest.raises(TypeError, match="attn_mask"):
        naive.attention_lse(q, k, attn_mask=mask)


# ---- G2: NaN and infinity ----


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("q_len", "k_len"), [(6, 5), (10, 6), (9, 1)])
def test_g2_01_rows_that_see_no_key(q_len, k_len, dtype):
    output = check_drawn(201, (1, 2, q_len, 8), (1, 2, k_len, 8), dtype, causal=True)
    blind = q_len - k_len
    assert np.all(output[:, :, :blind] == 0)
    assert np.all(output[:, :, blind:] != 0)


@pytest.mark.parametrize("dtype", DTYPES)
def test_g2_01_softmax_row_of_minus_infinity(dtype):
    seed = 202
    s = np.random.default_rng(seed).standard_normal((2, 6, 10)).astype(dtype_called(dtype))
    s[:, -1] = -np.inf
    p = strictly(naive.softmax, s)
    assert_close(p, oracle_softmax(s), dtype, f"seed {seed}, last row all -inf")


@pytest.mark.parametrize("dtype", DTYPES)
def test_g2_02_all_scores_far_below_zero(dtype):
    q, k, v = draw(203, (1, 4, 22, 16), (1, 2, 112, 16), dtype)
    # Every key of every row is at most about -100: a running max that starts at 0 loses them all.
    q[...] = -np.abs(q) - 1
    k[...] = np.abs(k) + 1
    scores = np.einsum("bhid,bhjd->bhij", q.astype(float), np.repeat(k, 2, axis=1).astype(float))
    scale = 110 / -scores.max()
    assert (scale * scores).max() < -100
    check(q, k, v, dtype, "seed 203, scores below -100", causal=True, scale=scale)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("window", [1, 16, 64])
def test_g2_04_keys_of_whole_tiles_hidden(window, dtype):
    # naive has no windows, but its softmax must take the rows that they give: -inf for whole tiles.
    seed = 204
    s = np.random.default_rng(seed).standard_normal((256, 256)).astype(dtype_called(dtype))
    i, j = np.ogrid[:256, :256]
    s[(j > i) | (j <= i - window)] = -np.inf
    p = strictly(naive.softmax, s)
    assert_close(p, oracle_softmax(s), dtype, f"seed {seed}, window {window}")
    assert np.all((p > 0).sum(axis=-1) == np.minimum(np.arange(256) + 1, window))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("q_len", "k_len"), [(64, 31), (5, 1)])
def test_g2_06_lse_of_rows_that_see_no_key(q_len, k_len, dtype):
    q, k, v = draw(205, (1, 1, q_len, 16), (1, 1, k_len, 16), dtype)
    v[...] = 1
    output = check(q, k, v, dtype, "seed 205, v all ones", causal=True)
    lse = strictly(naive.attention_lse, q, k, causal=True)
    blind = q_len - k_len
    assert np.all(lse[:, :, :blind] == -np.inf)
    assert np.all(np.isfinite(lse[:, :, blind:]))
    assert np.all(output[:, :, :blind] == 0)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("junk", [np.nan, np.inf, -np.inf, 6e4])
@pytest.mark.parametrize(
    ("q_len", "used"), [(1, 13), (1, 32), (4, 48), (3, 2), (7, 0), (5, 64), (3, -9)]
)
def test_g2_07_unused_cache_slots(q_len, used, junk, dtype):
    # A cache of 64 slots, `used` of them filled; the last query stands at the last filled slot,
    # or before the first slot where `used` is negative.
    q, k, v = draw(206, (2, 4, q_len, 16), (2, 2, 64, 16), dtype)
    unused = slice(max(0, used), None)
    k[:, :, unused] = junk
    v[:, :, unused] = junk
    options = {"causal": True, "input_pos": used - q_len}
    actual = strictly(naive.attention, q, k, v, **options)
    actual_lse = strictly(naive.attention_lse, q, k, **options)
    k[:, :, unused] = 0
    v[:, :, unused] = 0
    expected, expected_lse = oracle(q, k, v, **options)
    what = f"seed 206, {used} slots used, the others {junk}"
    assert_close(actual, expected, dtype, what)
    assert_lse_close(actual_lse, expected_lse, dtype, what)


@pytest.mark.parametrize(
    ("dtype", "value"), [("bfloat16", 133120), ("float32", 133120), ("float16", 65504)]
)
@pytest.mark.parametrize("k_len", [1, 4])
def test_g2_08_very_large_inputs(k_len, dtype, value):
    # Scores of 1e12. All are equal, so the output is the value itself.
    x = np.full((1, 1, k_len, 64), value, dtype_called(dtype))
    output = strictly(naive.attention, x, x, x)
    assert output.dtype == x.dtype
    assert np.all(output == x[0, 0, 0, 0])


@pytest.mark.parametrize("dtype", HALVES)
def test_g2_11_long_flat_rows(dtype):
    # A sum kept in float16 sticks at 2048, one in bfloat16 at 256.
    q, k, v = draw(207, (1, 1, 2, 16), (1, 1, 4096, 16), dtype)
    k[...] = k[0, 0, 0]
    v[...] = 1
    output = strictly(naive.attention, q, k, v)
    assert np.all(output == 1), f"seed 207: {output.min()} to {output.max()}, expected 1"


@pytest.mark.parametrize("dtype", DTYPES)
def test_g2_11_long_random_rows(dtype):
    check_drawn(208, (1, 1, 3, 16), (1, 1, 8192, 16), dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("k_len", [1, 130, 200])
@pytest.mark.parametrize("causal", [False, True])
def test_g2_12_slices_with_nan_around_them(causal, k_len, dtype):
    q, *kv = draw(209, (1, 2, 5, 16), (1, 2, k_len, 16), dtype)
    slices = []
    for x in kv:
        around = np.full((3, 2, 2 * k_len + 2, 48), np.nan, x.dtype)
        around[1:2, :, 1::2, 16:32][:, :, :k_len] = x
        slices.append(around[1:2, :, 1::2, 16:32][:, :, :k_len])
    k, v = slices
    check(q, k, v, dtype, "seed 209, NaN around k and v", causal=causal)


# ---- G4: grouped heads ----


@pytest.mark.parametrize(
    ("num_heads", "num_kv_heads"), [(3, 2), (33, 2), (4, 0), (2, 4), (1, 3), (6, 4)]
)
def test_g4_01_heads_that_do_not_divide(num_heads, num_kv_heads):
    q, k, v = draw(401, (1, num_heads, 4, 8), (1, num_kv_heads, 4, 8), "float16")
    counts = f"num_heads {num_heads} and num_kv_heads {num_kv_heads}$"
    with pytest.raises(ValueError, match=counts):
        naive.attention(q, k, v)
    with pytest.raises(ValueError, match=counts):
        naive.attention_lse(q, k)
    with pytest.raises(ValueError, match=counts):
        naive.naive_traffic(4, 4, 8, num_heads=num_heads, num_kv_heads=num_kv_heads)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("num_kv_heads", "kv_head_of"),
    [
        (4, [0, 1, 2, 3]),
        (2, [0, 0, 1, 1]),
        (1, [0, 0, 0, 0]),
    ],
)
def test_g4_02_which_kv_head_a_query_head_uses(num_kv_heads, kv_head_of, dtype):
    # For V: each KV head's values are its number, from 1. For K: each KV head has a key of its own
    # that outweighs the others, and each key's value is its number.
    q, k, v = draw(402, (2, 4, 3, 8), (2, num_kv_heads, 4, 8), dtype)
    v[...] = np.arange(1, num_kv_heads + 1).reshape(-1, 1, 1)
    output = strictly(naive.attention, q, k, v)
    expected = 1 + np.broadcast_to(np.reshape(kv_head_of, (4, 1, 1)), q.shape).astype(float)
    assert_close(output, expected, dtype, f"v of KV heads {kv_head_of}")

    q[...], k[...] = 1, 0
    v[...] = np.arange(1, 5).reshape(4, 1)
    for kv_head in range(num_kv_heads):
        k[:, kv_head, kv_head] = 100
    output = strictly(naive.attention, q, k, v)
    assert_close(output, expected, dtype, f"k of KV heads {kv_head_of}")


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("num_heads", "num_kv_heads"), [(6, 2), (6, 3), (7, 7), (8, 1)])
@pytest.mark.parametrize("causal", [False, True])
def test_g4_02_grouped_values(causal, num_heads, num_kv_heads, dtype):
    q_shape, kv_shape = (2, num_heads, 5, 16), (2, num_kv_heads, 9, 16)
    check_drawn(403, q_shape, kv_shape, dtype, causal=causal)


# ---- G5: scale, dtype, empty, LSE ----


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "scale", [None, 0.0, 0, -0.0, 1 / math.sqrt(2), 1, -1.5, np.float32(0.5), np.float64(0.3), 40]
)
def test_g5_01_scale(scale, dtype):
    x = np.linspace(0.1, 1.2, 12).reshape(1, 1, 6, 2).astype(dtype_called(dtype))
    q, k, v = x[:, :, :3], x[:, :, 1:4], x[:, :, 3:]
    plain = check(q, k, v, dtype, "values 0.1 to 1.2", causal=True, scale=scale)
    if scale is None:
        explicit = naive.attention(q, k, v, causal=True, scale=1 / math.sqrt(2))
        assert np.array_equal(plain, explicit)
    elif scale == 0:
        means = [v[0, 0, : i + 1].astype(float).mean(axis=0) for i in range(3)]
        assert_close(plain[0, 0], np.array(means), dtype, "mean of the visible values")


@pytest.mark.parametrize("dtype", DTYPES)
def test_g5_01_default_scale_follows_head_dim(dtype):
    # A head_dim of 64 makes the default 1/8: powers of two, so the results agree to the bit.
    q, k, v = draw(502, (1, 2, 5, 64), (1, 2, 7, 64), dtype)
    default = strictly(naive.attention, q, k, v)
    assert np.array_equal(default, naive.attention(q, k, v, scale=0.125))


OTHERS = {
    "float16": "float32",
    "bfloat16": "float16",
    "float32": "float64",
    "float64": "float16",
}


@pytest.mark.parametrize("odd_one", ["q", "k", "v"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_g5_03_mixed_dtypes(dtype, odd_one):
    arrays = dict(zip("qkv", draw(503, (1, 2, 16, 64), (1, 2, 16, 64), dtype), strict=True))
    other = OTHERS[dtype]
    arrays[odd_one] = arrays[odd_one].astype(other)
    with pytest.raises(TypeError, match=f"same dtype.*{odd_one} {other}"):
        naive.attention(**arrays)
    if odd_one != "v":
        with pytest.raises(TypeError, match=f"same dtype.*{odd_one} {other}"):
            naive.attention_lse(arrays["q"], arrays["k"])


@pytest.mark.parametrize("name", ["q", "k", "v", "s"])
@pytest.mark.parametrize(
    "dtype", ["int32", "int64", "uint8", "bool", "complex64", "object", ">f4", ">f2"]
)
def test_g5_03_dtypes_that_are_refused(dtype, name):
    assert_dtype_refused(np.dtype(dtype), dtype if dtype[0] == ">" else str(np.dtype(dtype)), name)


@pytest.mark.parametrize("name", ["q", "k", "v", "s"])
def test_g5_03_float8_is_refused(name):
    dtype_called("bfloat16")  # skips without ml_dtypes
    float8 = np.dtype(importlib.import_module("ml_dtypes").float8_e4m3fn)
    assert_dtype_refused(float8, "float8_e4m3fn", name)


def assert_dtype_refused(dtype, called, name):
    """One of q, k, v, or softmax's s, has that dtype; the message lists those that are allowed."""
    words = f"^{name} must .*float16, bfloat16, float32 or float64, got dtype {called}$"
    if name == "s":
        with pytest.raises(TypeError, match=words):
            naive.softmax(np.zeros((2, 3), dtype))
        return
    arrays = dict(zip("qkv", draw(504, (1, 2, 3, 4), (1, 2, 3, 4), "float32"), strict=True))
    arrays[name] = arrays[name].astype(dtype)
    with pytest.raises(TypeError, match=words):
        naive.attention(**arrays)
    if name != "v":
        with pytest.raises(TypeError, match=words):
            naive.attention_lse(arrays["q"], arrays["k"])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(
    ("q_shape", "kv_shape"),
    [
        ((0, 10, 8, 16), (0, 10, 16, 16)),
        ((2, 0, 8, 16), (2, 0, 16, 16)),
        ((2, 0, 8, 16), (2, 3, 16, 16)),
        ((2, 4, 0, 16), (2, 2, 16, 16)),
        ((2, 4, 0, 16), (2, 2, 0, 16)),
        ((0, 0, 0, 16), (0, 0, 0, 16)),
    ],
)
def test_g5_05_empty_axes(q_shape, kv_shape, causal, dtype):
    output = check_drawn(505, q_shape, kv_shape, dtype, causal=causal)
    assert output.shape == q_shape and output.size == 0


@pytest.mark.parametrize("causal", [False, True])
def test_g5_06_float32_is_not_tf32(causal):
    # The bound for float32 lies far below the 5e-4 of one operand rounded to TF32's 10 bits.
    q, k, v = draw(506, (1, 2, 33, 64), (1, 2, 40, 64), "float32")
    check(q, k, v, "float32", "seed 506", causal=causal)
    rounded = q.astype(np.float16).astype(np.float32)
    expected, _ = oracle(q, k, v, causal=causal)
    with pytest.raises(AssertionError, match="relative L2 error"):
        assert_close(naive.attention(rounded, k, v, causal=causal), expected, "float32", "rounded")


def merge(output_a, lse_a, output_b, lse_b):
    """One result from those over two sets of keys, with the weights exp(lse), in float64."""
    lse = np.logaddexp(lse_a.astype(float), lse_b.astype(float))
    safe = np.where(lse == -np.inf, 0, lse)
    weight_a, weight_b = (np.exp(x - safe)[..., np.newaxis] for x in (lse_a, lse_b))
    return weight_a * output_a.astype(float) + weight_b * output_b.astype(float), lse


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("k_len", "split"), [(3136, 3072), (20, 1), (20, 0), (7, 7)])
def test_g5_10_two_parts_merge_to_one_pass(k_len, split, dtype):
    q, k, v = draw(507, (1, 2, 2, 16), (1, 1, k_len, 16), dtype)
    parts = []
    for keys in (slice(None, split), slice(split, None)):
        parts.append(strictly(naive.attention, q, k[:, :, keys], v[:, :, keys]))
        parts.append(strictly(naive.attention_lse, q, k[:, :, keys]))
    merged, lse = merge(*parts)
    expected, expected_lse = oracle(q, k, v)
    what = f"seed 507, {k_len} keys split at {split}, {dtype}"
    assert_close(merged.astype(dtype_called(dtype)), expected, dtype, what)
    assert np.max(np.abs(lse - expected_lse)) < (1e-11 if dtype == "float64" else 1e-4), what


def test_g5_10_lse_is_the_natural_logarithm():
    # Two keys with scores 0 and log 3: exp gives 1 + 3, and log 4 is not log2 4 = 2.
    q = np.ones((1, 1, 1, 1))
    k = np.array([0.0, math.log(3.0)]).reshape(1, 1, 2, 1)
    lse = strictly(naive.attention_lse, q, k)
    assert abs(lse.item() - math.log(4.0)) < 1e-15
