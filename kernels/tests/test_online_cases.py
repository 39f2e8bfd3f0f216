"""The online softmax against numbers by hand, the oracle, and the field cases that apply to it.

A test's name carries the id of its case, such as g2_02. The chapter's functions know no heads and
no mask but a score of -inf; the cases of heads (G4) have nothing to hold on to here.
"""

import itertools
import math
import tracemalloc

import numpy as np
import pytest

from kernels import online_softmax
from kernels.tests.oracle import (
    BOUNDS,
    DTYPES,
    assert_close,
    assert_lse_close,
    draw,
    dtype_called,
    oracle,
    strictly,
)

STATE_DTYPES = ("float32", "float64")
HALVES = ("float16", "bfloat16")


def oracle_state(s, v):
    """(m_i, l_i, acc) of all of a row's scores at once, in float64, by loops that visit no hidden
    key."""
    rows, head_dim = len(s), v.shape[1]
    m_i, l_i, acc = np.full(rows, -np.inf), np.zeros(rows), np.zeros((rows, head_dim))
    for r, scores in enumerate(s.tolist()):
        seen = [j for j, score in enumerate(scores) if score != -math.inf]
        if not seen:
            continue
        m_i[r] = max(scores[j] for j in seen)
        weights = [math.exp(scores[j] - m_i[r]) for j in seen]
        l_i[r] = math.fsum(weights)
        for c in range(head_dim):
            column = v[:, c].tolist()
            acc[r, c] = math.fsum(w * column[j] for w, j in zip(weights, seen, strict=True))
    return m_i, l_i, acc


def assert_state_close(state, s, v, what):
    """The state is that of the scores s and values v. Its maximum is one of the scores, so it is
    exact. Errors of acc are measured against Σ p |v|: the values may cancel."""
    dtype = str(s.dtype)
    expected, bound = oracle_state(s, v), BOUNDS[dtype][0]
    assert isinstance(state, tuple) and len(state) == 3, f"{what}: no triple"
    for name, got, right in zip(("m_i", "l_i", "acc"), state, expected, strict=True):
        assert got.shape == right.shape, f"{what}: {name} {got.shape}, expected {right.shape}"
        assert got.dtype == s.dtype, f"{what}: {name} {got.dtype}, expected {dtype}"
    m_i, l_i, acc = state
    assert np.array_equal(m_i, expected[0]), f"{what}: m_i {m_i}, expected {expected[0]}"
    # Not `error > bound`: a NaN would pass. Where no key was seen, the bound is 0.
    error = np.abs(l_i - expected[1])
    assert np.all(error <= bound * expected[1]), f"{what}: l_i off by {error}"
    sizes = oracle_state(s, np.abs(v))[2]
    error = np.abs(acc - expected[2])
    assert np.all(error <= bound * sizes), f"{what}: acc off by up to {error.max()}"


def oracle_output(s, v):
    """(o, lse) in float64."""
    m_i, l_i, acc = oracle_state(s, v)
    o, lse = np.zeros(acc.shape), np.full(m_i.shape, -np.inf)
    for r in np.flatnonzero(l_i):
        o[r] = acc[r] / l_i[r]
        lse[r] = m_i[r] + math.log(l_i[r])
    return o, lse


def empty_state(rows, head_dim, dtype):
    return np.full(rows, -np.inf, dtype), np.zeros(rows, dtype), np.zeros((rows, head_dim), dtype)


def cut(s, v, *cuts):
    """The blocks (s, v) between the cuts, from left to right."""
    edges = (0, *cuts, len(v))
    return [(s[:, i:j], v[i:j]) for i, j in itertools.pairwise(edges)]


def tiles(s, v, size):
    return cut(s, v, *range(size, len(v), size))


def empty_for(blocks):
    s, v = blocks[0]
    return empty_state(len(s), v.shape[1], s.dtype)


# The four ways to (o, lse). Each takes a list of one block or more.


def by_update(blocks):
    state = empty_for(blocks)
    for s, v in blocks:
        state = strictly(online_softmax.update, *state, s, v)
    return strictly(online_softmax.finish, *state)


def by_update_normalised(blocks):
    m_i, l_i, o = empty_for(blocks)
    for s, v in blocks:
        m_i, l_i, o = strictly(online_softmax.update_normalised, m_i, l_i, o, s, v)
    return o, strictly(online_softmax.finish, m_i, l_i, o)[1]


def by_merge(blocks):
    state = empty_for(blocks)
    for s, v in blocks:
        part = strictly(online_softmax.update, *empty_for(blocks), s, v)
        state = strictly(online_softmax.merge, state, part)
    return strictly(online_softmax.finish, *state)


def by_merge_outputs(blocks):
    merged = strictly(online_softmax.finish, *empty_for(blocks))
    for s, v in blocks:
        part = strictly(online_softmax.update, *empty_for(blocks), s, v)
        part = strictly(online_softmax.finish, *part)
        merged = strictly(online_softmax.merge_outputs, *merged, *part)
    return merged


WAYS = {
    "update": by_update,
    "update_normalised": by_update_normalised,
    "merge": by_merge,
    "merge_outputs": by_merge_outputs,
}
every_way = pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
state_dtypes = pytest.mark.parametrize("dtype", STATE_DTYPES)
all_dtypes = pytest.mark.parametrize("dtype", DTYPES)


