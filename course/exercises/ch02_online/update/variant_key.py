import numpy as np


def update(m_i, l_i, acc, s, v):
    # The state so far is one more key: its score is m_i, its weight counts l_i times.
    scores = np.concatenate([m_i[:, None], s], axis=1)
    top = np.amax(scores, axis=1)
    finite_top = np.maximum(top, np.finfo(s.dtype).min)
    p = np.exp(scores - finite_top[:, None])
    counts = np.concatenate([l_i[:, None], np.ones_like(s)], axis=1)
    l_new = np.einsum("rk,rk->r", p, counts)
    acc_new = np.einsum("r,rd->rd", p[:, 0], acc) + np.einsum("rk,kd->rd", p[:, 1:], v)
    return top, l_new, acc_new
