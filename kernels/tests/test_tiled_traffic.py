"""Bytes on the chip and through HBM, against numbers by hand, by counting and of real arrays."""

import itertools

import numpy as np
import pytest

from kernels import tiled
from kernels.tests.test_tiled_tiles import LOOPS, both_orders, pieces, recorded_steps, visibility

KIB = 2**10
PARTS = ["q", "k", "v", "s", "acc", "m_i", "l_i"]
FLOWS = [
    "read_q",
    "read_k",
    "read_v",
    "read_state",
    "write_state",
    "write_o",
    "write_lse",
]


# ---- on_chip_bytes ----


@pytest.mark.parametrize(
    ("tile_m", "tile_n", "head_dim", "itemsize", "expected"),
    [
        (128, 64, 128, 2, [32768, 16384, 16384, 32768, 65536, 512, 512]),
        (3, 5, 7, 4, [84, 140, 140, 60, 84, 12, 12]),
        (5, 3, 7, 1, [35, 21, 21, 60, 140, 20, 20]),
        (1, 1, 1, 8, [8, 8, 8, 4, 4, 4, 4]),
    ],
)
def test_on_chip_bytes_by_hand(tile_m, tile_n, head_dim, itemsize, expected):
    parts = tiled.on_chip_bytes(tile_m, tile_n, head_dim, itemsize=itemsize)
    assert list(parts.items()) == list(zip(PARTS, expected, strict=True))


def test_on_chip_bytes_are_of_float16_unless_told():
    assert tiled.on_chip_bytes(16, 32, 64) == tiled.on_chip_bytes(16, 32, 64, itemsize=2)


@pytest.mark.parametrize(("tile_m", "tile_n"), [(4, 6), (6, 4), (1, 12), (12, 1), (5, 7)])
@both_orders
def test_on_chip_bytes_of_real_arrays(monkeypatch, outside, tile_m, tile_n):
    # The largest tile of each kind that a pass in float32 has in hand. A tile of q is as large as
    # one of acc, one of k as one of v.
    steps = recorded_steps(monkeypatch, outside, 12, 12, tile_m, tile_n, "float32")
    largest = {
        name: max(arrays[name].nbytes for _, arrays in steps)
        for name in ("m_i", "l_i", "acc", "s", "v")
    }
    largest |= {"q": largest["acc"], "k": largest["v"]}
    assert largest == tiled.on_chip_bytes(tile_m, tile_n, 2, itemsize=4)


@pytest.mark.parametrize("integer", [np.int8, np.int32, np.int64, np.uint16])
def test_numpy_integers_do_not_overflow(integer):
    sizes = [integer(100)] * 3
    parts = tiled.on_chip_bytes(*sizes, itemsize=integer(8))
    assert parts["q"] == 80_000 and all(type(size) is int for size in parts.values())
    traffic = tiled.tiled_traffic(*sizes, tile_m=integer(50), tile_n=integer(60), causal=True)
    assert traffic["read_q"] == 20_000 and all(type(size) is int for size in traffic.values())
    tiles = tiled.largest_tiles(integer(100), integer(100), itemsize=integer(8))
    assert tiles is None


# ---- largest_tiles ----

SIZES = [16, 32, 64, 128, 256]


def bytes_needed(tile_m, tile_n, head_dim, itemsize):
    inputs = (tile_m + 2 * tile_n) * head_dim * itemsize
    return inputs + 4 * tile_m * (tile_n + head_dim + 2)


def best_of_all(memory_bytes, head_dim, itemsize):
    """The largest pair, as Python orders pairs, of all that fit."""
    pairs = itertools.product(SIZES, SIZES)
    return max(
        (p for p in pairs if bytes_needed(*p, head_dim, itemsize) <= memory_bytes), default=None
    )


@pytest.mark.parametrize("itemsize", [1, 2, 4, 8])
@pytest.mark.parametrize("head_dim", [1, 16, 64, 80, 128, 256])
def test_largest_tiles_by_brute_force(head_dim, itemsize):
    # Each pair's own size is where the answer can change: there, one byte less and one more.
    needed = {bytes_needed(*pair, head_dim, itemsize) for pair in itertools.product(SIZES, SIZES)}
    budgets = {size + d for size in needed for d in (-1, 0, 1)} | {0, 10**9}
    for memory_bytes in sorted(budgets):
        got = tiled.largest_tiles(memory_bytes, head_dim, itemsize=itemsize)
        expected = best_of_all(memory_bytes, head_dim, itemsize)
        assert got == expected, f"{memory_bytes} bytes, head_dim {head_dim}, itemsize {itemsize}"


