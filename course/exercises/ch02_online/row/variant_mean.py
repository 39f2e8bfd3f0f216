import math

import numpy as np


def attend_row(q, blocks, *, scale=None):
    # Keeps the output so far and the LSE so far. A large LSE needs float64: what counts is how far
    # two of them lie apart.
    wide = np.dtype(np.float64)
    scale = 1 / math.sqrt(q.shape[0]) if scale is None else scale
    o, lse = np.zeros(q.shape, wide), wide.type(-np.inf)
    for k, v in blocks:
        if len(k) == 0:
            continue
        s = scale * np.einsum("d,kd->k", q.astype(wide), k.astype(wide))
        block_lse = np.logaddexp.reduce(s)
        both = np.logaddexp(lse, block_lse)
        o = np.exp(lse - both) * o + np.exp(s - both) @ v.astype(wide)
        lse = both
    return o.astype(q.dtype), np.result_type(q.dtype, np.float32).type(lse)
