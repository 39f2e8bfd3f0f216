"""Mistakes that learners make in a test of an update."""

from course.exercise import edit, mutant

MUTANTS = [
    mutant(
        "one_block",
        inputs=("A", "C", "acc not corrected"),
        right=("right", "no guard"),
        says=(
            "In your test every block meets an empty state: either there is one block only, or the "
            "state isn't handed on to the next. What happens to a state can't show like that."
        ),
        reference=edit("zip(blocks, values, strict=True)", "zip(blocks[:1], values[:1])"),
        variant=edit("for block in blocks:", "for block in blocks[:1]:"),
    ),
    mutant(
        "maximum_never_grows",
        inputs=("A", "acc not corrected"),
        right=("right", "C", "no guard"),
        says=(
            "In your test the maximum never grows from one block to the next, so the correction is "
            "always 1, and an update without one passes. Let a later block have larger scores."
        ),
        reference=edit(
            "        near,\n        [near[0], near[1] + 5, near[2] + 2],",
            "        [near[0] + 9, near[1]],",
            ("near[0] - 2000, near[1]]", "near[0] - 2000]"),
            ("[half, near[1]]", "[half]"),
        ),
        variant=edit(
            "(0, 3, 1)",
            "(9, 0)",
            ('("hidden", -1500, 0)', '("hidden", -1500)'),
            ('("row 0 hidden", 0)', '("row 0 hidden",)'),
        ),
    ),
    mutant(
        "nothing_hidden",
        inputs=("B", "no guard"),
        right=("right", "A", "C"),
        says=(
            "No row of your test starts with a block that is hidden throughout. Such a row has no "
            "maximum yet, and that is where these go wrong."
        ),
        reference=edit(
            "[hidden, near[0] - 2000, near[1]]",
            "[near[0] - 2000, near[1]]",
            (
                "        [near[0], hidden],\n        [hidden, hidden],\n        [half, near[1]],\n",
                "",
            ),
        ),
        variant=edit(
            '("hidden", -1500, 0), (0, "hidden"), ("hidden", "hidden")',
            "(-1500, 0), (0, 1)",
            ('    streams.append(("row 0 hidden", 0))\n', ""),
        ),
    ),
    mutant(
        "rows_hidden_together",
        inputs=("guard of all rows", "guard for all rows"),
        right=("right", "A", "B", "C", "no guard"),
        says=(
            "In your test a block is hidden from all rows or from none. A guard has to look at "
            "each row by itself: hide a block from some rows only."
        ),
        reference=edit("        [half, near[1]],\n", ""),
        variant=edit('    streams.append(("row 0 hidden", 0))\n', ""),
    ),
    mutant(
        "outputs_of_near_scores",
        inputs=("B", "C"),
        right=("right", "A", "no guard"),
        says=(
            "Your test compares outputs, and its scores lie close together. Two updates keep a "
            "wrong maximum, and it cancels in acc / l_i as long as nothing overflows or vanishes: "
            "compare m_i too, or let blocks lie 1000 apart."
        ),
        reference=edit(
            "near[1] - 2000",
            "near[1] - 2",
            ("near[0] - 2000", "near[0] - 2"),
            (
                "all(map(np.allclose, (m_i, l_i, acc), expected))",
                "np.allclose(acc / np.where(l_i == 0, 1, l_i)[:, np.newaxis], "
                "expected[2] / np.where(expected[1] == 0, 1, expected[1])[:, np.newaxis])",
            ),
        ),
        variant=edit(
            "(0, -1500)",
            "(0, -1)",
            ('("hidden", -1500, 0)', '("hidden", -1, 0)'),
            ("m == max(scores)", "l == l"),
            ("np.isclose(l, weights.sum())", "acc.all() == acc.all()"),
            (
                "np.allclose(acc, weights @ all_v)",
                "np.allclose(acc / (l or 1), weights @ all_v / (weights.sum() or 1))",
            ),
        ),
    ),
    mutant(
        "nan_passes",
        inputs="no guard",
        right=("right", "A", "B", "C"),
        says=(
            "NaN passes your test: `abs(a - b) > 1e-6` is False where one of the two is NaN. "
            "Ask whether the two are close, not whether they are apart; np.allclose does."
        ),
        reference=edit(
            "not all(map(np.allclose, (m_i, l_i, acc), expected))",
            "any(np.any(abs(x - y) > 1e-6) "
            "for x, y in zip((m_i, l_i, acc), expected, strict=True))",
        ),
        variant=edit(
            "np.isclose(l, weights.sum())",
            "not abs(l - weights.sum()) > 1e-6",
            ("np.allclose(acc, weights @ all_v)", "not (abs(acc - weights @ all_v) > 1e-6).any()"),
        ),
    ),
    mutant(
        "equal_to_the_last_bit",
        inputs=("right", "right, in base 2", "right, key by key"),
        right=("A", "B", "C"),
        says=(
            "Your test turns right updates down. Either it asks for equal bits, where np.allclose "
            "allows for rounding, or what you compare with is NaN in a row of -inf: -inf - -inf is "
            "NaN, in a difference as well as in an exponent."
        ),
        reference=edit("map(np.allclose,", "map(np.array_equal,"),
        variant=edit(
            "np.isclose(l, weights.sum())",
            "l == weights.sum()",
            ("np.allclose(acc, weights @ all_v)", "(acc == weights @ all_v).all()"),
        ),
    ),
    mutant(
        "sum_not_looked_at",
        inputs="A",
        right=("right", "B", "acc not corrected"),
        says="Update A passes: you never look at l_i, or at what is divided by it.",
        reference=edit("(m_i, l_i, acc), expected", "(m_i, acc), (expected[0], expected[2])"),
        variant=edit("                    np.isclose(l, weights.sum()),\n", ""),
    ),
    mutant(
        "output_not_looked_at",
        inputs="acc not corrected",
        right=("right", "A", "B", "C"),
        says="You never look at acc, so an update that gets only that wrong passes.",
        reference=edit("(m_i, l_i, acc), expected", "(m_i, l_i), expected"),
        variant=edit("                    np.allclose(acc, weights @ all_v),\n", ""),
    ),
]
