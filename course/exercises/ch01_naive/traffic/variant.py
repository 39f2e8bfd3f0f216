def naive_traffic(q_len, k_len, head_dim, *, num_heads=1, num_kv_heads=1, itemsize=2):
    rows = {"q": q_len, "o": q_len, "s": q_len, "p": q_len, "k": k_len, "v": k_len}
    columns = {"q": head_dim, "o": head_dim, "s": k_len, "p": k_len, "k": head_dim, "v": head_dim}
    heads = dict.fromkeys("qosp", num_heads) | dict.fromkeys("kv", num_kv_heads)
    moved = {}
    steps = ("read_q", "read_k", "write_s", "read_s", "write_p", "read_p", "read_v", "write_o")
    for step in steps:
        array = step[-1]
        moved[step] = rows[array] * columns[array] * heads[array] * itemsize
    return moved