@pytest.mark.parametrize(
    ("memory_bytes", "head_dim", "expected"),
    [
        # 65536 of q, 2 · 4096 of k and v, 16384 of s, 131072 of acc and 2048 of state are 223232;
        # with tile_n 32 they are 247808.
        (227 * KIB, 128, (256, 16)),
        (223232, 128, (256, 16)),
        (223231, 128, (128, 64)),
        # 4096 + 2 · 4096 + 1024 + 8192 + 128: the least there is.
        (21632, 128, (16, 16)),
        (21631, 128, None),
    ],
)
def test_largest_tiles_by_hand(memory_bytes, head_dim, expected):
    assert tiled.largest_tiles(memory_bytes, head_dim) == expected


@pytest.mark.parametrize("memory_bytes", [24 * KIB, 48 * KIB, 100 * KIB, 227 * KIB])
@pytest.mark.parametrize("head_dim", [64, 128])
def test_largest_tiles_move_the_least(head_dim, memory_bytes):
    def moved(tile_m, tile_n):
        tiles = {"tile_m": tile_m, "tile_n": tile_n}
        return sum(tiled.tiled_traffic(1024, 1024, head_dim, **tiles).values())

    fitting = [
        pair
        for pair in itertools.product(SIZES, SIZES)
        if bytes_needed(*pair, head_dim, 2) <= memory_bytes
    ]
    least = min(moved(*pair) for pair in fitting)
    assert moved(*tiled.largest_tiles(memory_bytes, head_dim)) == least


# ---- tiled_traffic ----


def counted_traffic(visible, tile_m, tile_n, outside, head_dim, num_heads, itemsize):
    """The bytes by walking over the loops, with a set of what stands in HBM or on the chip."""
    q_tiles = [range(*piece) for piece in pieces(visible.shape[0], tile_m)]
    k_tiles = [range(*piece) for piece in pieces(visible.shape[1], tile_n)]
    q_rows = kv_rows = states_read = states_written = 0
    state_in_hbm = set()

    def visit(rows, keys):
        return any(visible[row, key] for row in rows for key in keys)

    if outside == "queries":
        for rows in q_tiles:
            q_rows += len(rows)
            for keys in k_tiles:
                if visit(rows, keys):
                    kv_rows += len(keys)
    else:
        for keys in k_tiles:
            keys_on_chip = set()
            for rows in q_tiles:
                if not visit(rows, keys):
                    continue
                q_rows += len(rows)
                kv_rows += len(set(keys) - keys_on_chip)
                keys_on_chip |= set(keys)
                states_read += len(state_in_hbm.intersection(rows))
                states_written += len(rows)
                state_in_hbm |= set(rows)
        states_read += len(state_in_hbm)  # once more, for the output

    q_len = len(visible)
    return {
        "read_q": q_rows * head_dim * itemsize * num_heads,
        "read_k": kv_rows * head_dim * itemsize * num_heads,
        "read_v": kv_rows * head_dim * itemsize * num_heads,
        "read_state": states_read * (4 * head_dim + 4 + 4) * num_heads,
        "write_state": states_written * (4 * head_dim + 4 + 4) * num_heads,
        "write_o": q_len * head_dim * itemsize * num_heads,
        "write_lse": q_len * 4 * num_heads,
    }


def masks_for(q_len, k_len):
    positions = {None, 0, -q_len, -1, 2, k_len - 1, k_len + 5}
    return [{}, *({"causal": True, "input_pos": position} for position in positions)]


@pytest.mark.parametrize("k_len", [0, 1, 4, 9])
@pytest.mark.parametrize("q_len", [0, 1, 4, 7])
@both_orders
def test_traffic_by_counting(outside, q_len, k_len):
    for mask in masks_for(q_len, k_len):
        visible = visibility(q_len, k_len, **mask)
        for tile_m, tile_n in [(1, 1), (2, 3), (3, 2), (4, 4), (1, 9), (7, 1), (16, 32)]:
            options = {"head_dim": 5, "num_heads": 3, "itemsize": 4}
            expected = counted_traffic(visible, tile_m, tile_n, outside, **options)
            options |= {"tile_m": tile_m, "tile_n": tile_n, "outside": outside, **mask}
            got = tiled.tiled_traffic(q_len, k_len, **options)
            assert got == expected, f"{q_len} queries, {k_len} keys, {options}"


