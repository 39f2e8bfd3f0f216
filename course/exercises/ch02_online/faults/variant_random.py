import numpy as np


def is_right(update):
    # Many random streams: blocks of any length, scores of any size, some keys and blocks hidden.
    for seed in range(300):
        rng = np.random.default_rng(seed)
        blocks, state = [], (np.full(2, -np.inf), np.zeros(2), np.zeros((2, 3)))
        for _ in range(rng.integers(1, 5)):
            s = rng.standard_normal((2, 3)) + rng.choice([-3000, -20, 0, 20, 3000])
            s[rng.random(s.shape) < rng.choice([0, 0.5, 1])] = -np.inf
            blocks.append((s, rng.standard_normal((3, 3))))
            state = update(*state, *blocks[-1])
        s = np.concatenate([s for s, _ in blocks], axis=1)
        v = np.concatenate([v for _, v in blocks])
        m = np.max(s, axis=1)
        p = np.exp(s - np.nan_to_num(m, neginf=0.0)[:, None])
        for got, expected in zip(state, (m, np.sum(p, axis=1), p @ v), strict=True):
            if not np.allclose(got, expected, rtol=1e-6, atol=1e-9):
                return False
    return True
