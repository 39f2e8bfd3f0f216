import numpy as np


def attention(q, k, v, *, causal=False, scale=None, input_pos=None):
    batch, num_heads, q_len, head_dim = q.shape
    num_kv_heads, k_len = k.shape[1:3]
    wide = np.float64 if q.dtype == np.float64 else np.float32
    factor = head_dim**-0.5 if scale is None else scale
    first = k_len - q_len if input_pos is None else input_pos
    output = np.zeros(q.shape, q.dtype)
    for b, h in np.ndindex(batch, num_heads):
        kv_head = h // (num_heads // num_kv_heads)
        used = max(0, first + q_len) if causal else k_len
        keys = k[b, kv_head, :used].astype(wide)
        values = v[b, kv_head, :used].astype(wide)
        s = factor * np.einsum("id,jd->ij", q[b, h].astype(wide), keys)
        hidden = np.zeros(s.shape, bool)
        for i in range(q_len):
            if causal:
                hidden[i, max(0, first + i + 1) :] = True
        p = np.zeros_like(s)
        for i in range(len(s)):
            seen = ~hidden[i]
            if seen.any():
                p[i, seen] = np.exp(s[i, seen] - s[i, seen].max())
        p = p / np.maximum(p.sum(axis=1, keepdims=True), 1e-30)
        output[b, h] = p @ values
    return output
