"""How many keys a query sees under the causal mask."""

from course.exercise import Case, Exercise


def inputs(rng):
    def every_row(shows, q_len, k_len):
        return [Case(f"query {i} of {q_len}, with {k_len} keys", (i, q_len, k_len)) for i in shows]

    more_keys = int(rng.integers(2, 6))
    length = int(rng.integers(2, 9))
    cases = {
        "as many keys as queries": every_row((0, length - 1), length, length),
        "more keys than queries": every_row((0, 1), 2, 2 + more_keys),
        "one query on a long cache": every_row((0,), 1, 129),
        "more queries than keys": every_row((0, 1, 2, 4), 5, 3),
        "no keys": every_row((0, 2), 3, 0),
        "long": every_row((int(rng.integers(0, 4096)),), 4096, 16384),
    }
    return {
        name if len(group) == 1 else f"{name}, row {case.args[0]}": case
        for name, group in cases.items()
        for case in group
    }


def reference(i, q_len, k_len):
    """Counts one key at a time, by the definition of the mask."""
    position = k_len - q_len + i
    return len([key for key in range(k_len) if key <= position])


exercise = Exercise(
    title="How many keys does a query see?",
    names=("visible_keys",),
    points=1,
    inputs=inputs,
    reference=reference,
)
