"""Which keys and tiles are visible, which are visited, and in which order.

All is held against a matrix of what each query sees of each key, filled in pair by pair.
"""

import itertools

import numpy as np
import pytest

from kernels import tiled
from kernels.tests.oracle import strictly

both_orders = pytest.mark.parametrize("outside", ["queries", "keys"])
ATTENTION = {"queries": tiled.attention_forward, "keys": tiled.attention_keys_outside}


def visibility(q_len, k_len, causal=False, input_pos=None):
    """Which keys each query sees, as a matrix (q_len, k_len) of booleans."""
    first = k_len - q_len if input_pos is None else input_pos
    visible = np.zeros((q_len, k_len), bool)
    for query, key in itertools.product(range(q_len), range(k_len)):
        visible[query, key] = not causal or key <= first + query
    return visible


def pieces(length, tile):
    """The tiles of an axis as pairs (start, stop)."""
    return [(start, min(start + tile, length)) for start in range(0, length, tile)]


def kinds_of_key_tiles(visible, rows, tile_n):
    """Of each key tile, whether these rows skip it, need a mask for it, or are free of one."""
    kinds = []
    for start, stop in pieces(visible.shape[1], tile_n):
        seen = visible[slice(*rows), start:stop]
        if not seen.any():
            kinds.append("skipped")
        elif seen.all() and stop - start == tile_n:
            kinds.append("free")
        else:
            kinds.append("masked")
    return kinds


def kinds_by_key_tiles(i, q_len, k_len, tile_m, tile_n, **mask):
    """The same, as `key_tiles` has it."""
    free, stop = strictly(tiled.key_tiles, i, q_len, k_len, tile_m, tile_n, **mask)
    assert type(free) is int and type(stop) is int
    assert 0 <= free <= stop
    count = len(pieces(k_len, tile_n))
    assert stop <= count, "key tiles past the last one"
    return ["free"] * free + ["masked"] * (stop - free) + ["skipped"] * (count - stop)


def small_masks(q_len, k_len):
    """All masks that differ for these lengths, and some beyond."""
    positions = [None, -(2**31), *range(-q_len - 2, k_len + 3), 2**31 - 1]
    return [{}, *({"causal": True, "input_pos": input_pos} for input_pos in positions)]


# ---- visible_keys ----


@pytest.mark.parametrize("k_len", [0, 1, 2, 5, 8])
@pytest.mark.parametrize("q_len", [1, 2, 5, 7])
def test_visible_keys_counts_the_matrix(q_len, k_len):
    for mask in small_masks(q_len, k_len):
        expected = visibility(q_len, k_len, **mask).sum(axis=1)
        rows = np.arange(q_len)
        counts = strictly(tiled.visible_keys, rows, q_len, k_len, **mask)
        assert np.array_equal(counts, expected), mask
        for i in range(q_len):
            count = strictly(tiled.visible_keys, i, q_len, k_len, **mask)
            assert count == expected[i], f"query {i}, {mask}"


@pytest.mark.parametrize("mask", [{}, {"causal": True}])
def test_visible_keys_of_arrays_of_any_shape(mask):
    expected = visibility(6, 9, **mask).sum(axis=1)
    for dtype in ("int32", "int64"):
        i = np.array([[5, 0, 3], [2, 2, 4]], dtype)
        counts = strictly(tiled.visible_keys, i, 6, 9, **mask)
        assert np.array_equal(counts, expected[i]) and counts.dtype.kind == "i"
        empty = strictly(tiled.visible_keys, i[:0], 6, 9, **mask)
        assert (empty.shape, empty.dtype.kind) == ((0, 3), "i")
    for i in (4, np.int8(4), np.array(4)):
        count = strictly(tiled.visible_keys, i, 6, 9, **mask)
        assert isinstance(count, int | np.integer) and count == expected[4]


def test_visible_keys_do_not_wrap_around():
    last = np.array([2**31 - 1], np.int32)
    mask = {"causal": True, "input_pos": 2**31 - 1}
    assert tiled.visible_keys(last, 2**31, 7, **mask).tolist() == [7]
    assert tiled.visible_keys(2**31 - 1, 2**31, 7, **mask) == 7
    assert tiled.visible_keys(np.array([0], np.int32), 2**31, 2**31).tolist() == [2**31]
    mask["input_pos"] = -(2**31)
    assert tiled.visible_keys(last, 2**31, 7, **mask).tolist() == [0]


