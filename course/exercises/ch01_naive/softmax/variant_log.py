import numpy as np


def softmax(s):
    # exp(s - log Σ exp s), with the logarithm taken pairwise by NumPy's own logaddexp.
    wide = s.astype(np.result_type(s.dtype, np.float32))
    log_sum = np.logaddexp.reduce(wide, axis=-1, keepdims=True, initial=-np.inf)
    exponent = np.full_like(wide, -np.inf)
    np.subtract(wide, log_sum, out=exponent, where=log_sum > -np.inf)
    return np.exp(exponent).astype(s.dtype)
