def largest_tiles(memory_bytes, head_dim, *, itemsize=2):
    best = None
    tile_m = 16
    while tile_m <= 256:
        tile_n = 16
        while tile_n <= 256:
            tiles = (tile_m + 2 * tile_n) * head_dim * itemsize
            scores = tile_m * tile_n * 4
            state = tile_m * (head_dim + 2) * 4
            if tiles + scores + state <= memory_bytes and (best is None or (tile_m, tile_n) > best):
                best = tile_m, tile_n
            tile_n *= 2
        tile_m *= 2
    return best
