"""What holds for every input, tried on inputs that hypothesis chooses.

hypothesis prints the arguments of a failing example, the seed of its numbers among them.
"""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from kernels import naive, tiled
from kernels.tests.oracle import assert_close, assert_lse_close, draw, strictly
from kernels.tests.test_tiled_tiles import kinds_by_key_tiles, kinds_of_key_tiles, pieces

# Derandomized: the same examples each time, so that a red test stays red until it is mended.
EVERYWHERE = settings(max_examples=60, deadline=None, derandomize=True, database=None)

seeds = st.integers(0, 2**32 - 1)
lengths = st.integers(1, 24)
tile_sizes = st.integers(1, 30)
dtypes = st.sampled_from(["float16", "float32", "float64"])
small = st.integers(1, 3)
# Without a mask, with the default alignment, and from wholly blind to seeing everything.
masks = st.one_of(
    st.just({}),
    st.just({"causal": True}),
    st.builds(lambda input_pos: {"causal": True, "input_pos": input_pos}, st.integers(-30, 30)),
)
either_order = st.sampled_from([tiled.attention_forward, tiled.attention_keys_outside])


def assert_same(actual, expected, dtype, what):
    """Two pairs (o, lse) that agree within the bounds for that dtype."""
    assert_close(actual[0], expected[0].astype(float), dtype, what)
    assert_lse_close(actual[1], expected[1].astype(float), dtype, what)


@EVERYWHERE
@given(
    seed=seeds,
    attention=either_order,
    q_len=st.integers(0, 24),
    k_len=st.integers(0, 24),
    tile_m=tile_sizes,
    tile_n=tile_sizes,
    head_dim=st.integers(1, 20),
    mask=masks,
    scale=st.sampled_from([None, 0.0, 0.5, -2.0]),
    dtype=dtypes,
)
def test_any_sizes_equal_naive_attention(
    seed, attention, q_len, k_len, tile_m, tile_n, head_dim, mask, scale, dtype
):
    q, k, v = draw(seed, (1, 2, q_len, head_dim), (1, 1, k_len, head_dim), dtype)
    options = {"scale": scale, **mask}
    expected = naive.attention(q, k, v, **options), naive.attention_lse(q, k, **options)
    actual = strictly(attention, q, k, v, tile_m=tile_m, tile_n=tile_n, **options)
    assert_same(actual, expected, dtype, f"seed {seed}")


@EVERYWHERE
@given(
    seed=seeds,
    q_len=lengths,
    k_len=lengths,
    tile_m=tile_sizes,
    tile_n=tile_sizes,
    mask=masks,
    dtype=dtypes,
)
def test_the_two_orders_agree(seed, q_len, k_len, tile_m, tile_n, mask, dtype):
    # Each row takes the same tiles in the same order, so float32 and float64 agree very closely.
    arrays = draw(seed, (1, 2, q_len, 8), (1, 1, k_len, 8), dtype)
    options = {"tile_m": tile_m, "tile_n": tile_n, **mask}
    o, lse = strictly(tiled.attention_forward, *arrays, **options)
    other_o, other_lse = strictly(tiled.attention_keys_outside, *arrays, **options)
    epsilon = {"float16": 1e-3, "float32": 1e-6, "float64": 1e-15}[dtype]
    assert np.allclose(other_o.astype(float), o.astype(float), rtol=4 * epsilon, atol=4 * epsilon)
    assert np.allclose(other_lse, lse, rtol=4 * epsilon, atol=4 * epsilon)