def check(way, blocks, what):
    """One of the four ways against the oracle over all of the blocks' keys; returns (o, lse)."""
    s = np.hstack([s for s, _ in blocks])
    v = np.vstack([v for _, v in blocks])
    o, lse = way(blocks)
    expected, expected_lse = oracle_output(s, v)
    dtype = str(s.dtype)
    assert_close(o, expected, dtype, what)
    assert_lse_close(lse, expected_lse, dtype, what)
    return o, lse


def draw_scores(seed, rows, keys, head_dim, dtype):
    rng = np.random.default_rng(seed)
    s = rng.standard_normal((rows, keys)).astype(dtype)
    return s, rng.standard_normal((keys, head_dim)).astype(dtype)


def draw_row(seed, keys, head_dim, dtype):
    """q (head_dim,), k and v (keys, head_dim)."""
    q, k, v = draw(seed, (1, 1, 1, head_dim), (1, 1, keys, head_dim), dtype)
    return q[0, 0, 0], k[0, 0], v[0, 0]


def stream(k, v, size):
    """An iterator, not a list: it can be read only once."""
    for start in range(0, len(k), size):
        yield k[start : start + size], v[start : start + size]


def attend(q, blocks, **options):
    """attend_row, and what its docstring says of the types of o and lse."""
    o, lse = strictly(online_softmax.attend_row, q, blocks, **options)
    assert (o.shape, o.dtype) == (q.shape, q.dtype)
    assert isinstance(lse, np.floating), f"lse is a {type(lse).__name__}, no scalar"
    return o, lse


def check_row(q, k, v, size, dtype, what, **options):
    """attend_row against the oracle, in blocks of `size` keys; returns (o, lse)."""
    expected, expected_lse = oracle(
        *(x[np.newaxis, np.newaxis] for x in (q[None], k, v)), **options
    )
    what = f"{what}, {len(k)} keys in blocks of {size}, {dtype}, {options}"
    before = k.tobytes(), v.tobytes()
    o, lse = attend(q, stream(k, v, size), **options)
    assert (k.tobytes(), v.tobytes()) == before, f"{what}: attend_row wrote to a block"
    assert_close(o[np.newaxis], expected[0, 0], dtype, what)
    assert_lse_close(np.array([lse]), expected_lse[0, 0], dtype, what)
    return o, lse


# ---- numbers by hand ----

LN2, LN3, LN4, LN7 = (math.log(x) for x in (2, 3, 4, 7))
S_1 = [[0, LN2], [-math.inf, -math.inf]]
V_1 = [[8, 0], [2, 4]]
S_2 = [[LN4, -math.inf], [LN3, 0]]
V_2 = [[1, 1], [3, 9]]
# Row 0: the powers are 1 and 2, then 4; row 1: none, then 3 and 1. Each state in units of the
# row's largest power.
STATE_1 = [LN2, -math.inf], [3 / 2, 0], [[8 / 2 + 2, 4], [0, 0]]
STATE_2 = [LN4, LN3], [7 / 4, 4 / 3], [[12 / 4 + 1, 8 / 4 + 1], [1 + 3 / 3, 1 + 9 / 3]]
O_1 = [[4, 8 / 3], [0, 0]]
O_2 = [[16 / 7, 12 / 7], [3 / 2, 3]]
LSE_1, LSE_2 = [LN3, -math.inf], [LN7, LN4]


def arrays(dtype, *lists):
    return tuple(np.array(x, dtype) for x in lists)


def assert_same(actual, expected, dtype, roundings=8):
    """All arrays equal up to a few roundings, -inf where -inf is expected."""
    assert len(actual) == len(expected)
    rtol = roundings * np.finfo(dtype).eps
    for got, right in zip(actual, expected, strict=True):
        assert got.dtype == dtype
        assert got.shape == np.shape(right)
        assert np.allclose(got, right, rtol=rtol, atol=0), f"{got}, not {right}"


@state_dtypes
def test_update_by_hand(dtype):
    state_1 = strictly(online_softmax.update, *empty_state(2, 2, dtype), *arrays(dtype, S_1, V_1))
    assert_same(state_1, STATE_1, dtype)
    state_2 = strictly(online_softmax.update, *state_1, *arrays(dtype, S_2, V_2))
    assert_same(state_2, STATE_2, dtype)


@state_dtypes
def test_update_normalised_by_hand(dtype):
    step = online_softmax.update_normalised
    state_1 = strictly(step, *empty_state(2, 2, dtype), *arrays(dtype, S_1, V_1))
    assert_same(state_1, (*STATE_1[:2], O_1), dtype)
    state_2 = strictly(step, *state_1, *arrays(dtype, S_2, V_2))
    assert_same(state_2, (*STATE_2[:2], O_2), dtype)


@state_dtypes
def test_finish_by_hand(dtype):
    for state, o, lse in ((STATE_1, O_1, LSE_1), (STATE_2, O_2, LSE_2)):
        assert_same(strictly(online_softmax.finish, *arrays(dtype, *state)), (o, lse), dtype)


