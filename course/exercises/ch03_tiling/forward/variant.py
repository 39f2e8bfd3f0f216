import itertools

import numpy as np


def attention_forward(q, k, v, *, tile_m, tile_n, causal=False, scale=None, input_pos=None):
    batch, num_heads, q_len, head_dim = q.shape
    num_kv_heads, k_len = k.shape[1:3]
    wide = np.float64 if q.dtype == np.float64 else np.float32
    factor = head_dim**-0.5 if scale is None else scale
    first = k_len - q_len if input_pos is None else input_pos
    o, lse = np.zeros(q.shape, q.dtype), np.zeros(q.shape[:3], wide)
    tops = range(0, q_len, tile_m)
    for b, h, top in itertools.product(range(batch), range(num_heads), tops):
        kv_head = h // (num_heads // num_kv_heads)
        bottom = min(top + tile_m, q_len)
        queries = q[b, h, top:bottom].astype(wide)
        m, total = np.full(bottom - top, -np.inf, wide), np.zeros(bottom - top, wide)
        output = np.zeros_like(queries)
        end = min(k_len, max(0, first + bottom)) if causal else k_len
        for left in range(0, end, tile_n):
            right = min(left + tile_n, end)
            keys = k[b, kv_head, left:right].astype(wide)
            values = v[b, kv_head, left:right].astype(wide)
            s = factor * np.einsum("id,jd->ij", queries, keys)
            for row in range(top, bottom):
                if causal:
                    s[row - top, max(0, first + row + 1 - left) :] = -np.inf
            new = np.maximum(m, s.max(axis=1))
            safe = np.where(new > -np.inf, new, 0)
            old, p = np.exp(m - safe), np.exp(s - safe[:, None])
            total = old * total + p.sum(axis=1)
            output = old[:, None] * output + p @ values
            m = new
        seen = ~(total == 0)
        o[b, h, top:bottom][seen] = output[seen] / total[seen][:, None]
        lse[b, h, top:bottom] = m
        lse[b, h, top:bottom][seen] += np.log(total[seen])
    return o, lse
