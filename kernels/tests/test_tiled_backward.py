"""The gradients of tiled attention, against finite differences and against torch's autograd.

The loss is Σ o · do, so that its gradient with respect to o is do. Finite differences are central
ones in float64 of the loss by `naive`; torch gets the mask written out, in float64.
"""

import itertools
import math

import numpy as np
import pytest
import torch

from kernels import naive, tiled
from kernels.tests.oracle import assert_close, draw, dtype_called, strictly

HALVES = ("float16", "bfloat16")
STEP = 1e-5
# A central difference is off by about STEP² and by a rounding error over STEP: both about 1e-10.
SLOPE_BOUND = 1e-7
EXACT_BOUND = 1e-11

# (id, q's shape, k's shape, options)
CASES = [
    ("square", (1, 1, 4, 3), (1, 1, 4, 3), {}),
    ("one_key", (1, 1, 3, 2), (1, 1, 1, 2), {}),
    ("one_query", (1, 1, 1, 3), (1, 1, 5, 3), {"causal": True}),
    ("batch", (2, 2, 3, 2), (2, 2, 4, 2), {}),
    ("causal", (1, 1, 5, 3), (1, 1, 5, 3), {"causal": True}),
    ("ragged", (1, 2, 3, 3), (1, 2, 7, 3), {"causal": True}),
    ("grouped", (1, 4, 3, 2), (1, 2, 4, 2), {}),
    ("grouped_causal", (2, 3, 4, 2), (2, 1, 5, 2), {"causal": True}),
    ("blind_rows", (1, 1, 7, 3), (1, 1, 4, 3), {"causal": True}),
    ("input_pos", (1, 2, 3, 3), (1, 1, 8, 3), {"causal": True, "input_pos": 2}),
    ("input_pos_low", (1, 1, 5, 3), (1, 1, 6, 3), {"causal": True, "input_pos": -2}),
    ("input_pos_high", (1, 1, 3, 3), (1, 1, 4, 3), {"causal": True, "input_pos": 50}),
    ("all_blind", (1, 1, 3, 3), (1, 1, 4, 3), {"causal": True, "input_pos": -3}),
    ("scale", (1, 1, 4, 3), (1, 1, 5, 3), {"scale": 0.3, "causal": True}),
    ("scale_below_0", (1, 1, 4, 3), (1, 1, 5, 3), {"scale": -1.2}),
    ("scale_0", (1, 1, 4, 3), (1, 1, 5, 3), {"scale": 0.0, "causal": True}),
    ("peaked", (1, 1, 4, 3), (1, 1, 5, 3), {"scale": 8.0}),
    ("head_dim_1", (1, 1, 4, 1), (1, 1, 5, 1), {}),
]
cases = pytest.mark.parametrize(
    ("q_shape", "kv_shape", "options"),
    [case[1:] for case in CASES],
    ids=[case[0] for case in CASES],
)
TILES = [(1, 1), (2, 3), (3, 2), (4, 4), (7, 1), (16, 64)]


def drawn(seed, q_shape, kv_shape, dtype="float64"):
    """q, k, v and do."""
    do = np.random.default_rng(seed + 1).standard_normal(q_shape).astype(dtype_called(dtype))
    return (*draw(seed, q_shape, kv_shape, dtype), do)


def backward(q, k, v, do, tile_m, tile_n, **options):
    """(dq, dk, dv), with o and lse of a naive forward pass."""
    o = naive.attention(q, k, v, **options)
    lse = naive.attention_lse(q, k, **options)
    tiles = {"tile_m": tile_m, "tile_n": tile_n}
    return strictly(tiled.attention_backward, q, k, v, o, lse, do, **tiles, **options)


def assert_gradients(actual, expected, bound, what):
    """Each within the bound, relative to its largest entry or to 1."""
    for name, got, wanted in zip(("dq", "dk", "dv"), actual, expected, strict=True):
        assert got.shape == wanted.shape, f"{what}: {name} has the shape {got.shape}"
        assert np.isfinite(wanted).all(), f"{what}: the {name} expected is not finite"
        assert np.isfinite(got).all(), f"{what}: {name} is not finite"
        error = np.abs(got - wanted).max(initial=0) / max(1, np.abs(wanted).max(initial=0))
        assert error <= bound, f"{what}: {name} off by {error:.1e}, allowed {bound}"


