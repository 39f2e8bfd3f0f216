"""Chapter 02: the softmax of a row whose scores arrive block by block.

The running maximum and the rescaled sum are those of Milakov and Gimelshein, "Online normalizer
calculation for softmax" (2018), algorithm 3; the output carried along with them is that of Rabe and
Staats, "Self-attention Does Not Need O(n²) Memory" (2021), and of Dao et al., "FlashAttention"
(2022). Dividing once at the end is Dao, "FlashAttention-2" (2023), section 3.1. Merging parts of
the keys is what Flash-Decoding (Dao et al., 2023) does with splits of a KV cache.

The **state** of a row after some of its keys is a triple. `m_i` is the largest score so far, `l_i`
the sum of exp(score - m_i), and `acc` the sum of exp(score - m_i) · value. After no key they are
-inf, 0 and 0. The state is kept in float32 at least: float16 and bfloat16 are refused where a state
goes in.

The book shows the marked regions, and each runs in a notebook as it stands. The argument checks
are outside them. All public functions raise TypeError for an argument of the wrong type or dtype
and ValueError for a wrong value or shape, before they compute; the message names the argument and
what was got. What they do not check is what the arrays hold. A NaN stays visible. acc is divided
only at the end, so values near the largest number of its dtype make it overflow.
"""

import math

import numpy as np

from kernels import _arguments

__all__ = ["attend_row", "finish", "merge", "merge_outputs", "update", "update_normalised"]

STATE_DTYPES = ("float32", "float64")


def _check_update(m_i, l_i, acc, s, v):
    arrays = {"m_i": m_i, "l_i": l_i, "acc": acc, "s": s, "v": v}
    return _check_block(arrays, "acc")


def _check_update_normalised(m_i, l_i, o, s, v):
    return _check_block({"m_i": m_i, "l_i": l_i, "o": o, "s": s, "v": v}, "o")


def _check_block(arrays, output):
    _arguments.check_arrays(arrays, STATE_DTYPES)
    _arguments.check_axes(
        arrays,
        {
            "m_i": ("rows",),
            "l_i": ("rows",),
            output: ("rows", "head_dim"),
            "s": ("rows", "keys"),
            "v": ("keys", "head_dim"),
        },
    )
    _arguments.check_head_dim(output, arrays[output])
    return {}


def _check_merge(a, b):
    _check_state("a", a)
    _check_state("b", b)
    _arguments.check_same_dtype(**{"a's m_i": a[0], "b's m_i": b[0]})
    if a[2].shape != b[2].shape:
        raise ValueError(
            "a and b must be states of the same rows and head_dim, "
            f"got an acc of shape {a[2].shape} in a and of shape {b[2].shape} in b"
        )
    return {}


def _check_finish(m_i, l_i, acc):
    arrays = {"m_i": m_i, "l_i": l_i, "acc": acc}
    _check_dtypes(arrays)
    _check_row_shapes(arrays)
    return {}


def _check_state(name, state):
    if not isinstance(state, tuple) or len(state) != 3:
        raise TypeError(f"{name} must be a tuple (m_i, l_i, acc), got {_described(state)}")
    arrays = {f"{name}'s {part}": x for part, x in zip(("m_i", "l_i", "acc"), state, strict=True)}
    _check_dtypes(arrays)
    _check_row_shapes(arrays)


def _check_dtypes(arrays):
    # NumPy gives a 0-d result as a scalar. A single row's m_i and lse come back as one.
    arrays = {name: np.asarray(x) if isinstance(x, np.generic) else x for name, x in arrays.items()}
    _arguments.check_arrays(arrays, STATE_DTYPES)


def _described(value):
    kind = type(value).__name__
    return f"a tuple of {len(value)}" if isinstance(value, tuple) else f"a {kind}"


def _check_row_shapes(arrays):
    """Two arrays of a number for each row, and one of a vector for each row."""
    (name, first), (name_2, second), (last_name, last) = arrays.items()
    if last.ndim == 0 or first.shape != last.shape[:-1] or second.shape != last.shape[:-1]:
        raise ValueError(
            f"{name} and {name_2} must have the shape of {last_name} without its last axis, got "
            f"{first.shape} and {second.shape} beside {last.shape}"
        )
    _arguments.check_head_dim(last_name, last)


