"""Tiled attention against the oracle, and the field cases, for both orders of its loops.

A test's name carries the id of its case, such as g1_03; `test_case_list.py` has the list. Each
case runs on many tile sizes: one row, sizes that divide nothing, sizes beyond both lengths.
"""

import functools
import importlib
import math
import tracemalloc

import numpy as np
import pytest

from kernels import naive, tiled
from kernels.tests.oracle import (
    DTYPES,
    assert_close,
    assert_lse_close,
    draw,
    dtype_called,
    oracle,
    strictly,
)

HALVES = ("float16", "bfloat16")
both_orders = pytest.mark.parametrize(
    "attention",
    [tiled.attention_forward, tiled.attention_keys_outside],
    ids=["queries_outside", "keys_outside"],
)

# (tile_m, tile_n): single rows and keys, tall, flat and square, most no powers of two.
SIZES = [(1, 1), (1, 6), (7, 1), (2, 3), (5, 3), (16, 16), (16, 64), (48, 20), (64, 128)]


def tiles_for(q_len, k_len, most_steps=24):
    """Tile sizes for these lengths: SIZES, those about the lengths, and one beyond both.

    Left out are those that take more than `most_steps` steps, which only cost time.
    """
    about = [(max(1, q_len + d), max(1, k_len + e)) for d, e in ((-1, 0), (0, -1), (0, 0), (1, 1))]
    tiles = [*SIZES, *about, (q_len + 1000, k_len + 999)]
    steps = {(m, n): math.ceil(q_len / m) * math.ceil(k_len / n) for m, n in tiles}
    return [tile for tile, count in steps.items() if count <= most_steps]


@functools.cache
def drawn(seed, q_shape, kv_shape, dtype):
    arrays = draw(seed, q_shape, kv_shape, dtype)
    for x in arrays:
        x.setflags(write=False)
    return arrays


@functools.cache
def drawn_and_expected(seed, q_shape, kv_shape, dtype, options):
    """The oracle is the slow part, and both orders of the loops ask for the same."""
    arrays = drawn(seed, q_shape, kv_shape, dtype)
    return arrays, oracle(*arrays, **dict(options))


def check_expected(attention, arrays, expected, dtype, what, tiles=None, **options):
    """The function against what is expected of it, on all these tiles; the results by tile."""
    q, k, v = arrays
    results = {}
    for tile_m, tile_n in tiles or tiles_for(q.shape[2], k.shape[2]):
        case = f"{what}, q {q.shape}, kv {k.shape}, {dtype}, {options}, tiles {tile_m} × {tile_n}"
        o, lse = strictly(attention, q, k, v, tile_m=tile_m, tile_n=tile_n, **options)
        assert_close(o, expected[0], dtype, case)
        assert_lse_close(lse, expected[1], dtype, case)
        results[tile_m, tile_n] = o, lse
    assert results, f"{what}: no tile size was tried"
    return results


def check(attention, q, k, v, dtype, what, tiles=None, **options):
    expected = oracle(q, k, v, **options)
    return check_expected(attention, (q, k, v), expected, dtype, what, tiles, **options)


def check_drawn(attention, seed, q_shape, kv_shape, dtype, tiles=None, **options):
    case = seed, q_shape, kv_shape, dtype, tuple(options.items())
    arrays, expected = drawn_and_expected(*case)
    return check_expected(attention, arrays, expected, dtype, f"seed {seed}", tiles, **options)


@both_orders
def test_by_hand(attention):
    # Scores 0 and log 3 give the weights 1/4 and 3/4. The first query sees nothing, the second
    # the first key alone, the third both.
    q = np.full((1, 1, 3, 1), 2.0)
    k = np.array([0.0, math.log(3.0)]).reshape(1, 1, 2, 1)
    v = np.array([8.0, 16.0]).reshape(1, 1, 2, 1)
    for tile_m, tile_n in [(1, 1), (2, 1), (1, 2), (3, 2), (4, 5)]:
        options = {"tile_m": tile_m, "tile_n": tile_n, "scale": 0.5, "causal": True}
        o, lse = strictly(attention, q, k, v, **options)
        expected = np.array([0.0, 8.0, 14.0]).reshape(q.shape)
        assert_close(o, expected, "float64", f"{tile_m} × {tile_n}")
        expected_lse = np.array([-np.inf, 0, math.log(4)]).reshape(1, 1, 3)
        assert_lse_close(lse, expected_lse, "float64", f"{tile_m} × {tile_n}")


