"""Mistakes that learners make in the range of key tiles."""

from course.exercise import edit, mutant

RETURN = "int(seen_by_all // tile_n), math.ceil(seen_by_some / tile_n)"

MUTANTS = [
    mutant(
        "last_tile_dropped",
        inputs=("cache, last row", "ragged keys", "wide key tiles"),
        right=("square", "not causal"),
        says=(
            "You round stop down, and the last key tile is left out where the keys end inside it. "
            "A tile with one visible key has to be visited: round up."
        ),
        reference=edit("math.ceil(seen_by_some / tile_n)", "int(seen_by_some // tile_n)"),
        variant=edit("-(-counts[-1] // tile_n)", "counts[-1] // tile_n"),
    ),
    mutant(
        "stop_too_late",
        inputs=("square", "not causal", "16K"),
        right=("ragged keys", "wide key tiles"),
        says=(
            "stop is one too many where the keys end just at the end of a tile: with 8 keys in "
            "tiles of 4 there are 2 tiles, not 3."
        ),
        reference=edit("math.ceil(seen_by_some / tile_n)", "int(seen_by_some // tile_n) + 1"),
        variant=edit("-(-counts[-1] // tile_n)", "counts[-1] // tile_n + 1"),
    ),
    mutant(
        "stop_is_the_last_tile",
        inputs=("square", "not causal", "ragged keys"),
        says="stop is the first tile that isn't visited, as in `range`. You return the last one.",
        reference=edit(RETURN, RETURN + " - 1"),
        variant=edit("return free, stop", "return free, stop - 1"),
    ),
    mutant(
        "free_from_the_last_query",
        inputs=("tall query tiles", "first keys"),
        right=("not causal", "ragged keys"),
        says=(
            "free comes from the last query of the tile. A tile is free if every query sees all of "
            "it, and the first query sees the fewest keys."
        ),
        reference=edit("int(seen_by_all // tile_n)", "int(seen_by_some // tile_n)"),
        variant=edit("counts[0] // tile_n", "counts[-1] // tile_n"),
    ),
    mutant(
        "stop_from_the_first_query",
        inputs=("tall query tiles", "cache"),
        right=("not causal", "ragged keys"),
        says=(
            "stop comes from the first query of the tile, and tiles that only later queries see "
            "are left out. The last query sees the most keys."
        ),
        reference=edit("math.ceil(seen_by_some / tile_n)", "math.ceil(seen_by_all / tile_n)"),
        variant=edit("-(-counts[-1] // tile_n)", "-(-counts[0] // tile_n)"),
    ),
    mutant(
        "ragged_tile_is_free",
        inputs=("ragged keys", "wide key tiles"),
        right=("not causal", "more queries"),
        says=(
            "You round free up. A tile of which a query sees only a part, or which is cut short by "
            "the end of the keys, isn't free: round down."
        ),
        reference=edit("int(seen_by_all // tile_n)", "math.ceil(seen_by_all / tile_n)"),
        variant=edit("counts[0] // tile_n", "-(-counts[0] // tile_n)"),
    ),
    mutant(
        "own_key_hidden",
        inputs=("cache", "one query"),
        right=("not causal", "ragged keys"),
        says=(
            "You count one key too few: a query at position p sees the keys 0 to p, and these are "
            "p + 1."
        ),
        reference=edit(
            "visible_keys(first_query,",
            "-causal + visible_keys(first_query,",
            ("visible_keys(last_query,", "-causal + visible_keys(last_query,"),
        ),
        variant=edit("start + row + 1", "start + row"),
    ),
    mutant(
        "top_left",
        inputs=("cache", "one query", "first keys"),
        right=("square", "input_pos"),
        says=(
            "Your causal mask is aligned top left. Without input_pos, query 0 stands at position "
            "k_len - q_len."
        ),
        reference=edit(
            '"input_pos": input_pos}',
            '"input_pos": 0 if causal and input_pos is None else input_pos}',
        ),
        variant=edit("k_len - q_len if", "0 if"),
    ),
    mutant(
        "mask_ignored",
        inputs=("square", "more queries", "input_pos"),
        right=("not causal", "ragged keys", "beyond the end"),
        says="causal=True changes nothing: key tiles that no query sees are visited.",
        reference=edit('{"causal": causal, "input_pos": input_pos}', "{}"),
        variant=edit(" if causal else k_len", " if False else k_len"),
    ),
    mutant(
        "input_pos_zero_ignored",
        inputs="input_pos 0",
        right=("input_pos", "square"),
        says="input_pos=0 is a position like any other: only None means k_len - q_len.",
        reference=edit('"input_pos": input_pos}', '"input_pos": input_pos or None}'),
        variant=edit("if input_pos is None else", "if not input_pos else"),
    ),
    mutant(
        "short_tile_taken_for_whole",
        inputs="ragged queries",
        right=("square", "input_pos"),
        says=(
            "The last query tile may be cut short. Its last query is q_len - 1, not the last that "
            "a whole tile would hold."
        ),
        reference=edit(
            "min(first_query + tile_m, q_len) - 1",
            "first_query + tile_m - 1",
        ),
        variant=edit("min(q_len, (i + 1) * tile_m)", "(i + 1) * tile_m"),
    ),
    mutant(
        "counts_below_zero",
        inputs=("more queries", "negative input_pos"),
        right=("square", "beyond the end"),
        says=(
            "free or stop is negative for queries that stand before the first key. They see 0 "
            "keys, not less."
        ),
        reference=edit(
            "    seen_by_all = visible_keys(first_query, q_len, k_len, **mask)\n",
            "    seen_by_all = visible_keys(first_query, q_len, k_len, **mask)\n"
            "    if causal:\n"
            "        start = k_len - q_len if input_pos is None else input_pos\n"
            "        last = min(k_len, start + last_query + 1)\n"
            "        return min(k_len, start + first_query + 1) // tile_n, -(-last // tile_n)\n",
        ),
        variant=edit("max(0, start + row + 1)", "start + row + 1"),
    ),
    mutant(
        "beyond_the_keys",
        inputs="beyond the end",
        right=("square", "more queries"),
        says=(
            "A query beyond the last key sees k_len keys, no more. Your tiles go on past the end "
            "of the keys."
        ),
        reference=edit(
            "    seen_by_all = visible_keys(first_query, q_len, k_len, **mask)\n",
            "    seen_by_all = visible_keys(first_query, q_len, k_len, **mask)\n"
            "    if causal:\n"
            "        start = k_len - q_len if input_pos is None else input_pos\n"
            "        last = max(0, start + last_query + 1)\n"
            "        return max(0, start + first_query + 1) // tile_n, -(-last // tile_n)\n",
        ),
        variant=edit("min(k_len, max(0, start + row + 1))", "max(0, start + row + 1)"),
    ),
    mutant(
        "tile_sizes_swapped",
        inputs=("tall query tiles", "cache"),
        right="square",
        says="tile_m and tile_n are swapped: tile_m is queries in a tile, tile_n is keys.",
        reference=edit(
            "    first_query = i", "    tile_m, tile_n = tile_n, tile_m\n    first_query = i"
        ),
        variant=edit("    end = min", "    tile_m, tile_n = tile_n, tile_m\n    end = min"),
    ),
    mutant(
        "keys_not_tiles",
        inputs=("square", "not causal", "one query"),
        says="You return numbers of keys. Asked for are numbers of tiles, of tile_n keys each.",
        reference=edit(RETURN, "int(seen_by_all), int(seen_by_some)"),
        variant=edit("return free, stop", "return counts[0], counts[-1]"),
    ),
]