def _check_merge_outputs(o_a, lse_a, o_b, lse_b):
    arrays = {"o_a": o_a, "lse_a": lse_a, "o_b": o_b, "lse_b": lse_b}
    _check_dtypes(arrays)
    if o_a.shape != o_b.shape:
        raise ValueError(f"o_a and o_b must have the same shape, got {o_a.shape} and {o_b.shape}")
    _check_row_shapes({"lse_a": lse_a, "lse_b": lse_b, "o_a": o_a})
    return {}


def _check_attend_row(q, blocks, scale):
    _arguments.check_array("q", q)
    if q.ndim != 1:
        raise ValueError(f"q must be 1-D (head_dim,), got shape {q.shape}")
    _arguments.check_head_dim("q", q)
    try:
        blocks = iter(blocks)
    except TypeError as error:
        raise TypeError(f"blocks must be an iterable of pairs (k, v), got {blocks!r}") from error
    return {"scale": _arguments.clean_scale(scale), "blocks": _checked_blocks(q, blocks)}


def _checked_blocks(q, blocks):
    """Each block as it arrives, checked: a stream can't be looked at before it is used."""
    for number, block in enumerate(blocks):
        if not isinstance(block, tuple) or len(block) != 2:
            raise TypeError(
                f"blocks must yield pairs (k, v), got {_described(block)} as block {number}"
            )
        arrays = {f"k of block {number}": block[0], f"v of block {number}": block[1]}
        _arguments.check_arrays({"q": q, **arrays})
        axes = dict.fromkeys(arrays, ("keys", "head_dim"))
        _arguments.check_axes({"q": q, **arrays}, {"q": ("head_dim",), **axes})
        yield block


@_arguments.checked(_check_update)
# region: update
def update(m_i, l_i, acc, s, v):
    """One step of the online softmax: take a block of keys into the state.

    m_i: (rows,), the largest score of each row so far, -inf for no score.
    l_i: (rows,), the sum of exp(score - m_i) so far.
    acc: (rows, head_dim), the sum of exp(score - m_i) · value so far.
    s: (rows, keys), the block's scores; -inf hides a key from a row.
    v: (keys, head_dim), the block's values, all of them finite.
    All have the same dtype, float32 or float64. keys may be 0.

    Returns the new (m_i, l_i, acc), of the same shapes and dtype, and leaves
    its arguments unchanged. A row that has seen no score but -inf has -inf, 0
    and 0.
    """
    m_new = np.maximum(m_i, s.max(axis=1, initial=-np.inf))
    # -inf - -inf is NaN. The 0 is for the subtraction only: m_new stays -inf.
    shift = np.where(m_new == -np.inf, 0, m_new)
    correction = np.exp(m_i - shift)
    p = np.exp(s - shift[:, np.newaxis])
    l_new = correction * l_i + p.sum(axis=1)
    acc_new = correction[:, np.newaxis] * acc + p @ v
    return m_new, l_new, acc_new


# endregion


@_arguments.checked(_check_merge)
# region: merge
def merge(a, b):
    """The state of a and b together: the same rows, over different keys.

    a, b: tuples (m_i, l_i, acc) as `update` returns them. m_i and l_i may
        have any shape; acc has one axis more, head_dim. All have the same
        dtype, float32 or float64.

    Returns a tuple (m_i, l_i, acc) of the same shapes and dtype, and leaves
    its arguments unchanged. A row that has seen no key has -inf, 0 and 0, and
    a merge with it changes nothing.
    """
    m_a, l_a, acc_a = a
    m_b, l_b, acc_b = b
    m_i = np.maximum(m_a, m_b)
    shift = np.where(m_i == -np.inf, 0, m_i)  # as in update
    correction_a = np.exp(m_a - shift)
    correction_b = np.exp(m_b - shift)
    l_i = correction_a * l_a + correction_b * l_b
    acc = correction_a[..., np.newaxis] * acc_a
    acc = acc + correction_b[..., np.newaxis] * acc_b
    return m_i, l_i, acc