@state_dtypes
def test_merge_by_hand(dtype):
    # Row 0: powers of b count whole, those of a half. Row 1: only a saw a key. Row 2: neither did.
    none = -math.inf
    a = arrays(dtype, [0, 5, none], [2, 3, 0], [[4, 6], [7, -7], [0, 0]])
    b = arrays(dtype, [LN2, none, none], [3, 0, 0], [[1, 5], [0, 0], [0, 0]])
    expected = [LN2, 5, none], [2 / 2 + 3, 3, 0], [[4 / 2 + 1, 6 / 2 + 5], [7, -7], [0, 0]]
    merge = online_softmax.merge
    before = [x.tobytes() for x in (*a, *b)]
    assert_same(strictly(merge, a, b), expected, dtype)
    assert_same(strictly(merge, b, a), expected, dtype)
    assert [x.tobytes() for x in (*a, *b)] == before, "merge wrote to its arguments"


@state_dtypes
def test_merge_outputs_by_hand(dtype):
    # Row 0: weights 1/4 and 3/4. Rows 1 to 3: only a, only b, neither saw a key.
    none = -math.inf
    o_a, lse_a = arrays(dtype, [[8, 0], [7, -7], [0, 0], [0, 0]], [0, 5, none, none])
    o_b, lse_b = arrays(dtype, [[16, 4], [0, 0], [2, 3], [0, 0]], [LN3, none, -9, none])
    expected = [[14, 3], [7, -7], [2, 3], [0, 0]], [LN4, 5, -9, none]
    merge_outputs = online_softmax.merge_outputs
    assert_same(strictly(merge_outputs, o_a, lse_a, o_b, lse_b), expected, dtype)
    assert_same(strictly(merge_outputs, o_b, lse_b, o_a, lse_a), expected, dtype)


@all_dtypes
def test_attend_row_by_hand(dtype):
    # The scores are 4 · 0.5 · (1, 1, 3) = 2, 2, 6: two equal ones, and one that is e^4 heavier.
    kind = dtype_called(dtype)
    q = np.array([4, 0], kind)
    k = np.array([[1, 9], [1, -9], [3, 0]], kind)
    v = np.array([[2, 0], [4, 0], [0, 1]], kind)
    heavy = math.exp(4)
    expected = np.array([[6, heavy]]) / (2 + heavy)
    for size in (1, 2, 3):
        o, lse = attend(q, stream(k, v, size), scale=0.5)
        assert_close(o[np.newaxis], expected, dtype, f"three keys in blocks of {size}")
        assert abs(lse - (2 + math.log(2 + heavy))) < 1e-6


@state_dtypes
def test_scores_of_a_thousand_by_hand(dtype):
    # exp(89) overflows float32 and exp(710) float64: no step may take the power of a score.
    s = [[1000, 1000, -1000], [-1000, -1000, -1000], [-1000, 1000, 0]]
    v = [[1, 0], [3, 0], [8, 4]]
    expected = [[2, 0], [4, 4 / 3], [3, 0]], [1000 + LN2, -1000 + LN3, 1000]
    for name, way in WAYS.items():
        # An LSE near 1000 is rounded by 1000 times more than a weight, and goes into weights.
        roundings = 4000 if name == "merge_outputs" else 8
        for size in (1, 2, 3):
            assert_same(way(tiles(*arrays(dtype, s, v), size)), expected, dtype, roundings)


# ---- what the docstrings promise ----


@state_dtypes
@pytest.mark.parametrize("rows", [0, 1, 5])
def test_a_block_that_shows_nothing_changes_nothing(rows, dtype):
    seed = 21
    s, v = draw_scores(seed, rows, 6, 3, dtype)
    s = 500 * s - 500
    state = online_softmax.update(*empty_state(rows, 3, dtype), s, v)
    m_i, l_i, acc = state
    o = acc / l_i[:, np.newaxis]
    for keys in (0, 1, 4):
        hidden = np.full((rows, keys), -np.inf, dtype), np.ones((keys, 3), dtype)
        for start in (state, empty_state(rows, 3, dtype)):
            after = strictly(online_softmax.update, *start, *hidden)
            assert all(map(np.array_equal, after, start)), f"seed {seed}, {keys} hidden keys"
        after = strictly(online_softmax.update_normalised, m_i, l_i, o, *hidden)
        assert np.array_equal(after[0], m_i) and np.array_equal(after[1], l_i)
        assert np.allclose(after[2], o, rtol=4 * np.finfo(dtype).eps, atol=0), f"seed {seed}"


@state_dtypes
@pytest.mark.parametrize("shape", [(), (1,), (3,), (2, 3), (2, 1, 2), (0,), (2, 0, 3)])
def test_merges_take_any_leading_axes(shape, dtype):
    rows, head_dim = math.prod(shape), 4
    flat, parts = [], []
    for seed in (22, 23, 24):
        state = online_softmax.update(
            *empty_state(rows, head_dim, dtype), *draw_scores(seed, rows, 5, head_dim, dtype)
        )
        flat.append(state)
        m_i, l_i, acc = state
        parts.append((m_i.reshape(shape), l_i.reshape(shape), acc.reshape(*shape, head_dim)))
    merge, finish, merge_outputs = (
        getattr(online_softmax, name) for name in ("merge", "finish", "merge_outputs")
    )
    # What a merge returns, the next one takes, even if it is a single row.
    together = strictly(merge, strictly(merge, parts[0], parts[1]), parts[2])
    expected = merge(merge(flat[0], flat[1]), flat[2])
    outputs = strictly(finish, *together)
    merged_outputs = strictly(merge_outputs, *finish(*parts[0]), *finish(*parts[1]))
    merged_outputs = strictly(merge_outputs, *merged_outputs, *finish(*parts[2]))
    for got, right in zip(together, expected, strict=True):
        assert got.shape == shape + right.shape[1:] and got.dtype == dtype
        assert np.array_equal(got.ravel(), right.ravel()), "seeds 22 to 24"
    for got, once_more, right in zip(outputs, merged_outputs, finish(*expected), strict=True):
        assert got.shape == once_more.shape == shape + right.shape[1:]
        assert got.dtype == once_more.dtype == dtype
        assert np.array_equal(got.ravel(), right.ravel()), "seeds 22 to 24"
        assert np.allclose(once_more.ravel(), right.ravel(), rtol=1e-5, atol=1e-6), "seeds 22 to 24"


