"""The tile loop: FlashAttention's forward pass, with grouped heads, masks and ragged edges."""

import math

import numpy as np

from course.exercise import Case, Exercise, Part

# Less than a byte for each pair of a query and a key.
LONG = 1024
LONG_PEAK_BYTES = LONG * LONG
# Less than a row of scores for each query of a tile; two copies of K and V in float64 are allowed.
MANY_KEYS = 16384
MANY_KEYS_PEAK_BYTES = 3 << 20


def inputs(rng):
    def qkv(batch, num_heads, num_kv_heads, q_len, k_len, head_dim, dtype=np.float32):
        # The mean of 1 in V makes rows whose weights don't sum to 1 stand out.
        shapes = (num_heads, q_len), (num_kv_heads, k_len), (num_kv_heads, k_len)
        q, k, v = (
            rng.standard_normal((batch, heads, length, head_dim)) for heads, length in shapes
        )
        return tuple(array.astype(dtype) for array in (q, k, v + 1))

    def case(shows, arrays, tile_m, tile_n, *, peak_bytes=None, **options):
        dtype = arrays[0].dtype
        wide = np.promote_types(dtype, np.float32)
        parts = Part("o", dtype), Part("lse", wide, "logarithms")
        tiles = {"tile_m": tile_m, "tile_n": tile_n}
        return Case(shows, tuple(arrays), tiles | options, parts=parts, peak_bytes=peak_bytes)

    def one_hot_values(q, k, v):
        # Each KV head marks its own number in V, so the output tells which head was read.
        v = np.zeros_like(v)
        for head in range(v.shape[1]):
            v[:, head, :, head] = head + 1
        return q, k, v

    q, k, v = qkv(1, 2, 2, 8, 12, 8)
    hot = (np.float32(40) * q, k, v)
    unused = qkv(1, 2, 1, 3, 11, 8)
    for array in unused[1:]:
        array[:, :, 5:] = np.nan
    before_all_keys = qkv(1, 2, 2, 2, 4, 8)
    for array in before_all_keys[1:]:
        array[:] = np.nan
    large = qkv(1, 2, 2, 3, 6, 64, np.float16)
    large[0][:], large[1][:] = 100, 100
    # Numbers whose product with the scale is rounded as coarsely as float16 does.
    coarse = qkv(1, 1, 1, 3, 9, 80, np.float16)
    coarse[0][:], coarse[1][:] = 0.3481, 6.5 + rng.uniform(-0.5, 0.5, (9, 1))
    flat = qkv(1, 1, 1, 1, 3000, 4, np.float16)
    flat = np.zeros_like(flat[0]), flat[1], np.ones_like(flat[2])
    strided = tuple(array.swapaxes(1, 2) for array in qkv(1, 6, 6, 3, 3, 4))
    return {
        "tiles fit": case("lengths that are multiples of the tiles", qkv(2, 2, 2, 8, 12, 8), 4, 4),
        "one tile": case("tiles larger than the lengths", qkv(1, 2, 2, 5, 7, 8), 16, 16),
        "ragged keys": case("a last key tile that is short", qkv(1, 2, 2, 8, 11, 8), 4, 4),
        "ragged queries": case("a last query tile that is short", qkv(1, 2, 2, 7, 8, 8), 4, 4),
        "tiles of 1": case("tiles of one query and one key", qkv(1, 1, 1, 4, 5, 8), 1, 1),
        "uneven tiles": case("tiles of 3 queries and 5 keys", qkv(1, 2, 2, 10, 13, 8), 3, 5),
        "causal": case("causal, square tiles", qkv(1, 2, 2, 12, 12, 8), 4, 4, causal=True),
        "causal, wide tiles": case(
            "causal, key tiles twice as long", qkv(1, 2, 2, 12, 12, 8), 3, 6, causal=True
        ),
        "causal, tall tiles": case(
            "causal, query tiles twice as long", qkv(1, 2, 2, 12, 12, 8), 6, 3, causal=True
        ),
        "causal, more keys": case(
            "causal, with more keys than queries", qkv(1, 2, 2, 5, 14, 8), 2, 4, causal=True
        ),
        "causal, more queries": case(
            "causal, with more queries than keys: the first see none",
            qkv(1, 2, 2, 11, 5, 8),
            4,
            4,
            causal=True,
        ),
        "one query": case(
            "one query on a cache of 33 keys", qkv(1, 2, 2, 1, 33, 8), 4, 8, causal=True
        ),
        "input_pos": case(
            "causal, with input_pos=2", qkv(1, 2, 2, 6, 15, 8), 4, 4, causal=True, input_pos=2
        ),
        "input_pos 0": case(
            "causal, with input_pos=0", qkv(1, 2, 2, 6, 9, 8), 4, 4, causal=True, input_pos=0
        ),
        "unused slots": case(
            "input_pos=2 and a cache of 11 keys, with NaN in the slots that no query sees",
            unused,
            2,
            4,
            causal=True,
            input_pos=2,
        ),
        "all slots unused": case(
            "input_pos=-3 with 2 queries, so that none sees a key, and NaN in all of K and V",
            before_all_keys,
            2,
            2,
            causal=True,
            input_pos=-3,
        ),
        "grouped heads": case(
            "6 query heads on 3 KV heads", one_hot_values(*qkv(2, 6, 3, 4, 5, 8)), 2, 2
        ),
        "grouped heads, causal": case(
            "8 query heads on 2 KV heads, causal", qkv(1, 8, 2, 6, 6, 8), 4, 2, causal=True
        ),
        "large scores": case("scores 40 times as large", hot, 4, 4),
        "scale given": case("scale=0.3", qkv(1, 2, 2, 6, 9, 8), 4, 4, scale=0.3),
        "scale zero": case("scale=0.0", qkv(1, 2, 2, 6, 9, 8), 4, 4, scale=0.0),
        "float16": case("float16", qkv(1, 2, 1, 9, 12, 16, np.float16), 4, 4, causal=True),
        "float16, long row": case("float16, 3000 equal scores, key by key", flat, 1, 1),
        "float16, scaled": case("float16 with scores of about 20", coarse, 2, 4),
        "float16, large products": case(
            "float16 with products of 640000, more than float16 holds", large, 2, 4
        ),
        "float64": case("float64", qkv(1, 2, 2, 6, 9, 8, np.float64), 4, 4),
        "strided": case("arrays that are not contiguous", strided, 4, 4),
        "no keys": case("no keys at all", qkv(1, 2, 2, 3, 0, 8), 2, 2),
        "long": case(
            f"{LONG} queries and keys in tiles of 64",
            qkv(1, 1, 1, LONG, LONG, 16),
            64,
            64,
            causal=True,
            peak_bytes=LONG_PEAK_BYTES,
        ),
        "many keys": case(
            f"64 queries on {MANY_KEYS} keys in tiles of 64",
            qkv(1, 1, 1, 64, MANY_KEYS, 4),
            64,
            64,
            peak_bytes=MANY_KEYS_PEAK_BYTES,
        ),
    }


