"""Mistakes that learners make in the tile loop."""

from course.exercise import edit, mutant

FINISH = "o[rows], lse[rows] = finish(m_i, l_i, acc)"
STATE = (
    "        m_i = np.full(len(seen), -np.inf, q.dtype)\n"
    "        l_i, acc = np.zeros_like(m_i), np.zeros_like(q[rows])\n"
)
VARIANT_STATE = (
    "        m, total = np.full(bottom - top, -np.inf, wide), np.zeros(bottom - top, wide)\n"
    "        output = np.zeros_like(queries)\n"
)


def indented(lines):
    return "".join(f"    {line}" for line in lines.splitlines(keepends=True))


MUTANTS = [
    mutant(
        "no_scale",
        inputs=("tiles fit", "ragged keys"),
        says="The scores are not scaled: multiply them by `scale`, or by 1 / sqrt(head_dim).",
        reference=edit("scale * (q[rows]", "(q[rows]"),
        variant=edit("factor * np.einsum", "np.einsum"),
    ),
    mutant(
        "scale_zero_ignored",
        inputs="scale zero",
        right="scale given",
        says="scale=0.0 is a number like any other: only None means 1 / sqrt(head_dim).",
        reference=edit("if scale is None:", "if not scale:"),
        variant=edit("if scale is None else", "if not scale else"),
    ),
    mutant(
        "last_key_tile_dropped",
        inputs=("ragged keys", "uneven tiles"),
        right=("tiles fit", "tiles of 1", "causal"),
        says=(
            "The last key tile is left out where it is short. The number of tiles is rounded up, "
            "not down."
        ),
        reference=edit("range(stop)", "range(int(seen[-1]) // tile_n)"),
        variant=edit("range(0, end, tile_n)", "range(0, end - tile_n + 1, tile_n)"),
    ),
    mutant(
        "last_query_tile_dropped",
        inputs=("ragged queries", "uneven tiles"),
        right=("tiles fit", "ragged keys"),
        says=(
            "The last query tile is left out where it is short, and its rows stay 0. The number of "
            "tiles is rounded up, not down."
        ),
        reference=edit("range(math.ceil(q_len / tile_m))", "range(q_len // tile_m)"),
        variant=edit("range(0, q_len, tile_m)", "range(0, q_len - tile_m + 1, tile_m)"),
    ),
    mutant(
        "state_kept",
        inputs=("tiles fit", "causal"),
        right="one tile",
        says=(
            "A query tile starts with the state of the one before it. Its rows are other rows: "
            "set m_i, l_i and acc anew for each query tile."
        ),
        reference=edit(STATE, "        if i == 0:\n" + indented(STATE)),
        variant=edit(VARIANT_STATE, "        if top == 0:\n" + indented(VARIANT_STATE)),
    ),
    mutant(
        "state_reset",
        inputs=("tiles fit", "ragged keys"),
        right="one tile",
        says=(
            "Only the last key tile counts: the state starts anew with each. Set it up before the "
            "loop over the key tiles."
        ),
        reference=edit("            # Up to", indented(STATE) + "            # Up to"),
        variant=edit(
            "            right = min", indented(VARIANT_STATE) + "            right = min"
        ),
    ),
    mutant(
        "key_positions_of_the_first_tile",
        inputs=("causal", "causal, tall tiles"),
        right=("tiles fit", "one tile"),
        says=(
            "The mask takes the keys of each tile for keys 0, 1, 2, … of the sequence. Key c of "
            "key tile j is key j · tile_n + c."
        ),
        reference=edit("hide_keys(s, keys.start, seen)", "hide_keys(s, 0, seen)"),
        variant=edit("first + row + 1 - left", "first + row + 1"),
    ),
    mutant(
        "query_positions_of_the_first_tile",
        inputs=("causal", "causal, wide tiles"),
        right=("tiles fit", "one tile", "one query"),
        says=(
            "The mask takes the queries of each tile for queries 0, 1, 2, … of the sequence. Row r "
            "of query tile i is query i · tile_m + r."
        ),
        reference=edit(
            "np.arange(rows.start, rows.stop)",
            "np.arange(rows.stop - rows.start)",
            ("if j >= free:", "if True:"),
        ),
        variant=edit("first + row + 1 - left", "first + row - top + 1 - left"),
    ),
    mutant(
        "no_mask_in_the_tile",
        inputs=("causal", "causal, wide tiles", "causal, tall tiles"),
        right=("tiles fit", "one query"),
        says=(
            "Key tiles are skipped, but those that cross the diagonal aren't masked, or not all of "
            "them are. They hold keys that some of their queries don't see."
        ),
        reference=edit("if j >= free:", "if False:"),
        variant=edit("                if causal:", "                if False:"),
    ),
    mutant(
        "no_mask",
        inputs=("causal", "causal, more keys"),
        right=("tiles fit", "one query"),
        says="With causal=True nothing is hidden and no tile is skipped: the mask is missing.",
        reference=edit('{"causal": causal, "input_pos": input_pos}', "{}"),
        variant=edit(
            " if causal else k_len",
            " if False else k_len",
            ("                if causal:", "                if False:"),
        ),
    ),
    mutant(
        "top_left",
        inputs=("causal, more keys", "one query"),
        right=("causal", "input_pos"),
        says=(
            "Your causal mask is aligned top left: query i sees i + 1 keys whatever the lengths "
            "are. Here the last query sees all keys, as a cache needs it."
        ),
        reference=edit(
            '"input_pos": input_pos}',
            '"input_pos": 0 if causal and input_pos is None else input_pos}',
        ),
        variant=edit("k_len - q_len if", "0 if"),
    ),
    mutant(
        "input_pos_zero_ignored",
        inputs="input_pos 0",
        right="input_pos",
        says="input_pos=0 is a position like any other: only None means k_len - q_len.",
        reference=edit('"input_pos": input_pos}', '"input_pos": input_pos or None}'),
        variant=edit("if input_pos is None else", "if not input_pos else"),
    ),
    mutant(
        "kv_heads_in_turn",
        inputs=("grouped heads", "grouped heads, causal"),
        right="tiles fit",
        says=(
            "Query heads take KV heads in turn (0, 1, 2, 0, 1, 2). Neighbours share one: query "
            "head h uses KV head h // group_size."
        ),
        reference=edit("kv_head = h // group_size", "kv_head = h % k.shape[1]"),
        variant=edit("h // (num_heads // num_kv_heads)", "h % num_kv_heads"),
    ),
    mutant(
        "unused_slots",
        inputs="unused slots",
        right=("input_pos", "causal"),
        says=(
            "NaN in cache slots that no query sees reaches the result: their weight is 0, and "
            "0 · NaN is NaN. Cut the key tile off behind the last key that its queries see."
        ),
        reference=edit("min((j + 1) * tile_n, seen[-1])", "(j + 1) * tile_n"),
        variant=edit("right = min(left + tile_n, end)", "right = min(left + tile_n, k_len)"),
    ),
    mutant(
        "row_without_keys",
        inputs="causal, more queries",
        right="causal",
        says="A query that sees no key gives NaN, from 0 / 0. It must give 0, and an lse of -inf.",
        reference=edit(FINISH, "o[rows], lse[rows] = acc / l_i[:, np.newaxis], m_i + np.log(l_i)"),
        variant=edit("seen = ~(total == 0)", "seen = total >= 0"),
    ),
    mutant(
        "not_divided",
        inputs=("tiles fit", "one tile"),
        says="o is the plain sum of weight · value. Divide it by l_i after the last key tile.",
        reference=edit(FINISH, "o[rows], lse[rows] = acc, finish(m_i, l_i, acc)[1]"),
        variant=edit("output[seen] / total[seen][:, None]", "output[seen]"),
    ),
    mutant(
        "lse_without_maximum",
        inputs=("tiles fit", "one tile"),
        says="lse lacks the maximum: ln Σ exp(s) is m_i + ln l_i, since l_i is Σ exp(s - m_i).",
        reference=edit(FINISH, "o[rows], lse[rows] = finish(m_i, l_i, acc)[0], np.log(l_i)"),
        variant=edit("lse[b, h, top:bottom] = m", "lse[b, h, top:bottom] = 0"),
    ),
    mutant(
        "lse_base_2",
        inputs=("tiles fit", "one tile"),
        says="lse is a logarithm to base 2. It must be the natural one.",
        reference=edit(FINISH, FINISH + "\n        lse[rows] /= np.log(2)"),
        variant=edit("    return o, lse", "    return o, lse / wide(np.log(2))"),
    ),
    mutant(
        "half_precision",
        inputs="float16, large products",
        says="You compute in float16, which overflows at 65504. Convert to float32 before `@`.",
        reference=edit("np.promote_types(q.dtype, np.float32)", "q.dtype"),
        variant=edit("else np.float32", "else q.dtype.type"),
    ),
    mutant(
        "state_in_half",
        inputs="float16, long row",
        says=(
            "The state is kept in float16, where a sum of ones sticks at 2048. Keep it in float32, "
            "whatever the inputs are."
        ),
        reference=edit(
            "            m_i, l_i, acc = update(m_i, l_i, acc, s, v[keys])\n",
            "            m_i, l_i, acc = update(m_i, l_i, acc, s, v[keys])\n"
            "            l_i = l_i.astype(np.float16).astype(q.dtype)\n",
        ),
        variant=edit(
            "            m = new\n",
            "            m, total = new, total.astype(np.float16).astype(wide)\n",
        ),
    ),
    mutant(
        "scaled_in_half",
        inputs="float16, scaled",
        right=("tiles fit", "float16", "float64"),
        says=(
            "q is multiplied by the scale while it is still float16, and the product is rounded to "
            "11 bits. Convert to float32 first."
        ),
        reference=edit(
            "head = q[b, h], k[b, kv_head]",
            "head = q[b, h] * q.dtype.type(scale), k[b, kv_head]",
            ("s = scale * (q[rows] @ k[keys].T)", "s = q[rows] @ k[keys].T"),
        ),
        variant=edit(
            "queries = q[b, h, top:bottom].astype(wide)",
            "queries = (q[b, h, top:bottom] * q.dtype.type(factor)).astype(wide)",
            ("factor * np.einsum", "np.einsum"),
        ),
    ),
    mutant(
        "wide_result",
        inputs="float16",
        right="float64",
        says="o must have q's dtype: compute in float32, then convert back.",
        reference=edit("    o = np.zeros_like(q)\n", "    o = np.zeros(q.shape, compute_dtype)\n"),
        variant=edit("np.zeros(q.shape, q.dtype)", "np.zeros(q.shape, wide)"),
    ),
    mutant(
        "all_scores_at_once",
        inputs=("long", "many keys"),
        right=("tiles fit", "causal"),
        says=(
            "The results are right, and at some point far more is held than a tile of scores: all "
            "scores, a whole mask, or rows of scores as long as the keys. Tiles do without."
        ),
        reference=edit(
            "    q_len, k_len = len(q), len(k)\n",
            "    q_len, k_len = len(q), len(k)\n    s = q @ k.T\n",
        ),
        variant=edit(
            "        bottom = min",
            '        s = np.einsum("id,jd->ij", q[b, h].astype(wide), k[b, kv_head].astype(wide))\n'
            "        bottom = min",
        ),
    ),
]
