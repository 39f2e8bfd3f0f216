"""A softmax over the last axis that never overflows."""

import math

import numpy as np

from course.exercise import Case, Exercise


def inputs(rng):
    def scores(*shape, scale=1.0, dtype=np.float32):
        return (scale * rng.standard_normal(shape)).astype(dtype)

    # One row far above the other, and square: a maximum or a sum over the wrong set of numbers
    # gives another result instead of an error.
    apart = scores(6, 6) + np.float32([[0], [200], [0], [-200], [0], [0]])
    ramp = np.arange(7, dtype=np.float32) * scores(5, 1)
    some_hidden = np.where(rng.random((5, 9)) < 0.4, -np.inf, scores(5, 9)).astype(np.float32)
    some_hidden[2] = -np.inf
    # The sum, 69905, is more than float16 holds; the weight, 240 · 2⁻²⁴, it holds exactly.
    flat = np.zeros((1, 69905), np.float16)
    drawn = {
        "plain": ("ordinary scores", scores(3, 17)),
        "plain again": ("other scores of the same shape", scores(3, 17)),
        "one axis": ("a single row", scores(13)),
        "four axes": ("four axes", scores(2, 3, 5, 6)),
        "large scores": (
            "scores of about ±4000, whose exponential overflows",
            scores(4, 9, scale=4000),
        ),
        "very negative": (
            "scores of about -1000, whose exponentials all vanish",
            scores(4, 9) - 1000,
        ),
        "rows far apart": ("rows whose scores lie far apart", apart),
        "rising scores": ("scores that rise along the row", ramp),
        "masked scores": ("rows with -inf in them, one of them throughout", some_hidden),
        "float16, long row": ("a float16 row of 69905 equal scores", flat),
        "float16": ("float16 scores", scores(4, 33, scale=8, dtype=np.float16)),
        "float64": ("float64 scores", scores(4, 33, dtype=np.float64)),
        "no keys": ("rows of length 0", scores(3, 0)),
    }
    return {name: Case(shows, (s,), dtype=s.dtype) for name, (shows, s) in drawn.items()}


def reference(s):
    """Row by row in float64, with Python's own loop and no shared code."""
    result = np.zeros(s.shape)
    for row in np.ndindex(s.shape[:-1]):
        values = [float(value) for value in s[row]]
        seen = [value for value in values if value > -np.inf]
        if seen:
            largest = max(seen)
            powers = [math.exp(value - largest) for value in values]
            total = math.fsum(powers)
            result[row] = [power / total for power in powers]
    return result


exercise = Exercise(
    title="A softmax that does not overflow",
    names=("softmax",),
    points=2,
    inputs=inputs,
    reference=reference,
    forbidden=("scipy", "torch"),
)