@pytest.mark.parametrize("dtype", HALVES)
@both_orders
def test_halves_are_computed_in_float32(attention, dtype):
    arrays = drawn(11, (1, 2, 9, 16), (1, 1, 30, 16), dtype)
    options = {"tile_m": 4, "tile_n": 7, "causal": True}
    wide_o, wide_lse = attention(*(x.astype(np.float32) for x in arrays), **options)
    o, lse = strictly(attention, *arrays, **options)
    assert np.array_equal(o, wide_o.astype(o.dtype)), "seed 11"
    assert np.array_equal(lse, wide_lse), "seed 11"


@both_orders
def test_nothing_as_large_as_the_scores_is_built(attention):
    # 2048 × 2048 scores in float32 are 16 MiB. All else here is 128 KiB an array.
    scores_bytes = 2048 * 2048 * 4
    arrays = drawn(12, (1, 1, 2048, 16), (1, 1, 2048, 16), "float32")

    def peak(function, *args, **options):
        tracemalloc.start()
        try:
            function(*args, **options)
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    assert peak(naive.attention, *arrays) > scores_bytes, "this measure would not see the scores"
    for tile_m, tile_n in [(128, 128), (300, 100)]:
        for causal in (False, True):
            size = peak(attention, *arrays, tile_m=tile_m, tile_n=tile_n, causal=causal)
            assert size < scores_bytes / 12, f"{size} bytes, tiles {tile_m} × {tile_n}"


@both_orders
def test_memory_grows_with_the_length_alone(attention):
    peaks = []
    for length in (1024, 2048, 4096):
        arrays = drawn(13, (1, 1, 64, 16), (1, 1, length, 16), "float32")
        tracemalloc.start()
        attention(*arrays, tile_m=16, tile_n=128)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    # k and v of head_dim 16 in float32, and nothing else that grows with the number of keys.
    for small, large, length in zip(peaks, peaks[1:], (1024, 2048), strict=False):
        assert large - small < 1.25 * length * 2 * 16 * 4, peaks


# ---- G1: odd shapes ----


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("length", [1, 2, 7, 8, 9, 15, 16, 17, 63, 65])
@both_orders
def test_g1_01_any_length(attention, length, causal, dtype):
    shape = (1, 1, length, 32)
    check_drawn(attention, 101, shape, shape, dtype, causal=causal, scale=0.5)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("length", [128, 129, 200])
@both_orders
def test_g1_01_about_one_large_tile(attention, length, causal):
    shape, tiles = (1, 1, length, 128), [(128, 128), (128, 64), (64, 128), (100, 128)]
    check_drawn(attention, 102, shape, shape, "float16", tiles, causal=causal, scale=0.5)


@both_orders
def test_g1_01_many_heads_shorter_than_a_tile(attention):
    shape, tiles = (1, 40, 8, 128), [(128, 128), (16, 5)]
    for causal in (False, True):
        check_drawn(attention, 103, shape, shape, "float16", tiles, causal=causal, scale=0.5)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("k_len", [1, 2, 3, 15, 20, 127, 129, 1000])
@both_orders
def test_g1_02_one_query_row(attention, k_len, dtype):
    shapes = (1, 2, 1, 64), (1, 1, k_len, 64)
    plain = check_drawn(attention, 104, *shapes, dtype)
    for (tile_m, tile_n), (o, lse) in plain.items():
        # The only query stands at the last position, so the mask hides nothing.
        arrays = drawn(104, *shapes, dtype)
        causal_o, causal_lse = strictly(
            attention, *arrays, tile_m=tile_m, tile_n=tile_n, causal=True
        )
        what = f"seed 104, k_len {k_len}, tiles {tile_m} × {tile_n}: the mask hid a key"
        assert np.array_equal(causal_o, o) and np.array_equal(causal_lse, lse), what


