import numpy as np


def is_right(update):
    rng = np.random.default_rng(7)
    # How far each block's scores lie from 0. Some blocks are hidden, from all rows or from one.
    streams = [(0, 3, 1), (0, -1500), ("hidden", -1500, 0), (0, "hidden"), ("hidden", "hidden")]
    streams.append(("row 0 hidden", 0))
    for blocks in streams:
        state = np.full(3, -np.inf), np.zeros(3), np.zeros((3, 2))
        all_s, all_v = np.zeros((3, 0)), np.zeros((0, 2))
        for block in blocks:
            s = rng.uniform(-1, 1, (3, 4))
            if block == "hidden":
                s[:] = -np.inf
            elif block == "row 0 hidden":
                s[0] = -np.inf
            else:
                s += block
            v = rng.uniform(1, 2, (4, 2))
            state = update(*state, s, v)
            all_s, all_v = np.append(all_s, s, axis=1), np.append(all_v, v, axis=0)
            for m, l, acc, scores in zip(*state, all_s, strict=True):  # noqa: E741
                weights = np.exp(scores - max(*scores, -1e300))
                right = [
                    m == max(scores),
                    np.isclose(l, weights.sum()),
                    np.allclose(acc, weights @ all_v),
                ]
                if not all(right):
                    return False
    return True
