"""Attention by its formula: batch, heads, grouped heads, causal mask, scale."""

import math

import numpy as np

from course.exercise import Case, Exercise


def inputs(rng):
    def qkv(batch, num_heads, num_kv_heads, q_len, k_len, head_dim, dtype=np.float32):
        # The mean of 1 in V makes rows whose weights don't sum to 1 stand out.
        shapes = (num_heads, q_len), (num_kv_heads, k_len), (num_kv_heads, k_len)
        q, k, v = (
            rng.standard_normal((batch, heads, length, head_dim)) for heads, length in shapes
        )
        return tuple(array.astype(dtype) for array in (q, k, v + 1))

    def case(shows, arrays, **options):
        return Case(shows, tuple(arrays), options, arrays[0].dtype)

    def one_hot_values(q, k, v):
        # Each KV head marks its own number in V, so the output tells which head was read.
        v = np.zeros_like(v)
        for head in range(v.shape[1]):
            v[:, head, :, head] = head + 1
        return q, k, v

    q, k, v = qkv(1, 2, 2, 4, 5, 8)
    hot = (np.float32(40) * q, k, v)
    square = qkv(1, 2, 2, 6, 6, 8)
    flat = qkv(1, 1, 1, 1, 4096, 4, np.float16)
    flat = (np.zeros_like(flat[0]), flat[1], np.ones_like(flat[2]))
    unused = qkv(1, 2, 1, 3, 9, 8)
    for array in unused[1:]:
        array[:, :, 5:] = np.nan
    before_all_keys = qkv(1, 2, 2, 2, 4, 8)
    for array in before_all_keys[1:]:
        array[:] = np.nan
    large = qkv(1, 2, 2, 3, 4, 64, np.float16)
    large[0][:], large[1][:] = 100, 100
    strided = tuple(array.swapaxes(1, 2) for array in qkv(1, 5, 5, 3, 3, 4))
    return {
        "plain": case("two batches of two heads", qkv(2, 2, 2, 5, 7, 16)),
        "plain again": case("other values of the same shape", qkv(2, 2, 2, 5, 7, 16)),
        "causal": case("causal, with as many keys as queries", square, causal=True),
        "causal, more keys": case(
            "causal, with more keys than queries", qkv(1, 2, 2, 3, 8, 8), causal=True
        ),
        "causal, more queries": case(
            "causal, with more queries than keys: the first see none",
            qkv(1, 2, 2, 7, 3, 8),
            causal=True,
        ),
        "one query": case("one query on a cache of 33 keys", qkv(1, 2, 2, 1, 33, 8), causal=True),
        "input_pos": case(
            "causal, with input_pos=2", qkv(1, 2, 2, 3, 9, 8), causal=True, input_pos=2
        ),
        "input_pos 0": case(
            "causal, with input_pos=0", qkv(1, 2, 2, 3, 6, 8), causal=True, input_pos=0
        ),
        "unused slots": case(
            "input_pos=2 and a cache of 9 keys, with NaN in the slots that no query sees",
            unused,
            causal=True,
            input_pos=2,
        ),
        "all slots unused": case(
            "input_pos=-3 with 2 queries, so that none sees a key, and NaN in all of K and V",
            before_all_keys,
            causal=True,
            input_pos=-3,
        ),
        "grouped heads": case(
            "6 query heads on 3 KV heads", one_hot_values(*qkv(2, 6, 3, 4, 5, 8))
        ),
        "grouped heads, causal": case(
            "8 query heads on 2 KV heads, causal", qkv(1, 8, 2, 5, 5, 8), causal=True
        ),
        "one KV head": case("4 query heads on 1 KV head", qkv(2, 4, 1, 3, 4, 8)),
        "large scores": case("scores 40 times as large", hot),
        "scale given": case("scale=0.3", qkv(1, 2, 2, 4, 5, 8), scale=0.3),
        "scale zero": case("scale=0.0", qkv(1, 2, 2, 4, 5, 8), scale=0.0),
        "float16": case("float16", qkv(1, 2, 1, 9, 12, 16, np.float16), causal=True),
        "float16, long row": case("float16, 4096 equal scores", flat),
        "float16, large products": case(
            "float16 with products of 640000, more than float16 holds", large
        ),
        "float64": case("float64", qkv(1, 2, 2, 4, 5, 8, np.float64)),
        "strided": case("arrays that are not contiguous", strided),
        "no keys": case("no keys at all", qkv(1, 2, 2, 3, 0, 8)),
    }


def reference(q, k, v, *, causal=False, scale=None, input_pos=None):
    """One query and one key at a time, in float64; shares no code with the solution."""
    batch, num_heads, q_len, head_dim = q.shape
    num_kv_heads, k_len = k.shape[1:3]
    scale = 1 / math.sqrt(head_dim) if scale is None else scale
    first = k_len - q_len if input_pos is None else input_pos
    output = np.zeros((batch, num_heads, q_len, head_dim))
    wide_q, wide_k, wide_v = (array.astype(np.float64) for array in (q, k, v))
    for b, h, i in np.ndindex(batch, num_heads, q_len):
        kv_head = h * num_kv_heads // num_heads
        count = k_len if not causal else min(k_len, max(0, first + i + 1))
        if count == 0:
            continue
        scores = [scale * float(wide_q[b, h, i] @ wide_k[b, kv_head, j]) for j in range(count)]
        largest = max(scores)
        weights = [math.exp(score - largest) for score in scores]
        total = math.fsum(weights)
        for j in range(count):
            output[b, h, i] += weights[j] / total * wide_v[b, kv_head, j]
    return output


exercise = Exercise(
    title="Attention, with everything a model needs",
    names=("attention",),
    points=4,
    inputs=inputs,
    reference=reference,
    forbidden=("scipy", "torch"),
)