# endregion


@_arguments.checked(_check_finish)
# region: finish
def finish(m_i, l_i, acc):
    """What a state stands for: the output and the LSE of its rows.

    m_i, l_i: any shape, the same for both. acc: that shape and head_dim.
    All have the same dtype, float32 or float64.

    Returns (o, lse): o of acc's shape, the weighted mean of the values, and
    lse of m_i's shape, the natural logarithm of the sum of exp(score). A row
    that has seen no key has o = 0 and lse = -inf.
    """
    # A row with no key has l_i = 0. Dividing by 1 keeps its 0, and adding
    # log(1) keeps its -inf.
    divisor = np.where(l_i == 0, 1, l_i)
    return acc / divisor[..., np.newaxis], m_i + np.log(divisor)


# endregion


@_arguments.checked(_check_attend_row)
# region: row
def attend_row(q, blocks, *, scale=None):
    """Attention of one query over keys and values that arrive in blocks.

    q: (head_dim,), of float16, float32 or float64.
    blocks: an iterable of pairs (k, v), which is read once, first to last.
        k and v are (keys, head_dim) and have q's dtype; keys may differ from
        block to block, and may be 0. A block's memory may be used again for
        the next block.
    scale: a number. None means 1 / sqrt(head_dim), and 0.0 means 0.0.

    Returns (o, lse): o (head_dim,) in q's dtype, and lse, the natural
    logarithm of the sum of exp(score), a scalar in float32 at least. All is
    computed in float32 at least (float64 stays float64). Without a key o is
    0, lse -inf.
    """
    if scale is None:
        scale = 1 / math.sqrt(len(q))
    compute_dtype = np.promote_types(q.dtype, np.float32)
    q_rows = q.astype(compute_dtype)[np.newaxis]  # update takes rows: here 1
    m_i = np.full(1, -np.inf, compute_dtype)
    l_i = np.zeros(1, compute_dtype)
    acc = np.zeros(q_rows.shape, compute_dtype)
    for k, v in blocks:
        s = scale * (q_rows @ k.astype(compute_dtype).T)
        m_i, l_i, acc = update(m_i, l_i, acc, s, v.astype(compute_dtype))
    o, lse = finish(m_i, l_i, acc)
    return o[0].astype(q.dtype), lse[0]


# endregion


@_arguments.checked(_check_update_normalised)
# region: update-normalised
def update_normalised(m_i, l_i, o, s, v):
    """`update` with the division in every step: o takes the place of acc.

    o: (rows, head_dim), the weighted mean of the values so far, 0 for no key.
    All else, and what it raises and returns, is as in `update`.
    """
    m_new = np.maximum(m_i, s.max(axis=1, initial=-np.inf))
    shift = np.where(m_new == -np.inf, 0, m_new)
    p = np.exp(s - shift[:, np.newaxis])
    l_old = np.exp(m_i - shift) * l_i
    l_new = l_old + p.sum(axis=1)
    divisor = np.where(l_new == 0, 1, l_new)[:, np.newaxis]
    o_new = (l_old[:, np.newaxis] * o + p @ v) / divisor
    return m_new, l_new, o_new


# endregion


@_arguments.checked(_check_merge_outputs)
# region: merge-outputs
def merge_outputs(o_a, lse_a, o_b, lse_b):
    """The output and LSE over all keys, from those over two parts of them.

    o_a, o_b: any shape, the same for both; its last axis is head_dim.
    lse_a, lse_b: that shape without head_dim; natural logarithms, -inf for a
        row that saw no key. All have the same dtype, float32 or float64.

    Returns (o, lse) of the same shapes and dtype.
    """
    # (lse, 1, o) is a state of the same row. With an lse of -inf it weighs 0.
    a = lse_a, np.ones_like(lse_a), o_a
    b = lse_b, np.ones_like(lse_b), o_b
    return finish(*merge(a, b))


# endregion