@all_dtypes
def test_results_of_attend_row_merge_as_they_are(dtype):
    q, k, v = draw_row(25, 10, 8, dtype)
    wide = np.promote_types(q.dtype, np.float32)
    parts = []
    for keys in (slice(0, 4), slice(4, None)):
        o, lse = attend(q, [(k[keys], v[keys])])
        parts += [o.astype(wide), lse]
    o, lse = strictly(online_softmax.merge_outputs, *parts)
    expected, expected_lse = oracle(*(x[np.newaxis, np.newaxis] for x in (q[None], k, v)))
    assert_close(o.astype(q.dtype)[np.newaxis], expected[0, 0], dtype, "seed 25")
    assert_lse_close(np.array([lse]), expected_lse[0, 0], dtype, "seed 25")


@state_dtypes
def test_results_are_new_arrays(dtype):
    s, v = draw_scores(26, 3, 4, 2, dtype)
    empty = empty_state(3, 2, dtype)
    nothing = s[:, :0], v[:0]
    state = online_softmax.update(*empty, s, v)
    # Each of these changes nothing, where handing an argument back would be tempting.
    results = {
        "update": (online_softmax.update(*state, *nothing), (*state, *nothing)),
        "update_normalised": (
            online_softmax.update_normalised(*state, *nothing),
            (*state, *nothing),
        ),
        "merge": (online_softmax.merge(state, empty), (*state, *empty)),
        "merge with nothing": (online_softmax.merge(empty, state), (*state, *empty)),
        "finish": (online_softmax.finish(*empty), empty),
        "merge_outputs": (
            online_softmax.merge_outputs(state[2], state[0], empty[2], empty[0]),
            (*state, *empty),
        ),
    }
    for name, (got, taken) in results.items():
        shared = [np.shares_memory(x, y) for x in got for y in taken]
        assert not any(shared), f"{name} handed one of its arguments back"


@state_dtypes
def test_arrays_that_cannot_be_written_to_and_strides(dtype):
    s, v = draw_scores(27, 3, 5, 4, dtype)
    m_i, l_i, acc = online_softmax.update(
        *empty_state(3, 4, dtype), *draw_scores(28, 3, 2, 4, dtype)
    )
    plain = (m_i, l_i, acc, s, v)
    strided = [np.repeat(x, 2, axis=-1)[..., ::2] for x in plain]
    reversed_keys = (m_i, l_i, acc, s[:, ::-1].copy()[:, ::-1], v[::-1].copy()[::-1])
    columns_first = (m_i, l_i, np.asfortranarray(acc), np.asfortranarray(s), np.asfortranarray(v))
    for step in (online_softmax.update, online_softmax.update_normalised):
        expected = step(*plain)
        for odd in (strided, reversed_keys, columns_first):
            for x in odd:
                x.flags.writeable = False
            got = strictly(step, *odd)
            for x, y in zip(got, expected, strict=True):
                assert np.allclose(x, y, rtol=1e-5, atol=1e-6), "seeds 27, 28"


# Where a NaN goes in, and the rows (of two) that it must reach.
NANS = [("m_i", 0, [0]), ("l_i", 1, [1]), ("output", 0, [0]), ("s", 1, [1]), ("v", 2, [0, 1])]


@state_dtypes
@pytest.mark.parametrize(("name", "where", "rows"), NANS, ids=[row[0] for row in NANS])
@pytest.mark.parametrize("step", ["update", "update_normalised"])
def test_a_nan_stays_visible(step, name, where, rows, dtype):
    step = getattr(online_softmax, step)
    s, v = draw_scores(29, 2, 4, 3, dtype)
    m_i, l_i, output = step(*empty_state(2, 3, dtype), *draw_scores(30, 2, 3, 3, dtype))
    state = {"m_i": m_i, "l_i": l_i, "output": output, "s": s, "v": v}
    state[name][where] = np.nan
    later = strictly(step, *state.values())
    for _ in range(2):
        later = strictly(step, *later, *draw_scores(31, 2, 2, 3, dtype))
    o, lse = strictly(online_softmax.finish, *later)
    bad = np.isnan(o).all(axis=1) | np.isnan(lse)
    assert np.flatnonzero(bad).tolist() == rows, f"{name} NaN: o {o}, lse {lse}"
    assert np.isfinite(np.delete(o, rows, axis=0)).all()
    assert np.isfinite(np.delete(lse, rows)).all()


