"""The three faulty updates that chapter 02 shows; the grader makes its others from a right one."""

import numpy as np


# region: three
def update_a(m_i, l_i, acc, s, v):
    m_new = np.maximum(m_i, s.max(axis=1, initial=-np.inf))
    shift = np.where(m_new == -np.inf, 0, m_new)
    correction = np.exp(m_i - shift)
    p = np.exp(s - shift[:, np.newaxis])
    l_new = l_i + p.sum(axis=1)
    acc_new = correction[:, np.newaxis] * acc + p @ v
    return m_new, l_new, acc_new


def update_b(m_i, l_i, acc, s, v):
    m_new = np.maximum(m_i, s.max(axis=1, initial=-np.inf))
    m_new = np.where(m_new == -np.inf, 0, m_new)
    correction = np.exp(m_i - m_new)
    p = np.exp(s - m_new[:, np.newaxis])
    l_new = correction * l_i + p.sum(axis=1)
    acc_new = correction[:, np.newaxis] * acc + p @ v
    return m_new, l_new, acc_new


def update_c(m_i, l_i, acc, s, v):
    m_new = s.max(axis=1, initial=-np.inf)
    shift = np.where(m_new == -np.inf, m_i, m_new)
    shift = np.where(shift == -np.inf, 0, shift)
    correction = np.exp(m_i - shift)
    p = np.exp(s - shift[:, np.newaxis])
    l_new = correction * l_i + p.sum(axis=1)
    acc_new = correction[:, np.newaxis] * acc + p @ v
    return np.where(m_new == -np.inf, m_i, m_new), l_new, acc_new


# endregion