@pytest.mark.parametrize(
    ("sizes", "options", "expected"),
    [
        # 3 query tiles, each of which reads 7 keys.
        ((5, 7, 4), {"num_heads": 3}, [120, 504, 504, 0, 0, 120, 60]),
        # 3 key tiles, each of which reads 5 queries, and their state of 24 bytes a row.
        ((5, 7, 4), {"num_heads": 3, "outside": "keys"}, [360, 168, 168, 1080, 1080, 120, 60]),
        # The query tiles see 4, 6 and 7 keys; in tiles of 3 they are 6, 6 and 7.
        ((5, 7, 4), {"causal": True}, [40, 152, 152, 0, 0, 40, 20]),
        # They visit 2, 2 and 3 key tiles: 2 · 2 + 2 · 2 + 1 · 3 rows.
        ((5, 7, 4), {"causal": True, "outside": "keys"}, [88, 56, 56, 264, 264, 40, 20]),
        # Nobody sees anything. Each query is still read, if it is outside, and each output written.
        ((5, 7, 4), {"causal": True, "input_pos": -5}, [40, 0, 0, 0, 0, 40, 20]),
        (
            (5, 7, 4),
            {"causal": True, "input_pos": -5, "outside": "keys"},
            [0, 0, 0, 0, 0, 40, 20],
        ),
        ((0, 7, 4), {}, [0, 0, 0, 0, 0, 0, 0]),
        ((5, 7, 4), {"num_heads": 0}, [0, 0, 0, 0, 0, 0, 0]),
    ],
)
def test_traffic_by_hand(sizes, options, expected):
    traffic = tiled.tiled_traffic(*sizes, tile_m=2, tile_n=3, **options)
    assert list(traffic.items()) == list(zip(FLOWS, expected, strict=True))


def test_traffic_is_of_queries_outside_and_float16_unless_told():
    explicit = {"outside": "queries", "itemsize": 2, "num_heads": 1, "causal": False}
    plain = tiled.tiled_traffic(9, 7, 4, tile_m=2, tile_n=3)
    assert plain == tiled.tiled_traffic(9, 7, 4, tile_m=2, tile_n=3, **explicit)


@pytest.mark.parametrize("tile_m", [64, 128, 256])
def test_keys_and_values_are_read_once_for_each_query_tile(tile_m):
    # K and V of 4096 keys are 1 MiB together at head_dim 64 in float16.
    traffic = tiled.tiled_traffic(4096, 4096, 64, tile_m=tile_m, tile_n=100)
    assert traffic["read_k"] + traffic["read_v"] == (4096 // tile_m) * 2**20
    traffic = tiled.tiled_traffic(4096, 4096, 64, tile_m=tile_m, tile_n=100, outside="keys")
    assert traffic["read_k"] + traffic["read_v"] == 2**20


@pytest.mark.parametrize(("q_len", "k_len", "tile_m", "tile_n", "mask"), LOOPS)
@both_orders
def test_traffic_is_that_of_the_loops(monkeypatch, outside, q_len, k_len, tile_m, tile_n, mask):
    # What the passes really visit. A tile counts whole, although NumPy's slices leave out the keys
    # that nobody sees.
    steps = [
        step
        for step, _ in recorded_steps(monkeypatch, outside, q_len, k_len, tile_m, tile_n, **mask)
    ]
    keys_of_tile = {start: stop - start for start, stop in pieces(k_len, tile_n)}
    visited = [(rows[1] - rows[0], keys_of_tile[keys[0]]) for rows, keys, _ in steps]
    if outside == "queries":
        q_rows, kv_rows = q_len, sum(keys for _, keys in visited)
        state_rows = 0
    else:
        kv_rows = sum(keys_of_tile[start] for start in {keys[0] for _, keys, _ in steps})
        q_rows = state_rows = sum(rows for rows, _ in visited)
    # A row of q, of k and of the state takes 16 bytes each: 2 · 8, 2 · 8 and 4 · (2 + 1 + 1).
    options = {"tile_m": tile_m, "tile_n": tile_n, "outside": outside}
    traffic = tiled.tiled_traffic(q_len, k_len, 2, itemsize=8, **options, **mask)
    expected = [16 * q_rows, 16 * kv_rows, 16 * kv_rows, 16 * state_rows, 16 * state_rows]
    expected += [16 * q_len, 4 * q_len]
    assert list(traffic.values()) == expected


def test_sizes_beyond_64_bits():
    traffic = tiled.tiled_traffic(8, 8, 2**70, tile_m=8, tile_n=8)
    assert traffic["read_q"] == 8 * 2**71
