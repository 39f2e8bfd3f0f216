"""Mistakes that learners make when they count visible keys."""

from course.exercise import edit, mutant

MUTANTS = [
    mutant(
        "top_left",
        inputs=("more keys than queries, row 0", "more keys than queries, row 1"),
        says=(
            "Your mask is aligned top left: query i sees i + 1 keys whatever the lengths are. Here "
            "the last query sees all keys."
        ),
        reference=edit("position = k_len - q_len + i", "position = i"),
        variant=edit("k_len - later_queries", "i + 1"),
    ),
    mutant(
        "own_key_missing",
        inputs=("as many keys as queries, row 0", "more keys than queries, row 1"),
        says="You are one key short everywhere: a query sees the key at its own position as well.",
        reference=edit("position + 1", "position"),
        variant=edit("k_len - later_queries", "k_len - later_queries - 1"),
    ),
    mutant(
        "below_zero",
        inputs="more queries than keys, row 0",
        says="A query that stands before the first key sees 0 keys, not a negative number of them.",
        reference=edit("max(0, position + 1)", "position + 1"),
        variant=edit("return 0", "return seen"),
    ),
    mutant(
        "no_mask",
        inputs=("more keys than queries, row 0", "as many keys as queries, row 0"),
        says="You count all keys. The mask hides those at positions after the query's own.",
        reference=edit("max(0, position + 1)", "k_len"),
        variant=edit("k_len - later_queries", "k_len"),
    ),
    mutant(
        "lengths_swapped",
        inputs=("more queries than keys, row 4", "one query on a long cache"),
        says="The position of query 0 is k_len - q_len. You have it the other way round.",
        reference=edit("position = k_len - q_len + i", "position = q_len - k_len + i"),
        variant=edit("k_len - later_queries", "q_len - k_len + i + 1"),
    ),
    mutant(
        "hidden_instead",
        inputs=("more keys than queries, row 0", "one query on a long cache"),
        says="You count the keys that the mask hides. The question is how many the query sees.",
        reference=edit("max(0, position + 1)", "k_len - max(0, position + 1)"),
        variant=edit("    return seen", "    return k_len - seen"),
    ),
]