# Which of 5 keys each of 3 queries sees: the last query stands at the last key. Written by hand.
MASK_3_BY_5 = np.array(
    [
        [1, 1, 1, 0, 0],
        [1, 1, 1, 1, 0],
        [1, 1, 1, 1, 1],
    ]
)


def weights_of(attention, q_len, k_len, **options):
    """The weights p themselves: equal scores, and each key's value is its own unit vector."""
    q = np.zeros((1, 1, q_len, k_len))
    k = np.zeros((1, 1, k_len, k_len))
    v = np.eye(k_len)[np.newaxis, np.newaxis]
    o, lse = strictly(attention, q, k, v, **options)
    return o[0, 0], lse[0, 0]


@pytest.mark.parametrize("tile_n", [1, 2, 3, 4, 5, 6, 64])
@pytest.mark.parametrize("tile_m", [1, 2, 3, 4, 64])
@both_orders
def test_g1_03_mask_written_by_hand(attention, tile_m, tile_n):
    expected = MASK_3_BY_5 / MASK_3_BY_5.sum(axis=1, keepdims=True)
    for input_pos in (None, 2):
        options = {"tile_m": tile_m, "tile_n": tile_n, "causal": True, "input_pos": input_pos}
        p, lse = weights_of(attention, 3, 5, **options)
        assert_close(p, expected, "float64", f"{options}")
        assert_lse_close(lse, np.log([3, 4, 5]), "float64", f"{options}")


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
@both_orders
def test_g1_03_keys_seen_per_row(attention, q_len, k_len, input_pos, counts):
    for tile_m, tile_n in tiles_for(q_len, k_len):
        options = {"tile_m": tile_m, "tile_n": tile_n, "causal": True, "input_pos": input_pos}
        p, lse = weights_of(attention, q_len, k_len, **options)
        for i, count in enumerate(counts):
            seen = np.arange(k_len) < count
            what = f"{options}: row {i} sees {np.flatnonzero(p[i])}, not {count}"
            assert np.array_equal(p[i] > 0, seen), what
            assert abs(lse[i] - math.log(count)) < 1e-12 if count else lse[i] == -np.inf, what


@pytest.mark.parametrize("dtype", ["float16", "float64"])
@pytest.mark.parametrize("input_pos", [None, 0, 3, -4, 500])
@pytest.mark.parametrize(("q_len", "k_len"), [(2, 5), (1, 5), (5, 2), (20, 33)])
@both_orders
def test_g1_03_causal_values(attention, q_len, k_len, input_pos, dtype):
    options = {"causal": True, "input_pos": input_pos}
    check_drawn(attention, 105, (1, 1, q_len, 16), (1, 1, k_len, 16), dtype, **options)


@pytest.mark.parametrize("input_pos", [None, 0, 30, -4])
@both_orders
def test_g1_03_causal_values_of_longer_rows(attention, input_pos):
    options = {"causal": True, "input_pos": input_pos}
    check_drawn(attention, 106, (1, 1, 64, 16), (1, 1, 70, 16), "float32", **options)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("head_dim", [64, 128, 256])
