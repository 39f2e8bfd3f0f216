"""What holds for every row and every way of cutting it, tried on inputs that hypothesis chooses.

hypothesis prints the arguments of a failing example, the seed of its numbers among them.
"""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from kernels import naive, online_softmax
from kernels.tests.oracle import BOUNDS, assert_close, assert_lse_close, draw, strictly
from kernels.tests.test_online_cases import (
    assert_state_close,
    attend,
    cut,
    empty_state,
    oracle_output,
    oracle_state,
)

# Derandomized: the same examples each time, so that a red test stays red until it is mended.
EVERYWHERE = settings(max_examples=60, deadline=None, derandomize=True, database=None)
HEAD_DIM = 3

seeds = st.integers(0, 2**32 - 1)
rows_of_a_block = st.integers(0, 4)
counts = st.integers(0, 24)
# Shares of the keys before each cut. Two that are equal have an empty block between them.
cuts = st.lists(st.integers(0, 8).map(lambda eighths: eighths / 8), max_size=6)
dtypes = st.sampled_from(["float32", "float64"])
# How far apart the scores of a row are: the levels that each key's score lies around.
levels = st.sampled_from([(0,), (-1000, 1000), (-1000, 0, 1000), (-30, 0, 30), (-2000, -1000)])
# The share of hidden keys, each row by itself, and of hidden blocks, in all rows at once.
shares = st.sampled_from([0, 0.3, 0.8, 1])


def draw_scores(seed, rows, keys, dtype, around=(0,), hidden=0.0):
    """s (rows, keys) and v (keys, HEAD_DIM)."""
    rng = np.random.default_rng(seed)
    s = rng.standard_normal((rows, keys)) + rng.choice(around, (rows, keys))
    s[rng.random(s.shape) < hidden] = -np.inf
    return s.astype(dtype), rng.standard_normal((keys, HEAD_DIM)).astype(dtype)


def cut_at(s, v, shares_before):
    return cut(s, v, *sorted(round(share * len(v)) for share in shares_before))


def hide_blocks(seed, blocks, share):
    """Some of the blocks hidden from all rows. Returns the scores too, in one piece."""
    rng = np.random.default_rng(seed + 1)
    blocks = [(np.full_like(s, -np.inf) if rng.random() < share else s, v) for s, v in blocks]
    return blocks, np.hstack([s for s, _ in blocks])


def updated(blocks, step=online_softmax.update):
    s, v = blocks[0]
    state = empty_state(len(s), v.shape[1], s.dtype)
    for block in blocks:
        state = strictly(step, *state, *block)
    return state


def states_of(blocks):
    """The state of each block by itself."""
    return [updated([block]) for block in blocks]


def assert_same_state(state, expected, what, roundings=200):
    """Two states, each from some steps: the maximum exactly, the rest up to rounding."""
    assert np.array_equal(state[0], expected[0]), f"{what}: m_i {state[0]}, {expected[0]}"
    bound = roundings * np.finfo(state[0].dtype).eps
    # The values are normal: acc is of the size of l_i or smaller, but may cancel.
    for got, right, size in (
        (state[1], expected[1], expected[1]),
        (state[2], expected[2], expected[1][:, np.newaxis]),
    ):
        error = np.abs(got - right)
        assert np.all(error <= bound * size), f"{what}: off by up to {error.max()}"


@EVERYWHERE
@given(
    seed=seeds,
    rows=rows_of_a_block,
    keys=counts,
    cuts=cuts,
    around=levels,
    hidden=shares,
    hidden_blocks=shares,
    dtype=dtypes,
)
def test_any_cut_gives_the_state_of_the_whole_row(
    seed, rows, keys, cuts, around, hidden, hidden_blocks, dtype
):
    s, v = draw_scores(seed, rows, keys, dtype, around, hidden)
    blocks, s = hide_blocks(seed, cut_at(s, v, cuts), hidden_blocks)
    state, seen = empty_state(rows, HEAD_DIM, dtype), 0
    for number, block in enumerate(blocks):
        state = strictly(online_softmax.update, *state, *block)
        seen += len(block[1])
        assert_state_close(state, s[:, :seen], v[:seen], f"after block {number}")
    o, lse = strictly(online_softmax.finish, *state)
    expected, expected_lse = oracle_output(s, v)
    assert np.all(np.isfinite(o))
    assert np.all(np.abs(o - expected) <= BOUNDS[dtype][0] * oracle_output(s, np.abs(v))[0])
    assert_lse_close(lse, expected_lse, dtype, "finish")


