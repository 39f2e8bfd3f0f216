"""Chapter 03: attention tile by tile, forward and backward, in NumPy.

The forward pass is that of Dao, "FlashAttention-2" (2023), algorithm 1: loops over tiles of
queries outside, over tiles of keys inside. With the keys outside it is that of Dao et al.,
"FlashAttention" (2022), algorithm 1. The backward pass recomputes the weights from the scores and
the LSE, as in appendix B of the latter; its tiles are those of the forward pass. The traffic
counted is between HBM and the chip, with no cache between them.

Besides NumPy's own dtypes, attention takes the bfloat16 of ml_dtypes. Any axis but head_dim may be
empty. A tile at the end of an array is as short as what is left of it.

The book shows the marked regions; those of `kernels/online_softmax.py` and of `_arguments` aside,
each needs only the regions before it. All public functions raise TypeError for an argument of the
wrong type or dtype and ValueError for a wrong value or shape, before they compute; the message
names the argument and what was got. What they do not check is what the arrays hold: a NaN that
some query sees stays visible.
"""

import math

import numpy as np

from kernels import _arguments
from kernels.online_softmax import STATE_DTYPES, finish, update

__all__ = [
    "attention_backward",
    "attention_forward",
    "attention_keys_outside",
    "hide_keys",
    "key_tiles",
    "largest_tiles",
    "on_chip_bytes",
    "score_gradients",
    "tiled_traffic",
    "visible_keys",
]


def _clean_length(name, length, least=0):
    # NumPy counts in 64 bits: without a limit it would overflow, or wrap around unseen.
    return _arguments.clean_int(name, length, least, _arguments.POSITION_LIMIT)


def _clean_tiles(tile_m, tile_n):
    return {
        "tile_m": _clean_length("tile_m", tile_m, 1),
        "tile_n": _clean_length("tile_n", tile_n, 1),
    }


def _clean_mask(causal, input_pos):
    _arguments.check_flag("causal", causal)
    return {"input_pos": _arguments.clean_input_pos(input_pos, causal)}


def _check_visible_keys(i, q_len, k_len, causal, input_pos):
    clean = {
        "q_len": _clean_length("q_len", q_len),
        "k_len": _clean_length("k_len", k_len),
        **_clean_mask(causal, input_pos),
    }
    if isinstance(i, np.ndarray):
        _arguments.check_array("i", i, dtypes=("int32", "int64"))
        last = clean["q_len"] - 1
        if i.size and not (i.min() >= 0 and i.max() <= last):
            raise ValueError(f"i must be from 0 to {last}, got {i.min()} to {i.max()}")
        return {**clean, "i": i.astype(np.int64)}
    return {**clean, "i": _arguments.clean_int("i", i, 0, clean["q_len"] - 1)}


