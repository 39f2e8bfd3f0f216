"""What holds for every input, tried on inputs that hypothesis chooses.

hypothesis prints the arguments of a failing example, the seed of its numbers among them.
"""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from kernels import naive
from kernels.tests.oracle import assert_close, assert_lse_close, draw, oracle_softmax, strictly

# Derandomized: the same examples each time, so that a red test stays red until it is mended.
EVERYWHERE = settings(max_examples=60, deadline=None, derandomize=True, database=None)

seeds = st.integers(0, 2**32 - 1)
lengths = st.integers(1, 40)
dtypes = st.sampled_from(["float16", "float32", "float64"])
small = st.integers(1, 3)


@EVERYWHERE
@given(seed=seeds, rows=lengths, columns=st.integers(0, 40), hidden=st.floats(0, 1), dtype=dtypes)
def test_rows_of_p_sum_to_1_or_are_0(seed, rows, columns, hidden, dtype):
    rng = np.random.default_rng(seed)
    s = (5 * rng.standard_normal((rows, columns))).astype(dtype)
    s[rng.random(s.shape) < hidden] = -np.inf
    p = strictly(naive.softmax, s)
    assert np.all(p >= 0)
    assert np.all(p[s == -np.inf] == 0)
    sees_some = (s > -np.inf).any(axis=-1)
    sums = p.astype(float).sum(axis=-1)
    assert np.all(np.abs(sums[sees_some] - 1) < (1e-14 if dtype == "float64" else 2e-3))
    assert np.all(sums[~sees_some] == 0)
    assert_close(p, oracle_softmax(s), dtype, "softmax")


@EVERYWHERE
@given(
    seed=seeds,
    columns=lengths,
    shift=st.integers(-(10**5), 10**5),
    dtype=st.sampled_from(["float32", "float64"]),
)
def test_a_constant_added_to_all_scores_changes_nothing(seed, columns, shift, dtype):
    # Eighths below 16 and an integer below 10^5 add without rounding: the results agree to the bit.
    eighths = np.random.default_rng(seed).integers(-128, 128, (4, columns))
    s = (eighths / 8).astype(dtype)
    shifted = (s + shift).astype(dtype)
    assert np.array_equal(shifted - s, np.full_like(s, shift))
    assert np.array_equal(strictly(naive.softmax, shifted), strictly(naive.softmax, s))


@EVERYWHERE
@given(seed=seeds, q_len=lengths, k_len=lengths, dtype=dtypes)
def test_the_order_of_the_keys_changes_nothing(seed, q_len, k_len, dtype):
    q, k, v = draw(seed, (1, 2, q_len, 8), (1, 1, k_len, 8), dtype)
    order = np.random.default_rng(seed).permutation(k_len)
    what = f"seed {seed}, {q_len} queries, {k_len} keys"
    plain = strictly(naive.attention, q, k, v).astype(float)
    permuted = strictly(naive.attention, q, k[:, :, order], v[:, :, order])
    assert_close(permuted, plain, dtype, what)
    plain_lse = strictly(naive.attention_lse, q, k).astype(float)
    assert_lse_close(strictly(naive.attention_lse, q, k[:, :, order]), plain_lse, dtype, what)


@EVERYWHERE
@given(
    seed=seeds,
    num_kv_heads=small,
    group_size=small,
    q_len=lengths,
    k_len=lengths,
    causal=st.booleans(),
    dtype=dtypes,
)
def test_grouped_heads_equal_kv_heads_written_out(
    seed, num_kv_heads, group_size, q_len, k_len, causal, dtype
):
    num_heads = num_kv_heads * group_size
    q, k, v = draw(seed, (2, num_heads, q_len, 8), (2, num_kv_heads, k_len, 8), dtype)
    grouped = strictly(naive.attention, q, k, v, causal=causal)
    grouped_lse = strictly(naive.attention_lse, q, k, causal=causal)
    for h in range(num_heads):
        kv_head = [h // group_size]
        one = naive.attention(q[:, [h]], k[:, kv_head], v[:, kv_head], causal=causal)
        what = f"seed {seed}, head {h}"
        assert_close(grouped[:, [h]], one.astype(float), dtype, what)
        one_lse = naive.attention_lse(q[:, [h]], k[:, kv_head], causal=causal)
        assert_lse_close(grouped_lse[:, [h]], one_lse.astype(float), dtype, what)


@EVERYWHERE
@given(
    seed=seeds,
    q_len=lengths,
    k_len=lengths,
    cut=st.floats(0, 1),
    causal=st.booleans(),
    dtype=st.sampled_from(["float32", "float64"]),
)
def test_g5_10_any_two_parts_merge_to_one_pass(seed, q_len, k_len, cut, causal, dtype):
    # A part counts positions from its own first key, so the second's queries stand `split` lower.
    split = round(cut * k_len)
    q, k, v = draw(seed, (1, 2, q_len, 8), (1, 2, k_len, 8), dtype)
    outputs, lses = [], []
    for start, stop in ((0, split), (split, k_len)):
        options = {"causal": causal, "input_pos": k_len - q_len - start if causal else None}
        part = (q, k[:, :, start:stop], v[:, :, start:stop])
        outputs.append(strictly(naive.attention, *part, **options).astype(float))
        lses.append(strictly(naive.attention_lse, *part[:2], **options).astype(float))
    total = np.exp(lses[0]) + np.exp(lses[1])
    share = np.divide(np.exp(lses[0]), total, out=np.zeros_like(total), where=total > 0)
    share = share[..., np.newaxis]
    merged = share * outputs[0] + (1 - share) * outputs[1]
    what = f"seed {seed}, {q_len} queries, {k_len} keys split at {split}"
    one_pass = strictly(naive.attention, q, k, v, causal=causal).astype(float)
    assert_close(merged.astype(dtype), one_pass, dtype, what)
    with np.errstate(divide="ignore"):
        merged_lse = np.log(total)
    one_lse = strictly(naive.attention_lse, q, k, causal=causal)
    assert_lse_close(one_lse, merged_lse, dtype, what)


@EVERYWHERE
@given(seed=seeds, q_len=lengths, k_len=lengths, causal=st.booleans(), dtype=dtypes)
def test_each_batch_element_is_on_its_own(seed, q_len, k_len, causal, dtype):
    q, k, v = draw(seed, (3, 2, q_len, 8), (3, 1, k_len, 8), dtype)
    together = strictly(naive.attention, q, k, v, causal=causal)
    for b in range(3):
        one = [b]
        alone = naive.attention(q[one], k[one], v[one], causal=causal).astype(float)
        assert_close(together[one], alone, dtype, f"seed {seed}, batch element {b}")


@EVERYWHERE
@given(seed=seeds, length=lengths, dtype=dtypes)
def test_strides_change_nothing(seed, length, dtype):
    # (batch, length, heads, head_dim) in memory, as a projection layer leaves it.
    arrays = draw(seed, (2, length, 3, 8), (2, length, 3, 8), dtype)
    views = [x.transpose(0, 2, 1, 3) for x in arrays]
    expected = naive.attention(*(np.ascontiguousarray(x) for x in views)).astype(float)
    assert_close(strictly(naive.attention, *views), expected, dtype, f"seed {seed}, views")
