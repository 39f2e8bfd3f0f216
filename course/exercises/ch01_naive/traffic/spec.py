"""The bytes that naive attention moves through HBM."""

from course.exercise import Case, Exercise


def inputs(rng):
    def size(low, high):
        return int(rng.integers(low, high))

    def case(shows, *args, **kwargs):
        return Case(shows, args, kwargs)

    q_len, extra = size(3, 50), size(1, 40)
    return {
        "one head": case("one head", q_len, q_len, 2 * q_len + 1),
        "N = 4096": case("N = 4096 and head_dim = 128, as in the table", 4096, 4096, 128),
        "N = 8192": case("N = 8192 and head_dim = 128, as in the table", 8192, 8192, 128),
        "more keys": case("more keys than queries", q_len, q_len + extra, 8),
        "heads": case("32 heads", 128, 128, 64, num_heads=32, num_kv_heads=32),
        "grouped heads": case("32 heads on 4 KV heads", 128, 128, 64, num_heads=32, num_kv_heads=4),
        "float32": case(
            "float32", q_len, q_len + extra, 16, num_heads=2, num_kv_heads=1, itemsize=4
        ),
        "one query": case("one query on a long cache", 1, 16384, 128, num_heads=8, num_kv_heads=1),
        "no keys": case("no keys", 16, 0, 64),
    }


def reference(q_len, k_len, head_dim, *, num_heads=1, num_kv_heads=1, itemsize=2):
    """Adds up array by array: what each of the three passes reads and writes."""
    shapes = {
        "q": (num_heads, q_len, head_dim),
        "k": (num_kv_heads, k_len, head_dim),
        "s": (num_heads, q_len, k_len),
        "p": (num_heads, q_len, k_len),
        "v": (num_kv_heads, k_len, head_dim),
        "o": (num_heads, q_len, head_dim),
    }
    passes = [("q", "k", "s"), ("s", "p"), ("p", "v", "o")]
    moved = {}
    for *read, written in passes:
        for array, verb in [*((name, "read") for name in read), (written, "write")]:
            heads, rows, columns = shapes[array]
            moved[f"{verb}_{array}"] = heads * rows * columns * itemsize
    return moved


exercise = Exercise(
    title="Count the bytes",
    names=("naive_traffic",),
    points=2,
    inputs=inputs,
    reference=reference,
)
