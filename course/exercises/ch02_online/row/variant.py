import numpy as np


def attend_row(q, blocks, *, scale=None):
    wide = np.float64 if q.dtype == np.float64 else np.float32
    factor = wide(q.size**-0.5 if scale is None else scale)
    query = q.astype(wide)
    top, total, output = wide(-np.inf), wide(0), np.zeros(q.size, wide)
    for k, v in blocks:
        for key, value in zip(k.astype(wide), v.astype(wide), strict=True):
            score = factor * (query @ key)
            new_top = max(top, score)
            old = np.exp(top - new_top)
            weight = np.exp(score - new_top)
            total = old * total + weight
            output = old * output + weight * value
            top = new_top
    if total == 0:
        return np.zeros_like(q), top
    o, lse = output / total, top + np.log(total)
    return o.astype(q.dtype), lse
