"""Mistakes that learners make in a merge."""

from course.exercise import edit, mutant

MUTANTS = [
    mutant(
        "added_up",
        inputs=("a higher", "b higher"),
        says=(
            "You add the two sums and the two outputs as they are. Each was computed with its own "
            "maximum: bring both to the larger one first, with exp(m - the larger m)."
        ),
        reference=edit(
            "np.exp(m_a - shift)", "np.ones_like(m_a)", ("np.exp(m_b - shift)", "np.ones_like(m_b)")
        ),
        variant=edit("np.exp(m_a[row] - higher)", "1", ("np.exp(m_b[row] - higher)", "1")),
    ),
    mutant(
        "only_b_corrected",
        inputs="b higher",
        right="a higher",
        says=(
            "Only b is corrected, as if a always had the larger scores. Where b has, it is a that "
            "must shrink."
        ),
        reference=edit("np.exp(m_a - shift)", "np.ones_like(m_a)"),
        variant=edit("np.exp(m_a[row] - higher)", "1"),
    ),
    mutant(
        "only_a_corrected",
        inputs="a higher",
        right="b higher",
        says=(
            "Only a is corrected, as if b always had the larger scores. Where a has, it is b that "
            "must shrink."
        ),
        reference=edit("np.exp(m_b - shift)", "np.ones_like(m_b)"),
        variant=edit("np.exp(m_b[row] - higher)", "1"),
    ),
    mutant(
        "maximum_of_a",
        inputs="b higher",
        right="a higher",
        says=(
            "You keep a's maximum where b's is larger. The state's m_i is the larger of the two; "
            "with the smaller one, exp of the difference can overflow."
        ),
        reference=edit("np.maximum(m_a, m_b)", "np.where(m_a == -np.inf, m_b, m_a)"),
        variant=edit("max(m_a[row], m_b[row])", "m_b[row] if m_a[row] == -np.inf else m_a[row]"),
    ),
    mutant(
        "correction_inverted",
        inputs=("a higher", "b higher"),
        says=(
            "The corrections are upside down: exp(the larger m - m) is 1 or more. The state with "
            "the smaller maximum must shrink, so the factor is exp(m - the larger m)."
        ),
        reference=edit(
            "np.exp(m_a - shift)",
            "np.exp(shift - m_a)",
            ("np.exp(m_b - shift)", "np.exp(shift - m_b)"),
        ),
        variant=edit(
            "np.exp(m_a[row] - higher)",
            "np.exp(higher - m_a[row])",
            ("np.exp(m_b[row] - higher)", "np.exp(higher - m_b[row])"),
        ),
    ),
    mutant(
        "corrections_swapped",
        inputs=("a higher", "b higher"),
        says=(
            "The corrections are swapped: a's sums take exp(a's maximum - the larger one), and b's "
            "take b's."
        ),
        reference=edit(
            "correction_a = np.exp(m_a - shift)",
            "correction_b = np.exp(m_a - shift)",
            ("correction_b = np.exp(m_b - shift)", "correction_a = np.exp(m_b - shift)"),
        ),
        variant=edit(
            "of_a = np.exp(m_a[row] - higher)",
            "of_b = np.exp(m_a[row] - higher)",
            ("of_b = np.exp(m_b[row] - higher)", "of_a = np.exp(m_b[row] - higher)"),
        ),
    ),
    mutant(
        "output_not_corrected",
        inputs=("a higher", "b higher"),
        says="The sums are corrected, and the outputs aren't. acc takes the same factors as l_i.",
        reference=edit(
            "correction_a[..., np.newaxis] * acc_a",
            "acc_a",
            ("correction_b[..., np.newaxis] * acc_b", "acc_b"),
        ),
        variant=edit("of_a * acc_a[row]", "acc_a[row]", ("of_b * acc_b[row]", "acc_b[row]")),
    ),
    mutant(
        "sum_not_corrected",
        inputs=("a higher", "b higher"),
        says="The outputs are corrected, and the sums aren't. l_i takes the same factors as acc.",
        reference=edit("correction_a * l_a", "l_a", ("correction_b * l_b", "l_b")),
        variant=edit("of_a * l_a[row]", "l_a[row]", ("of_b * l_b[row]", "l_b[row]")),
    ),
    mutant(
        "empty_gives_nan",
        inputs="both empty",
        right="a empty",
        says=(
            "A row that has no key in either state gives NaN, from -inf - -inf. It stays at -inf, "
            "0 and 0."
        ),
        reference=edit("np.where(m_i == -np.inf, 0, m_i)", "m_i"),
        variant=edit("if higher == -np.inf:", "if False:"),
    ),
    mutant(
        "guard_kept",
        inputs="both empty",
        right="a empty",
        says=(
            "A row that has no key in either state gets a maximum of 0. It must stay at -inf: a 0 "
            "makes later scores far below it vanish."
        ),
        reference=edit("return m_i, l_i, acc", "return shift, l_i, acc"),
        variant=edit("            continue", "            m_i[row] = 0\n            continue"),
    ),
    mutant(
        "maximum_of_everything",
        inputs="rows far apart",
        says=(
            "You take one maximum for all rows. Each row has its own: with that of another row, "
            "its sums vanish."
        ),
        reference=edit("np.maximum(m_a, m_b)", "np.full_like(m_a, max(m_a.max(), m_b.max()))"),
        variant=edit("max(m_a[row], m_b[row])", "max(m_a.max(), m_b.max())"),
    ),
    mutant(
        "divided_already",
        inputs=("a higher", "b higher"),
        says="acc is divided by the sum already. A state keeps the plain sum of weight · value.",
        reference=edit(
            "return m_i, l_i, acc",
            "return m_i, l_i, acc / np.where(l_i == 0, 1, l_i)[..., np.newaxis]",
        ),
        variant=edit(
            "return m_i, l_i, acc",
            "return m_i, l_i, acc / np.where(l_i == 0, 1, l_i)[..., np.newaxis]",
        ),
    ),
    mutant(
        "changes_its_input",
        inputs=("b higher", "both ways"),
        says="You change the caller's states (`*=`, `+=` and `out=` do that). Return new arrays.",
        reference=edit(
            "correction_a[..., np.newaxis] * acc_a",
            "np.multiply(correction_a[..., np.newaxis], acc_a, out=acc_a)",
        ),
        variant=edit("acc_a.copy()", "acc_a"),
    ),
    mutant(
        "float64_result",
        inputs=("a higher", "b higher"),
        right="float64",
        says="The results are float64. They must have the dtype of the states.",
        reference=edit(
            "return m_i, l_i, acc", "return tuple(x.astype(float) for x in (m_i, l_i, acc))"
        ),
        variant=edit(
            "return m_i, l_i, acc", "return tuple(x.astype(float) for x in (m_i, l_i, acc))"
        ),
    ),
]