@both_orders
def test_g1_05_every_column_counts(attention, head_dim, dtype):
    q, k, v = draw(107, (1, 1, 20, head_dim), (1, 1, 20, head_dim), dtype)
    for x in (q, k, v):
        x[..., : head_dim // 2] = 0
    results = check(attention, q, k, v, dtype, "seed 107, signal in the last half", [(16, 16)])
    for o, _ in results.values():
        assert np.all(o[..., head_dim // 2 :] != 0), "a column of the last half was not written"


@pytest.mark.parametrize("dtype", ["float16", "float64"])
@pytest.mark.parametrize("head_dim", [1, 3, 31, 63, 80, 96, 160])
@both_orders
def test_g1_06_any_head_dim(attention, head_dim, dtype):
    shape, tiles = (1, 2, 20, head_dim), [(16, 16), (6, 20), (32, 7)]
    check_drawn(attention, 108, shape, shape, dtype, tiles, causal=True)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("causal", "input_pos"), [(False, None), (True, None), (True, 3)])
@both_orders
def test_g1_08_no_keys(attention, causal, input_pos, dtype):
    shapes, tiles = ((2, 8, 64, 64), (2, 8, 0, 64)), [(64, 64), (16, 1), (50, 7)]
    options = {"causal": causal, "input_pos": input_pos}
    for o, lse in check_drawn(attention, 109, *shapes, dtype, tiles, **options).values():
        assert np.all(o == 0) and np.all(lse == -np.inf)


@both_orders
def test_g1_12_unknown_arguments_are_refused(attention):
    # The padding of a batch with lengths 5 and 3. There is no mask argument, and that must show.
    arrays = drawn(110, (2, 1, 5, 4), (2, 1, 5, 4), "float32")
    mask = np.arange(5) < np.array([[5], [3]])
    with pytest.raises(TypeError, match="attn_mask"):
        attention(*arrays, tile_m=2, tile_n=2, attn_mask=mask)
    with pytest.raises(TypeError, match="positional"):
        attention(*arrays, mask, tile_m=2, tile_n=2)


# ---- G2: NaN and infinity ----


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("q_len", "k_len"), [(6, 5), (10, 6), (9, 1)])
@both_orders
def test_g2_01_rows_that_see_no_key(attention, q_len, k_len, dtype):
    shapes = (1, 2, q_len, 8), (1, 2, k_len, 8)
    blind = q_len - k_len
    for o, lse in check_drawn(attention, 201, *shapes, dtype, causal=True).values():
        assert np.all(o[:, :, :blind] == 0) and np.all(lse[:, :, :blind] == -np.inf)
        assert np.all(o[:, :, blind:] != 0)


def far_below_zero(seed, q_shape, kv_shape, dtype):
    """q, k, v and a scale with which all scores lie below -100."""
    q, k, v = draw(seed, q_shape, kv_shape, dtype)
    q[...] = -np.abs(q) - 1
    k[...] = np.abs(k) + 1
    repeated = np.repeat(k, q.shape[1] // k.shape[1], axis=1).astype(float)
    scores = q.astype(float) @ repeated.swapaxes(-1, -2)
    scale = 110 / -scores.max()
    assert (scale * scores).max() < -100
    return q, k, v, scale


@pytest.mark.parametrize("dtype", DTYPES)
@both_orders
def test_g2_02_all_scores_far_below_zero(attention, dtype):
    # A running maximum that starts at 0, or goes back to it at a hidden tile, loses all of these.
    q, k, v, scale = far_below_zero(202, (1, 2, 22, 16), (1, 1, 40, 16), dtype)
    tiles = [(3, 20), (5, 7), (8, 16), (22, 40), (128, 128)]
    check(attention, q, k, v, dtype, "seed 202", tiles, causal=True, scale=scale)
    # Without keys for the first rows, so that whole rows of a tile are hidden.
    k, v = k[:, :, :13], v[:, :, :13]
    check(attention, q, k, v, dtype, "seed 202, 13 keys", tiles, causal=True, scale=scale)


def by_tiles(q, k, v, seen, tiles):
    """One head's (o, lse), from the pieces of `tiled`, visiting the key tiles as told."""
    state = np.full(len(q), -np.inf), np.zeros(len(q)), np.zeros((len(q), v.shape[1]))
    for start, stop in tiles:
        s = strictly(tiled.hide_keys, q @ k[start:stop].T, start, seen)
        state = strictly(tiled.update, *state, s, v[start:stop])
    return strictly(tiled.finish, *state)


@pytest.mark.parametrize("order", [1, -1])
@pytest.mark.parametrize("tile_n", [1, 16, 50, 112])
def test_g2_02_key_tiles_from_right_to_left(tile_n, order):
    # From the right, the first tile that an early row meets is wholly hidden from it.
    q, k, v, scale = far_below_zero(203, (1, 1, 22, 16), (1, 1, 112, 16), "float64")
    expected, expected_lse = oracle(q, k, v, causal=True, scale=scale)
    seen = tiled.visible_keys(np.arange(22), 22, 112, causal=True)
    tiles = [(start, min(start + tile_n, 112)) for start in range(0, 112, tile_n)][::order]
    o, lse = by_tiles(scale * q[0, 0], k[0, 0], v[0, 0], seen, tiles)
    what = f"seed 203, tile_n {tile_n}, order {order}"
    assert_close(o, expected[0, 0], "float64", what)
    assert_lse_close(lse, expected_lse[0, 0], "float64", what)


@pytest.mark.parametrize("hidden_first", [False, True])
@pytest.mark.parametrize("rows", [1, 4])
def test_g2_04_a_tile_hidden_from_all_of_its_rows(rows, hidden_first):
    # exp(-inf - -inf) of such a tile would be NaN, and spoil the tiles after it.
    q, k, v = draw(204, (1, 1, rows, 8), (1, 1, 6, 8), "float64")
    expected, expected_lse = oracle(q, k[:, :, :3], v[:, :, :3], scale=1.0)
    seen = np.full(rows, 3)
    tiles = [(3, 6), (0, 3)] if hidden_first else [(0, 3), (3, 6)]
    o, lse = by_tiles(q[0, 0], k[0, 0], v[0, 0], seen, tiles)
    assert_close(o, expected[0, 0], "float64", "seed 204")
    assert_lse_close(lse, expected_lse[0, 0], "float64", "seed 204")


@pytest.mark.parametrize("dtype", DTYPES)
@both_orders
def test_g2_04_key_tiles_hidden_from_some_rows(attention, dtype):
    # Single keys beside all queries: every key tile but the first is hidden from row 0.
    tiles = [(20, 1), (20, 4), (7, 2), (100, 16)]
    shapes = (1, 2, 20, 16), (1, 1, 20, 16)
    check_drawn(attention, 205, *shapes, dtype, tiles, causal=True)
    check_drawn(attention, 205, *shapes, dtype, tiles, causal=True, input_pos=-7)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("q_len", "k_len"), [(64, 31), (5, 1)])
@both_orders
def test_g2_06_lse_of_rows_that_see_no_key(attention, q_len, k_len, dtype):
    q, k, v = draw(206, (1, 1, q_len, 16), (1, 1, k_len, 16), dtype)
    v[...] = 1
    blind = q_len - k_len
    results = check(attention, q, k, v, dtype, "seed 206, v all ones", causal=True)
    for o, lse in results.values():
        assert np.all(lse[:, :, :blind] == -np.inf)
        assert np.all(np.isfinite(lse[:, :, blind:]))
        assert np.all(o[:, :, :blind] == 0)


@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
@pytest.mark.parametrize(
    ("q_len", "used"), [(1, 13), (1, 32), (4, 48), (3, 2), (7, 0), (5, 64), (3, -9)]
)
@both_orders
def test_g2_07_unused_cache_slots(attention, q_len, used, dtype):
    # A cache of 64 slots, `used` of them filled; the last query stands at the last filled slot,
    # or before the first slot where `used` is negative.
    q, k, v = draw(207, (1, 2, q_len, 16), (1, 1, 64, 16), dtype)
    unused = slice(max(0, used), None)
    k[:, :, unused] = 0
    v[:, :, unused] = 0
    options = {"causal": True, "input_pos": used - q_len}
    expected = oracle(q, k, v, **options)
    # Tiles that end before the last used slot, at it, after it, and past the whole cache.
    tiles = [(1, 7), (2, 5), (3, 13), (4, 16), (5, 32), (8, 48), (7, 64), (3, 100)]
    for junk in (np.nan, np.inf, -np.inf, 6e4):
        k[:, :, unused] = junk
        v[:, :, unused] = junk
        what = f"seed 207, {used} slots used, the others {junk}"
        check_expected(attention, (q, k, v), expected, dtype, what, tiles, **options)


@pytest.mark.parametrize("tile_m", [1, 2, 3])
@both_orders
def test_g2_07_every_tile_size_beside_unused_slots(attention, tile_m):
    q, k, v = draw(208, (1, 1, 3, 8), (1, 1, 16, 8), "float32")
    options = {"causal": True, "input_pos": 6}  # 9 slots used
    k[:, :, 9:] = v[:, :, 9:] = 0
    expected = oracle(q, k, v, **options)
    k[:, :, 9:] = v[:, :, 9:] = np.nan
    tiles = [(tile_m, tile_n) for tile_n in range(1, 20)]
    check_expected(attention, (q, k, v), expected, "float32", "seed 208", tiles, **options)


@pytest.mark.parametrize(
    ("dtype", "value"), [("bfloat16", 133120), ("float32", 133120), ("float16", 65504)]
)
@pytest.mark.parametrize("k_len", [1, 4])
@both_orders
def test_g2_08_very_large_inputs(attention, k_len, dtype, value):
    # Scores of 1e12. All are equal, so the output is the value itself.
    x = np.full((1, 1, k_len, 64), value, dtype_called(dtype))
    for tile_m, tile_n in [(1, 1), (2, 3), (64, 64)]:
        o, _ = strictly(attention, x, x, x, tile_m=tile_m, tile_n=tile_n)
        assert o.dtype == x.dtype
        assert np.all(o == x[0, 0, 0, 0]), f"tiles {tile_m} × {tile_n}"


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("tile_n", [3, 64, 1000, 5000])
@both_orders
def test_g2_11_long_flat_rows(attention, tile_n, dtype):
    # A sum kept in float16 sticks at 2048, one in bfloat16 at 256.
    q, k, v = draw(209, (1, 1, 2, 16), (1, 1, 4096, 16), dtype)
    k[...] = k[0, 0, 0]
    v[...] = 1
    o, lse = strictly(attention, q, k, v, tile_m=2, tile_n=tile_n)
    assert np.all(o == 1), f"seed 209: {o.min()} to {o.max()}, expected 1"
    scores = q[0, 0].astype(float) @ k[0, 0, 0].astype(float) / 4
    assert_lse_close(lse[0, 0], scores + math.log(4096), dtype, "seed 209")


@pytest.mark.parametrize("dtype", DTYPES)
@both_orders
def test_g2_11_long_random_rows(attention, dtype):
    tiles = [(2, 100), (16, 1024)]
    check_drawn(attention, 210, (1, 1, 3, 16), (1, 1, 8192, 16), dtype, tiles)


@pytest.mark.parametrize("dtype", ["float16", "float64"])
@pytest.mark.parametrize("k_len", [1, 130, 200])
@pytest.mark.parametrize("causal", [False, True])
@both_orders
def test_g2_12_slices_with_nan_around_them(attention, causal, k_len, dtype):
    q, *kv = draw(211, (1, 2, 5, 16), (1, 1, k_len, 16), dtype)
    slices = []
    for x in kv:
        around = np.full((3, 1, 2 * k_len + 2, 48), np.nan, x.dtype)
        around[1:2, :, 1::2, 16:32][:, :, :k_len] = x
        slices.append(around[1:2, :, 1::2, 16:32][:, :, :k_len])
    tiles = [(2, 128), (16, 64), (5, 300)]
    check(attention, q, *slices, dtype, "seed 211, NaN around k and v", tiles, causal=causal)


# ---- G4: grouped heads ----


@pytest.mark.parametrize(
    ("num_heads", "num_kv_heads"), [(3, 2), (33, 2), (4, 0), (2, 4), (1, 3), (6, 4)]
)
@both_orders
def test_g4_01_heads_that_do_not_divide(attention, num_heads, num_kv_heads):
    arrays = drawn(401, (1, num_heads, 4, 8), (1, num_kv_heads, 4, 8), "float16")
    counts = f"num_heads {num_heads} and num_kv_heads {num_kv_heads}$"
    with pytest.raises(ValueError, match=counts):
        attention(*arrays, tile_m=4, tile_n=4)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("num_kv_heads", "kv_head_of"),
    [
        (4, [0, 1, 2, 3]),
        (2, [0, 0, 1, 1]),
        (1, [0, 0, 0, 0]),
    ],
)
@both_orders
def test_g4_02_which_kv_head_a_query_head_uses(attention, num_kv_heads, kv_head_of, dtype):
    # For V: each KV head's values are its number, from 1. For K: each KV head has a key of its own
    # that outweighs the others, and each key's value is its number.
    q, k, v = draw(402, (2, 4, 3, 8), (2, num_kv_heads, 4, 8), dtype)
    v[...] = np.arange(1, num_kv_heads + 1).reshape(-1, 1, 1)
    o, _ = strictly(attention, q, k, v, tile_m=2, tile_n=3)
    expected = 1 + np.broadcast_to(np.reshape(kv_head_of, (4, 1, 1)), q.shape).astype(float)
    assert_close(o, expected, dtype, f"v of KV heads {kv_head_of}")

    q[...], k[...] = 1, 0
    v[...] = np.arange(1, 5).reshape(4, 1)
    for kv_head in range(num_kv_heads):
        k[:, kv_head, kv_head] = 100
    o, _ = strictly(attention, q, k, v, tile_m=2, tile_n=3)
    assert_close(o, expected, dtype, f"k of KV heads {kv_head_of}")