@EVERYWHERE
@given(
    seed=seeds,
    rows=st.integers(1, 4),
    keys=counts,
    cuts=cuts,
    causal=st.booleans(),
    scale=st.sampled_from([None, 0.0, 1.5, 40]),
    dtype=dtypes,
)
def test_any_cut_gives_naive_attention(seed, rows, keys, cuts, causal, scale, dtype):
    q, k, v = draw(seed, (1, 1, rows, 8), (1, 1, keys, 8), dtype)
    s = naive.masked_scores(q, k, causal, scale, None)[0, 0]
    o, lse = strictly(online_softmax.finish, *updated(cut_at(s, v[0, 0], cuts)))
    options = {"causal": causal, "scale": scale}
    expected = strictly(naive.attention, q, k, v, **options)[0, 0]
    assert_close(o, expected.astype(float), dtype, "attention")
    expected_lse = strictly(naive.attention_lse, q, k, **options)[0, 0]
    assert_lse_close(lse, expected_lse.astype(float), dtype, "attention_lse")


@EVERYWHERE
@given(
    seed=seeds,
    keys=counts,
    cuts=cuts,
    scale=st.sampled_from([None, 0.0, -1.5, 40]),
    dtype=st.sampled_from(["float16", "float32", "float64"]),
)
def test_any_blocks_of_attend_row_give_naive_attention(seed, keys, cuts, scale, dtype):
    q, k, v = draw(seed, (1, 1, 1, 8), (1, 1, keys, 8), dtype)
    o, lse = attend(q[0, 0, 0], iter(cut_pairs(k[0, 0], v[0, 0], cuts)), scale=scale)
    expected = strictly(naive.attention, q, k, v, scale=scale)[0, 0]
    assert_close(o[np.newaxis], expected.astype(float), dtype, "attention")
    expected_lse = strictly(naive.attention_lse, q, k, scale=scale)[0, 0]
    assert_lse_close(np.array([lse]), expected_lse.astype(float), dtype, "attention_lse")


def cut_pairs(k, v, shares_before):
    """The blocks (k, v): the keys stand where `cut_at` expects the columns of scores."""
    return [(k_block.T, v_block) for k_block, v_block in cut_at(k.T, v, shares_before)]


@EVERYWHERE
@given(
    seed=seeds,
    rows=rows_of_a_block,
    keys=counts,
    cuts=cuts,
    around=levels,
    hidden=shares,
    dtype=dtypes,
)
def test_merging_in_any_order_is_one_pass(seed, rows, keys, cuts, around, hidden, dtype):
    # Commutative and associative: any two that are left, in any order, until one is left.
    s, v = draw_scores(seed, rows, keys, dtype, around, hidden)
    states = states_of(cut_at(s, v, cuts))
    rng = np.random.default_rng(seed)
    while len(states) > 1:
        a, b = (states.pop(rng.integers(len(states))) for _ in range(2))
        states.append(strictly(online_softmax.merge, a, b))
    assert_state_close(states[0], s, v, "a tree of merges")


@EVERYWHERE
@given(seed=seeds, rows=rows_of_a_block, around=levels, hidden=shares, dtype=dtypes)
def test_merge_is_commutative_and_associative(seed, rows, around, hidden, dtype):
    s, v = draw_scores(seed, rows, 15, dtype, around, hidden)
    a, b, c = states_of(cut(s, v, 4, 10))
    merge = online_softmax.merge
    assert_same_state(strictly(merge, a, b), strictly(merge, b, a), "a, b and b, a")
    left, right = merge(strictly(merge, a, b), c), merge(a, strictly(merge, b, c))
    assert_same_state(left, right, "(a b) c and a (b c)")


@EVERYWHERE
@given(
    seed=seeds,
    rows=rows_of_a_block,
    keys=counts,
    around=levels,
    hidden=shares,
    dtype=dtypes,
)
def test_the_state_of_no_key_is_neutral(seed, rows, keys, around, hidden, dtype):
    s, v = draw_scores(seed, rows, keys, dtype, around, hidden)
    state, empty = updated([(s, v)]), empty_state(rows, HEAD_DIM, dtype)
    for pair in ((state, empty), (empty, state)):
        merged = strictly(online_softmax.merge, *pair)
        assert all(map(np.array_equal, merged, state)), "not exactly the state itself"
    o, lse = online_softmax.finish(*state)
    nothing = online_softmax.finish(*empty)
    for pair in ((o, lse, *nothing), (*nothing, o, lse)):
        merged = strictly(online_softmax.merge_outputs, *pair)
        assert all(map(np.array_equal, merged, (o, lse))), "not exactly the output itself"


