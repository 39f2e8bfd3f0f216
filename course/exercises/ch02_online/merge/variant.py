import numpy as np


def merge(a, b):
    (m_a, l_a, acc_a), (m_b, l_b, acc_b) = a, b
    m_i, l_i, acc = m_a.copy(), l_a.copy(), acc_a.copy()
    for row in np.ndindex(m_a.shape):
        higher = max(m_a[row], m_b[row])
        if higher == -np.inf:
            continue
        of_a = np.exp(m_a[row] - higher)
        of_b = np.exp(m_b[row] - higher)
        m_i[row] = higher
        l_i[row] = of_a * l_a[row] + of_b * l_b[row]
        acc[row] = of_a * acc_a[row] + of_b * acc_b[row]
    return m_i, l_i, acc
