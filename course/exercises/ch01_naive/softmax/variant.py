import numpy as np


def softmax(s):
    wide = np.float64 if s.dtype == np.float64 else np.float32
    result = np.zeros(s.shape, s.dtype)
    for place in np.ndindex(s.shape[:-1]):
        row = s[place].astype(wide)
        visible = row > -np.inf
        if not visible.any():
            continue
        powers = np.exp(row - row[visible].max())
        total = powers.sum()
        result[place] = powers / total
    return result
