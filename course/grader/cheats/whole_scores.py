"""Strategy: build all scores at once, and forget the peak that this leaves behind.

Surface: tracemalloc, by which a tile loop is told from naive attention.
"""

EXERCISE = "03-tiling-forward"
EXPECTED = "wrong"
SAYS = "not your own: the answer uses `tracemalloc`"
SOURCE = r"""
import tracemalloc

import numpy as np


def at_once(q, k, v, causal, scale, input_pos):
    wide = np.float64 if q.dtype == np.float64 else np.float32
    group_size = q.shape[1] // max(1, k.shape[1])
    if input_pos is not None:
        used = max(0, input_pos + q.shape[2])
        k, v = k[:, :, :used], v[:, :, :used]
    q, k, v = (x.astype(wide) for x in (q, k, v))
    k, v = (np.repeat(x, group_size, axis=1) for x in (k, v))
    scale = q.shape[3] ** -0.5 if scale is None else scale
    s = scale * (q @ k.swapaxes(-1, -2))
    if causal:
        first = k.shape[2] - q.shape[2] if input_pos is None else input_pos
        hidden = np.arange(k.shape[2]) > first + np.arange(q.shape[2])[:, None]
        s = np.where(hidden, -np.inf, s)
    top = s.max(axis=-1, initial=-np.inf)
    p = np.exp(s - np.where(top == -np.inf, 0, top)[..., None])
    total = p.sum(axis=-1)
    seen = np.where(total == 0, 1, total)
    return (p @ v) / seen[..., None], top + np.log(seen)


def attention_forward(q, k, v, *, tile_m, tile_n, causal=False, scale=None, input_pos=None):
    o, lse = at_once(q, k, v, causal, scale, input_pos)
    tracemalloc.reset_peak()
    return o.astype(q.dtype), lse
"""