@pytest.mark.parametrize("dtype", ["float16", "float64"])
@pytest.mark.parametrize(("num_heads", "num_kv_heads"), [(6, 2), (6, 3), (7, 7), (8, 1)])
@pytest.mark.parametrize("causal", [False, True])
@both_orders
def test_g4_02_grouped_values(attention, causal, num_heads, num_kv_heads, dtype):
    shapes, tiles = ((1, num_heads, 5, 16), (1, num_kv_heads, 9, 16)), [(3, 8)]
    check_drawn(attention, 403, *shapes, dtype, tiles, causal=causal)


# ---- G5: scale, dtype, empty, LSE ----


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "scale", [None, 0.0, 0, -0.0, 1 / math.sqrt(2), 1, -1.5, np.float32(0.5), np.float64(0.3), 40]
)
@both_orders
def test_g5_01_scale(attention, scale, dtype):
    x = np.linspace(0.1, 1.2, 12).reshape(1, 1, 6, 2).astype(dtype_called(dtype))
    q, k, v = x[:, :, :3], x[:, :, 1:4], x[:, :, 3:]
    tiles, options = [(1, 1), (2, 2), (3, 2), (16, 16)], {"causal": True, "scale": scale}
    results = check(attention, q, k, v, dtype, "values 0.1 to 1.2", tiles, **options)
    for (tile_m, tile_n), (o, lse) in results.items():
        if scale is None:
            explicit = options | {"scale": 1 / math.sqrt(2)}
            explicit_o, explicit_lse = attention(q, k, v, tile_m=tile_m, tile_n=tile_n, **explicit)
            assert np.array_equal(o, explicit_o) and np.array_equal(lse, explicit_lse)
        elif scale == 0:
            means = [v[0, 0, : i + 1].astype(float).mean(axis=0) for i in range(3)]
            assert_close(o[0, 0], np.array(means), dtype, "mean of the visible values")
            assert_lse_close(lse[0, 0], np.log([1, 2, 3]), dtype, "log of how many are visible")


