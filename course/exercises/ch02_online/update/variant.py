import numpy as np


def update(m_i, l_i, acc, s, v):
    m_new, l_new, acc_new = m_i.copy(), l_i.copy(), acc.copy()
    for row, scores in enumerate(s):
        highest = max([m_i[row], *scores])
        if highest == -np.inf:
            continue
        old = np.exp(m_i[row] - highest)
        weights = np.exp(scores - highest)
        m_new[row] = highest
        l_new[row] = old * l_i[row] + weights.sum()
        acc_new[row] = old * acc[row] + weights @ v
    return m_new, l_new, acc_new
