"""Mistakes that learners make in the gradients of a tile."""

from course.exercise import edit, mutant

RETURN = "return dv, dp, ds"

MUTANTS = [
    mutant(
        "weights_of_the_tile_alone",
        inputs=("one of three", "one of two"),
        right=("all keys", "causal"),
        says=(
            "You take a softmax over the keys of this tile. The weights are over all keys of the "
            "row, of which the tile may hold a few: one of the arguments knows about all."
        ),
        reference=edit(
            "    dv = p.T @ do\n",
            "    p = p / np.maximum(p.sum(axis=1, keepdims=True), 1e-30)\n    dv = p.T @ do\n",
        ),
        variant=edit(
            "        dv += np.outer",
            "        weights = weights / max(weights.sum(), 1e-30)\n        dv += np.outer",
        ),
    ),
    mutant(
        "not_normalised",
        inputs=("all keys", "one of three", "one row"),
        says=(
            "Your weights are exp(s - the maximum), and don't sum to 1. What has to be subtracted "
            "instead, so that they do?"
        ),
        reference=edit(
            "lse == -np.inf, 0, lse)", "lse == -np.inf, 0, s.max(axis=1, initial=-1e30))"
        ),
        variant=edit("s[row] - lse[row]", "s[row] - max(s[row], default=0)"),
    ),
    mutant(
        "hidden_row_gives_nan",
        inputs="some hidden",
        right=("all keys", "causal"),
        says=(
            "A row that saw no key gives NaN: its scores are -inf and so is its lse. Its weights "
            "are 0."
        ),
        reference=edit("np.where(lse == -np.inf, 0, lse)", "lse"),
        variant=edit("if lse[row] > -np.inf else", "if True else"),
    ),
    mutant(
        "mean_forgotten",
        inputs=("all keys", "one of three"),
        says=(
            "ds is p · dp. But the weights of a row sum to 1 whatever the scores are, so what all "
            "of its dp have in common can't matter: something has to be taken off first."
        ),
        reference=edit("p * (dp - mean)", "p * dp"),
        variant=edit("weights * (dp[row] - mean)", "weights * dp[row]"),
    ),
    mutant(
        "plain_mean",
        inputs=("all keys", "one of three"),
        says=(
            "You take the plain mean of dp off. The mean that counts is weighted by p, and it is "
            "over all keys of the row."
        ),
        reference=edit(
            "(do * o).sum(axis=1, keepdims=True)",
            "dp.sum(axis=1, keepdims=True) / max(1, dp.shape[1])",
        ),
        variant=edit("o[row] @ do[row]", "dp[row].sum() / max(1, len(dp[row]))"),
    ),
    mutant(
        "mean_of_the_tile",
        inputs=("one of three", "one of two"),
        right=("all keys", "causal"),
        says=(
            "Your mean of dp goes over this tile only. It is over all keys of the row, and those "
            "aren't here: that is what o is for."
        ),
        reference=edit(
            "(do * o).sum(axis=1, keepdims=True)", "(p * dp).sum(axis=1, keepdims=True)"
        ),
        variant=edit("o[row] @ do[row]", "weights @ dp[row]"),
    ),
    mutant(
        "mean_of_everything",
        inputs=("all keys", "one of three"),
        right="one row",
        says="You take one mean for all rows. Each row has its own: sum do · o over head_dim only.",
        reference=edit("(do * o).sum(axis=1, keepdims=True)", "(do * o).sum()"),
        variant=edit("o[row] @ do[row]", "(o * do).sum()"),
    ),
    mutant(
        "mean_added",
        inputs=("all keys", "one of three"),
        says="The mean has the wrong sign: it is taken off, not added.",
        reference=edit("dp - mean", "dp + mean"),
        variant=edit("dp[row] - mean", "dp[row] + mean"),
    ),
    mutant(
        "do_for_o",
        inputs=("all keys", "one of three"),
        says="Your mean is do · do. One of the two should be what the forward pass returned.",
        reference=edit("(do * o)", "(do * do)"),
        variant=edit("o[row] @ do[row]", "do[row] @ do[row]"),
    ),
    mutant(
        "not_transposed",
        inputs="square",
        says=(
            "dv adds up the wrong weights: row j of it belongs to key j, so it takes column j of "
            "p. With p instead of its transpose the shapes only fit on square tiles."
        ),
        reference=edit("p.T @ do", "p @ do"),
        variant=edit(
            "np.outer(weights, do[row])",
            "np.outer(np.eye(*s.shape, dtype=s.dtype)[row], weights @ do)",
        ),
    ),
    mutant(
        "dp_hidden",
        inputs=("causal", "some hidden"),
        right=("all keys", "one of three"),
        says=(
            "dp is 0 where a key is hidden. It follows its formula there too: the weight, which is "
            "0, takes care of ds."
        ),
        reference=edit(RETURN, "return dv, np.where(s == -np.inf, 0, dp).astype(s.dtype), ds"),
        variant=edit(RETURN, "return dv, np.where(s == -np.inf, 0, dp).astype(s.dtype), ds"),
    ),
    mutant(
        "values_not_transposed",
        inputs="square",
        says=(
            "dp multiplies do with v instead of its transpose: a sum over keys, where it has to be "
            "one over head_dim. The shapes only fit on square tiles."
        ),
        reference=edit("do @ v.T", "do @ v"),
        variant=edit("v @ do[row]", "v.T @ do[row]"),
    ),
    mutant(
        "gradient_weights",
        inputs=("all keys", "one of three"),
        says="dv uses ds. What the values were multiplied by in the forward pass is the weights.",
        reference=edit(RETURN, "return ds.T @ do, dp, ds"),
        variant=edit(RETURN, "return ds.T @ do, dp, ds"),
    ),
    mutant(
        "base_2",
        inputs=("all keys", "one of three"),
        says="Your weights are powers of 2. Scores and lse are to base e: np.exp, not np.exp2.",
        reference=edit("p = np.exp(", "p = np.exp2("),
        variant=edit("np.exp(s[row]", "np.exp2(s[row]"),
    ),
    mutant(
        "float64_result",
        inputs=("all keys", "one of three"),
        right="float64",
        says="The results are float64. They must have the dtype of the arguments.",
        reference=edit(RETURN, "return dv.astype(float), dp.astype(float), ds.astype(float)"),
        variant=edit(RETURN, "return dv.astype(float), dp.astype(float), ds.astype(float)"),
    ),
]