def reference(q, k, v, *, tile_m, tile_n, causal=False, scale=None, input_pos=None):
    """One query at a time over all the keys that it sees, in float64; there are no tiles."""
    batch, num_heads, q_len, head_dim = q.shape
    num_kv_heads, k_len = k.shape[1:3]
    scale = 1 / math.sqrt(head_dim) if scale is None else scale
    first = k_len - q_len if input_pos is None else input_pos
    output, lse = np.zeros(q.shape), np.full(q.shape[:3], -np.inf)
    wide_q, wide_k, wide_v = (array.astype(np.float64) for array in (q, k, v))
    for b, h, i in np.ndindex(batch, num_heads, q_len):
        kv_head = h * num_kv_heads // num_heads
        count = k_len if not causal else min(k_len, max(0, first + i + 1))
        if count == 0:
            continue
        scores = scale * np.einsum("d,jd->j", wide_q[b, h, i], wide_k[b, kv_head, :count])
        lse[b, h, i] = np.logaddexp.reduce(scores)
        output[b, h, i] = np.exp(scores - lse[b, h, i]) @ wide_v[b, kv_head, :count]
    return output, lse


exercise = Exercise(
    title="The tile loop",
    names=("attention_forward",),
    points=5,
    inputs=inputs,
    reference=reference,
    forbidden=("scipy", "torch"),
)