@EVERYWHERE
@given(
    seed=seeds,
    rows=rows_of_a_block,
    keys=counts,
    new_keys=counts,
    around=levels,
    hidden=shares,
    dtype=dtypes,
)
def test_an_update_is_a_merge_with_a_state_of_one_block(
    seed, rows, keys, new_keys, around, hidden, dtype
):
    s, v = draw_scores(seed, rows, keys + new_keys, dtype, around, hidden)
    before, block = cut(s, v, keys)
    state = updated([before])
    merged = strictly(online_softmax.merge, state, updated([block]))
    assert_same_state(strictly(online_softmax.update, *state, *block), merged, "update and merge")


@EVERYWHERE
@given(
    seed=seeds,
    rows=rows_of_a_block,
    keys=counts,
    cuts=cuts,
    around=levels,
    hidden=shares,
    hidden_blocks=shares,
    dtype=dtypes,
)
def test_dividing_in_every_step_is_dividing_at_the_end(
    seed, rows, keys, cuts, around, hidden, hidden_blocks, dtype
):
    s, v = draw_scores(seed, rows, keys, dtype, around, hidden)
    blocks, _ = hide_blocks(seed, cut_at(s, v, cuts), hidden_blocks)
    state = normalised = empty_state(rows, HEAD_DIM, dtype)
    for number, block in enumerate(blocks):
        state = strictly(online_softmax.update, *state, *block)
        normalised = strictly(online_softmax.update_normalised, *normalised, *block)
        m_i, l_i, o = normalised
        assert_same_state((m_i, l_i, o * l_i[:, np.newaxis]), state, f"after block {number}")
        expected, _ = strictly(online_softmax.finish, *state)
        assert np.allclose(o, expected, rtol=0, atol=200 * np.finfo(dtype).eps)


@EVERYWHERE
@given(
    seed=seeds,
    rows=rows_of_a_block,
    keys=counts,
    cuts=cuts,
    around=levels,
    hidden=shares,
    hidden_blocks=shares,
    dtype=dtypes,
    step=st.sampled_from(["update", "update_normalised"]),
)
def test_the_order_of_the_blocks_does_not_matter(
    seed, rows, keys, cuts, around, hidden, hidden_blocks, dtype, step
):
    s, v = draw_scores(seed, rows, keys, dtype, around, hidden)
    blocks, _ = hide_blocks(seed, cut_at(s, v, cuts), hidden_blocks)
    order = np.random.default_rng(seed).permutation(len(blocks))
    step = getattr(online_softmax, step)
    shuffled = updated([blocks[i] for i in order], step)
    assert_same_state(shuffled, updated(blocks, step), f"order {order}")


@EVERYWHERE
@given(
    seed=seeds,
    keys=st.integers(1, 24),
    cuts=cuts,
    shift=st.integers(-(10**5), 10**5),
    dtype=dtypes,
)
def test_a_constant_added_to_all_scores_shifts_the_maximum(seed, keys, cuts, shift, dtype):
    # Eighths below 16 and an integer below 10^5 add without rounding: differences of scores stay
    # the same to the bit, and so do l_i and acc.
    rng = np.random.default_rng(seed)
    s = (rng.integers(-128, 128, (3, keys)) / 8).astype(dtype)
    v = rng.standard_normal((keys, HEAD_DIM)).astype(dtype)
    shifted = (s + shift).astype(dtype)
    assert np.array_equal(shifted - s, np.full_like(s, shift))
    for step in (online_softmax.update, online_softmax.update_normalised):
        plain = updated(cut_at(s, v, cuts), step)
        moved = updated(cut_at(shifted, v, cuts), step)
        assert np.array_equal(moved[0], plain[0] + np.array(shift, dtype))
        assert np.array_equal(moved[1], plain[1])
        assert np.array_equal(moved[2], plain[2])
    lse, moved_lse = (
        strictly(online_softmax.finish, *updated([(x, v)]))[1].astype(float) for x in (s, shifted)
    )
    rounding = np.finfo(dtype).eps * (abs(shift) + 20)
    assert np.all(np.abs(moved_lse - lse - shift) <= rounding)


