"""Mistakes that learners make in attention."""

from course.exercise import edit, mutant

MUTANTS = [
    mutant(
        "no_scale",
        inputs="plain",
        says="The scores are not scaled: multiply them by `scale`, or by 1 / sqrt(head_dim).",
        reference=edit("scale * (q @ k.swapaxes(-1, -2))", "q @ k.swapaxes(-1, -2)"),
        variant=edit("factor * np.einsum", "np.einsum"),
    ),
    mutant(
        "scale_without_root",
        inputs=("plain", "causal"),
        says="You divide by head_dim, or twice by its root. The scale is 1 / sqrt(head_dim), once.",
        reference=edit("1 / math.sqrt(head_dim)", "1 / head_dim"),
        variant=edit("head_dim**-0.5", "1 / head_dim"),
    ),
    mutant(
        "divided_by_scale",
        inputs="plain",
        says="You divide by the scale. Scores are multiplied by it.",
        reference=edit("scale * (q @ k.swapaxes(-1, -2))", "(q @ k.swapaxes(-1, -2)) / scale"),
        variant=edit("factor * np.einsum", "1 / factor * np.einsum"),
    ),
    mutant(
        "root_of_the_length",
        inputs="plain",
        says="You scale by the number of keys. The d in 1 / sqrt(d) is head_dim.",
        reference=edit("1 / math.sqrt(head_dim)", "1 / math.sqrt(k_len)"),
        variant=edit("head_dim**-0.5", "k_len**-0.5"),
    ),
    mutant(
        "scale_zero_ignored",
        inputs="scale zero",
        says="scale=0.0 is a number like any other: only None means 1 / sqrt(head_dim).",
        reference=edit("if scale is None:", "if not scale:"),
        variant=edit("if scale is None else", "if not scale else"),
    ),
    mutant(
        "top_left",
        inputs=("causal, more keys", "one query"),
        says=(
            "Your causal mask is aligned top left: query i sees i + 1 keys whatever the lengths "
            "are. Here the last query sees all keys, as a cache needs it."
        ),
        reference=edit("input_pos = k_len - q_len", "input_pos = 0"),
        variant=edit("k_len - q_len if", "0 if"),
    ),
    mutant(
        "own_key_hidden",
        inputs=("causal", "causal, more keys"),
        says="The mask is off by one: a query sees the key at its own position as well.",
        reference=edit("key_position <= query_position", "key_position < query_position"),
        variant=edit("first + i + 1", "first + i"),
    ),
    mutant(
        "future_visible",
        inputs=("causal", "causal, more keys"),
        says="The mask is the wrong way round: it hides the past and shows the future.",
        reference=edit("key_position <= query_position", "key_position >= query_position"),
        variant=edit("max(0, first + i + 1) :]", ": max(0, first + i)]"),
    ),
    mutant(
        "no_mask",
        inputs=("causal", "causal, more keys"),
        says="With causal=True nothing is hidden: the mask is missing.",
        reference=edit("if not causal:", "if True:"),
        variant=edit("            if causal:", "            if False:"),
    ),
    mutant(
        "hidden_scores_are_zero",
        inputs=("causal", "causal, more keys"),
        says=(
            "Hidden scores are set to 0, and exp(0) is 1: those keys still get weight. A hidden "
            "score is -inf."
        ),
        reference=edit("s, -np.inf)", "s, 0.0)"),
        variant=edit(
            "        p = np.zeros_like(s)",
            "        s[hidden], hidden[:] = 0, False\n        p = np.zeros_like(s)",
        ),
    ),
    mutant(
        "hidden_scores_are_finite",
        inputs="causal, more queries",
        says=(
            "A query that sees no key gives a mean of hidden values: with a number such as -1e9 "
            "for all its scores, all its weights are equal. A hidden score is -inf."
        ),
        reference=edit("s, -np.inf)", "s, -1e9)"),
        variant=edit(
            "        p = np.zeros_like(s)",
            "        s[hidden], hidden[:] = -1e9, False\n        p = np.zeros_like(s)",
        ),
    ),
    mutant(
        "masked_after_softmax",
        inputs=("causal", "causal, more keys"),
        says=(
            "The mask comes after the softmax, so the weights left over no longer sum to 1. Mask "
            "the scores instead."
        ),
        reference=edit(
            "p = softmax(s)",
            "p = softmax(masked_scores(q, k, False, scale, None)) * (s > -np.inf)",
        ),
        variant=edit(
            "        p = np.zeros_like(s)",
            "        mask, hidden = ~hidden, np.zeros_like(hidden)\n        p = np.zeros_like(s)",
            ("p @ values", "(p * mask) @ values"),
        ),
    ),
    mutant(
        "softmax_over_queries",
        inputs=("plain", "causal"),
        says="The softmax runs over the queries. Each query's weights, over the keys, sum to 1.",
        reference=edit("p = softmax(s)", "p = softmax(s.swapaxes(-1, -2)).swapaxes(-1, -2)"),
        variant=edit(
            "        p = np.zeros_like(s)",
            "        s, hidden = s.T, hidden.T\n        p = np.zeros_like(s)",
            ("p @ values", "p.T @ values"),
        ),
    ),
    mutant(
        "kv_heads_in_turn",
        inputs=("grouped heads", "grouped heads, causal"),
        says=(
            "Query heads take KV heads in turn (0, 1, 2, 0, 1, 2). Neighbours share one: query "
            "head h uses KV head h // group_size."
        ),
        reference=edit("np.repeat(x, group_size, axis=1)", "np.tile(x, (1, group_size, 1, 1))"),
        variant=edit("h // (num_heads // num_kv_heads)", "h % num_kv_heads"),
    ),
    mutant(
        "row_without_keys",
        inputs="causal, more queries",
        says="A query that sees no key gives NaN, from -inf - -inf or from 0 / 0. It must give 0.",
        reference=edit(
            "p = softmax(s)",
            "p = np.exp(s - s.max(axis=-1, keepdims=True, initial=-np.inf))\n"
            "    p = p / p.sum(axis=-1, keepdims=True)",
        ),
        variant=edit("np.maximum(p.sum(axis=1, keepdims=True), 1e-30)", "p.sum(axis=1)[:, None]"),
    ),
    mutant(
        "input_pos_zero_ignored",
        inputs="input_pos 0",
        says="input_pos=0 is a position like any other: only None means k_len - q_len.",
        reference=edit(
            "if input_pos is None:",
            "if not input_pos:",
            ("if input_pos is not None:", "if input_pos:"),
        ),
        variant=edit("if input_pos is None else", "if not input_pos else"),
    ),
    mutant(
        "unused_slots",
        inputs="unused slots",
        says=(
            "NaN in cache slots that no query sees reaches the result: their weight is 0, and "
            "0 · NaN is NaN. Cut such keys and values off before the products."
        ),
        reference=edit("k[:, :, :used], v[:, :, :used]", "k, v"),
        variant=edit("max(0, first + q_len) if causal else k_len", "k_len"),
    ),
    mutant(
        "negative_cut",
        inputs="all slots unused",
        right="unused slots",
        says=(
            "input_pos + q_len is negative here, and a slice that ends at -1 leaves out one key at "
            "the end instead of taking none. Cut at 0 at the least."
        ),
        reference=edit("max(0, input_pos + q_len)", "input_pos + q_len"),
        variant=edit("max(0, first + q_len)", "first + q_len"),
    ),
    mutant(
        "half_precision",
        inputs="float16, large products",
        says="You compute in float16, which overflows at 65504. Convert to float32 before `@`.",
        reference=edit("np.promote_types(q.dtype, np.float32)", "q.dtype"),
        variant=edit("else np.float32", "else q.dtype"),
    ),
    mutant(
        "float64_result",
        inputs="plain",
        says=(
            "The result is float64. np.sqrt returns a float64, and one such number makes an array "
            "of float32 float64 as well: take math.sqrt, or convert to q's dtype at the end."
        ),
        reference=edit("math.sqrt", "np.sqrt", (".astype(output_dtype)", "")),
        variant=edit("np.zeros(q.shape, q.dtype)", "np.zeros(q.shape)"),
    ),
    mutant(
        "wide_result",
        inputs="float16",
        says="The result must have q's dtype: compute in float32, then convert back.",
        reference=edit(".astype(output_dtype)", ""),
        variant=edit("np.zeros(q.shape, q.dtype)", "np.zeros(q.shape, wide)"),
    ),
]
