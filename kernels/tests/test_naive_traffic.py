"""The bytes that naive attention moves, against numbers worked out by hand and by counting."""

import numpy as np
import pytest

from kernels import naive

MIB = 2**20
KEYS = [
    "read_q",
    "read_k",
    "write_s",
    "read_s",
    "write_p",
    "read_p",
    "read_v",
    "write_o",
]


@pytest.mark.parametrize(("length", "mebibytes"), [(4096, 32), (8192, 128), (16384, 512)])
def test_the_published_table(length, mebibytes):
    # One head in fp16, facts.md section 1: 32, 128 and 512 MiB for S.
    traffic = naive.naive_traffic(length, length, 128)
    assert traffic["write_s"] == mebibytes * MIB
    assert traffic["read_q"] == length * 128 * 2
    passes = [name for name, size in traffic.items() if size == mebibytes * MIB]
    assert passes == ["write_s", "read_s", "write_p", "read_p"]


def test_numbers_by_hand():
    # 3 queries, 5 keys, 8 columns, 4 heads on 2 KV heads, 4 bytes: all different.
    traffic = naive.naive_traffic(3, 5, 8, num_heads=4, num_kv_heads=2, itemsize=4)
    expected = [384, 320, 240, 240, 240, 240, 320, 384]
    assert list(traffic.items()) == list(zip(KEYS, expected, strict=True))


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize(("num_heads", "num_kv_heads"), [(1, 1), (6, 2), (4, 1), (4, 4), (0, 0)])
@pytest.mark.parametrize(("q_len", "k_len", "head_dim"), [(7, 9, 16), (1, 100, 3), (0, 4, 2)])
def test_bytes_of_real_arrays(q_len, k_len, head_dim, num_heads, num_kv_heads, dtype):
    q = np.zeros((num_heads, q_len, head_dim), dtype)
    k = np.zeros((num_kv_heads, k_len, head_dim), dtype)
    s = np.zeros((num_heads, q_len, k_len), dtype)
    traffic = naive.naive_traffic(
        q_len,
        k_len,
        head_dim,
        num_heads=num_heads,
        num_kv_heads=num_kv_heads,
        itemsize=q.itemsize,
    )
    arrays = [q, k, s, s, s, s, k, q]
    assert traffic == {name: x.nbytes for name, x in zip(KEYS, arrays, strict=True)}


@pytest.mark.parametrize("integer", [np.int8, np.int32, np.int64, np.uint16])
def test_numpy_integers_do_not_overflow(integer):
    traffic = naive.naive_traffic(integer(100), integer(100), integer(100), num_heads=integer(100))
    assert traffic["write_s"] == 2 * 100**3
    assert all(type(size) is int for size in traffic.values())


def test_sizes_beyond_64_bits():
    assert naive.naive_traffic(2**40, 2**40, 1)["write_s"] == 2**81
