def visible_keys(i, q_len, k_len):
    later_queries = q_len - 1 - i
    seen = k_len - later_queries  # the last query sees all keys, the one before one less, ...
    if seen < 0:
        return 0
    return seen
