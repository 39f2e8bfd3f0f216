import numpy as np


def merge(a, b):
    # The state with the larger maximum keeps its sums; only the other one is corrected.
    first = a[0] >= b[0]

    def pick(condition):
        return [
            np.where(condition if x.ndim == condition.ndim else condition[..., None], x, y)
            for x, y in zip(a, b, strict=True)
        ]

    (m, l_high, acc_high), (m_low, l_low, acc_low) = pick(first), pick(~first)
    gap = np.subtract(m_low, m, where=m > -np.inf, out=np.zeros_like(m))
    factor = np.exp(gap)
    return m, l_high + factor * l_low, acc_high + factor[..., None] * acc_low
