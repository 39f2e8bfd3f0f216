"""Tile sizes for a given memory on the chip."""

from course.exercise import Case, Exercise


def needed(tile_m, tile_n, head_dim, itemsize):
    """Adds up the arrays: rows, columns and bytes of a number."""
    arrays = {
        "q": (tile_m, head_dim, itemsize),
        "k": (tile_n, head_dim, itemsize),
        "v": (tile_n, head_dim, itemsize),
        "s": (tile_m, tile_n, 4),
        "acc": (tile_m, head_dim, 4),
        "m_i": (tile_m, 1, 4),
        "l_i": (tile_m, 1, 4),
    }
    return sum(rows * columns * size for rows, columns, size in arrays.values())


def inputs(rng):
    def case(shows, memory_bytes, head_dim, **kwargs):
        return Case(shows, (int(memory_bytes), head_dim), kwargs)

    just = needed(256, 64, 80, 2)
    narrow = needed(64, 32, 32, 2)  # less than 128 and 16 need
    return {
        "Hopper, 128": case("227 KiB and a head_dim of 128", 227 * 1024, 128),
        "Hopper, 64": case("227 KiB and a head_dim of 64", 227 * 1024, 64),
        "100 KiB": case("100 KiB and a head_dim of 128", 100 * 1024, 128),
        "48 KiB": case("48 KiB and a head_dim of 64", 48 * 1024, 64),
        "float32": case("float32 and 64 KiB", 64 * 1024, 64, itemsize=4),
        "float8": case("one byte a number, and 100 KiB", 100 * 1024, 256, itemsize=1),
        "just enough": case("just the bytes that 16 and 16 need", needed(16, 16, 80, 2), 80),
        "one too few": case("one byte less than 16 and 16 need", needed(16, 16, 80, 2) - 1, 80),
        "just 256": case("just the bytes that 256 and 64 need", just, 80),
        "below 256": case("less than 256 and 64 need", just - int(rng.integers(1, 9)), 80),
        "narrow": case("just the bytes that 64 and 32 need", narrow, 32),
        "plenty": case("4 MiB", 4 * 2**20, 64),
        "nothing": case("no memory at all", 0, 64),
    }


def reference(memory_bytes, head_dim, *, itemsize=2):
    """All 25 pairs, and the best of those that fit: a larger tile_m, then a larger tile_n."""
    sizes = [2**n for n in range(4, 9)]
    fit = [
        (tile_m, tile_n)
        for tile_m in sizes
        for tile_n in sizes
        if needed(tile_m, tile_n, head_dim, itemsize) <= memory_bytes
    ]
    return max(fit) if fit else None


exercise = Exercise(
    title="Tile sizes for a given memory",
    names=("largest_tiles",),
    points=2,
    inputs=inputs,
    reference=reference,
)