@pytest.mark.parametrize("dtype", DTYPES)
@both_orders
def test_g5_01_default_scale_follows_head_dim(attention, dtype):
    # A head_dim of 64 makes the default 1/8: powers of two, so the results agree to the bit.
    arrays = drawn(502, (1, 2, 5, 64), (1, 2, 7, 64), dtype)
    default = strictly(attention, *arrays, tile_m=3, tile_n=2)
    explicit = attention(*arrays, tile_m=3, tile_n=2, scale=0.125)
    assert all(map(np.array_equal, default, explicit))


OTHERS = {
    "float16": "float32",
    "bfloat16": "float16",
    "float32": "float64",
    "float64": "float16",
}


@pytest.mark.parametrize("odd_one", ["q", "k", "v"])
@pytest.mark.parametrize("dtype", DTYPES)
@both_orders
def test_g5_03_mixed_dtypes(attention, dtype, odd_one):
    arrays = dict(zip("qkv", drawn(503, (1, 2, 16, 64), (1, 2, 16, 64), dtype), strict=True))
    other = OTHERS[dtype]
    arrays[odd_one] = arrays[odd_one].astype(other)
    with pytest.raises(TypeError, match=f"same dtype.*{odd_one} {other}"):
        attention(**arrays, tile_m=4, tile_n=4)


