"""Mistakes that learners make in a softmax."""

from course.exercise import edit, mutant

POWERS_ONLY = ("powers / total", "powers")

MUTANTS = [
    mutant(
        "no_max",
        inputs="large scores",
        says=(
            "It overflows: exp of a large score is inf, and inf / inf is NaN. Subtract each row's "
            "largest score before you take exp; the result stays the same."
        ),
        reference=edit("np.exp(s_wide - row_max)", "np.exp(s_wide)"),
        variant=edit("np.exp(row - row[visible].max())", "np.exp(row)"),
    ),
    mutant(
        "max_of_everything",
        inputs="rows far apart",
        says=(
            "You subtract the largest score of the whole array. A row far below it underflows to "
            "zeros: each row needs its own maximum."
        ),
        reference=edit("s_wide.max(axis=-1, keepdims=True, initial", "s_wide.max(initial"),
        variant=edit(
            "row[visible].max())",
            "np.float32(s.max()))",
            ("powers / total", "powers / (total or 1)"),
        ),
    ),
    mutant(
        "wrong_axis",
        inputs=("rising scores", "four axes"),
        says="Your softmax runs over the first axis, so columns sum to 1 instead of rows.",
        reference=edit(
            "p.sum(axis=-1, keepdims=True)",
            "p.sum(axis=0, keepdims=True)",
            ("s_wide.max(axis=-1", "s_wide.max(axis=0"),
        ),
        variant=edit(
            "    result = np.zeros",
            "    s = np.moveaxis(s, 0, -1)\n    result = np.zeros",
            ("return result", "return np.moveaxis(result, -1, 0)"),
        ),
    ),
    mutant(
        "sum_of_everything",
        inputs=("plain", "rising scores"),
        says="You divide by the sum of all powers: the whole array sums to 1 instead of each row.",
        reference=edit("p.sum(axis=-1, keepdims=True)", "p.sum()"),
        variant=edit(
            *POWERS_ONLY,
            ("return result", "return (result / result.sum(dtype=wide)).astype(s.dtype)"),
        ),
    ),
    mutant(
        "no_keepdims",
        inputs="plain",
        says=(
            "The maximum or the sum has lost its last axis, so NumPy lines it up with the columns: "
            "an error on most shapes, a wrong result on square ones. keepdims=True keeps the axis."
        ),
        reference=edit("p.sum(axis=-1, keepdims=True)", "p.sum(axis=-1)"),
        variant=edit(
            *POWERS_ONLY,
            ("return result", "return (result / result.sum(axis=-1, dtype=wide)).astype(s.dtype)"),
        ),
    ),
    mutant(
        "not_normalised",
        inputs=("plain", "rising scores"),
        says="The weights of a row don't sum to 1: the division by the row's sum is missing.",
        reference=edit("p / np.where(row_sum == 0, 1, row_sum)", "p"),
        variant=edit("powers / total", "powers"),
    ),
    mutant(
        "base_two",
        inputs=("plain", "rising scores"),
        says=(
            "You take powers of 2 instead of powers of e. exp2(x) is exp(x) only after x was "
            "multiplied by log2(e)."
        ),
        reference=edit("np.exp(", "np.exp2("),
        variant=edit("np.exp(", "np.exp2("),
    ),
    mutant(
        "hidden_row_nan",
        inputs="masked scores",
        says=(
            "A row that is all -inf gives NaN, from -inf - -inf or from 0 / 0. It has no key to "
            "look at, and its weights must be 0."
        ),
        reference=edit(
            "np.where(row_max == -np.inf, 0, row_max)",
            "row_max",
        ),
        variant=edit("not visible.any()", "not visible.size", ("row[visible].max()", "row.max()")),
    ),
    mutant(
        "empty_row_fails",
        inputs="no keys",
        says="A row of length 0 has no largest element: `max` raises. The result is empty there.",
        reference=edit(", initial=-np.inf", ""),
        variant=edit("if not visible.any():", "if visible.size and not visible.any():"),
    ),
    mutant(
        "input_changed",
        inputs="plain",
        says="It writes into its argument, which the caller still needs (`-=` and `out=` do that).",
        reference=edit(
            "p = np.exp(s_wide - row_max)",
            "s -= row_max.astype(s.dtype)\n    p = np.exp(s.astype(s_wide.dtype))",
        ),
        variant=edit(
            "powers = np.exp(row - row[visible].max())",
            "s[place] -= row[visible].max()\n        powers = np.exp(s[place].astype(wide))",
        ),
    ),
    mutant(
        "half_precision",
        inputs="float16, long row",
        says="You compute in float16, where a sum past 65504 overflows. Convert to float32 first.",
        reference=edit("np.promote_types(s.dtype, np.float32)", "s.dtype"),
        variant=edit("else np.float32", "else s.dtype"),
    ),
    mutant(
        "wide_result",
        inputs="float16",
        says="The result must have the dtype of `s`: compute in float32, then convert back.",
        reference=edit("p.astype(s.dtype)", "p"),
        variant=edit("np.zeros(s.shape, s.dtype)", "np.zeros(s.shape, wide)"),
    ),
]
