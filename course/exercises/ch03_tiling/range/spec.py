"""The key tiles of a row of query tiles: the first that needs the mask, and where they end."""

from course.exercise import Case, Exercise


def inputs(rng):
    def case(shows, *args, **kwargs):
        return Case(shows, args, kwargs)

    size, count = 2 ** int(rng.integers(2, 6)), int(rng.integers(4, 9))
    length, i = size * count, int(rng.integers(2, count))
    row = int(rng.integers(1, 63))
    causal = {"causal": True}
    return {
        "square": case("a causal square of equal tiles", i, length, length, size, size, **causal),
        "16K": case("16384 tokens in tiles of 256", row, 16384, 16384, 256, 256, **causal),
        "wide key tiles": case("key tiles 4 times as long", 6, 64, 64, 4, 16, **causal),
        "tall query tiles": case("query tiles 4 times as long", 2, 64, 64, 16, 4, **causal),
        "cache": case("8 queries on 61 keys", 0, 8, 61, 4, 8, **causal),
        "cache, last row": case("8 queries on 61 keys, the last row", 1, 8, 61, 4, 8, **causal),
        "one query": case("one query on 33 keys", 0, 1, 33, 64, 4, **causal),
        "more queries": case("queries that see no key", 1, 20, 8, 4, 4, **causal),
        "first keys": case(
            "more queries than keys, and the first tile that sees one", 3, 20, 8, 4, 4, **causal
        ),
        "ragged queries": case(
            "a query tile that is cut short", 2, 10, 30, 4, 4, **causal, input_pos=5
        ),
        "input_pos": case("input_pos=7", 1, 12, 40, 4, 4, **causal, input_pos=7),
        "input_pos 0": case("input_pos=0", 1, 12, 40, 4, 4, **causal, input_pos=0),
        "negative input_pos": case("input_pos=-9", 1, 12, 40, 4, 4, **causal, input_pos=-9),
        "beyond the end": case(
            "queries beyond the last key", 0, 12, 30, 4, 8, **causal, input_pos=100
        ),
        "not causal": case("no mask", i, length, length, size, size),
        "ragged keys": case("no mask, and a last key tile that is cut short", 1, 32, 30, 4, 8),
        "no keys": case("no keys", 0, 8, 0, 4, 4),
        "no keys, causal": case("no keys, causal", 1, 8, 0, 4, 4, **causal),
    }


def reference(i, q_len, k_len, tile_m, tile_n, *, causal=False, input_pos=None):
    """Looks at each pair of a query and a key, and counts tiles."""
    first = k_len - q_len if input_pos is None else input_pos
    queries = [row for row in range(i * tile_m, (i + 1) * tile_m) if row < q_len]

    def sees(query, key):
        return key < k_len and (not causal or key <= first + query)

    free = stop = 0
    while True:
        keys = range(stop * tile_n, (stop + 1) * tile_n)
        if not any(sees(query, key) for query in queries for key in keys):
            return free, stop
        if free == stop and all(sees(query, key) for query in queries for key in keys):
            free += 1
        stop += 1


exercise = Exercise(
    title="Which key tiles does a row of query tiles visit?",
    names=("key_tiles",),
    points=2,
    inputs=inputs,
    reference=reference,
)
