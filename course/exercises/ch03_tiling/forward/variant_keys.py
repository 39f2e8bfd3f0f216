import numpy as np


def attention_forward(q, k, v, *, tile_m, tile_n, causal=False, scale=None, input_pos=None):
    # The key tiles outside, all heads at once; the weighted mean so far is kept divided.
    batch, _, q_len, head_dim = q.shape
    num_kv_heads, k_len = k.shape[1], k.shape[2]
    wide = np.result_type(q.dtype, np.float32)
    scale = wide.type(1 / np.sqrt(head_dim) if scale is None else scale)
    position = np.arange(q_len) + ((k_len - q_len) if input_pos is None else input_pos)
    used = k_len if not causal else min(k_len, max(0, int(position.max(initial=-1)) + 1))
    grouped = q.reshape(batch, num_kv_heads, -1, q_len, head_dim)
    o = np.zeros(grouped.shape, wide)
    lse = np.full(grouped.shape[:-1], -np.inf, wide)
    for j in range(0, used, tile_n):
        keys = slice(j, min(j + tile_n, used))
        k_tile, v_tile = (x[:, :, keys].astype(wide) for x in (k, v))
        for i in range(0, q_len, tile_m):
            rows = slice(i, i + tile_m)
            q_tile = grouped[..., rows, :].astype(wide)
            s = scale * np.einsum("bghid,bgjd->bghij", q_tile, k_tile)
            if causal:
                hidden = np.arange(used)[keys] > position[rows, None]
                s = np.where(hidden, -np.inf, s).astype(wide)
            m = np.maximum(lse[..., rows], s.max(axis=-1))
            m = np.where(m == -np.inf, 0, m)
            old = np.exp(lse[..., rows] - m)
            p = np.exp(s - m[..., None])
            total = old + p.sum(axis=-1)
            seen = np.where(total == 0, 1, total)[..., None]
            old_part = old[..., None] * o[..., rows, :]
            o[..., rows, :] = (old_part + np.einsum("bghij,bgjd->bghid", p, v_tile)) / seen
            with np.errstate(divide="ignore"):
                lse[..., rows] = m + np.log(total)
    return o.reshape(q.shape).astype(q.dtype), lse.reshape(q.shape[:3])
