"""One block's update of the state (m_i, l_i, acc)."""

import math

import numpy as np

from course.exercise import Case, Exercise, Part


def inputs(rng):
    def case(shows, state, s, v):
        dtype = s.dtype
        parts = Part("m_i", dtype, "numbers"), Part("l_i", dtype, "numbers"), Part("acc", dtype)
        return Case(shows, (*state, s, v), parts=parts)

    def scores(*shape, dtype=np.float32):
        return rng.standard_normal(shape).astype(dtype)

    def values(keys, head_dim=5, dtype=np.float32):
        # The mean of 1 makes a sum of weights that is wrong stand out.
        return (rng.standard_normal((keys, head_dim)) + 1).astype(dtype)

    def empty(rows, head_dim=5, dtype=np.float32):
        return (
            np.full(rows, -np.inf, dtype),
            np.zeros(rows, dtype),
            np.zeros((rows, head_dim), dtype),
        )

    def seen(rows, head_dim=5, dtype=np.float32):
        """The state after some keys: the largest score is in [-1, 1], the sum in [1.5, 4]."""
        l_i = rng.uniform(1.5, 4, rows)
        acc = l_i[:, np.newaxis] * rng.uniform(0.5, 2, (rows, head_dim))
        return tuple(x.astype(dtype) for x in (rng.uniform(-1, 1, rows), l_i, acc))

    def with_empty_row(state, row):
        m_i, l_i, acc = (x.copy() for x in state)
        m_i[row], l_i[row], acc[row] = -np.inf, 0, 0
        return m_i, l_i, acc

    def near(*shape, at=0.0, dtype=np.float32):
        """Scores beyond those that came before if `at` is 2.5 or -2.5, and by little."""
        return (at + rng.uniform(-1, 1, shape)).astype(dtype)

    apart = np.float32([[0], [200], [-200], [50]])
    some_hidden = scores(4, 6)
    some_hidden[rng.random((4, 6)) < 0.4] = -np.inf
    some_hidden[1] = -np.inf
    hidden = np.full((3, 4), -np.inf, np.float32)
    rows = near(4, 6, at=2.5)
    rows[1::2] -= 5
    far = seen(3)
    return {
        "first block": case("the first block", empty(3), scores(3, 7), values(7)),
        "higher block": case(
            "a block that raises the maximum", seen(3), near(3, 7, at=2.5), values(7)
        ),
        "lower block": case(
            "a block below the maximum so far", seen(3), near(3, 7, at=-2.5), values(7)
        ),
        "some rows higher": case(
            "a block that raises the maximum of some rows", seen(4), rows, values(6)
        ),
        "rows far apart": case(
            "rows whose scores lie far apart", empty(4), scores(4, 6) + apart, values(6)
        ),
        "square": case(
            "as many rows as keys and as head_dim", seen(5), near(5, 5, at=2.5), values(5)
        ),
        "large scores": case(
            "scores of about ±4000, whose exponential overflows",
            seen(3),
            4000 * scores(3, 7),
            values(7),
        ),
        "far below": case(
            "a block 2000 below the maximum so far",
            (far[0] + np.float32(1000), *far[1:]),
            scores(3, 7) - 1000,
            values(7),
        ),
        "very negative": case(
            "a first block with scores of about -100000",
            empty(3),
            scores(3, 7) - 100000,
            values(7),
        ),
        "hidden first": case(
            "a first block that is hidden throughout", empty(3), hidden, values(4)
        ),
        "hidden later": case("a later block that is hidden throughout", seen(3), hidden, values(4)),
        "some hidden": case(
            "a block with hidden keys, and a row that has seen none so far",
            with_empty_row(seen(4), 1),
            some_hidden,
            values(6),
        ),
        "no keys": case("a block of no keys", seen(3), scores(3, 0), values(0)),
        "no keys at first": case("a first block of no keys", empty(3), scores(3, 0), values(0)),
        "one row, one key": case("one row and one key", seen(1), near(1, 1, at=2.5), values(1)),
        "float64": case(
            "float64",
            seen(3, dtype=np.float64),
            near(3, 7, at=2.5, dtype=np.float64),
            values(7, dtype=np.float64),
        ),
    }


def reference(m_i, l_i, acc, s, v):
    """Row by row in float64, with Python's own loops and no shared code."""
    m_new, l_new, acc_new = (x.astype(np.float64) for x in (m_i, l_i, acc))
    for row in range(len(m_i)):
        scores = [float(score) for score in s[row]]
        largest = max([float(m_i[row]), *scores])
        if largest == -math.inf:
            continue
        kept = math.exp(float(m_i[row]) - largest)
        weights = [math.exp(score - largest) for score in scores]
        m_new[row] = largest
        l_new[row] = math.fsum([kept * float(l_i[row]), *weights])
        acc_new[row] = kept * acc[row].astype(np.float64)
        for weight, value in zip(weights, v, strict=True):
            acc_new[row] += weight * value.astype(np.float64)
    return m_new, l_new, acc_new


exercise = Exercise(
    title="One step of the online softmax",
    names=("update",),
    points=3,
    inputs=inputs,
    reference=reference,
    forbidden=("scipy", "torch"),
)
