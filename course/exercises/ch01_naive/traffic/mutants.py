"""Mistakes that learners make when they count bytes."""

from course.exercise import edit, mutant

MUTANTS = [
    mutant(
        "elements",
        inputs=("one head", "grouped heads"),
        says="You count elements. A float16 takes 2 bytes: multiply by `itemsize`.",
        reference=edit(
            "q_len * head_dim * itemsize",
            "q_len * head_dim",
            ("k_len * head_dim * itemsize", "k_len * head_dim"),
            ("q_len * k_len * itemsize", "q_len * k_len"),
        ),
        variant=edit(" * itemsize", ""),
    ),
    mutant(
        "kv_for_every_query_head",
        inputs=("grouped heads", "one query"),
        says="K and V have `num_kv_heads` heads. Grouped heads are there to read fewer of them.",
        reference=edit("num_kv_heads * k_len", "num_heads * k_len"),
        variant=edit('dict.fromkeys("kv", num_kv_heads)', 'dict.fromkeys("kv", num_heads)'),
    ),
    mutant(
        "scores_for_kv_heads",
        inputs=("grouped heads", "one query"),
        says="Each query head has scores of its own: S and P have `num_heads` heads.",
        reference=edit("num_heads * q_len * k_len", "num_kv_heads * q_len * k_len"),
        variant=edit(
            'fromkeys("qosp", num_heads) | dict.fromkeys("kv", num_kv_heads)',
            'fromkeys("qo", num_heads) | dict.fromkeys("kvsp", num_kv_heads)',
        ),
    ),
    mutant(
        "heads_forgotten",
        inputs=("heads", "grouped heads"),
        says="You count one head. Each array has a number of heads besides its rows and columns.",
        reference=edit(
            "num_heads * q_len * head_dim",
            "q_len * head_dim",
            ("num_kv_heads * k_len", "k_len"),
            ("num_heads * q_len * k_len", "q_len * k_len"),
        ),
        variant=edit(" * heads[array]", ""),
    ),
    mutant(
        "square_scores",
        inputs=("more keys", "one query"),
        says="S has a row for each query and a column for each key: q_len × k_len, not a square.",
        reference=edit("num_heads * q_len * k_len", "num_heads * q_len * q_len"),
        variant=edit('"s": k_len, "p": k_len', '"s": q_len, "p": q_len'),
    ),
    mutant(
        "keys_as_long_as_queries",
        inputs=("more keys", "one query"),
        says="K and V have a row for each key: `k_len` of them, not `q_len`.",
        reference=edit("num_kv_heads * k_len * head_dim", "num_kv_heads * q_len * head_dim"),
        variant=edit(
            '"k": k_len, "v": k_len}\n    columns', '"k": q_len, "v": q_len}\n    columns'
        ),
    ),
    mutant(
        "scores_in_float32",
        inputs=("one head", "N = 8192"),
        says="S and P are kept in `itemsize` bytes here, not in 4.",
        reference=edit("q_len * k_len * itemsize", "q_len * k_len * 4"),
        variant=edit(
            "heads[array] * itemsize", 'heads[array] * (4 if array in "sp" else itemsize)'
        ),
    ),
    mutant(
        "mebibytes",
        inputs=("N = 4096", "N = 8192"),
        says="The values are whole numbers of bytes. Convert to MiB where you print them.",
        reference=edit(
            "k_len * head_dim * itemsize",
            "k_len * head_dim * itemsize / 2**20",
            ("q_len * head_dim * itemsize", "q_len * head_dim * itemsize / 2**20"),
            ("q_len * k_len * itemsize", "q_len * k_len * itemsize / 2**20"),
        ),
        variant=edit(" * itemsize", " * itemsize / 2**20"),
    ),
]
