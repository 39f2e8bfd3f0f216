import numpy as np


def key_tiles(i, q_len, k_len, tile_m, tile_n, *, causal=False, input_pos=None):
    ends = np.array([i * tile_m, min((i + 1) * tile_m, q_len) - 1])
    if causal:
        ends += 1 + (k_len - q_len if input_pos is None else input_pos)
    else:
        ends[:] = k_len
    whole, rest = np.divmod(ends.clip(0, k_len), tile_n)
    return whole[0], whole[1] + (rest[1] > 0)
