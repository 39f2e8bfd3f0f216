"""Mistakes that learners make when they choose tile sizes."""

from course.exercise import edit, mutant

CALL = "parts = on_chip_bytes(tile_m, tile_n, head_dim, itemsize=itemsize)"
CHECK = "sum(parts.values()) <= memory_bytes"

MUTANTS = [
    mutant(
        "keys_first",
        inputs=("Hopper, 128", "Hopper, 64", "100 KiB"),
        right=("plenty", "nothing"),
        says=(
            "You make tile_n as large as possible first. K and V are read once for each tile of "
            "queries, so a larger tile_m moves less, and tile_n doesn't."
        ),
        reference=edit(
            "    for tile_m in sizes:\n        for tile_n in sizes:\n",
            "    for tile_n in sizes:\n        for tile_m in sizes:\n",
        ),
        variant=edit("(tile_m, tile_n) > best)", "(tile_n, tile_m) > best[::-1])"),
    ),
    mutant(
        "largest_area",
        inputs=("Hopper, 128", "float8"),
        right=("100 KiB", "plenty", "nothing"),
        says=(
            "You take the tiles with the most scores. What counts is what they move: a larger "
            "tile_m comes first, whatever tile_n is."
        ),
        reference=edit(
            "    sizes = (",
            "    found = []\n    sizes = (",
            ("return tile_m, tile_n\n", "found.append((tile_m, tile_n))\n"),
            (
                "return None",
                "return max(found, key=lambda tiles: tiles[0] * tiles[1], default=None)",
            ),
        ),
        variant=edit("(tile_m, tile_n) > best", "tile_m * tile_n >= best[0] * best[1]"),
    ),
    mutant(
        "smallest",
        inputs=("Hopper, 128", "plenty"),
        right=("just enough", "nothing"),
        says="You return the smallest tiles that fit. Asked for are the largest.",
        reference=edit("(256, 128, 64, 32, 16)", "(16, 32, 64, 128, 256)"),
        variant=edit("(tile_m, tile_n) > best", "(tile_m, tile_n) < best"),
    ),
    mutant(
        "square_tiles",
        inputs=("Hopper, 128", "narrow"),
        right=("plenty", "nothing"),
        says="You only look at tiles with tile_m equal to tile_n. They may differ.",
        reference=edit("for tile_n in sizes:", "for tile_n in [tile_m]:"),
        variant=edit("(best is None or", "tile_m == tile_n and (best is None or"),
    ),
    mutant(
        "must_leave_room",
        inputs=("just enough", "just 256", "narrow"),
        right=("one too few", "plenty", "Hopper, 128"),
        says="Tiles that need just the bytes that there are fit: compare with <=, not with <.",
        reference=edit("<= memory_bytes", "< memory_bytes"),
        variant=edit("<= memory_bytes", "< memory_bytes"),
    ),
    mutant(
        "scores_forgotten",
        inputs=("Hopper, 128", "just 256"),
        right="nothing",
        says=(
            "The tile of scores isn't counted, tile_m × tile_n numbers of 4 bytes. It is what the "
            "O(Br·d + Bc·d) of the articles leaves out."
        ),
        reference=edit(CHECK, 'sum(parts.values()) - parts["s"] <= memory_bytes'),
        variant=edit("tiles + scores + state <=", "tiles + state <="),
    ),
    mutant(
        "acc_forgotten",
        inputs=("Hopper, 64", "48 KiB"),
        right="nothing",
        says="acc isn't counted: tile_m × head_dim numbers of 4 bytes, kept from tile to tile.",
        reference=edit(CHECK, 'sum(parts.values()) - parts["acc"] <= memory_bytes'),
        variant=edit("tile_m * (head_dim + 2) * 4", "tile_m * 2 * 4"),
    ),
    mutant(
        "values_forgotten",
        inputs=("float8", "one too few"),
        right=("Hopper, 128", "nothing"),
        says="Only one of K and V is counted. Their tiles are alike, and both are there at a time.",
        reference=edit(CHECK, 'sum(parts.values()) - parts["v"] <= memory_bytes'),
        variant=edit("(tile_m + 2 * tile_n)", "(tile_m + tile_n)"),
    ),
    mutant(
        "itemsize_ignored",
        inputs=("float32", "float8"),
        right=("Hopper, 128", "just 256", "nothing"),
        says="`itemsize` changes nothing. It is the bytes of a number of q, k and v.",
        reference=edit(", itemsize=itemsize)", ")"),
        variant=edit("* head_dim * itemsize", "* head_dim * 2"),
    ),
    mutant(
        "never_none",
        inputs=("one too few", "nothing"),
        right=("just enough", "Hopper, 128"),
        says="Where not even 16 and 16 fit, the answer is None. You return tiles that don't fit.",
        reference=edit("return None", "return 16, 16"),
        variant=edit("return best", "return best or (16, 16)"),
    ),
]