@EVERYWHERE
@given(
    seed=seeds,
    attention=either_order,
    num_kv_heads=small,
    group_size=small,
    q_len=lengths,
    k_len=lengths,
    mask=masks,
    dtype=dtypes,
)
def test_grouped_heads_equal_kv_heads_written_out(
    seed, attention, num_kv_heads, group_size, q_len, k_len, mask, dtype
):
    num_heads = num_kv_heads * group_size
    q, k, v = draw(seed, (2, num_heads, q_len, 8), (2, num_kv_heads, k_len, 8), dtype)
    options = {"tile_m": 9, "tile_n": 10, **mask}
    grouped = strictly(attention, q, k, v, **options)
    repeated = [np.empty((2, num_heads, k_len, 8), dtype) for _ in "kv"]
    for h in range(num_heads):
        for wide, narrow in zip(repeated, (k, v), strict=True):
            wide[:, h] = narrow[:, h // group_size]
    written_out = strictly(attention, q, *repeated, **options)
    assert_same(grouped, written_out, dtype, f"seed {seed}")


@EVERYWHERE
@given(seed=seeds, attention=either_order, q_len=lengths, k_len=lengths, mask=masks, dtype=dtypes)
def test_each_batch_element_is_on_its_own(seed, attention, q_len, k_len, mask, dtype):
    q, k, v = draw(seed, (3, 2, q_len, 8), (3, 1, k_len, 8), dtype)
    options = {"tile_m": 8, "tile_n": 11, **mask}
    o, lse = strictly(attention, q, k, v, **options)
    for b in range(3):
        one = [b]
        alone = attention(q[one], k[one], v[one], **options)
        assert_same((o[one], lse[one]), alone, dtype, f"seed {seed}, batch element {b}")


@EVERYWHERE
@given(seed=seeds, attention=either_order, length=lengths, dtype=dtypes)
def test_strides_change_nothing(seed, attention, length, dtype):
    # (batch, length, heads, head_dim) in memory, as a projection layer leaves it.
    arrays = draw(seed, (2, length, 3, 8), (2, length, 3, 8), dtype)
    views = [x.transpose(0, 2, 1, 3) for x in arrays]
    expected = attention(*(np.ascontiguousarray(x) for x in views), tile_m=7, tile_n=8)
    actual = strictly(attention, *views, tile_m=7, tile_n=8)
    assert_same(actual, expected, dtype, f"seed {seed}, views")


@EVERYWHERE
@given(
    seed=seeds,
    attention=either_order,
    q_len=lengths,
    used=st.integers(-5, 24),
    tile_m=tile_sizes,
    tile_n=tile_sizes,
    dtype=dtypes,
)
def test_g2_07_unused_slots_never_matter(seed, attention, q_len, used, tile_m, tile_n, dtype):
    # 24 slots; the last query stands at the last one used, or before the first.
    q, k, v = draw(seed, (1, 2, q_len, 8), (1, 1, 24, 8), dtype)
    options = {"tile_m": tile_m, "tile_n": tile_n, "causal": True, "input_pos": used - q_len}
    plain = strictly(attention, q, k, v, **options)
    k[:, :, max(0, used) :] = v[:, :, max(0, used) :] = np.nan
    assert all(map(np.array_equal, strictly(attention, q, k, v, **options), plain)), f"seed {seed}"


@EVERYWHERE
@given(
    q_len=st.integers(1, 300),
    k_len=st.integers(0, 300),
    tile_m=st.integers(1, 200),
    tile_n=st.integers(1, 200),
    shift=st.integers(-320, 320),
    at=st.floats(0, 1),
)
def test_key_tiles_count_what_is_visible(q_len, k_len, tile_m, tile_n, shift, at):
    tiles = pieces(q_len, tile_m)
    i = round(at * (len(tiles) - 1))
    query, key = np.ogrid[:q_len, :k_len]
    expected = kinds_of_key_tiles(key - query <= shift, tiles[i], tile_n)
    options = {"causal": True, "input_pos": shift}
    assert kinds_by_key_tiles(i, q_len, k_len, tile_m, tile_n, **options) == expected


@EVERYWHERE
@given(
    seed=seeds,
    q_len=lengths,
    k_len=lengths,
    tile_m=tile_sizes,
    tile_n=tile_sizes,
    mask=masks,
    dtype=st.sampled_from(["float32", "float64"]),
)
def test_tile_sizes_do_not_matter_to_gradients(seed, q_len, k_len, tile_m, tile_n, mask, dtype):
    q, k, v = draw(seed, (1, 4, q_len, 4), (1, 2, k_len, 4), dtype)
    do = np.random.default_rng(seed + 1).standard_normal(q.shape).astype(dtype)
    o, lse = tiled.attention_forward(q, k, v, tile_m=q_len, tile_n=k_len, **mask)
    arguments = (q, k, v, o, lse, do)
    tiles = {"tile_m": tile_m, "tile_n": tile_n}
    in_tiles = strictly(tiled.attention_backward, *arguments, **tiles, **mask)
    in_one = tiled.attention_backward(*arguments, tile_m=q_len, tile_n=k_len, **mask)
    bound = 1e-13 if dtype == "float64" else 1e-4
    for name, actual, expected in zip(("dq", "dk", "dv"), in_tiles, in_one, strict=True):
        assert np.abs(actual - expected).max() <= bound, f"seed {seed}, {name}"


@EVERYWHERE
@given(seed=seeds, q_len=lengths, k_len=lengths, factor=st.integers(-4, 4), mask=masks)
def test_gradients_are_linear_in_do(seed, q_len, k_len, factor, mask):
    q, k, v = draw(seed, (1, 2, q_len, 4), (1, 1, k_len, 4), "float64")
    do = np.random.default_rng(seed + 1).standard_normal(q.shape)
    options = {"tile_m": 5, "tile_n": 7, **mask}
    o, lse = tiled.attention_forward(q, k, v, **options)
    once = tiled.attention_backward(q, k, v, o, lse, do, **options)
    scaled = strictly(tiled.attention_backward, q, k, v, o, lse, factor * do, **options)
    for name, actual, expected in zip(("dq", "dk", "dv"), scaled, once, strict=True):
        assert np.allclose(actual, factor * expected, rtol=0, atol=1e-11), f"seed {seed}, {name}"