# ---- hide_keys ----


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("first_key", [0, 1, 3, 40])
@pytest.mark.parametrize("keys", [0, 1, 4])
def test_hide_keys(keys, first_key, dtype):
    s = np.random.default_rng(21).standard_normal((5, keys)).astype(dtype)
    for seen_dtype, seen in itertools.product(
        ("int32", "int64"), ([0, 0, 0, 0, 0], [0, 1, 2, 3, 4], [7, 5, 6, 2, 44], [99] * 5)
    ):
        expected = s.copy()
        for row, column in itertools.product(range(5), range(keys)):
            if first_key + column >= seen[row]:
                expected[row, column] = -np.inf
        hidden = strictly(tiled.hide_keys, s, first_key, np.array(seen, seen_dtype))
        assert hidden.dtype == s.dtype
        assert np.array_equal(hidden, expected), f"seed 21, {seen} seen from key {first_key} on"


def test_hide_keys_hides_anything():
    # What lies in a hidden place does not matter; what lies in a visible one stays.
    s = np.array([[1.0, np.nan, np.inf], [np.nan, -np.inf, 2.0]])
    expected = [[1, -np.inf, -np.inf], [np.nan, -np.inf, 2]]
    hidden = strictly(tiled.hide_keys, s, 10, np.array([11, 13]))
    assert np.array_equal(hidden, expected, equal_nan=True)


def test_hide_keys_of_no_rows():
    hidden = strictly(tiled.hide_keys, np.zeros((0, 3), np.float32), 0, np.zeros(0, np.int64))
    assert (hidden.shape, hidden.dtype) == ((0, 3), np.float32)


# ---- key_tiles ----


@pytest.mark.parametrize("k_len", range(7))
@pytest.mark.parametrize("q_len", [1, 2, 3, 5])
def test_key_tiles_by_brute_force(q_len, k_len):
    for mask in small_masks(q_len, k_len):
        visible = visibility(q_len, k_len, **mask)
        for tile_m, tile_n in itertools.product(range(1, q_len + 2), range(1, k_len + 2)):
            for i, rows in enumerate(pieces(q_len, tile_m)):
                expected = kinds_of_key_tiles(visible, rows, tile_n)
                got = kinds_by_key_tiles(i, q_len, k_len, tile_m, tile_n, **mask)
                assert got == expected, f"query tile {i}, tiles {tile_m} × {tile_n}, {mask}"