def slopes(loss, x):
    """The gradient of loss() with respect to x by central differences; x is restored."""
    gradient = np.zeros_like(x)
    for index in np.ndindex(x.shape):
        value = x[index]
        x[index] = value + STEP
        above = loss()
        x[index] = value - STEP
        below = loss()
        x[index] = value
        gradient[index] = (above - below) / (2 * STEP)
    return gradient


def torch_gradients(q, k, v, do, *, causal=False, scale=None, input_pos=None):
    """(dq, dk, dv) by autograd, in float64."""
    q_len, k_len = q.shape[2], k.shape[2]
    mask = torch.ones(q_len, k_len, dtype=torch.bool)
    if causal:
        position = k_len - q_len if input_pos is None else input_pos
        for i in range(q_len):
            mask[i, max(0, position + i + 1) :] = False
    q, k, v, do = (torch.from_numpy(x.astype(np.float64)) for x in (q, k, v, do))
    for x in (q, k, v):
        x.requires_grad_()
    group_size = q.shape[1] // k.shape[1]
    kv = (x.repeat_interleave(group_size, dim=1) for x in (k, v))
    # Rows that see no key take no part. torch's own softmax makes NaN of them.
    sees = mask.any(dim=1)
    o = torch.nn.functional.scaled_dot_product_attention(
        q[:, :, sees], *kv, attn_mask=mask[sees], scale=scale
    )
    (o * do[:, :, sees]).sum().backward()
    return tuple(x.grad.numpy() for x in (q, k, v))


@cases
def test_against_finite_differences(q_shape, kv_shape, options):
    q, k, v, do = drawn(81, q_shape, kv_shape)

    def loss():
        return float(np.sum(naive.attention(q, k, v, **options) * do))

    expected = [slopes(loss, x) for x in (q, k, v)]
    for tiles in TILES:
        what = f"seed 81, tiles {tiles}, {options}"
        assert_gradients(backward(q, k, v, do, *tiles, **options), expected, SLOPE_BOUND, what)


@cases
def test_against_autograd(q_shape, kv_shape, options):
    arrays = drawn(82, q_shape, kv_shape)
    expected = torch_gradients(*arrays, **options)
    for tiles in TILES:
        what = f"seed 82, tiles {tiles}, {options}"
        assert_gradients(backward(*arrays, *tiles, **options), expected, EXACT_BOUND, what)


@pytest.mark.parametrize(
    "options", [{}, {"causal": True}, {"causal": True, "input_pos": 3}, {"scale": 0.0}]
)
@pytest.mark.parametrize(("q_len", "k_len"), [(33, 70), (64, 64), (70, 33), (1, 129)])
def test_against_autograd_on_longer_rows(q_len, k_len, options):
    arrays = drawn(83, (2, 4, q_len, 16), (2, 2, k_len, 16))
    expected = torch_gradients(*arrays, **options)
    for tiles in [(16, 16), (20, 48), (64, 33), (128, 128)]:
        what = f"seed 83, tiles {tiles}, {options}"
        assert_gradients(backward(*arrays, *tiles, **options), expected, EXACT_BOUND, what)


@pytest.mark.parametrize("outside", [tiled.attention_forward, tiled.attention_keys_outside])
def test_takes_what_the_tiled_forward_pass_returns(outside):
    q, k, v, do = drawn(84, (1, 4, 20, 16), (1, 2, 33, 16))
    expected = torch_gradients(q, k, v, do, causal=True)
    o, lse = outside(q, k, v, tile_m=7, tile_n=5, causal=True)
    options = {"tile_m": 6, "tile_n": 16, "causal": True}
    actual = strictly(tiled.attention_backward, q, k, v, o, lse, do, **options)
    assert_gradients(actual, expected, EXACT_BOUND, "seed 84")