def _check_key_tiles(i, q_len, k_len, tile_m, tile_n, causal, input_pos):
    tiles = _clean_tiles(tile_m, tile_n)
    q_len = _clean_length("q_len", q_len, 1)
    return {
        **tiles,
        **_clean_mask(causal, input_pos),
        "q_len": q_len,
        "k_len": _clean_length("k_len", k_len),
        "i": _arguments.clean_int("i", i, 0, (q_len - 1) // tiles["tile_m"]),
    }


def _check_hide_keys(s, first_key, seen):
    _arguments.check_array("s", s, dtypes=STATE_DTYPES)
    _arguments.check_array("seen", seen, dtypes=("int32", "int64"))
    _arguments.check_axes({"s": s, "seen": seen}, {"s": ("rows", "keys"), "seen": ("rows",)})
    return {"first_key": _clean_length("first_key", first_key)}


def _check_forward(q, k, v, tile_m, tile_n, causal, scale, input_pos):
    clean = _arguments.clean_attention({"q": q, "k": k, "v": v}, causal, scale, input_pos)
    return clean | _clean_tiles(tile_m, tile_n)


def _check_backward(q, k, v, o, lse, do, tile_m, tile_n, causal, scale, input_pos):
    clean = _check_forward(q, k, v, tile_m, tile_n, causal, scale, input_pos)
    for name, array in {"o": o, "do": do}.items():
        _arguments.check_array(name, array)
        if array.shape != q.shape:
            raise ValueError(f"{name} must have q's shape {q.shape}, got {array.shape}")
    _arguments.check_same_dtype(q=q, o=o, do=do)
    _arguments.check_array("lse", lse, dtypes=STATE_DTYPES)
    if lse.shape != q.shape[:3]:
        raise ValueError(f"lse must have the shape {q.shape[:3]}, got {lse.shape}")
    wide = "float64" if _arguments.dtype_name(q) == "float64" else "float32"
    if _arguments.dtype_name(lse) != wide:
        raise TypeError(
            f"lse must be {wide} beside a q of {q.dtype}, got {_arguments.dtype_name(lse)}"
        )
    return clean


def _check_score_gradients(s, v, o, lse, do):
    arrays = {"s": s, "v": v, "o": o, "lse": lse, "do": do}
    _arguments.check_arrays(arrays, STATE_DTYPES)
    _arguments.check_axes(
        arrays,
        {
            "s": ("rows", "keys"),
            "v": ("keys", "head_dim"),
            "o": ("rows", "head_dim"),
            "lse": ("rows",),
            "do": ("rows", "head_dim"),
        },
    )
    _arguments.check_head_dim("v", v)
    return {}


def _check_on_chip_bytes(tile_m, tile_n, head_dim, itemsize):
    return {
        **_clean_tiles(tile_m, tile_n),
        "head_dim": _arguments.clean_int("head_dim", head_dim, 1),
        "itemsize": _arguments.clean_int("itemsize", itemsize, 1, 8),
    }


def _check_largest_tiles(memory_bytes, head_dim, itemsize):
    return {
        "memory_bytes": _arguments.clean_int("memory_bytes", memory_bytes, 0),
        "head_dim": _arguments.clean_int("head_dim", head_dim, 1),
        "itemsize": _arguments.clean_int("itemsize", itemsize, 1, 8),
    }


def _check_tiled_traffic(
    q_len, k_len, head_dim, tile_m, tile_n, outside, causal, input_pos, num_heads, itemsize
):
    if not isinstance(outside, str):
        raise TypeError(f"outside must be 'queries' or 'keys', got {outside!r}")
    if outside not in ("queries", "keys"):
        raise ValueError(f"outside must be 'queries' or 'keys', got {outside!r}")
    return {
        "q_len": _clean_length("q_len", q_len),
        "k_len": _clean_length("k_len", k_len),
        "head_dim": _arguments.clean_int("head_dim", head_dim, 1),
        **_clean_tiles(tile_m, tile_n),
        **_clean_mask(causal, input_pos),
        "num_heads": _arguments.clean_int("num_heads", num_heads, 0),
        "itemsize": _arguments.clean_int("itemsize", itemsize, 1, 8),
    }


@_arguments.checked(_check_visible_keys)
# region: visible
def visible_keys(i, q_len, k_len, *, causal=False, input_pos=None):
    """How many keys query i sees. They are the first ones: 0, 1, 2, ...

    i: an int, or an array of them; 0 <= i < q_len.
    q_len, k_len: how many queries and keys there are, ints; k_len may be 0.
    causal: True lets query i, which stands at position input_pos + i, see the
        keys 0 to input_pos + i.
    input_pos: an int, used with causal only. None means k_len - q_len.

    Returns an integer from 0 to k_len, or an array of them.
    """
    if not causal:
        return np.full_like(i, k_len)[()]  # [()]: a number for a number
    if input_pos is None:
        input_pos = k_len - q_len
    return np.clip(input_pos + i + 1, 0, k_len)


# endregion


@_arguments.checked(_check_key_tiles)
# region: range
def key_tiles(i, q_len, k_len, tile_m, tile_n, *, causal=False, input_pos=None):
    """Which key tiles query tile i visits, and which of them need the mask.

    i: which query tile, an int. It holds the queries from i * tile_m on:
        tile_m of them, or as many as are left.
    q_len, k_len: how many queries and keys there are, ints; k_len may be 0.
    tile_m, tile_n: queries and keys in a tile, ints.
    causal, input_pos: as in `visible_keys`.

    Returns (free, stop), integers with 0 <= free <= stop.
        Key tiles 0 to free - 1 are whole, that is, tile_n keys long, and
            every query of the tile sees all of them: they need no mask.
        Key tiles free to stop - 1 need one: some query of the tile sees a key
            of each, and not all is visible or the tile isn't whole.
        From key tile stop on, no query of the tile sees anything.
    """
    first_query = i * tile_m
    last_query = min(first_query + tile_m, q_len) - 1
    mask = {"causal": causal, "input_pos": input_pos}
    seen_by_all = visible_keys(first_query, q_len, k_len, **mask)
    seen_by_some = visible_keys(last_query, q_len, k_len, **mask)
    return int(seen_by_all // tile_n), math.ceil(seen_by_some / tile_n)


# endregion


@_arguments.checked(_check_hide_keys)
# region: hide
def hide_keys(s, first_key, seen):
    """The scores of a tile, with -inf where a query doesn't see the key.

    s: (rows, keys), the scores. first_key: an int, the first key of the tile.
    seen: (rows,), how many keys each query sees, as from `visible_keys`.

    Returns an array of s's shape and dtype.
    """
    key = first_key + np.arange(s.shape[1])
    return np.where(key < seen[:, np.newaxis], s, -np.inf)


# endregion


@_arguments.checked(_check_forward)
# region: forward
def attention_forward(
    q,
    k,
    v,
    *,
    tile_m,
    tile_n,
    causal=False,
    scale=None,
    input_pos=None,
):
    """Attention tile by tile: softmax(scale · q kᵀ) v, and each row's LSE.

    q: (batch, num_heads, q_len, head_dim)
    k, v: (batch, num_kv_heads, k_len, head_dim). num_heads is a multiple of
        num_kv_heads. With group_size = num_heads // num_kv_heads, query head
        h uses KV head h // group_size.
    q, k and v have the same dtype: float16, float32 or float64.
    tile_m, tile_n: queries and keys in a tile, ints. The lengths need not be
        multiples of them.
    causal: True lets query i, which stands at position input_pos + i, see
        only the keys 0 to input_pos + i.
    input_pos: an int, used with causal only. None means k_len - q_len, so
        that the last query sees all the keys. It may be negative: a query
        before position 0 sees no key.
    scale: a number. None means 1 / sqrt(head_dim), and 0.0 means 0.0.

    Returns (o, lse): o of q's shape and dtype; lse (batch, num_heads, q_len),
    the natural logarithm of the sum of exp(score), in float32 at least. All
    is computed in float32 at least (float64 stays float64). A row that sees no
    key has o = 0 and lse = -inf; k_len may be 0. What k and v hold past the
    last query's position never reaches the result, not even a NaN.
    """
    if scale is None:
        scale = 1 / math.sqrt(q.shape[3])
    compute_dtype = np.promote_types(q.dtype, np.float32)
    group_size = q.shape[1] // max(1, k.shape[1])  # max: if there are no heads
    o = np.zeros_like(q)
    lse = np.zeros(q.shape[:3], compute_dtype)
    mask = {"causal": causal, "input_pos": input_pos}
    for b, h in np.ndindex(q.shape[:2]):
        kv_head = h // group_size
        head = q[b, h], k[b, kv_head], v[b, kv_head]
        head = (x.astype(compute_dtype) for x in head)
        o[b, h], lse[b, h] = head_forward(*head, tile_m, tile_n, scale, mask)
    return o, lse


def head_forward(q, k, v, tile_m, tile_n, scale, mask):
    """The loops of `attention_forward`, for one head.

    q: (q_len, head_dim). k, v: (k_len, head_dim). All have the same dtype,
    the one to compute in. scale: a number. mask: a dict of the options of
    `visible_keys`, causal and input_pos.

    Returns (o, lse) of the shapes (q_len, head_dim) and (q_len,).
    """
    q_len, k_len = len(q), len(k)
    o, lse = np.zeros_like(q), np.zeros(q_len, q.dtype)
    for i in range(math.ceil(q_len / tile_m)):
        rows = slice(i * tile_m, min((i + 1) * tile_m, q_len))
        queries = np.arange(rows.start, rows.stop)
        seen = visible_keys(queries, q_len, k_len, **mask)
        free, stop = key_tiles(i, q_len, k_len, tile_m, tile_n, **mask)
        m_i = np.full(len(seen), -np.inf, q.dtype)
        l_i, acc = np.zeros_like(m_i), np.zeros_like(q[rows])
        for j in range(stop):
            # Up to the last key seen: what lies beyond may be NaN.
            keys = slice(j * tile_n, min((j + 1) * tile_n, seen[-1]))
            s = scale * (q[rows] @ k[keys].T)
            if j >= free:
                s = hide_keys(s, keys.start, seen)
            m_i, l_i, acc = update(m_i, l_i, acc, s, v[keys])
        o[rows], lse[rows] = finish(m_i, l_i, acc)
    return o, lse


# endregion


# region: keys-outside
def head_keys_outside(q, k, v, tile_m, tile_n, scale, mask):
    """`head_forward` with its two loops exchanged."""
    q_len, k_len = len(q), len(k)
    # The state of all rows: it is too large for the chip, and waits in HBM.
    m_i = np.full(q_len, -np.inf, q.dtype)
    l_i, acc = np.zeros_like(m_i), np.zeros_like(q)
    for j in range(math.ceil(k_len / tile_n)):
        for i in range(math.ceil(q_len / tile_m)):
            free, stop = key_tiles(i, q_len, k_len, tile_m, tile_n, **mask)
            if j >= stop:
                continue
            rows = slice(i * tile_m, min((i + 1) * tile_m, q_len))
            queries = np.arange(rows.start, rows.stop)
            seen = visible_keys(queries, q_len, k_len, **mask)
            keys = slice(j * tile_n, min((j + 1) * tile_n, seen[-1]))
            s = scale * (q[rows] @ k[keys].T)
            if j >= free:
                s = hide_keys(s, keys.start, seen)
            state = m_i[rows], l_i[rows], acc[rows]
            m_i[rows], l_i[rows], acc[rows] = update(*state, s, v[keys])
    return finish(m_i, l_i, acc)


# endregion


@_arguments.checked(_check_forward)
def attention_keys_outside(q, k, v, *, tile_m, tile_n, causal=False, scale=None, input_pos=None):
    """`attention_forward` with its two loops exchanged: the key tiles outside.

    Takes, returns and raises the same, and each row's sums are taken in the same order.
    """
    if scale is None:
        scale = 1 / math.sqrt(q.shape[3])
    compute_dtype = np.promote_types(q.dtype, np.float32)
    group_size = q.shape[1] // max(1, k.shape[1])
    o = np.zeros_like(q)
    lse = np.zeros(q.shape[:3], compute_dtype)
    mask = {"causal": causal, "input_pos": input_pos}
    for b, h in np.ndindex(q.shape[:2]):
        kv_head = h // group_size
        head = (x.astype(compute_dtype) for x in (q[b, h], k[b, kv_head], v[b, kv_head]))
        o[b, h], lse[b, h] = head_keys_outside(*head, tile_m, tile_n, scale, mask)
    return o, lse


@_arguments.checked(_check_on_chip_bytes)
# region: on-chip
def on_chip_bytes(tile_m, tile_n, head_dim, *, itemsize=2):
    """The bytes that `head_forward` keeps on the chip at a time, by name.

    tile_m, tile_n, head_dim: ints. itemsize: bytes of one number of q, k and
    v; 2 for float16. Scores and state are float32. The weights take the place
    of the scores, and one tile of k and of v is there at a time.

    Returns a dict of bytes as ints: "q", "k", "v", "s", "acc", "m_i", "l_i".
    """
    return {
        "q": tile_m * head_dim * itemsize,
        "k": tile_n * head_dim * itemsize,
        "v": tile_n * head_dim * itemsize,
        "s": tile_m * tile_n * 4,
        "acc": tile_m * head_dim * 4,
        "m_i": tile_m * 4,
        "l_i": tile_m * 4,
    }


# endregion


@_arguments.checked(_check_largest_tiles)
# region: budget
def largest_tiles(memory_bytes, head_dim, *, itemsize=2):
    """The tile sizes that move the least, among those that fit on the chip.

    memory_bytes: what there is for all that `on_chip_bytes` counts, an int.
    head_dim, itemsize: as in `on_chip_bytes`.

    tile_m and tile_n are powers of two from 16 to 256. A larger tile_m always
    comes first, since K and V are read once for each tile of queries; among
    equal ones, a larger tile_n.

    Returns (tile_m, tile_n), or None if not even 16 and 16 fit.
    """
    sizes = (256, 128, 64, 32, 16)
    for tile_m in sizes:
        for tile_n in sizes:
            parts = on_chip_bytes(tile_m, tile_n, head_dim, itemsize=itemsize)
            if sum(parts.values()) <= memory_bytes:
                return tile_m, tile_n
    return None


# endregion


@_arguments.checked(_check_tiled_traffic)
# region: traffic
def tiled_traffic(
    q_len,
    k_len,
    head_dim,
    *,
    tile_m,
    tile_n,
    outside="queries",
    causal=False,
    input_pos=None,
    num_heads=1,
    itemsize=2,
):
    """The bytes that tiled attention moves through HBM, for one sequence.

    outside: "queries", as in `attention_forward`, or "keys", as in
        `attention_keys_outside`. There the state of a row (acc, m_i and l_i,
        in float32) is written after each key tile that its query tile visits,
        and read before each but the first, and once more for the output.
    num_heads: query heads. Each reads its own keys and values, shared or not.
    All else is as in `key_tiles` and `on_chip_bytes`. Nothing else is moved,
    and no cache is counted.

    Returns a dict of bytes as ints: "read_q", "read_k", "read_v",
    "read_state", "write_state", "write_o", "write_lse".
    """
    mask = {"causal": causal, "input_pos": input_pos}
    q_rows = kv_rows = state_rows = 0
    for i in range(math.ceil(q_len / tile_m)):
        rows = min(tile_m, q_len - i * tile_m)
        _, stop = key_tiles(i, q_len, k_len, tile_m, tile_n, **mask)
        keys = min(stop * tile_n, k_len)
        if outside == "queries":
            q_rows += rows
            kv_rows += keys
        else:
            q_rows += rows * stop
            kv_rows = max(kv_rows, keys)
            state_rows += rows * stop
    row_bytes = num_heads * head_dim * itemsize
    state_bytes = num_heads * (head_dim + 2) * 4
    return {
        "read_q": q_rows * row_bytes,
        "read_k": kv_rows * row_bytes,
        "read_v": kv_rows * row_bytes,
        "read_state": state_rows * state_bytes,
        "write_state": state_rows * state_bytes,
        "write_o": q_len * row_bytes,
        "write_lse": q_len * num_heads * 4,
    }


# endregion


@_arguments.checked(_check_score_gradients)
# region: gradients
def score_gradients(s, v, o, lse, do):
    """What the backward pass of one tile needs: the gradients dv, dp and ds.

    s: (rows, keys), scores, -inf where a key is hidden from a row.
    v: (keys, head_dim), the values, all of them finite. keys may be 0.
    o, lse: (rows, head_dim) and (rows,), what the forward pass returned for
        these rows. A row that saw no key at all has o = 0 and lse = -inf.
    do: (rows, head_dim), the gradient of the loss with respect to o.
    All have the same dtype, float32 or float64. s may hold all the keys that
    the rows saw, or one tile of them: o and lse are over all keys anyway.

    Returns (dv, dp, ds): the gradients with respect to v (the part of it that
    comes from these rows), to the weights p = exp(s - lse), and to s. ds is 0
    where a key is hidden; dp is not masked.
    """
    # The guard of update: a row that saw no key has weights of 0.
    p = np.exp(s - np.where(lse == -np.inf, 0, lse)[:, np.newaxis])
    dv = p.T @ do
    dp = do @ v.T
    # The mean of dp over all the keys of a row, weighted by p, is do · o.
    mean = (do * o).sum(axis=1, keepdims=True)
    ds = p * (dp - mean)
    return dv, dp, ds


# endregion


@_arguments.checked(_check_backward)
# region: backward
def attention_backward(
    q,
    k,
    v,
    o,
    lse,
    do,
    *,
    tile_m,
    tile_n,
    causal=False,
    scale=None,
    input_pos=None,
):
    """The gradients of `attention_forward`, with the weights computed again.

    q, k, v, causal, scale, input_pos: as `attention_forward` got them.
    o, lse: what it returned. tile_m, tile_n: any tile sizes.
    do: (batch, num_heads, q_len, head_dim) in q's dtype, the gradient of the
        loss with respect to o.

    Returns (dq, dk, dv), of the shapes of q, k and v and in their dtype,
    computed in float32 at least. A KV head gets the sum over the query heads
    that use it.
    """
    if scale is None:
        scale = 1 / math.sqrt(q.shape[3])
    group_size = q.shape[1] // max(1, k.shape[1])
    output_dtype = q.dtype
    q, k, v, o, do = (x.astype(lse.dtype) for x in (q, k, v, o, do))
    dq, dk, dv = np.zeros_like(q), np.zeros_like(k), np.zeros_like(v)
    mask = {"causal": causal, "input_pos": input_pos}
    for b, h in np.ndindex(q.shape[:2]):
        kv = b, h // group_size
        head = q[b, h], k[kv], v[kv], o[b, h], lse[b, h], do[b, h]
        of_head = head_backward(*head, tile_m, tile_n, scale, mask)
        dq[b, h] = of_head[0]
        dk[kv] += of_head[1]
        dv[kv] += of_head[2]
    return tuple(x.astype(output_dtype) for x in (dq, dk, dv))


def head_backward(q, k, v, o, lse, do, tile_m, tile_n, scale, mask):
    """The loops of `attention_backward`, for one head; see `head_forward`.

    Returns (dq, dk, dv) of the shapes of q, k and v.
    """
    q_len, k_len = len(q), len(k)
    dq, dk, dv = np.zeros_like(q), np.zeros_like(k), np.zeros_like(v)
    for i in range(math.ceil(q_len / tile_m)):
        rows = slice(i * tile_m, min((i + 1) * tile_m, q_len))
        queries = np.arange(rows.start, rows.stop)
        seen = visible_keys(queries, q_len, k_len, **mask)
        _, stop = key_tiles(i, q_len, k_len, tile_m, tile_n, **mask)
        for j in range(stop):
            keys = slice(j * tile_n, min((j + 1) * tile_n, seen[-1]))
            s = hide_keys(scale * (q[rows] @ k[keys].T), keys.start, seen)
            of_rows = o[rows], lse[rows], do[rows]
            dv_part, _, ds = score_gradients(s, v[keys], *of_rows)
            dv[keys] += dv_part
            dq[rows] += scale * (ds @ k[keys])
            dk[keys] += scale * (ds.T @ q[rows])
    return dq, dk, dv


# endregion
