def largest_tiles(memory_bytes, head_dim, *, itemsize=2):
    # How many keys are left room for, beside what tile_m queries need by themselves?
    for power in range(8, 3, -1):
        tile_m = 1 << power
        left = memory_bytes - tile_m * (head_dim * (itemsize + 4) + 8)
        for_each_key = 2 * head_dim * itemsize + 4 * tile_m
        if left >= 16 * for_each_key:
            room = min(256, left // for_each_key)
            return tile_m, 1 << (room.bit_length() - 1)
    return None