def test_one_row_by_hand():
    # Scores 0 and log 3, weights 1/4 and 3/4, o = 14. dp is v, its mean 14, and ds is
    # 1/4 · (8 - 14) and 3/4 · (16 - 14). With q = 2 and a scale of 1/2, dk is ds · 1/2 · 2.
    q = np.full((1, 1, 1, 1), 2.0)
    k = np.array([0.0, math.log(3.0)]).reshape(1, 1, 2, 1)
    v = np.array([8.0, 16.0]).reshape(1, 1, 2, 1)
    o, lse, do = np.full(q.shape, 14.0), np.full((1, 1, 1), math.log(4.0)), np.ones(q.shape)
    expected = (
        np.full(q.shape, 1.5 * 0.5 * math.log(3.0)),
        np.array([-1.5, 1.5]).reshape(k.shape),
        np.array([0.25, 0.75]).reshape(v.shape),
    )
    for tile_n in (1, 2, 3):
        options = {"tile_m": 1, "tile_n": tile_n, "scale": 0.5}
        actual = strictly(tiled.attention_backward, q, k, v, o, lse, do, **options)
        assert_gradients(actual, expected, 1e-14, f"tile_n {tile_n}")


def test_a_kv_head_gets_the_sum_over_its_query_heads():
    q, k, v, do = drawn(85, (2, 6, 5, 4), (2, 2, 7, 4))
    _, dk, dv = backward(q, k, v, do, 2, 3)
    for kv_head, heads in enumerate(([0, 1, 2], [3, 4, 5])):
        parts = [
            backward(q[:, [h]], k[:, [kv_head]], v[:, [kv_head]], do[:, [h]], 2, 3) for h in heads
        ]
        assert np.allclose(dk[:, [kv_head]], sum(part[1] for part in parts), rtol=0, atol=1e-13)
        assert np.allclose(dv[:, [kv_head]], sum(part[2] for part in parts), rtol=0, atol=1e-13)


# ---- what hides keys ----


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize(("q_len", "k_len"), [(6, 5), (10, 6), (9, 1), (5, 0)])
def test_g2_01_gradients_of_rows_that_see_no_key(q_len, k_len, dtype):
    arrays = drawn(86, (1, 2, q_len, 8), (1, 2, k_len, 8), dtype)
    blind = q_len - k_len
    for tiles in [(1, 1), (3, 2), (4, 16), (16, 16)]:
        dq, dk, dv = backward(*arrays, *tiles, causal=True)
        assert np.all(dq[:, :, :blind] == 0), f"seed 86, tiles {tiles}"
        assert all(np.isfinite(x.astype(float)).all() for x in (dq, dk, dv)), f"tiles {tiles}"
        # What the blind rows are given must not reach the others' gradients.
        q, k, v, do = (x.copy() for x in arrays)
        do[:, :, :blind] = 1000
        others = backward(q, k, v, do, *tiles, causal=True)
        assert all(map(np.array_equal, others, (dq, dk, dv))), f"seed 86, tiles {tiles}"


@pytest.mark.parametrize("junk", [np.nan, np.inf])
@pytest.mark.parametrize(("q_len", "used"), [(1, 5), (3, 8), (4, 11), (3, 2), (3, 0), (3, -4)])
def test_g2_07_gradients_beside_unused_cache_slots(q_len, used, junk):
    q, k, v, do = drawn(87, (1, 2, q_len, 4), (1, 1, 16, 4))
    options = {"causal": True, "input_pos": used - q_len}
    unused = slice(max(0, used), None)
    k[:, :, unused] = v[:, :, unused] = 0
    expected = torch_gradients(q, k, v, do, **options)
    k[:, :, unused] = v[:, :, unused] = junk
    for tiles in [(1, 1), (2, 3), (4, 5), (3, 8), (2, 16), (8, 64)]:
        actual = backward(q, k, v, do, *tiles, **options)
        what = f"seed 87, {used} slots used, the others {junk}, tiles {tiles}"
        assert_gradients(actual, expected, EXACT_BOUND, what)
        assert np.all(actual[1][:, :, unused] == 0), what
        assert np.all(actual[2][:, :, unused] == 0), what