@pytest.mark.parametrize("name", ["q", "k", "v"])
@pytest.mark.parametrize(
    "dtype", ["int32", "int64", "uint8", "bool", "complex64", "object", ">f4", ">f2"]
)
@both_orders
def test_g5_03_dtypes_that_are_refused(attention, dtype, name):
    called = dtype if dtype[0] == ">" else str(np.dtype(dtype))
    assert_dtype_refused(attention, np.dtype(dtype), called, name)


@pytest.mark.parametrize("name", ["q", "k", "v"])
@both_orders
def test_g5_03_float8_is_refused(attention, name):
    dtype_called("bfloat16")  # skips without ml_dtypes
    float8 = np.dtype(importlib.import_module("ml_dtypes").float8_e4m3fn)
    assert_dtype_refused(attention, float8, "float8_e4m3fn", name)


def assert_dtype_refused(attention, dtype, called, name):
    """One of q, k and v has that dtype; the message lists those that are allowed."""
    arrays = dict(zip("qkv", drawn(504, (1, 2, 3, 4), (1, 2, 3, 4), "float32"), strict=True))
    arrays[name] = arrays[name].astype(dtype)
    words = f"^{name} must .*float16, bfloat16, float32 or float64, got dtype {called}$"
    with pytest.raises(TypeError, match=words):
        attention(**arrays, tile_m=4, tile_n=4)


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
@both_orders
def test_g5_05_empty_axes(attention, q_shape, kv_shape, causal, dtype):
    tiles = [(1, 1), (3, 4), (64, 64)]
    results = check_drawn(attention, 505, q_shape, kv_shape, dtype, tiles, causal=causal)
    for o, lse in results.values():
        assert o.shape == q_shape and lse.shape == q_shape[:3] and o.size == 0


