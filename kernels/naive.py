"""Chapter 01: attention as its formula says, in NumPy, with all scores in memory.

The formula is that of Vaswani et al., "Attention Is All You Need" (2017), equation 1. The softmax
subtracts the row's largest score first, as Dao et al., "FlashAttention" (2022), section 2.2, have
it; the passes over memory counted here are those of their algorithm 0. Grouped heads are those of
Ainslie et al., "GQA" (2023).

Besides NumPy's own dtypes, all functions take the bfloat16 of ml_dtypes. Any axis but head_dim may
be empty.

The book shows the marked regions, and each runs in a notebook as it stands. The argument checks
are outside them: they are no part of the idea.

All public functions raise TypeError for an argument of the wrong type or dtype and ValueError for
a wrong value or shape, before they compute; the message names the argument and what was got. What
they do not check is what the arrays hold. A NaN stays visible: in a row of scores it makes that
row NaN, and in v, at a key that some query sees, every row. Scores too large for the dtype they
are computed in become inf, with NumPy's warning, and then NaN.
"""

import math

import numpy as np

from kernels import _arguments

__all__ = ["attention", "attention_lse", "naive_traffic", "softmax"]


def _check_softmax(s):
    _arguments.check_array("s", s)
    if s.ndim == 0:
        raise ValueError("s must have at least one axis, got a 0-D array")
    return {}


def _check_attention(q, k, v, causal, scale, input_pos):
    return _arguments.clean_attention({"q": q, "k": k, "v": v}, causal, scale, input_pos)


def _check_attention_lse(q, k, causal, scale, input_pos):
    return _arguments.clean_attention({"q": q, "k": k}, causal, scale, input_pos)


def _check_naive_traffic(q_len, k_len, head_dim, num_heads, num_kv_heads, itemsize):
    clean = {
        "q_len": _arguments.clean_int("q_len", q_len, 0),
        "k_len": _arguments.clean_int("k_len", k_len, 0),
        "head_dim": _arguments.clean_int("head_dim", head_dim, 0),
        "num_heads": _arguments.clean_int("num_heads", num_heads, 0),
        "num_kv_heads": _arguments.clean_int("num_kv_heads", num_kv_heads, 0),
        "itemsize": _arguments.clean_int("itemsize", itemsize, 1, 8),
    }
    _arguments.check_heads(clean["num_heads"], clean["num_kv_heads"])
    return clean


@_arguments.checked(_check_softmax)
# region: softmax
def softmax(s):
    """The softmax of each row of s, that is, over its last axis.

    s: an array of float16, float32 or float64 with one axis or more. Any axis may
        be empty.

    Returns an array of s's shape and dtype. It is computed in float32 at least
    (float64 stays float64) and must not overflow, however large the scores are.
    An entry of -inf gets 0. A row that is -inf throughout gives zeros, no NaN.
    """
    s_wide = s.astype(np.promote_types(s.dtype, np.float32))
    row_max = s_wide.max(axis=-1, keepdims=True, initial=-np.inf)
    # A row that is all -inf has no largest score: -inf - -inf would be NaN.
    row_max = np.where(row_max == -np.inf, 0, row_max)
    p = np.exp(s_wide - row_max)
    row_sum = p.sum(axis=-1, keepdims=True)
    # Only a row that is all -inf sums to 0. Its weights are 0 already.
    p = p / np.where(row_sum == 0, 1, row_sum)
    return p.astype(s.dtype)


# endregion


@_arguments.checked(_check_attention)
# region: attention
def attention(q, k, v, *, causal=False, scale=None, input_pos=None):
    """Attention by its formula: softmax(scale · q kᵀ) v.

    q: (batch, num_heads, q_len, head_dim)
    k, v: (batch, num_kv_heads, k_len, head_dim). num_heads is a multiple of
        num_kv_heads. With group_size = num_heads // num_kv_heads, query head h
        uses KV head h // group_size.
    q, k and v have the same dtype: float16, float32 or float64.
    causal: True lets query i, which stands at position input_pos + i, see only
        the keys 0 to input_pos + i.
    input_pos: an int, used with causal only. None means k_len - q_len, so that
        the last query sees all the keys. It may be negative: a query before
        position 0 sees no key.
    scale: a number. None means 1 / sqrt(head_dim), and 0.0 means 0.0.

    Returns an array of q's shape and dtype, computed in float32 at least
    (float64 stays float64). A row that sees no key is 0; k_len may be 0. With
    input_pos, what k and v hold past the last query's position (the unused slots
    of a cache) never reaches the result, not even a NaN.
    """
    q_len, output_dtype = q.shape[2], q.dtype
    if input_pos is not None:
        # No query sees the slots past the last one, and 0 · NaN would be NaN.
        used = max(0, input_pos + q_len)
        k, v = k[:, :, :used], v[:, :, :used]

    compute_dtype = np.promote_types(q.dtype, np.float32)
    q, k, v = (x.astype(compute_dtype) for x in (q, k, v))
    group_size = q.shape[1] // max(1, k.shape[1])  # max: there may be no heads
    k, v = (np.repeat(x, group_size, axis=1) for x in (k, v))  # 0, 0, 1, 1, ...

    s = masked_scores(q, k, causal, scale, input_pos)
    p = softmax(s)
    return (p @ v).astype(output_dtype)