def test_keys_that_nobody_sees_get_no_gradient():
    q, k, v, do = drawn(88, (1, 1, 4, 3), (1, 1, 9, 3))
    _, dk, dv = backward(q, k, v, do, 2, 4, causal=True, input_pos=1)  # keys 0 to 4 are seen
    assert np.all(dk[:, :, 5:] == 0) and np.all(dv[:, :, 5:] == 0)
    assert np.all(dk[:, :, :5] != 0) and np.all(dv[:, :, :5] != 0)


# ---- dtypes, shapes, strides ----


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("causal", [False, True])
def test_halves_are_computed_in_float32(causal, dtype):
    q, k, v, do = drawn(89, (2, 4, 9, 16), (2, 2, 30, 16), dtype)
    o, lse = tiled.attention_forward(q, k, v, tile_m=4, tile_n=8, causal=causal)
    options = {"tile_m": 4, "tile_n": 7, "causal": causal}
    actual = strictly(tiled.attention_backward, q, k, v, o, lse, do, **options)
    q, k, v, o, do = (x.astype(np.float32) for x in (q, k, v, o, do))
    wide = tiled.attention_backward(q, k, v, o, lse, do, **options)
    for got, expected in zip(actual, wide, strict=True):
        assert got.dtype == dtype_called(dtype)
        assert np.array_equal(got, expected.astype(got.dtype)), "seed 89"


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("causal", [False, True])
def test_values_of_each_dtype(causal, dtype):
    arrays = drawn(90, (1, 4, 20, 16), (1, 2, 33, 16), dtype)
    expected = torch_gradients(*arrays, causal=causal)
    actual = backward(*arrays, 8, 12, causal=causal)
    for name, got, wanted in zip(("dq", "dk", "dv"), actual, expected, strict=True):
        assert_close(got, wanted, dtype, f"seed 90, {name}")


@pytest.mark.parametrize(
    ("q_shape", "kv_shape"),
    [
        ((0, 4, 3, 8), (0, 2, 5, 8)),
        ((2, 0, 3, 8), (2, 0, 5, 8)),
        ((2, 0, 3, 8), (2, 3, 5, 8)),
        ((2, 4, 0, 8), (2, 2, 5, 8)),
        ((2, 4, 3, 8), (2, 2, 0, 8)),
    ],
)
@pytest.mark.parametrize("causal", [False, True])
def test_g5_05_gradients_of_empty_axes(causal, q_shape, kv_shape):
    dq, dk, dv = backward(*drawn(91, q_shape, kv_shape, "float16"), 2, 2, causal=causal)
    assert (dq.shape, dk.shape, dv.shape) == (q_shape, kv_shape, kv_shape)
    for x in (dq, dk, dv):
        assert x.dtype == np.float16 and np.all(x == 0)


def test_strides_change_nothing():
    # (batch, length, heads, head_dim) in memory; and do as the gradient of a plain sum leaves it.
    q, k, v, do = drawn(92, (2, 9, 4, 8), (2, 9, 4, 8))
    views = [x.transpose(0, 2, 1, 3) for x in (q, k, v, do)]
    expected = backward(*(x.copy() for x in views), 4, 3, causal=True)
    actual = backward(*views, 4, 3, causal=True)
    assert_gradients(actual, expected, EXACT_BOUND, "seed 92, views")
    one = np.broadcast_to(np.ones(()), views[0].shape)
    expected = backward(*views[:3], one.copy(), 4, 3, causal=True)
    assert_gradients(backward(*views[:3], one, 4, 3, causal=True), expected, EXACT_BOUND, "ones")


# ---- score_gradients: one tile ----


