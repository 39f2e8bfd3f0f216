"""Merging two states over different keys."""

import math

import numpy as np

from course.exercise import Case, Exercise, Part


def inputs(rng):
    def case(shows, a, b):
        dtype = a[0].dtype
        parts = Part("m_i", dtype, "numbers"), Part("l_i", dtype, "numbers"), Part("acc", dtype)
        return Case(shows, (a, b), parts=parts)

    def state(*shape, at=0.0, head_dim=6, dtype=np.float32):
        """A state after some keys, its largest scores near `at`."""
        l_i = rng.uniform(1.5, 4, shape)
        acc = l_i[..., np.newaxis] * rng.uniform(0.5, 2, (*shape, head_dim))
        return tuple(x.astype(dtype) for x in (at + rng.uniform(-1, 1, shape), l_i, acc))

    def empty(*shape, head_dim=6, dtype=np.float32):
        return (
            np.full(shape, -np.inf, dtype),
            np.zeros(shape, dtype),
            np.zeros((*shape, head_dim), dtype),
        )

    def rows_of(a, b, last=2):
        """The last rows of b, as many as that, and before them those of a."""
        return tuple(np.concatenate([x[:-last], y[-last:]]) for x, y in zip(a, b, strict=True))

    apart = np.array([0.0, 300.0, -300.0, 50.0])
    return {
        "a higher": case("a with the larger scores", state(3, at=4), state(3)),
        "b higher": case("b with the larger scores", state(3), state(3, at=4)),
        "both ways": case(
            "a larger in some rows, b in others",
            rows_of(state(4, at=4), state(4)),
            rows_of(state(4), state(4, at=4)),
        ),
        "rows far apart": case(
            "rows whose scores lie far apart", state(4, at=apart), state(4, at=apart + 1)
        ),
        "square": case("as many rows as head_dim", state(6, at=4), state(6)),
        "far apart": case("scores 2000 apart", state(3, at=2000), state(3)),
        "very negative": case(
            "scores of about -100000", state(3, at=-100000), state(3, at=-100004)
        ),
        "a empty": case("a that has seen no key", empty(3), state(3, at=-200)),
        "b empty": case("b that has seen no key", state(3, at=-200), empty(3)),
        "both empty": case("two states that have seen no key", empty(3), empty(3)),
        "some rows empty": case(
            "rows that have seen no key in a, in b, or in both, beside one that has in each",
            rows_of(state(4), empty(4)),
            tuple(x[[0, 2, 1, 3]] for x in rows_of(state(4, at=3), empty(4))),
        ),
        "more axes": case(
            "states with the axes (batch, heads, rows), some rows empty in both",
            rows_of(state(2, 3, 4, at=4), empty(2, 3, 4), 1),
            rows_of(state(2, 3, 4), empty(2, 3, 4), 1),
        ),
        "one row": case("one row", state(1), state(1, at=4)),
        "float64": case("float64", state(3, at=4, dtype=np.float64), state(3, dtype=np.float64)),
    }


def reference(a, b):
    """Row by row, in float64: each state weighs exp(its maximum - the larger one)."""
    m_i, l_i, acc = (np.zeros(x.shape) for x in a)
    for row in np.ndindex(m_i.shape):
        m_i[row] = max(float(a[0][row]), float(b[0][row]))
        if m_i[row] == -math.inf:
            continue
        for maximum, total, output in (a, b):
            weight = math.exp(float(maximum[row]) - m_i[row])
            l_i[row] += weight * float(total[row])
            acc[row] += weight * output[row].astype(np.float64)
    return m_i, l_i, acc


exercise = Exercise(
    title="Merge two states",
    names=("merge",),
    points=2,
    inputs=inputs,
    reference=reference,
    forbidden=("scipy", "torch"),
)