def masked_scores(q, k, causal, scale, input_pos):
    """The scores scale · q kᵀ, with -inf where the mask hides a key from a query.

    q: (batch, num_heads, q_len, head_dim).
    k: (batch, num_heads, k_len, head_dim), of the same dtype.
    causal, scale and input_pos as in `attention`, None included.

    Returns (batch, num_heads, q_len, k_len) in q's dtype, which is the one that
    `attention` computes in.
    """
    q_len, k_len, head_dim = q.shape[2], k.shape[2], q.shape[3]
    if scale is None:
        scale = 1 / math.sqrt(head_dim)
    s = scale * (q @ k.swapaxes(-1, -2))
    if not causal:
        return s

    if input_pos is None:
        input_pos = k_len - q_len
    query_position = input_pos + np.arange(q_len)[:, np.newaxis]
    key_position = np.arange(k_len)
    return np.where(key_position <= query_position, s, -np.inf)


# endregion


@_arguments.checked(_check_attention_lse)
def attention_lse(q, k, *, causal=False, scale=None, input_pos=None):
    """The log of the sum of the exponentials of each row's scores: log Σ exp(s).

    q, k, causal, scale and input_pos are as in `attention`.
    Returns (batch, num_heads, q_len), in float32 or, for float64 arguments, float64. It is the
    natural logarithm, and -inf for a row that sees no key. Two results over different keys merge
    with the weights exp(lse_a) and exp(lse_b): Dao et al., "FlashAttention" (2022), section 3.1.
    """
    if input_pos is not None:
        k = k[:, :, : max(0, input_pos + q.shape[2])]
    compute_dtype = np.promote_types(q.dtype, np.float32)
    q, k = (x.astype(compute_dtype) for x in (q, k))
    k = np.repeat(k, q.shape[1] // max(1, k.shape[1]), axis=1)
    s = masked_scores(q, k, causal, scale, input_pos)

    row_max = s.max(axis=-1, initial=-np.inf)
    row_max = np.where(row_max == -np.inf, 0, row_max)  # as in softmax
    row_sum = np.exp(s - row_max[..., np.newaxis]).sum(axis=-1)
    # log(0) would be -inf too, but with a warning.
    log_sum = np.full_like(row_sum, -np.inf)
    np.log(row_sum, out=log_sum, where=row_sum > 0)
    return row_max + log_sum


@_arguments.checked(_check_naive_traffic)
# region: traffic
def naive_traffic(
    q_len,
    k_len,
    head_dim,
    *,
    num_heads=1,
    num_kv_heads=1,
    itemsize=2,
):
    """The bytes that naive attention moves through HBM, for one batch element.

    Naive attention runs three passes: s = q kᵀ, p = softmax(s) and o = p v. Each
    pass reads its inputs from HBM and writes its result there, every array once.
    K and V have num_kv_heads heads, each read once however many query heads share
    it; all else has num_heads heads.

    q_len, k_len, head_dim, num_heads, num_kv_heads: ints, 0 or more.
    itemsize: bytes of one element of any array, s and p too; 2 for float16.

    Returns a dict of bytes as ints: "read_q", "read_k", "write_s", "read_s",
    "write_p", "read_p", "read_v", "write_o".
    """
    q_bytes = num_heads * q_len * head_dim * itemsize  # o has the same size
    kv_bytes = num_kv_heads * k_len * head_dim * itemsize  # k or v, each
    s_bytes = num_heads * q_len * k_len * itemsize  # p has the same size
    return {
        "read_q": q_bytes,
        "read_k": kv_bytes,
        "write_s": s_bytes,
        "read_s": s_bytes,
        "write_p": s_bytes,
        "read_p": s_bytes,
        "read_v": kv_bytes,
        "write_o": q_bytes,
    }


# endregion
