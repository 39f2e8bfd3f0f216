"""Mistakes that learners make in the update of the online softmax."""

from course.exercise import edit, mutant

MUTANTS = [
    mutant(
        "latest_maximum",
        inputs="lower block",
        right="higher block",
        says=(
            "You keep the largest score of the latest block. m_i is the largest of all blocks so "
            "far: compare the block's with the one before."
        ),
        reference=edit(
            "np.maximum(m_i, s.max(axis=1, initial=-np.inf))", "s.max(axis=1, initial=-np.inf)"
        ),
        variant=edit("max([m_i[row], *scores])", "max([-np.inf, *scores])"),
    ),
    mutant(
        "sum_not_corrected",
        inputs=("higher block", "some rows higher"),
        right="lower block",
        says=(
            "l_i isn't corrected when the maximum grows: its terms still stand for exp(score - "
            "the old maximum). Multiply it by exp(m_i - m_new)."
        ),
        reference=edit("correction * l_i", "l_i"),
        variant=edit("old * l_i[row]", "l_i[row]"),
    ),
    mutant(
        "output_not_corrected",
        inputs=("higher block", "some rows higher"),
        right="lower block",
        says=(
            "acc isn't corrected when the maximum grows. It holds the same weights as l_i, so it "
            "takes the same factor, exp(m_i - m_new)."
        ),
        reference=edit("correction[:, np.newaxis] * acc", "acc"),
        variant=edit("old * acc[row]", "acc[row]"),
    ),
    mutant(
        "nothing_corrected",
        inputs=("higher block", "some rows higher"),
        right="lower block",
        says=(
            "Neither l_i nor acc is corrected when the maximum grows. Multiply both by exp(m_i - "
            "m_new), where m_i is the maximum before this block: don't overwrite it too early."
        ),
        reference=edit("correction * l_i", "l_i", ("correction[:, np.newaxis] * acc", "acc")),
        variant=edit("old * l_i[row]", "l_i[row]", ("old * acc[row]", "acc[row]")),
    ),
    mutant(
        "correction_inverted",
        inputs=("higher block", "some rows higher"),
        right="lower block",
        says=(
            "The correction is upside down. When the maximum grows, what was summed before must "
            "shrink: the factor is exp(m_i - m_new), at most 1."
        ),
        reference=edit("np.exp(m_i - shift)", "np.exp(shift - m_i)"),
        variant=edit("np.exp(m_i[row] - highest)", "np.exp(highest - m_i[row])"),
    ),
    mutant(
        "weights_from_the_block_alone",
        inputs="lower block",
        right="higher block",
        says=(
            "The block's weights use the block's own maximum. All weights of a row must use the "
            "same one, the new m_i, or they can't be added."
        ),
        reference=edit(
            "np.exp(s - shift[:, np.newaxis])",
            "np.exp(s - s.max(axis=1, keepdims=True, initial=-1e30))",
        ),
        variant=edit("np.exp(scores - highest)", "np.exp(scores - max(scores))"),
    ),
    mutant(
        "everything_corrected",
        inputs=("higher block", "some rows higher"),
        right="lower block",
        says=(
            "The correction reaches the new weights too. They already use the new maximum: only "
            "what was summed before takes the factor."
        ),
        reference=edit(
            "correction * l_i + p.sum(axis=1)",
            "correction * (l_i + p.sum(axis=1))",
            (
                "correction[:, np.newaxis] * acc + p @ v",
                "correction[:, np.newaxis] * (acc + p @ v)",
            ),
        ),
        variant=edit(
            "old * l_i[row] + weights.sum()",
            "old * (l_i[row] + weights.sum())",
            ("old * acc[row] + weights @ v", "old * (acc[row] + weights @ v)"),
        ),
    ),
    mutant(
        "no_maximum",
        inputs=("large scores", "higher block"),
        says=(
            "exp is taken of the scores themselves, and large ones overflow. Take the new maximum "
            "away first, and correct what was summed before."
        ),
        reference=edit(
            "np.exp(m_i - shift)",
            "np.ones_like(m_i)",
            ("np.exp(s - shift[:, np.newaxis])", "np.exp(s)"),
        ),
        variant=edit(
            "np.exp(m_i[row] - highest)", "1", ("np.exp(scores - highest)", "np.exp(scores)")
        ),
    ),
    mutant(
        "maximum_of_everything",
        inputs="rows far apart",
        says=(
            "The maximum is taken over the whole block. Each row has one of its own; with another "
            "row's, its weights vanish."
        ),
        reference=edit("s.max(axis=1, initial=-np.inf)", "s.max(initial=-np.inf)"),
        variant=edit("max([m_i[row], *scores])", "max([m_i[row], *s.ravel()])"),
    ),
    mutant(
        "hidden_gives_nan",
        inputs="hidden first",
        right="first block",
        says=(
            "A row that has seen no key gives NaN: its maximum is -inf, and -inf - -inf is NaN. "
            "Subtract something finite there."
        ),
        reference=edit("np.where(m_new == -np.inf, 0, m_new)", "m_new"),
        variant=edit("if highest == -np.inf:", "if False:"),
    ),
    mutant(
        "guard_kept",
        inputs=("hidden first", "no keys at first"),
        right=("first block", "very negative"),
        says=(
            "A row that has seen no key gets a maximum of 0. The 0 may only stand in for -inf in "
            "the subtraction: kept as m_i, it makes later scores far below 0 vanish."
        ),
        reference=edit("return m_new, l_new", "return shift, l_new"),
        variant=edit("            continue", "            m_new[row] = 0\n            continue"),
    ),
    mutant(
        "maximum_from_zero",
        inputs=("very negative", "hidden first"),
        says=(
            "Your maximum starts from a number, so scores far below it all vanish. A maximum over "
            "nothing is -inf, and that is where it has to start."
        ),
        reference=edit("initial=-np.inf", "initial=0"),
        variant=edit("max([m_i[row], *scores])", "max([m_i[row], 0, *scores])"),
    ),
    mutant(
        "divided_already",
        inputs=("first block", "lower block"),
        says=(
            "acc is divided by the sum already. The state keeps the plain sum of weight · value; "
            "dividing comes once, after the last block."
        ),
        reference=edit(
            "return m_new, l_new, acc_new",
            "return m_new, l_new, acc_new / np.where(l_new == 0, 1, l_new)[:, np.newaxis]",
        ),
        variant=edit(
            "return m_new, l_new, acc_new",
            "return m_new, l_new, acc_new / np.where(l_new == 0, 1, l_new)[:, np.newaxis]",
        ),
    ),
    mutant(
        "powers_of_two",
        inputs=("first block", "higher block"),
        says="Your weights are powers of 2. They are powers of e here: np.exp, not np.exp2.",
        reference=edit(
            "np.exp(m_i - shift)",
            "np.exp2(m_i - shift)",
            ("np.exp(s - shift", "np.exp2(s - shift"),
        ),
        variant=edit("np.exp(m_i[row]", "np.exp2(m_i[row]", ("np.exp(scores", "np.exp2(scores")),
    ),
    mutant(
        "correction_along_the_columns",
        inputs="square",
        says=(
            "The correction has an entry for each row, and NumPy lines it up with the columns of "
            "acc: an error on most shapes, wrong on square ones. Give it a last axis of length 1."
        ),
        reference=edit("correction[:, np.newaxis] * acc", "correction * acc"),
        variant=edit("old * acc[row]", "np.exp(m_i - np.maximum(m_i, s.max(axis=1))) * acc[row]"),
    ),
    mutant(
        "changes_its_input",
        inputs=("higher block", "first block"),
        says="You change the caller's arrays (`*=`, `+=` and `out=` do that). Return new ones.",
        reference=edit(
            "acc_new = correction[:, np.newaxis] * acc + p @ v",
            "acc *= correction[:, np.newaxis]\n    acc += p @ v\n    acc_new = acc",
        ),
        variant=edit("acc.copy()", "acc"),
    ),
    mutant(
        "float64_result",
        inputs=("first block", "higher block"),
        right="float64",
        says="The results are float64. They must have the dtype of the arguments.",
        reference=edit(
            "return m_new, l_new, acc_new",
            "return m_new.astype(float), l_new.astype(float), acc_new.astype(float)",
        ),
        variant=edit(
            "m_i.copy(), l_i.copy(), acc.copy()",
            "m_i.astype(float), l_i.astype(float), acc.astype(float)",
        ),
    ),
]