@pytest.mark.parametrize("tile_n", [1, 7, 16, 33, 64, 100, 257])
@pytest.mark.parametrize("tile_m", [1, 5, 16, 48, 128, 300])
def test_key_tiles_of_longer_rows(tile_m, tile_n):
    for q_len, k_len, input_pos in [(200, 256, None), (129, 65, None), (70, 128, 17)]:
        mask = {"causal": True, "input_pos": input_pos}
        visible = visibility(q_len, k_len, **mask)
        for i, rows in list(enumerate(pieces(q_len, tile_m)))[:: 1 + q_len // tile_m // 10]:
            expected = kinds_of_key_tiles(visible, rows, tile_n)
            got = kinds_by_key_tiles(i, q_len, k_len, tile_m, tile_n, **mask)
            assert got == expected, f"query tile {i} of {q_len} × {k_len}, {mask}"


def test_key_tiles_of_a_causal_16k_sequence():
    # One masked tile for each of 64 query tiles, and of the others half: 64 · 63 / 2 = 2016.
    length, tile = 16384, 256
    kinds = []
    for i in range(length // tile):
        kinds += kinds_by_key_tiles(i, length, length, tile, tile, causal=True)
    assert len(kinds) == 4096
    assert kinds.count("free") == 2016
    assert kinds.count("masked") == 64
    assert kinds.count("skipped") == 2016


@pytest.mark.parametrize(
    ("sizes", "mask", "expected"),
    [
        # 3 queries at positions 2, 3, 4 and 5 keys: tiles of 2 keys, the last of which is short.
        ((0, 3, 5, 3, 2), {"causal": True}, (1, 3)),
        ((0, 3, 5, 1, 2), {"causal": True}, (1, 2)),
        ((2, 3, 5, 1, 2), {"causal": True}, (2, 3)),
        ((0, 3, 5, 2, 2), {}, (2, 3)),
        ((0, 3, 4, 2, 2), {}, (2, 2)),
        ((0, 3, 4, 2, 9), {}, (0, 1)),
        ((0, 3, 0, 2, 2), {}, (0, 0)),
        # Positions -2 and -1 see nothing, position 0 one key.
        ((0, 3, 4, 2, 1), {"causal": True, "input_pos": -2}, (0, 0)),
        ((1, 3, 4, 2, 1), {"causal": True, "input_pos": -2}, (1, 1)),
        ((0, 1, 2**31, 1, 2**31), {}, (1, 1)),
        ((1, 2**31, 2**31, 2**30, 3), {"causal": True}, ((2**30 + 1) // 3, 2**31 // 3 + 1)),
    ],
)
def test_key_tiles_by_hand(sizes, mask, expected):
    assert strictly(tiled.key_tiles, *sizes, **mask) == expected


# ---- the loops ----


def recorded_steps(monkeypatch, outside, q_len, k_len, tile_m, tile_n, dtype="float64", **mask):
    """The steps that the loops really take: ((rows, keys, masked), the arrays of update), in order.

    Scores and values carry the numbers of their query and key, so that a step tells which it is of.
    """
    steps, masked = [], []

    def hide_keys(s, first_key, seen):
        masked.append(True)
        return tiled_hide_keys(s, first_key, seen)

    def update(m_i, l_i, acc, s, v):
        keys = int(v[0, 0]), int(v[-1, 0]) + 1
        row, column = np.argwhere(s > -np.inf)[0]
        first_row = int((s[row, column] - v[column, 0]) / 1000) - int(row)
        rows = first_row, first_row + len(s)
        arrays = {"m_i": m_i, "l_i": l_i, "acc": acc, "s": s, "v": v}
        steps.append(((rows, keys, bool(masked)), {name: x.copy() for name, x in arrays.items()}))
        masked.clear()
        return tiled_update(m_i, l_i, acc, s, v)

    tiled_hide_keys, tiled_update = tiled.hide_keys, tiled.update
    q, k, v = np.zeros((3, 1, 1, max(q_len, k_len), 2), dtype)
    q, k, v = q[:, :, :q_len], k[:, :, :k_len], v[:, :, :k_len]
    q[..., 0], q[..., 1] = np.arange(q_len), 1  # the score of query i and key j is 1000 i + j
    k[..., 0], k[..., 1] = 1000, np.arange(k_len)
    v[..., 0] = np.arange(k_len)
    with monkeypatch.context() as patch:
        patch.setattr(tiled, "hide_keys", hide_keys)
        patch.setattr(tiled, "update", update)
        ATTENTION[outside](q, k, v, tile_m=tile_m, tile_n=tile_n, scale=1, **mask)
    return steps


def expected_steps(visible, outside, tile_m, tile_n):
    """((rows, keys, masked), ...): a step for each pair of tiles of which something is visible."""
    q_tiles, k_tiles = (
        pieces(length, tile) for length, tile in zip(visible.shape, (tile_m, tile_n), strict=True)
    )
    pairs = itertools.product(q_tiles, k_tiles)
    if outside == "keys":
        pairs = ((rows, keys) for keys, rows in itertools.product(k_tiles, q_tiles))
    for rows, (start, stop) in pairs:
        seen_by_some = np.flatnonzero(visible[slice(*rows), start:stop].any(axis=0))
        if len(seen_by_some) == 0:
            continue
        # Up to the last key that some row of the tile sees: the others may be NaN.
        keys = start, start + int(seen_by_some[-1]) + 1
        whole = stop - start == tile_n and visible[slice(*rows), start:stop].all()
        yield rows, keys, not whole


LOOPS = [
    (1, 1, 1, 1, {}),
    (5, 7, 2, 3, {}),
    (6, 6, 2, 3, {}),
    (6, 6, 2, 3, {"causal": True}),
    (7, 5, 2, 2, {"causal": True}),
    (5, 9, 2, 2, {"causal": True}),
    (5, 9, 3, 2, {"causal": True, "input_pos": 1}),
    (5, 9, 2, 4, {"causal": True, "input_pos": -3}),
    (5, 9, 2, 4, {"causal": True, "input_pos": 6}),
    (5, 9, 2, 4, {"causal": True, "input_pos": 20}),
    (4, 8, 8, 16, {"causal": True}),
    (4, 8, 1, 1, {"causal": True}),
    (4, 0, 2, 2, {}),
]


@pytest.mark.parametrize(("q_len", "k_len", "tile_m", "tile_n", "mask"), LOOPS)
@both_orders
def test_the_loops_visit_what_is_visible(monkeypatch, outside, q_len, k_len, tile_m, tile_n, mask):
    # No hidden tile, none twice, keys ascending for each row, and no mask where none is needed.
    visible = visibility(q_len, k_len, **mask)
    steps = recorded_steps(monkeypatch, outside, q_len, k_len, tile_m, tile_n, **mask)
    assert [step for step, _ in steps] == list(expected_steps(visible, outside, tile_m, tile_n))
