"""Attention of one row, over keys and values that arrive block by block."""

import math

import numpy as np

from course.exercise import Case, Exercise, Part, Stream

# An eighth of K and V of the longest stream: enough for a block or a few, not for a copy of all.
PEAK_BYTES = 256 << 10


def inputs(rng):
    def row(k_len, head_dim=8, dtype=np.float32):
        q, k, v = (
            rng.standard_normal(shape) for shape in (head_dim, (k_len, head_dim), (k_len, 4))
        )
        # The mean of 1 in V makes weights that don't sum to 1 stand out.
        v = np.repeat(v, -(-head_dim // 4), axis=1)[:, :head_dim] + 1
        v *= rng.uniform(0.5, 2, head_dim)
        return tuple(x.astype(dtype) for x in (q, k, v))

    def case(shows, arrays, sizes, *, peak_bytes=None, **options):
        q, k, v = arrays
        assert sum(sizes) == len(k)
        wide = np.promote_types(q.dtype, np.float32)
        parts = Part("o", q.dtype), Part("lse", wide, "logarithms")
        ends = np.cumsum(sizes)[:-1]
        blocks = zip(np.split(k, ends), np.split(v, ends), strict=True) if sizes else ()
        arguments = q, Stream(tuple(blocks))
        return Case(shows, arguments, options, parts=parts, peak_bytes=peak_bytes)

    def with_scores(scores):
        """A row with exactly these scores, scaled: each key points along the query."""
        q, k, v = row(len(scores), head_dim=16)
        q = np.ones_like(q)
        k = np.repeat(np.float32(scores)[:, np.newaxis], 16, axis=1) / np.float32(4)
        return q, k, v

    # Numbers whose product with the scale is rounded as coarsely as float16 does.
    coarse = row(9, 80, np.float16)
    coarse[0][:], coarse[1][:] = 0.3481, 6.5 + rng.uniform(-0.5, 0.5, (9, 1))

    near = rng.uniform(-1, 1, 12)
    step = np.repeat([0.0, 4.0, 8.0, 12.0], 3)
    long = row(4096, 4, np.float16)
    long = np.zeros_like(long[0]), long[1], np.ones_like(long[2])
    large = row(10, 64, np.float16)
    large[0][:], large[1][:] = 100, 100
    return {
        "one block": case("a single block", row(9), [9]),
        "rising": case("blocks whose scores rise", with_scores(near + step), [3, 3, 3, 3]),
        "falling": case("blocks whose scores fall", with_scores(near - step), [3, 3, 3, 3]),
        "ordinary": case("four blocks, the last one short", row(27), [8, 8, 8, 3]),
        "ordinary again": case("blocks of other lengths", row(27), [1, 12, 2, 12]),
        "one key each": case("blocks of one key each", row(7), [1] * 7),
        "some empty": case("blocks of no keys among the others", row(12), [0, 5, 0, 7, 0]),
        "far apart": case(
            "blocks whose scores lie 1000 apart",
            with_scores(near + 250 * np.array([0, 0, 0, 4, 4, 4, 0, 0, 0, 4, 4, 4])),
            [3, 3, 3, 3],
        ),
        "very negative": case("scores of about -1000", with_scores(near - 1000), [4, 8]),
        "no blocks": case("no blocks at all", row(0), []),
        "only empty blocks": case("blocks of no keys only", row(0), [0, 0]),
        "scale given": case("scale=0.3", row(14), [5, 9], scale=0.3),
        "scale zero": case("scale=0.0", row(14), [5, 9], scale=0.0),
        "float16": case("float16", row(40, 16, np.float16), [16, 16, 8]),
        "float16, long row": case("float16, 4096 equal scores, one by one", long, [1] * 4096),
        "float16, scaled": case("float16 with scores of about 20", coarse, [4, 5]),
        "float16, large products": case(
            "float16 with products of 640000, more than float16 holds", large, [4, 6]
        ),
        "float64": case("float64", row(14, dtype=np.float64), [5, 9]),
        "stream": case(
            "8192 keys in blocks of 64", row(8192, 32), [64] * 128, peak_bytes=PEAK_BYTES
        ),
    }


def reference(q, blocks, *, scale=None):
    """The whole row at once, in float64."""
    scale = 1 / math.sqrt(len(q)) if scale is None else scale
    scores, values = [], []
    for k, v in blocks:
        for key, value in zip(k.astype(np.float64), v.astype(np.float64), strict=True):
            scores.append(scale * float(q.astype(np.float64) @ key))
            values.append(value)
    if not scores:
        return np.zeros(len(q)), -math.inf
    largest = max(scores)
    weights = [math.exp(score - largest) for score in scores]
    total = math.fsum(weights)
    output = sum(weight / total * value for weight, value in zip(weights, values, strict=True))
    return output, largest + math.log(total)


exercise = Exercise(
    title="Attention of one row, block by block",
    names=("attend_row",),
    points=3,
    inputs=inputs,
    reference=reference,
    forbidden=("scipy", "torch"),
)
