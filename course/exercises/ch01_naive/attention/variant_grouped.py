import numpy as np


def attention(q, k, v, *, causal=False, scale=None, input_pos=None):
    # One axis more for the heads of a group, so that nothing is repeated.
    batch, _, q_len, head_dim = q.shape
    num_kv_heads, k_len = k.shape[1:3]
    wide = np.result_type(q.dtype, np.float32)
    scale = 1 / np.sqrt(head_dim) if scale is None else scale
    visible = np.ones((q_len, k_len), bool)
    if causal:
        input_pos = k_len - q_len if input_pos is None else input_pos
        visible = np.tri(q_len, k_len, input_pos, dtype=bool)
    seen_by_somebody = visible.any(axis=0)
    k, v = (np.where(seen_by_somebody[:, None], x, 0).astype(wide) for x in (k, v))
    grouped = q.astype(wide).reshape(batch, num_kv_heads, -1, q_len, head_dim)
    s = np.einsum("bghid,bgjd->bghij", grouped, k) * wide.type(scale)
    m = s.max(axis=-1, keepdims=True, initial=np.finfo(wide).min, where=visible)
    p = np.exp(s - m, where=visible, out=np.zeros_like(s))
    total = p.sum(axis=-1, keepdims=True)
    o = np.einsum("bghij,bgjd->bghid", p, v)
    o = np.divide(o, total, where=total > 0, out=np.zeros_like(o))
    return o.reshape(q.shape).astype(q.dtype)
