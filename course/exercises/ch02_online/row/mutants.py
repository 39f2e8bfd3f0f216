"""Mistakes that learners make in the attention of one row."""

from course.exercise import edit, mutant

RETURN = "return o[0].astype(q.dtype), lse[0]"

MUTANTS = [
    mutant(
        "no_scale",
        inputs=("ordinary", "ordinary again"),
        says="The scores are not scaled: multiply them by `scale`, or by 1 / sqrt(head_dim).",
        reference=edit("scale * (q_rows", "(q_rows"),
        variant=edit("factor * (query @ key)", "query @ key"),
    ),
    mutant(
        "scale_without_root",
        inputs=("ordinary", "ordinary again"),
        right="scale given",
        says="You divide by head_dim, or twice by its root. The scale is 1 / sqrt(head_dim), once.",
        reference=edit("1 / math.sqrt(len(q))", "1 / len(q)"),
        variant=edit("q.size**-0.5", "1 / q.size"),
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
        "last_block_only",
        inputs=("ordinary", "rising"),
        right="one block",
        says=(
            "Only the last block counts: the state starts anew in each. Set it up once, before the "
            "loop, and hand it on from block to block."
        ),
        reference=edit(
            "    for k, v in blocks:\n",
            "    start = m_i, l_i, acc\n    for k, v in blocks:\n        m_i, l_i, acc = start\n",
        ),
        variant=edit(
            "        for key, value",
            "        top, total, output = wide(-np.inf), wide(0), np.zeros(q.size, wide)\n"
            "        for key, value",
        ),
    ),
    mutant(
        "read_twice",
        inputs=("one block", "ordinary"),
        says=(
            "Nothing of the blocks is in the result. Either the state that comes out of a step "
            "isn't kept, or you went through the blocks once before: they arrive only once."
        ),
        reference=edit(
            "    for k, v in blocks:\n",
            "    longest = max((len(k) for k, v in blocks), default=0)\n    for k, v in blocks:\n",
        ),
        variant=edit(
            "    for k, v in blocks:\n",
            "    longest = max((len(k) for k, v in blocks), default=0)\n    for k, v in blocks:\n",
        ),
    ),
    mutant(
        "blocks_kept",
        inputs=("one block", "ordinary"),
        says=(
            "You keep the blocks and use them later. All lie in the same memory, so each is gone "
            "when the next one arrives: take it into the state at once."
        ),
        reference=edit("for k, v in blocks:", "for k, v in list(blocks):"),
        variant=edit("for k, v in blocks:", "for k, v in list(blocks):"),
    ),
    mutant(
        "blocks_copied",
        inputs="stream",
        right=("one block", "ordinary"),
        says=(
            "The results are right, and all keys and values are in memory at a time: copies of the "
            "blocks are kept. Take each into the state as it comes, and let it go."
        ),
        reference=edit(
            "for k, v in blocks:", "for k, v in [(k.copy(), v.copy()) for k, v in blocks]:"
        ),
        variant=edit(
            "for k, v in blocks:", "for k, v in [(k.copy(), v.copy()) for k, v in blocks]:"
        ),
    ),
    mutant(
        "state_in_half",
        inputs="float16, long row",
        right=("one block", "float64"),
        says=(
            "The state is kept in float16, where a sum of ones sticks at 2048. Keep it in float32, "
            "whatever the inputs are."
        ),
        reference=edit(
            "        m_i, l_i, acc = update(m_i, l_i, acc, s, v.astype(compute_dtype))\n",
            "        m_i, l_i, acc = update(m_i, l_i, acc, s, v.astype(compute_dtype))\n"
            "        l_i = l_i.astype(q.dtype).astype(compute_dtype)\n",
        ),
        variant=edit(
            "            total = old * total + weight\n",
            "            total = wide(q.dtype.type(old * total + weight))\n",
        ),
    ),
    mutant(
        "float64_scale",
        inputs=("one block", "ordinary"),
        right=("scale given", "float64"),
        says=(
            "lse is float64. np.sqrt returns a float64, and one such number makes float32 scores "
            "float64 as well: take math.sqrt, or convert."
        ),
        reference=edit("1 / math.sqrt(len(q))", "1 / np.sqrt(len(q))"),
        variant=edit(
            "factor = wide(q.size**-0.5 if scale is None else scale)",
            "factor = np.float64(q.size) ** -0.5 if scale is None else wide(scale)",
        ),
    ),
    mutant(
        "no_correction",
        inputs="rising",
        right="one block",
        says=(
            "What was summed before isn't corrected when the maximum grows. exp(the old maximum - "
            "the new one) is the factor, as in `update`."
        ),
        reference=edit(
            "        m_i, l_i, acc = update(m_i, l_i, acc, s, v.astype(compute_dtype))\n",
            "        m_i = np.maximum(m_i, s.max(axis=1, initial=-np.inf))\n"
            "        p = np.exp(s - m_i[:, np.newaxis])\n"
            "        l_i, acc = l_i + p.sum(axis=1), acc + p @ v.astype(compute_dtype)\n",
        ),
        variant=edit(
            "        for key, value",
            "        scores = [factor * (query @ key) for key in k.astype(wide)]\n"
            "        block_top = max([top, *scores])\n"
            "        for key, value",
            ("new_top = max(top, score)", "new_top = block_top"),
            ("old = np.exp(top - new_top)", "old = wide(1)"),
        ),
    ),
    mutant(
        "mean_of_blocks",
        inputs=("rising", "ordinary"),
        right="one block",
        says=(
            "You average the outputs of the blocks as if each counted the same. A block weighs as "
            "much as the sum of its weights, which all have to use one maximum."
        ),
        reference=edit(
            "    for k, v in blocks:\n",
            "    outputs = []\n    for k, v in blocks:\n"
            "        m_i, l_i, acc = np.full(1, -np.inf), np.zeros(1), np.zeros(q_rows.shape)\n",
            (
                "    o, lse = finish(m_i, l_i, acc)\n",
                "        outputs.append(finish(m_i, l_i, acc)[0])\n"
                "    o, lse = finish(m_i, l_i, acc)\n"
                "    o, lse = np.mean(outputs, axis=0), lse.astype(compute_dtype)\n",
            ),
        ),
        variant=edit(
            "    for k, v in blocks:\n",
            "    outputs = []\n    for k, v in blocks:\n"
            "        top, total, output = wide(-np.inf), wide(0), np.zeros(q.size, wide)\n",
            (
                "    if total == 0:\n",
                "        outputs.append(output / total)\n    if total == 0:\n",
            ),
            ("output / total, top", "np.mean(outputs, axis=0), top"),
        ),
    ),
    mutant(
        "not_divided",
        inputs=("one block", "ordinary"),
        says="o is the plain sum of weight · value. Divide by the sum of the weights at the end.",
        reference=edit(RETURN, "return acc[0].astype(q.dtype), lse[0]"),
        variant=edit("output / total", "output"),
    ),
    mutant(
        "no_keys_give_nan",
        inputs=("no blocks", "only empty blocks"),
        right="one block",
        says="Without a key o is NaN, from 0 / 0. It must be 0, and lse -inf.",
        reference=edit(RETURN, "return (acc / l_i)[0].astype(q.dtype), lse[0]"),
        variant=edit(
            "return np.zeros_like(q), top", "return np.full_like(q, np.nan), wide(-np.inf)"
        ),
    ),
    mutant(
        "lse_without_maximum",
        inputs=("one block", "ordinary"),
        says="lse lacks the maximum: ln Σ exp(s) is m_i + ln l_i, since l_i is Σ exp(s - m_i).",
        reference=edit("o, lse = finish(m_i, l_i, acc)", "o, lse = finish(0 * m_i, l_i, acc)"),
        variant=edit("top + np.log(total)", "np.log(total)"),
    ),
    mutant(
        "lse_base_2",
        inputs=("one block", "ordinary"),
        says="lse is a logarithm to base 2. It must be the natural one: np.log, not np.log2.",
        reference=edit(
            RETURN, "return o[0].astype(q.dtype), lse[0] / q_rows.dtype.type(np.log(2))"
        ),
        variant=edit("top + np.log(total)", "(top + np.log(total)) / wide(np.log(2))"),
    ),
    mutant(
        "half_precision",
        inputs="float16, large products",
        says="You compute in float16, which overflows at 65504. Convert to float32 before `@`.",
        reference=edit("np.promote_types(q.dtype, np.float32)", "q.dtype"),
        variant=edit("else np.float32", "else q.dtype.type"),
    ),
    mutant(
        "scaled_in_half",
        inputs="float16, scaled",
        right=("one block", "float16", "float64"),
        says=(
            "q is multiplied by the scale while it is still float16, and the product is rounded to "
            "11 bits. Convert to float32 first."
        ),
        reference=edit(
            "    q_rows = q.astype(compute_dtype)",
            "    q_rows = (q * q.dtype.type(scale)).astype(compute_dtype)",
            ("scale * (q_rows", "(q_rows"),
        ),
        variant=edit(
            "query = q.astype(wide)",
            "query = (q * q.dtype.type(factor)).astype(wide)",
            ("factor * (query @ key)", "query @ key"),
        ),
    ),
    mutant(
        "wide_result",
        inputs="float16",
        right="float64",
        says="o must have q's dtype: compute in float32, then convert back.",
        reference=edit("o[0].astype(q.dtype)", "o[0]"),
        variant=edit("o.astype(q.dtype)", "o"),
    ),
]
