def key_tiles(i, q_len, k_len, tile_m, tile_n, *, causal=False, input_pos=None):
    end = min(q_len, (i + 1) * tile_m)
    start = k_len - q_len if input_pos is None else input_pos
    counts = [
        min(k_len, max(0, start + row + 1)) if causal else k_len for row in range(i * tile_m, end)
    ]
    free = counts[0] // tile_n
    stop = -(-counts[-1] // tile_n)
    return free, stop
