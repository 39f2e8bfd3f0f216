import numpy as np


def score_gradients(s, v, o, lse, do):
    dv, dp, ds = np.zeros_like(v), np.zeros_like(s), np.zeros_like(s)
    for row in range(len(s)):
        weights = np.exp(s[row] - lse[row]) if lse[row] > -np.inf else np.zeros_like(s[row])
        dv += np.outer(weights, do[row])
        dp[row] = v @ do[row]
        mean = o[row] @ do[row]
        ds[row] = weights * (dp[row] - mean)
    return dv, dp, ds