@state_dtypes
@pytest.mark.parametrize("part", [0, 1, 2])
@pytest.mark.parametrize("side", ["a", "b"])
def test_a_nan_stays_visible_in_a_merge(side, part, dtype):
    a = online_softmax.update(*empty_state(2, 3, dtype), *draw_scores(32, 2, 3, 3, dtype))
    b = online_softmax.update(*empty_state(2, 3, dtype), *draw_scores(33, 2, 3, 3, dtype))
    {"a": a, "b": b}[side][part][0] = np.nan
    o, lse = strictly(online_softmax.finish, *strictly(online_softmax.merge, a, b))
    assert np.isnan(o[0]).all() or np.isnan(lse[0]), "a NaN got lost"
    assert np.isfinite(o[1]).all() and np.isfinite(lse[1])


@state_dtypes
@pytest.mark.parametrize("part", [0, 1, 2, 3])
def test_a_nan_stays_visible_in_merge_outputs(part, dtype):
    outputs = [draw_scores(seed, 2, 3, 1, dtype)[0] for seed in (34, 35)]
    parts = [outputs[0], np.zeros(2, dtype), outputs[1], np.zeros(2, dtype)]
    parts[part][0] = np.nan
    o, lse = strictly(online_softmax.merge_outputs, *parts)
    assert np.isnan(o[0]).all(), f"a NaN in part {part} got lost"
    assert np.isfinite(o[1]).all() and np.isfinite(lse[1])


@all_dtypes
@pytest.mark.parametrize("name", ["q", "k", "v"])
def test_a_nan_stays_visible_in_attend_row(name, dtype):
    q, k, v = draw_row(36, 6, 4, dtype)
    {"q": q, "k": k, "v": v}[name][1] = np.nan
    o, lse = attend(q, stream(k, v, 2))
    assert np.isnan(o).all()
    assert np.isnan(lse) == (name != "v")


def test_a_long_row_is_never_in_memory():
    # 400 blocks of 128 keys through one buffer: the keys alone would be 3 MB, the scores 200 kB.
    q, k, v = draw_row(37, 128, 16, "float32")
    attend(q, [(k, v)])  # a first call loads what only it needs
    blocks = ((k, v) for _ in range(400))
    tracemalloc.start()
    try:
        attend(q, blocks)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 100_000, f"a peak of {peak} bytes"


# ---- G1: odd shapes ----


@all_dtypes
@pytest.mark.parametrize("length", [1, 2, 7, 8, 9, 15, 17, 63, 65, 127, 129, 200])
def test_g1_01_any_length(length, dtype):
    q, k, v = draw_row(101, length, 128, dtype)
    for size in (7, 16, 64, 256):
        check_row(q, k, v, size, dtype, "seed 101", scale=0.5)


@every_way
@state_dtypes
@pytest.mark.parametrize("length", [1, 7, 8, 9, 17])
def test_g1_01_any_length_of_a_state(length, dtype, way):
    s, v = draw_scores(102, 3, length, 4, dtype)
    for size in (1, 2, 8, 64):
        check(way, tiles(s, v, size), f"seed 102, {length} keys in blocks of {size}")


@all_dtypes
@pytest.mark.parametrize("k_len", [1, 2, 3, 15, 20, 127, 129, 1000])
def test_g1_02_one_query_row(k_len, dtype):
    check_row(*draw_row(103, k_len, 128, dtype), 64, dtype, "seed 103")


# Which of 5 keys each of 3 queries sees: the last query stands at the last key. Written by hand.
MASK_3_BY_5 = np.array(
    [
        [1, 1, 1, 0, 0],
        [1, 1, 1, 1, 0],
        [1, 1, 1, 1, 1],
    ]
)


@every_way
@state_dtypes
@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_g1_03_mask_written_by_hand(size, dtype, way):
    # Equal scores, and each key's value is its own unit vector: the output is the weights.
    s = np.where(MASK_3_BY_5 == 1, 2, -np.inf).astype(dtype)
    o, lse = way(tiles(s, np.eye(5, dtype=dtype), size))
    counts = MASK_3_BY_5.sum(axis=1, keepdims=True)
    assert_close(o, MASK_3_BY_5 / counts, dtype, f"blocks of {size}")
    assert_lse_close(lse, 2 + np.log(counts[:, 0]), dtype, f"blocks of {size}")
    assert np.array_equal(o > 0, MASK_3_BY_5 == 1)


