import math


def size(itemsize, *shape):
    return itemsize * math.prod(shape)


def naive_traffic(q_len, k_len, head_dim, *, num_heads=1, num_kv_heads=1, itemsize=2):
    scores = size(itemsize, num_heads, q_len, k_len)
    queries = size(itemsize, num_heads, q_len, head_dim)
    keys = size(itemsize, num_kv_heads, k_len, head_dim)
    return dict(
        read_q=queries, read_k=keys, write_s=scores, read_s=scores,
        write_p=scores, read_p=scores, read_v=keys, write_o=queries,
    )  # fmt: skip
