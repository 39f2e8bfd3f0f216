"""dv, dp and ds of a tile, from its scores, the values, O, LSE and dO."""

import math

import numpy as np

from course.exercise import Case, Exercise, Part


def inputs(rng):
    def case(shows, s, head_dim=6, keys=slice(None), mask=None, dtype=np.float32):
        """The forward pass over all of s; the case itself holds the keys that `keys` says."""
        s = s if mask is None else np.where(mask, s, -np.inf)
        rows, count = s.shape
        v = (rng.standard_normal((count, head_dim)) + 1) * rng.uniform(0.5, 2, head_dim)
        s, v = s.astype(dtype).astype(float), v.astype(dtype).astype(float)
        o, lse = np.zeros((rows, head_dim)), np.full(rows, -np.inf)
        for row in range(rows):
            if count and s[row].max() > -np.inf:
                lse[row] = np.logaddexp.reduce(s[row])
                o[row] = np.exp(s[row] - lse[row]) @ v
        do = rng.standard_normal((rows, head_dim))
        # Rows of them may cancel to nearly nothing, and only rounding is left there.
        parts = tuple(Part(name, np.dtype(dtype), "together") for name in ("dv", "dp", "ds"))
        arguments = s[:, keys], v[keys], o, lse, do
        return Case(shows, tuple(x.astype(dtype) for x in arguments), parts=parts)

    def scores(*shape):
        return rng.standard_normal(shape)

    rows_differ = np.array([[0.0], [30], [-30], [5], [60]])
    return {
        "all keys": case("a tile with all the keys", scores(4, 7)),
        "one of three": case("a tile with a third of the keys", scores(4, 9), keys=slice(3, 6)),
        "one of two": case("the second half of the keys", scores(3, 10), keys=slice(5, 10)),
        "square": case("as many rows as keys and as head_dim", scores(6, 6)),
        "causal": case("a causal tile", scores(6, 6), 4, mask=np.tri(6, dtype=bool)),
        "some hidden": case(
            "hidden keys, and a row that saw none at all",
            scores(5, 8),
            mask=(rng.random((5, 8)) < 0.6) & (np.arange(5) != 2)[:, np.newaxis],
        ),
        "rows far apart": case("rows whose scores lie far apart", scores(5, 7) + rows_differ),
        "large scores": case("scores of about 300", scores(4, 7) + 300),
        "very negative": case("scores of about -100000", scores(4, 7) - 100000),
        "one row": case("one row", scores(1, 9)),
        "no keys": case("a tile of no keys", scores(3, 5), keys=slice(0, 0)),
        "float64": case("float64", scores(4, 7), dtype=np.float64),
    }


def reference(s, v, o, lse, do):
    """By the definition of each derivative, one row and one key at a time, in float64."""
    s, v, o, lse, do = (x.astype(np.float64) for x in (s, v, o, lse, do))
    dv, dp, ds = np.zeros(v.shape), np.zeros(s.shape), np.zeros(s.shape)
    for i, j in np.ndindex(s.shape):
        p = math.exp(s[i, j] - lse[i]) if s[i, j] > -math.inf else 0.0
        dv[j] += p * do[i]
        dp[i, j] = math.fsum(do[i] * v[j])
        # o is Σ p v, so its derivative with respect to s of key j is p (v of j - o).
        ds[i, j] = p * math.fsum(do[i] * (v[j] - o[i]))
    return dv, dp, ds


exercise = Exercise(
    title="The gradients of a tile",
    names=("score_gradients",),
    points=3,
    inputs=inputs,
    reference=reference,
    forbidden=("scipy", "torch"),
)