@all_dtypes
@pytest.mark.parametrize("head_dim", [64, 128, 256])
def test_g1_05_every_column_counts(head_dim, dtype):
    q, k, v = draw_row(105, 20, head_dim, dtype)
    for x in (q, k, v):
        x[..., : head_dim // 2] = 0
    o, _ = check_row(q, k, v, 8, dtype, "seed 105, signal in the last half")
    assert np.all(o[head_dim // 2 :] != 0), "a column of the last half was not written"


@all_dtypes
@pytest.mark.parametrize("head_dim", [1, 2, 3, 31, 63, 80, 96, 160])
def test_g1_06_any_head_dim(head_dim, dtype):
    check_row(*draw_row(106, 20, head_dim, dtype), 8, dtype, "seed 106")


@all_dtypes
@pytest.mark.parametrize("count", [0, 1, 3])
def test_g1_08_no_keys(count, dtype):
    # No block at all, and blocks with no key in them.
    q, k, v = draw_row(107, 0, 64, dtype)
    for blocks in ([(k, v)] * count, iter([(k, v)] * count)):
        o, lse = attend(q, blocks)
        assert np.all(o == 0)
        assert lse == -np.inf


@every_way
@state_dtypes
def test_g1_08_no_keys_in_a_state(dtype, way):
    s, v = draw_scores(108, 3, 0, 4, dtype)
    for count in (1, 3):
        o, lse = way([(s, v)] * count)
        assert o.shape == (3, 4) and np.all(o == 0)
        assert np.all(lse == -np.inf)


def test_g1_12_unknown_arguments_are_refused():
    q, k, v = draw_row(109, 5, 4, "float32")
    mask = np.arange(5) < 3
    with pytest.raises(TypeError, match="attn_mask"):
        online_softmax.attend_row(q, [(k, v)], attn_mask=mask)
    with pytest.raises(TypeError, match="positional"):
        online_softmax.attend_row(q, [(k, v)], mask)
    with pytest.raises(TypeError, match="mask"):
        online_softmax.update(*empty_state(1, 4, "float32"), q[np.newaxis], v[:4], mask=mask)


# ---- G2: NaN and infinity ----


@every_way
@state_dtypes
@pytest.mark.parametrize("size", [1, 4, 10])
def test_g2_01_rows_that_see_no_key(size, dtype, way):
    s, v = draw_scores(201, 6, 10, 8, dtype)
    s[[0, 5]] = -np.inf
    o, lse = check(way, tiles(s, v, size), f"seed 201, blocks of {size}")
    assert np.all(o[[0, 5]] == 0) and np.all(lse[[0, 5]] == -np.inf)
    assert np.all(o[1:5] != 0)


# In float32 exp(-200) is 0 already, in float64 exp(-1000) is.
FAR_BELOW = [("float32", -250), ("float64", -250), ("float64", -2000)]


@every_way
@pytest.mark.parametrize(("dtype", "level"), FAR_BELOW)
@pytest.mark.parametrize("hidden", [0, 1, 3, 8])
def test_g2_02_hidden_first_block_then_scores_far_below_zero(hidden, dtype, level, way):
    # A 0 kept as the largest score so far gives them all the weight exp(level) = 0.
    s, v = draw_scores(202, 4, 22, 8, dtype)
    s += np.array(level, dtype)
    assert s.max() < -200
    s[:, :hidden] = -np.inf
    what = f"seed 202, {hidden} hidden keys, then scores near {level}"
    o, _ = check(way, cut(s, v, hidden, hidden + 5), what)
    assert np.all(o != 0), what
    # The other way round: hidden last.
    check(way, cut(s[:, ::-1], v[::-1], 22 - hidden), f"{what}, reversed")


@pytest.mark.parametrize(("dtype", "level"), FAR_BELOW)
def test_g2_02_merges_of_states_without_a_key(dtype, level):
    s, v = draw_scores(203, 4, 7, 8, dtype)
    s += np.array(level, dtype)
    empty = empty_state(4, 8, dtype)
    nothing = strictly(online_softmax.merge, empty, empty)
    assert all(map(np.array_equal, nothing, empty)), "a merge of nothing is not nothing"
    state = strictly(online_softmax.update, *empty, s, v)
    for merged in (online_softmax.merge(nothing, state), online_softmax.merge(state, nothing)):
        assert_state_close(merged, s, v, f"seed 203, scores near {level}")
    assert_state_close(online_softmax.update(*nothing, s, v), s, v, f"seed 203, near {level}")

    o, lse = online_softmax.finish(*empty)
    no_output = strictly(online_softmax.merge_outputs, o, lse, o, lse)
    assert np.all(no_output[0] == 0) and np.all(no_output[1] == -np.inf)
    part = online_softmax.finish(*state)
    merged = strictly(online_softmax.merge_outputs, *no_output, *part)
    assert all(map(np.array_equal, merged, part)), f"seed 203, scores near {level}"


@all_dtypes
def test_g2_02_attend_row_with_scores_far_below_zero(dtype):
    q, k, v = draw_row(204, 22, 16, dtype)
    q[...] = -np.abs(q) - 1
    k[...] = np.abs(k) + 1
    scores = k.astype(float) @ q.astype(float)
    scale = 250 / -scores.max()
    assert (scale * scores).max() < -200
    expected, expected_lse = oracle(
        *(x[np.newaxis, np.newaxis] for x in (q[None], k, v)), scale=scale
    )
    # attend_row hides no key: its first block shows nothing because it is empty.
    for size in (1, 8, 22):
        o, lse = attend(q, [(k[:0], v[:0]), *stream(k, v, size)], scale=scale)
        what = f"seed 204, an empty block, then blocks of {size}"
        assert_close(o[np.newaxis], expected[0, 0], dtype, what)
        assert_lse_close(np.array([lse]), expected_lse[0, 0], dtype, what)


@every_way
@state_dtypes
@pytest.mark.parametrize("window", [1, 16, 64])
def test_g2_04_keys_of_whole_tiles_hidden(window, dtype, way):
    # Most tiles of 64 keys lie wholly outside most rows' windows, before them and behind.
    s, v = draw_scores(205, 256, 256, 4, dtype)
    i, j = np.ogrid[:256, :256]
    s[(j > i) | (j <= i - window)] = -np.inf
    blocks = tiles(s, v, 64)
    check(way, blocks, f"seed 205, window {window}")
    check(way, blocks[::-1], f"seed 205, window {window}, from right to left")


@every_way
@state_dtypes
@pytest.mark.parametrize(("q_len", "k_len"), [(64, 31), (5, 1)])
def test_g2_06_lse_of_rows_that_see_no_key(q_len, k_len, dtype, way):
    s, v = draw_scores(206, q_len, k_len, 16, dtype)
    v[...] = 1
    i, j = np.ogrid[:q_len, :k_len]
    s[j > i + k_len - q_len] = -np.inf
    o, lse = check(way, tiles(s, v, 8), "seed 206, v all ones")
    blind = q_len - k_len
    assert np.all(lse[:blind] == -np.inf) and np.all(o[:blind] == 0)
    assert np.all(np.isfinite(lse[blind:]))

    # A merge ignores such a row: the other part comes back as it was, to the bit.
    part = way([draw_scores(207, q_len, 3, 16, dtype)])
    for pair in ((o, lse, *part), (*part, o, lse)):
        merged = strictly(online_softmax.merge_outputs, *pair)
        for got, right in zip(merged, part, strict=True):
            assert np.array_equal(got[:blind], right[:blind]), "seeds 206, 207"
            assert not np.any(got[blind:] == right[blind:]), "a row that sees keys was ignored"


@pytest.mark.parametrize(
    ("dtype", "value"),
    [("bfloat16", 133120), ("float32", 133120), ("float16", 65504), ("float64", 1e150)],
)
@pytest.mark.parametrize("k_len", [1, 4])
def test_g2_08_very_large_inputs(k_len, dtype, value):
    # Scores of 1e12 and more. All are equal, so the output is the value itself.
    x = np.full((k_len, 64), value, dtype_called(dtype))
    for size in (1, 3, 4):
        o, _ = attend(x[0], stream(x, x, size))
        assert np.all(o == x[0, 0]), f"blocks of {size}: {o.min()} to {o.max()}"


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("size", [1, 64, 4096])
def test_g2_11_long_flat_rows(size, dtype):
    # A sum kept in float16 sticks at 2048, one in bfloat16 at 256: 2048 + 1 rounds to 2048. With
    # 64 keys at a time it does not stick there, so the blocks of a single key are needed.
    q, k, v = draw_row(208, 4096, 16, dtype)
    k[...] = k[0]
    v[...] = 1
    o, lse = attend(q, stream(k, v, size))
    assert np.all(o == 1), f"seed 208: {o.min()} to {o.max()}, expected 1"
    score = k[0].astype(float) @ q.astype(float) / 4
    assert abs(lse - score - math.log(4096)) < 1e-5, "seed 208"


@all_dtypes
def test_g2_11_long_random_rows(dtype):
    check_row(*draw_row(209, 8192, 16, dtype), 128, dtype, "seed 209")


@all_dtypes
@pytest.mark.parametrize("size", [1, 64, 130])
def test_g2_12_slices_with_nan_around_them(size, dtype):
    q, *kv = draw_row(210, 130, 16, dtype)
    slices = []
    for x in (q[np.newaxis], *kv):
        around = np.full((2 * len(x) + 2, 48), np.nan, x.dtype)
        around[1::2, 16:32][: len(x)] = x
        slices.append(around[1::2, 16:32][: len(x)])
    q, k, v = slices
    check_row(q[0], k, v, size, dtype, "seed 210, NaN around q, k and v")


# ---- G5: scale, dtype, empty, LSE ----


@all_dtypes
@pytest.mark.parametrize(
    "scale", [None, 0.0, 0, -0.0, 1 / math.sqrt(2), 1, -1.5, np.float32(0.5), np.float64(0.3), 40]
)
def test_g5_01_scale(scale, dtype):
    x = np.linspace(0.1, 1.2, 12).reshape(6, 2).astype(dtype_called(dtype))
    q, k, v = x[0], x[:3], x[3:]
    o, lse = check_row(q, k, v, 2, dtype, "values 0.1 to 1.2", scale=scale)
    assert lse.dtype == np.promote_types(q.dtype, np.float32)
    if scale is None:
        explicit = attend(q, stream(k, v, 2), scale=1 / math.sqrt(2))
        assert np.array_equal(o, explicit[0]) and lse == explicit[1]
    elif scale == 0:
        mean = v.astype(float).mean(axis=0, keepdims=True)
        assert_close(o[np.newaxis], mean, dtype, "mean of the values")
        assert abs(lse - LN3) < 1e-6


@all_dtypes
def test_g5_01_default_scale_follows_head_dim(dtype):
    # A head_dim of 64 makes the default 1/8: powers of two, so the results agree to the bit.
    q, k, v = draw_row(502, 7, 64, dtype)
    default = attend(q, stream(k, v, 3))
    explicit = attend(q, stream(k, v, 3), scale=0.125)
    assert np.array_equal(default[0], explicit[0]) and default[1] == explicit[1]


# What no state may be made of, and a dtype to mix in. test_online_arguments.py has the messages.
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "int32", "int64", "bool", "complex64"])
def test_g5_03_dtypes_that_no_state_takes(dtype):
    kind = dtype_called(dtype)
    m_i, l_i, acc, s, v = (
        x.astype(kind) for x in (*np.ones((2, 2)), *np.ones((2, 2, 3)), np.ones((3, 3)))
    )
    words = f"must be a numpy.ndarray of float32 or float64, got dtype {dtype}$"
    for function, args in {
        online_softmax.update: (m_i, l_i, acc, s, v),
        online_softmax.update_normalised: (m_i, l_i, acc, s, v),
        online_softmax.merge: ((m_i, l_i, acc), (m_i, l_i, acc)),
        online_softmax.finish: (m_i, l_i, acc),
        online_softmax.merge_outputs: (acc, m_i, acc, m_i),
    }.items():
        with pytest.raises(TypeError, match=words):
            function(*args)


OTHERS = {"float16": "float32", "bfloat16": "float16", "float32": "float64", "float64": "float16"}


@all_dtypes
@pytest.mark.parametrize("odd_one", ["q", "k", "v"])
def test_g5_03_mixed_dtypes(odd_one, dtype):
    other = OTHERS[dtype]
    parts = dict(zip("qkv", draw_row(503, 4, 8, dtype), strict=True))
    parts[odd_one] = parts[odd_one].astype(other)
    q, k, v = parts.values()
    named = "q" if odd_one == "q" else f"{odd_one} of block 0"
    with pytest.raises(TypeError, match=f"same dtype.*{named} {other}"):
        online_softmax.attend_row(q, [(k, v)])


@all_dtypes
def test_g5_05_empty_axes_of_a_row(dtype):
    # Blocks without a key between others: the result is that without them, to the bit.
    q, k, v = draw_row(505, 9, 16, dtype)
    none = k[:0], v[:0]
    first, second = (k[:5], v[:5]), (k[5:], v[5:])
    plain = attend(q, [first, second])
    for blocks in ([none, first, second], [first, none, none, second], [first, second, none]):
        o, lse = attend(q, blocks)
        assert np.array_equal(o, plain[0]) and lse == plain[1], "seed 505"


@every_way
@state_dtypes
@pytest.mark.parametrize(("rows", "keys"), [(0, 5), (0, 0), (3, 0)])
def test_g5_05_empty_axes_of_a_state(rows, keys, dtype, way):
    blocks = [draw_scores(506, rows, keys, 4, dtype)] * 2
    o, lse = way(blocks)
    assert (o.shape, o.dtype) == ((rows, 4), dtype)
    assert (lse.shape, lse.dtype) == ((rows,), dtype)


def test_g5_06_float32_is_not_tf32():
    # The bound for float32 lies far below the 5e-4 of one operand rounded to TF32's 10 bits.
    q, k, v = draw_row(507, 40, 64, "float32")
    check_row(q, k, v, 16, "float32", "seed 507")
    rounded = q.astype(np.float16).astype(np.float32)
    with pytest.raises(AssertionError, match=r"relative L2 error|LSE off"):
        expected, _ = oracle(*(x[np.newaxis, np.newaxis] for x in (q[None], k, v)))
        o, _ = attend(rounded, stream(k, v, 16))
        assert_close(o[np.newaxis], expected[0, 0], "float32", "rounded")


@every_way
@state_dtypes
@pytest.mark.parametrize(("keys", "split"), [(3136, 3072), (20, 1), (20, 0), (7, 7)])
def test_g5_10_two_parts_merge_to_one_pass(keys, split, dtype, way):
    s, v = draw_scores(508, 2, keys, 4, dtype)
    o, lse = check(way, cut(s, v, split), f"seed 508, {keys} keys split at {split}")
    one_o, one_lse = by_update([(s, v)])
    assert_close(o, one_o.astype(float), dtype, "one pass")
    assert_lse_close(lse, one_lse.astype(float), dtype, "one pass")


@all_dtypes
def test_g5_10_a_cached_prefix_and_new_keys(dtype):
    # 3072 keys, then 64 more, each part attended to by itself and merged by its LSE.
    q, k, v = draw_row(509, 3136, 16, dtype)
    wide = np.promote_types(q.dtype, np.float32)
    parts = []
    for keys in (slice(None, 3072), slice(3072, None)):
        o, lse = attend(q, stream(k[keys], v[keys], 256))
        parts += [o.astype(wide), lse]
    merged = strictly(online_softmax.merge_outputs, *parts)
    expected, expected_lse = oracle(*(x[np.newaxis, np.newaxis] for x in (q[None], k, v)))
    for o, lse in (merged, attend(q, stream(k, v, 256))):
        assert_close(o.astype(q.dtype)[np.newaxis], expected[0, 0], dtype, "seed 509")
        assert_lse_close(np.array([lse]), expected_lse[0, 0], dtype, "seed 509")
    # In base 2 the weights would be 2^lse: this input tells the two apart.
    share = 1 / (1 + 2 ** (float(parts[3]) - float(parts[1])))
    base_2 = share * parts[0] + (1 - share) * parts[2]
    with pytest.raises(AssertionError, match="relative L2 error"):
        assert_close(base_2.astype(q.dtype)[np.newaxis], expected[0, 0], dtype, "base 2")


@state_dtypes
def test_g5_10_lse_is_the_natural_logarithm(dtype):
    # Four keys with a score of 0: exp gives 4, and log 4 is not log2 4 = 2.
    state = online_softmax.update(
        *empty_state(1, 1, dtype), np.zeros((1, 4), dtype), np.zeros((4, 1), dtype)
    )
    tolerance = 4 * np.finfo(dtype).eps
    assert abs(strictly(online_softmax.finish, *state)[1][0] - LN4) < tolerance
    one_key = np.zeros((1, 1), dtype)
    lse = attend(one_key[0], [(one_key, one_key)] * 4)[1]
    assert abs(lse - LN4) < tolerance