def tile_arguments(seed, rows, keys, head_dim=3, hidden=0.3, dtype="float64"):
    """s with hidden keys and a row of nothing else, v, o, lse and do; o and lse by the formula."""
    rng = np.random.default_rng(seed)
    s, v = rng.standard_normal((rows, keys)), rng.standard_normal((keys, head_dim))
    do = rng.standard_normal((rows, head_dim))
    s[rng.random(s.shape) < hidden] = -np.inf
    s[rows // 2] = -np.inf
    o = naive.softmax(s) @ v
    lse = np.full(rows, -np.inf)
    for row in range(rows):
        seen = s[row][s[row] > -np.inf]
        if seen.size:
            lse[row] = math.log(math.fsum(math.exp(x) for x in seen))
    return [x.astype(dtype) for x in (s, v, o, lse, do)]


def test_score_gradients_by_hand():
    s = np.array([[0.0, math.log(3.0)], [5.0, -np.inf], [-np.inf, -np.inf]])
    v = np.array([[8.0], [16.0]])
    o, lse = np.array([[14.0], [8.0], [0.0]]), np.array([math.log(4.0), 5.0, -np.inf])
    do = np.array([[1.0], [2.0], [3.0]])
    dv, dp, ds = strictly(tiled.score_gradients, s, v, o, lse, do)
    # The weights are 1/4 and 3/4; 1 and 0; 0 and 0.
    assert np.allclose(dv, [[0.25 + 2], [0.75]], rtol=1e-15, atol=0)
    assert np.array_equal(dp, [[8, 16], [16, 32], [24, 48]])
    assert np.allclose(ds, [[-1.5, 1.5], [0, 0], [0, 0]], rtol=1e-15, atol=0)


def test_score_gradients_against_finite_differences():
    s, v, o, lse, do = tile_arguments(93, 5, 6)
    dv, dp, ds = strictly(tiled.score_gradients, s, v, o, lse, do)

    def loss():
        return float(np.sum((naive.softmax(s) @ v) * do))

    hidden = s == -np.inf
    assert np.abs(ds - slopes(loss, s)).max() < SLOPE_BOUND
    assert np.all(ds[hidden] == 0)
    assert np.abs(dv - slopes(loss, v)).max() < SLOPE_BOUND
    # The weights on their own: o is p v, and nothing makes p sum to 1.
    p = naive.softmax(s)
    assert np.abs(dp - slopes(lambda: float(np.sum((p @ v) * do)), p)).max() < SLOPE_BOUND


@pytest.mark.parametrize("cuts", [[0, 3, 6], [0, 1, 2, 6], [0, 0, 6, 6]])
def test_score_gradients_of_a_part_of_the_keys(cuts):
    s, v, o, lse, do = tile_arguments(94, 5, 6)
    dv, dp, ds = tiled.score_gradients(s, v, o, lse, do)
    parts = [
        strictly(tiled.score_gradients, s[:, start:stop], v[start:stop], o, lse, do)
        for start, stop in itertools.pairwise(cuts)
    ]
    assert np.allclose(np.concatenate([part[0] for part in parts]), dv, rtol=0, atol=1e-14)
    assert np.allclose(np.hstack([part[1] for part in parts]), dp, rtol=0, atol=1e-14)
    assert np.allclose(np.hstack([part[2] for part in parts]), ds, rtol=0, atol=1e-14)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_score_gradients_of_each_row_sum_to_0(dtype):
    # Adding a constant to a row of scores changes no weight.
    arguments = tile_arguments(95, 7, 20, dtype=dtype)
    dv, dp, ds = strictly(tiled.score_gradients, *arguments)
    assert {x.dtype for x in (dv, dp, ds)} == {np.dtype(dtype)}
    assert np.abs(ds.sum(axis=1)).max() < (1e-14 if dtype == "float64" else 1e-5)


@pytest.mark.parametrize(("rows", "keys"), [(3, 0), (0, 4), (0, 0)])
def test_score_gradients_of_empty_tiles(rows, keys):
    s, v, o = np.zeros((rows, keys)), np.zeros((keys, 2)), np.zeros((rows, 2))
    dv, dp, ds = strictly(tiled.score_gradients, s, v, o, np.full(rows, -np.inf), o)
    assert np.array_equal(dv, np.zeros((keys, 2)))
    assert dp.shape == ds.shape == (rows, keys)


@pytest.mark.parametrize("shift", [-3000.0, 3000.0])
def test_score_gradients_of_scores_far_from_zero(shift):
    # exp(s) alone would overflow or vanish: only exp(s - lse) is a weight.
    s, v, o, lse, do = tile_arguments(96, 4, 5)
    expected = tiled.score_gradients(s, v, o, lse, do)
    actual = strictly(tiled.score_gradients, s + shift, v, o, lse + shift, do)
    for got, wanted in zip(actual, expected, strict=True):
        assert np.allclose(got, wanted, rtol=0, atol=1e-11)
