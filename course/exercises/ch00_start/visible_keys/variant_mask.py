import numpy as np


def visible_keys(i, q_len, k_len):
    mask = np.tri(q_len, k_len, k_len - q_len, dtype=bool)
    return int(mask[i].sum())