@pytest.mark.parametrize("causal", [False, True])
@both_orders
def test_g5_06_float32_is_not_tf32(attention, causal):
    # The bound for float32 lies far below the 5e-4 of one operand rounded to TF32's 10 bits.
    q, k, v = drawn(506, (1, 2, 33, 64), (1, 2, 40, 64), "float32")
    check(attention, q, k, v, "float32", "seed 506", [(16, 16)], causal=causal)
    rounded = q.astype(np.float16).astype(np.float32)
    expected, _ = oracle(q, k, v, causal=causal)
    o, _ = attention(rounded, k, v, tile_m=16, tile_n=16, causal=causal)
    with pytest.raises(AssertionError, match="relative L2 error"):
        assert_close(o, expected, "float32", "rounded")


def merge(o_a, lse_a, o_b, lse_b):
    """One result from those over two sets of keys, with the weights exp(lse), in float64."""
    lse = np.logaddexp(lse_a.astype(float), lse_b.astype(float))
    safe = np.where(lse == -np.inf, 0, lse)
    weight_a, weight_b = (np.exp(x - safe)[..., np.newaxis] for x in (lse_a, lse_b))
    return weight_a * o_a.astype(float) + weight_b * o_b.astype(float), lse


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("k_len", "split"), [(3136, 3072), (20, 1), (20, 0), (7, 7)])
@both_orders
def test_g5_10_two_parts_merge_to_one_pass(attention, k_len, split, dtype):
    case = 507, (1, 2, 2, 16), (1, 1, k_len, 16), dtype
    (q, k, v), (expected, expected_lse) = drawn_and_expected(*case, ())
    parts = []
    for keys in (slice(None, split), slice(split, None)):
        parts += strictly(attention, q, k[:, :, keys], v[:, :, keys], tile_m=2, tile_n=250)
    merged, lse = merge(*parts)
    what = f"seed 507, {k_len} keys split at {split}, {dtype}"
    assert_close(merged.astype(dtype_called(dtype)), expected, dtype, what)
    assert np.max(np.abs(lse - expected_lse)) < (1e-11 if dtype == "float64" else 1e-4), what


@both_orders
def test_g5_10_lse_is_the_natural_logarithm(attention):
    # Two keys with scores 0 and log 3: exp gives 1 + 3, and log 4 is not log2 4 = 2.
    q = np.ones((1, 1, 1, 1))
    k = np.array([0.0, math.log(3.0)]).reshape(1, 1, 2, 1)
    for tile_n in (1, 2):
        _, lse = strictly(attention, q, k, k, tile_m=1, tile_n=tile_n)
        assert abs(lse.item() - math.log(4.0)) < 1e-15
