"""What the kernels are held against: attention as explicit loops in float64, and the error bounds.

Nothing here is shared with a kernel. Above all, the mask is worked out anew: a kernel compares
positions, the oracle counts how many keys a row sees and visits no other.
"""

import importlib
import math
import warnings

import numpy as np
import pytest

# Relative L2 error allowed over the whole output and over its worst row. float16 and bfloat16 are
# the bounds of the design. The tightest thing a float32 bound must tell apart is a product in
# TF32 or float16 (about 3e-4); scores of some hundreds, rounded to float32, cost up to 3e-5. A
# float64 answer that went through float32 somewhere would be off by 1e-8 or more.
BOUNDS = {
    "float16": (2e-3, 5e-3),
    "bfloat16": (1e-2, 2e-2),
    "float32": (5e-5, 1e-4),
    "float64": (1e-12, 1e-11),
}
DTYPES = tuple(BOUNDS)


def dtype_called(name):
    """The NumPy dtype of that name. bfloat16 is not NumPy's own: the package ml_dtypes has it."""
    if name != "bfloat16":
        return np.dtype(name)
    try:
        return np.dtype(importlib.import_module("ml_dtypes").bfloat16)
    except ImportError:
        pytest.skip("bfloat16 needs the package ml_dtypes, which is not installed")


def draw(seed, q_shape, kv_shape, dtype):
    """q, k and v of normal values: every batch, head, row and column differs from the others."""
    rng = np.random.default_rng(seed)
    shapes = (q_shape, kv_shape, kv_shape)
    return tuple(rng.standard_normal(shape).astype(dtype_called(dtype)) for shape in shapes)


def strictly(function, *args, **kwargs):
    """Calls the function with every warning and every floating-point event made an error, and
    checks that it leaves its arguments' bytes alone."""
    arrays = [x for x in (*args, *kwargs.values()) if isinstance(x, np.ndarray)]
    before = [x.tobytes() for x in arrays]
    with np.errstate(all="raise"), warnings.catch_warnings():
        warnings.simplefilter("error")
        result = function(*args, **kwargs)
    assert [x.tobytes() for x in arrays] == before, f"{function.__name__} wrote to its arguments"
    return result


def keys_seen(i, q_len, k_len, causal, input_pos):
    """How many keys row i sees. They are the first ones."""
    if not causal:
        return k_len
    position = i + (k_len - q_len if input_pos is None else input_pos)
    return min(k_len, max(0, position + 1))


def oracle_scores(q_row, k_rows, scale):
    """One row's scores, one key after the other, as Python floats."""
    scores = []
    for k_row in k_rows:
        scores.append(float(np.dot(q_row, k_row)) * scale)
    return scores


def oracle(q, k, v, *, causal=False, scale=None, input_pos=None):
    """(output, lse) in float64, by loops over batch, head, row and key."""
    batch, num_heads, q_len, head_dim = q.shape
    num_kv_heads, k_len = k.shape[1], k.shape[2]
    q64, k64, v64 = (x.astype(np.float64) for x in (q, k, v))
    scale = head_dim**-0.5 if scale is None else float(scale)
    output = np.zeros(q.shape)
    lse = np.full(q.shape[:3], -np.inf)
    for b in range(batch):
        for h in range(num_heads):
            kv_h = math.floor(h * num_kv_heads / num_heads)
            for i in range(q_len):
                seen = keys_seen(i, q_len, k_len, causal, input_pos)
                if seen == 0:
                    continue
                scores = oracle_scores(q64[b, h, i], k64[b, kv_h, :seen], scale)
                top = max(scores)
                weights = [math.exp(score - top) for score in scores]
                total = math.fsum(weights)
                lse[b, h, i] = top + math.log(total)
                for j, weight in enumerate(weights):
                    output[b, h, i] += weight / total * v64[b, kv_h, j]
    return output, lse


def oracle_softmax(s):
    """Softmax of each row of s in float64, by a loop over the rows."""
    rows = s.reshape(math.prod(s.shape[:-1]), s.shape[-1]).astype(np.float64)
    output = np.zeros(rows.shape)
    for r, row in enumerate(rows):
        top = max(row.tolist(), default=-math.inf)
        if top == -math.inf:
            continue
        weights = [math.exp(x - top) for x in row.tolist()]
        output[r] = np.array(weights) / math.fsum(weights)
    return output.reshape(s.shape)


def assert_close(actual, expected, dtype, what):
    """Shape and dtype, then the errors of the whole and of the worst row. `what` names the case."""
    assert actual.shape == expected.shape, f"{what}: {actual.shape}, expected {expected.shape}"
    assert actual.dtype == dtype_called(dtype), f"{what}: {actual.dtype}, expected {dtype}"
    assert np.isfinite(expected).all(), f"{what}: the oracle itself is not finite"
    wide = actual.astype(np.float64)
    assert np.isfinite(wide).all(), f"{what}: {np.sum(~np.isfinite(wide))} entries are not finite"
    if expected.size == 0:
        return
    size = np.sqrt(np.sum(expected**2, axis=-1))
    error = np.sqrt(np.sum((wide - expected) ** 2, axis=-1))
    zero_rows = size == 0
    assert np.all(error[zero_rows] == 0), f"{what}: a row that must be 0 is not"
    if zero_rows.all():
        return
    whole = np.sqrt(np.sum(error**2) / np.sum(size**2))
    worst = np.max(error[~zero_rows] / size[~zero_rows])
    whole_bound, row_bound = BOUNDS[dtype]
    assert whole <= whole_bound, f"{what}: relative L2 error {whole:.1e}, allowed {whole_bound}"
    assert worst <= row_bound, f"{what}: worst row's error {worst:.1e}, allowed {row_bound}"


def assert_lse_close(actual, expected, dtype, what):
    """Same rows at -inf, all others within an absolute bound: LSE lives in an exponent."""
    wide_dtype = np.dtype("float64" if dtype == "float64" else "float32")
    assert actual.shape == expected.shape, f"{what}: {actual.shape}, expected {expected.shape}"
    assert actual.dtype == wide_dtype, f"{what}: {actual.dtype}, expected {wide_dtype}"
    unseen = expected == -np.inf
    assert np.array_equal(actual == -np.inf, unseen), f"{what}: -inf in the wrong rows"
    error = np.max(np.abs(actual[~unseen] - expected[~unseen]), initial=0)
    bound = 1e-11 if dtype == "float64" else 1e-4
    assert error <= bound, f"{what}: LSE off by {error:.1e}, allowed {bound}"