@EVERYWHERE
@given(
    seed=seeds,
    rows=rows_of_a_block,
    keys=counts,
    cuts=cuts,
    around=levels,
    hidden=shares,
    hidden_blocks=shares,
    dtype=dtypes,
)
def test_outputs_of_any_parts_merge_in_any_order(
    seed, rows, keys, cuts, around, hidden, hidden_blocks, dtype
):
    s, v = draw_scores(seed, rows, keys, dtype, around, hidden)
    blocks, s = hide_blocks(seed, cut_at(s, v, cuts), hidden_blocks)
    parts = [strictly(online_softmax.finish, *state) for state in states_of(blocks)]
    roundings = 4 * len(parts)
    rng = np.random.default_rng(seed)
    while len(parts) > 1:
        a, b = (parts.pop(rng.integers(len(parts))) for _ in range(2))
        parts.append(strictly(online_softmax.merge_outputs, *a, *b))
    o, lse = parts[0]
    expected, expected_lse = oracle_output(s, v)
    assert np.array_equal(lse == -np.inf, expected_lse == -np.inf)
    seen = expected_lse > -np.inf
    # An LSE is rounded in proportion to its size, and its error is a factor of a weight.
    allowed = roundings * np.finfo(dtype).eps * (8 + np.abs(expected_lse[seen]))
    assert np.all(np.abs(lse[seen] - expected_lse[seen]) <= allowed)
    sizes = oracle_output(s, np.abs(v))[0][seen]
    assert np.all(np.abs(o[seen] - expected[seen]) <= 2 * allowed[:, np.newaxis] * sizes)
    assert np.all(o[~seen] == 0)


@EVERYWHERE
@given(
    seed=seeds,
    rows=st.integers(1, 4),
    keys=counts,
    new_keys=counts,
    around=levels,
    hidden=shares,
    dtype=dtypes,
)
def test_each_row_is_on_its_own(seed, rows, keys, new_keys, around, hidden, dtype):
    s, v = draw_scores(seed, rows, keys + new_keys, dtype, around, hidden)
    blocks = cut(s, v, keys)
    first, second = states_of(blocks)
    together = {
        "update": updated(blocks),
        "update_normalised": updated(blocks, online_softmax.update_normalised),
        "merge": strictly(online_softmax.merge, first, second),
    }
    for r in range(rows):
        one = slice(r, r + 1)
        parts = [(x[one], y) for x, y in blocks]
        a, b = (tuple(x[one] for x in state) for state in (first, second))
        alone = {
            "update": updated(parts),
            "update_normalised": updated(parts, online_softmax.update_normalised),
            "merge": strictly(online_softmax.merge, a, b),
        }
        for name, state in together.items():
            assert_same_state(tuple(x[one] for x in state), alone[name], f"{name}, row {r}")


@EVERYWHERE
@given(
    seed=seeds,
    keys=st.integers(1, 24),
    cuts=cuts,
    around=levels,
    hidden=shares,
    dtype=dtypes,
    step=st.sampled_from(["update", "update_normalised"]),
)
def test_a_hidden_key_is_a_key_left_out(seed, keys, cuts, around, hidden, dtype, step):
    s, v = draw_scores(seed, 1, keys, dtype, around, hidden)
    step = getattr(online_softmax, step)
    blocks = cut_at(s, v, cuts)
    left_out = [(x[:, x[0] > -np.inf], y[x[0] > -np.inf]) for x, y in blocks]
    assert_same_state(updated(blocks, step), updated(left_out, step), "hidden and left out")


@EVERYWHERE
@given(seed=seeds, rows=rows_of_a_block, keys=counts, around=levels, hidden=shares, dtype=dtypes)
def test_finish_undoes_the_choice_of_the_maximum(seed, rows, keys, around, hidden, dtype):
    # A state may be written relative to any number: o stays, and so does lse up to rounding.
    s, v = draw_scores(seed, rows, keys, dtype, around, hidden)
    m_i, l_i, acc = updated([(s, v)])
    o, lse = strictly(online_softmax.finish, m_i, l_i, acc)
    # Powers of two, so that only the logarithm rounds.
    lower = strictly(online_softmax.finish, m_i, 4 * l_i, 4 * acc)
    assert np.array_equal(lower[0], o)
    seen = l_i > 0
    rounding = 2 * np.finfo(dtype).eps * (8 + np.abs(lse[seen]))
    assert np.all(np.abs(lower[1][seen] - lse[seen] - np.log(4)) <= rounding)
    assert np.all(lower[1][~seen] == -np.inf) and np.all(o[~seen] == 0)
    assert np.array_equal(seen, oracle_state(s, v)[1] > 0)
