"""Bad arguments: the error's type, and that its message names the argument and what was got.

And what a caller may rely on: arguments stay as they were, and `attend_row` reads its blocks once.
"""

import fractions

import numpy as np
import pytest

from kernels import online_softmax
from kernels.tests.oracle import dtype_called

ROWS, KEYS, HEAD_DIM = 3, 5, 4
STEPS = {"update": "acc", "update_normalised": "o"}  # each step's name for the output so far


def poison(*shape, dtype=np.float32):
    """inf, from which every step of ours computes inf - inf: under np.errstate(all="raise") a
    FloatingPointError unless the arguments are refused before."""
    return np.full(shape, np.inf, dtype)


def step_arguments(output="acc"):
    """Right arguments of `update` or `update_normalised`."""
    return {
        "m_i": poison(ROWS),
        "l_i": poison(ROWS),
        output: poison(ROWS, HEAD_DIM),
        "s": poison(ROWS, KEYS),
        "v": poison(KEYS, HEAD_DIM),
    }


def state(rows=(ROWS,), head_dim=HEAD_DIM, dtype=np.float32):
    return (
        poison(*rows, dtype=dtype),
        poison(*rows, dtype=dtype),
        poison(*rows, head_dim, dtype=dtype),
    )


def finish_arguments():
    return dict(zip(("m_i", "l_i", "acc"), state(), strict=True))


def merge_outputs_arguments():
    o, lse = poison(ROWS, HEAD_DIM), poison(ROWS)
    return {"o_a": o, "lse_a": lse, "o_b": o.copy(), "lse_b": lse.copy()}


def refuses(function, error, words, *args, **kwargs):
    with np.errstate(all="raise"), pytest.raises(error, match=words):
        function(*args, **kwargs)


def test_the_poison_shows():
    # Else the tests below would not see that something was computed first.
    o = online_softmax
    for call in (
        lambda: o.update(**step_arguments()),
        lambda: o.update_normalised(**step_arguments("o")),
        lambda: o.merge(state(), state()),
        lambda: o.finish(-poison(ROWS), *state()[1:]),
        lambda: o.merge_outputs(**merge_outputs_arguments()),
        lambda: o.attend_row(poison(HEAD_DIM), [(-poison(KEYS, HEAD_DIM),) * 2]),
    ):
        with np.errstate(all="raise"), pytest.raises(FloatingPointError):
            call()


# (id, what to put there instead of a float32 array, what the message says it got)
NO_ARRAYS = [
    ("list", lambda x: x.tolist(), "a list"),
    ("none", lambda x: None, "a NoneType"),
    ("float", lambda x: 1.0, "a float"),
    ("masked", np.ma.MaskedArray, "a numpy.ma.*MaskedArray"),
    ("int32", lambda x: np.zeros(x.shape, "int32"), "dtype int32"),
    ("bool", lambda x: np.zeros(x.shape, "bool"), "dtype bool"),
    ("object", lambda x: x.astype(object), "dtype object"),
    ("float16", lambda x: x.astype("float16"), "dtype float16"),
    ("bfloat16", lambda x: x.astype(dtype_called("bfloat16")), "dtype bfloat16"),
    ("swapped", lambda x: x.astype(">f4"), "dtype >f4"),
    ("longdouble", lambda x: x.astype(np.longdouble), f"dtype {np.dtype(np.longdouble)}"),
]
no_arrays = pytest.mark.parametrize(
    ("made", "got"), [row[1:] for row in NO_ARRAYS], ids=[row[0] for row in NO_ARRAYS]
)


def tensor(x):
    """torch is not needed here but for being refused."""
    return pytest.importorskip("torch").from_numpy(x)


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("name", ["m_i", "l_i", "output", "s", "v"])
@no_arrays
def test_steps_refuse_what_is_no_state(made, got, name, step):
    args = step_arguments(STEPS[step])
    name = STEPS[step] if name == "output" else name
    args[name] = made(args[name])
    words = f"^{name} must be a numpy.ndarray of float32 or float64, got {got}$"
    refuses(getattr(online_softmax, step), TypeError, words, **args)


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("name", ["m_i", "l_i", "output", "s", "v"])
def test_steps_refuse_mixed_dtypes(name, step):
    args = step_arguments(STEPS[step])
    name = STEPS[step] if name == "output" else name
    args[name] = args[name].astype(np.float64)
    words = f"^all arrays must have the same dtype, got .*{name} float64"
    refuses(getattr(online_softmax, step), TypeError, words, **args)


# (id, the new shapes, words of the message; OUT stands for the step's name for the output so far)
BAD_SHAPES = [
    ("m_0d", {"m_i": ()}, r"^m_i must be 1-D \(rows,\), got shape \(\)"),
    ("m_2d", {"m_i": (ROWS, 1)}, r"^m_i must be 1-D \(rows,\), got shape \(3, 1\)"),
    ("l_2d", {"l_i": (1, ROWS)}, r"^l_i must be 1-D \(rows,\), got shape \(1, 3\)"),
    ("out_1d", {"OUT": (ROWS,)}, r"^OUT must be 2-D \(rows, head_dim\), got shape \(3,\)"),
    ("out_3d", {"OUT": (1, ROWS, HEAD_DIM)}, "^OUT must be 2-D"),
    ("s_1d", {"s": (KEYS,)}, r"^s must be 2-D \(rows, keys\), got shape \(5,\)"),
    ("s_3d", {"s": (1, ROWS, KEYS)}, "^s must be 2-D"),
    ("v_1d", {"v": (KEYS,)}, r"^v must be 2-D \(keys, head_dim\), got shape \(5,\)"),
    ("l_rows", {"l_i": (4,)}, "^m_i and l_i .*same rows, got m_i with 3 .* and l_i with 4"),
    ("l_rows_1", {"l_i": (1,)}, "^m_i and l_i .*same rows, got m_i with 3 .* and l_i with 1"),
    ("m_rows_1", {"m_i": (1,)}, "^m_i and l_i .*same rows, got m_i with 1 .* and l_i with 3"),
    ("out_rows", {"OUT": (1, HEAD_DIM)}, "^m_i and OUT .*same rows.*m_i with 3.*OUT with 1"),
    ("s_rows", {"s": (1, KEYS)}, r"^m_i and s .*same rows.*m_i with 3.*s with 1 \(shape \(1, 5\)"),
    ("s_turned", {"s": (KEYS, ROWS)}, "^m_i and s .*same rows.*m_i with 3.*s with 5"),
    ("v_keys", {"v": (6, HEAD_DIM)}, r"^s and v .*same keys, got s with 5 .* and v with 6"),
    ("v_keys_1", {"v": (1, HEAD_DIM)}, r"^s and v .*same keys, got s with 5 .* and v with 1"),
    ("v_dim", {"v": (KEYS, 1)}, r"^OUT and v .*same head_dim, got OUT with 4 .* and v with 1"),
    ("no_dim", {"OUT": (ROWS, 0), "v": (KEYS, 0)}, "^OUT has head_dim 0, at least 1 is needed$"),
]


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize(
    ("shapes", "words"), [row[1:] for row in BAD_SHAPES], ids=[row[0] for row in BAD_SHAPES]
)
def test_steps_refuse_shapes(shapes, words, step):
    args = step_arguments(STEPS[step])
    for name, shape in shapes.items():
        args[name.replace("OUT", STEPS[step])] = poison(*shape)
    words = words.replace("OUT", STEPS[step])
    refuses(getattr(online_softmax, step), ValueError, words, **args)


@pytest.mark.parametrize("side", ["a", "b"])
@pytest.mark.parametrize(
    ("made", "got"),
    [
        (list, "a list"),
        (lambda triple: triple[:2], "a tuple of 2"),
        (lambda triple: (*triple, triple[0]), "a tuple of 4"),
        (lambda triple: (), "a tuple of 0"),
        (lambda triple: None, "a NoneType"),
        (lambda triple: triple[2], "a ndarray"),
        (lambda triple: iter(triple), "a tuple_iterator"),
    ],
)
def test_merge_refuses_what_is_no_triple(made, got, side):
    args = {"a": state(), "b": state()}
    args[side] = made(args[side])
    words = rf"^{side} must be a tuple \(m_i, l_i, acc\), got {got}$"
    refuses(online_softmax.merge, TypeError, words, **args)


@pytest.mark.parametrize("side", ["a", "b"])
@pytest.mark.parametrize("part", [0, 1, 2])
@no_arrays
def test_merge_refuses_what_is_no_state(made, got, part, side):
    args = {"a": list(state()), "b": list(state())}
    args[side][part] = made(args[side][part])
    name = f"{side}'s {('m_i', 'l_i', 'acc')[part]}"
    words = f"^{name} must be a numpy.ndarray of float32 or float64, got {got}$"
    refuses(online_softmax.merge, TypeError, words, *map(tuple, args.values()))


@pytest.mark.parametrize("side", ["a", "b"])
@pytest.mark.parametrize("part", [0, 1, 2])
def test_merge_refuses_mixed_dtypes_in_a_state(part, side):
    args = {"a": list(state()), "b": list(state())}
    args[side][part] = args[side][part].astype(np.float64)
    words = f"^all arrays .* same dtype.*{side}'s {('m_i', 'l_i', 'acc')[part]} float64"
    refuses(online_softmax.merge, TypeError, words, *map(tuple, args.values()))


def test_merge_refuses_states_of_two_dtypes():
    words = "^all arrays must have the same dtype, got a's m_i float32, b's m_i float64$"
    refuses(online_softmax.merge, TypeError, words, state(), state(dtype=np.float64))


@pytest.mark.parametrize("other", [state((4,)), state((1,)), state((1, ROWS)), state(head_dim=5)])
def test_merge_refuses_states_of_two_shapes(other):
    with np.errstate(all="raise"), pytest.raises(ValueError) as refused:
        online_softmax.merge(state(), other)
    assert str(refused.value) == (
        "a and b must be states of the same rows and head_dim, "
        f"got an acc of shape (3, 4) in a and of shape {other[2].shape} in b"
    )


# (the shapes of m_i, l_i and acc)
BAD_STATES = [
    ((4,), (3,), (3, 4)),
    ((3,), (4,), (3, 4)),
    ((1,), (3,), (3, 4)),
    ((3,), (1,), (3, 4)),
    ((3,), (3,), (4, 4)),
    ((3, 4), (3, 4), (3, 4)),
    ((3, 1), (3, 1), (3, 4)),
    ((3,), (3,), (3,)),
    ((), (), (3, 4)),
    ((), (), ()),
    ((), (4,), (4,)),
]


@pytest.mark.parametrize("shapes", BAD_STATES, ids=str)
def test_finish_and_merge_refuse_shapes_that_do_not_fit(shapes):
    bad = tuple(poison(*shape) for shape in shapes)
    first, second, last = shapes
    fit = "have the shape of {} without its last axis, got " + f"{first} and {second} beside {last}"
    with np.errstate(all="raise"):
        with pytest.raises(ValueError) as refused:
            online_softmax.finish(*bad)
        assert str(refused.value) == "m_i and l_i must " + fit.format("acc")
        with pytest.raises(ValueError) as refused:
            online_softmax.merge(bad, state())
        assert str(refused.value) == "a's m_i and a's l_i must " + fit.format("a's acc")
        with pytest.raises(ValueError) as refused:
            online_softmax.merge(state(), bad)
        assert str(refused.value) == "b's m_i and b's l_i must " + fit.format("b's acc")


def test_head_dim_0_is_refused():
    none = state(head_dim=0)
    o = online_softmax
    refuses(o.finish, ValueError, "^acc has head_dim 0, at least 1 is needed$", *none)
    refuses(o.merge, ValueError, "^a's acc has head_dim 0, at least 1 is needed$", none, none)
    words = "^o_a has head_dim 0, at least 1 is needed$"
    refuses(o.merge_outputs, ValueError, words, none[2], none[0], none[2], none[0])
    refuses(o.attend_row, ValueError, "^q has head_dim 0, at least 1 is needed$", poison(0), [])


@pytest.mark.parametrize("name", ["m_i", "l_i", "acc"])
@no_arrays
def test_finish_refuses_what_is_no_state(made, got, name):
    args = finish_arguments()
    args[name] = made(args[name])
    words = f"^{name} must be a numpy.ndarray of float32 or float64, got {got}$"
    refuses(online_softmax.finish, TypeError, words, **args)


@pytest.mark.parametrize("name", ["m_i", "l_i", "acc"])
def test_finish_refuses_mixed_dtypes(name):
    args = finish_arguments()
    args[name] = args[name].astype(np.float64)
    words = f"^all arrays must have the same dtype, got .*{name} float64"
    refuses(online_softmax.finish, TypeError, words, **args)


@pytest.mark.parametrize("name", ["o_a", "lse_a", "o_b", "lse_b"])
@no_arrays
def test_merge_outputs_refuses_what_is_no_output(made, got, name):
    args = merge_outputs_arguments()
    args[name] = made(args[name])
    words = f"^{name} must be a numpy.ndarray of float32 or float64, got {got}$"
    refuses(online_softmax.merge_outputs, TypeError, words, **args)


@pytest.mark.parametrize("name", ["o_a", "lse_a", "o_b", "lse_b"])
def test_merge_outputs_refuses_mixed_dtypes(name):
    args = merge_outputs_arguments()
    args[name] = args[name].astype(np.float64)
    words = f"^all arrays must have the same dtype, got .*{name} float64"
    refuses(online_softmax.merge_outputs, TypeError, words, **args)


@pytest.mark.parametrize(
    ("shapes", "words"),
    [
        ({"o_b": (4, 4)}, r"^o_a and o_b must have the same shape, got \(3, 4\) and \(4, 4\)$"),
        ({"o_b": (1, 4)}, r"^o_a and o_b must have the same shape, got \(3, 4\) and \(1, 4\)$"),
        ({"o_a": (1, 4)}, r"^o_a and o_b must have the same shape, got \(1, 4\) and \(3, 4\)$"),
        (
            {"lse_a": (3, 1)},
            r"^lse_a and lse_b must have the shape of o_a .*got \(3, 1\) and \(3,\) beside \(3, 4",
        ),
        ({"lse_b": (1,)}, r"^lse_a and lse_b .*got \(3,\) and \(1,\) beside \(3, 4\)$"),
        ({"lse_a": (), "lse_b": ()}, r"^lse_a and lse_b .*got \(\) and \(\) beside \(3, 4\)$"),
        (dict.fromkeys(("o_a", "lse_a", "o_b", "lse_b"), ()), "^lse_a and lse_b .*beside"),
    ],
)
def test_merge_outputs_refuses_shapes(shapes, words):
    args = merge_outputs_arguments() | {name: poison(*shape) for name, shape in shapes.items()}
    refuses(online_softmax.merge_outputs, ValueError, words, **args)


def test_numpy_scalars_count_as_0d_arrays_of_their_dtype():
    o = poison(HEAD_DIM)
    half, wide = np.float16(0), np.float64(0)
    merge_outputs = online_softmax.merge_outputs
    words = "^lse_a must be a numpy.ndarray of float32 or float64, got dtype float16$"
    refuses(merge_outputs, TypeError, words, o, half, o, half)
    words = "^all arrays must have the same dtype, got .*lse_b float64$"
    refuses(merge_outputs, TypeError, words, o, np.float32(0), o, wide)
    words = r"^lse_a and lse_b .*got \(\) and \(\) beside \(3, 4\)$"
    refuses(merge_outputs, ValueError, words, poison(3, 4), np.float32(0), poison(3, 4), o[0])
    refuses(online_softmax.finish, ValueError, r"beside \(\)$", o[0], o[0], o[0])
    # A Python float has no dtype to compare: refused like any other.
    words = "^lse_b must be a numpy.ndarray of float32 or float64, got a float$"
    refuses(merge_outputs, TypeError, words, o, np.float32(0), o, 0.0)


# ---- attend_row ----


def pair(keys=KEYS, head_dim=HEAD_DIM, dtype=np.float32):
    return np.zeros((keys, head_dim), dtype), np.ones((keys, head_dim), dtype)


class Blocks:
    """An iterable that notes each time that it's read, and refuses to be read after its end."""

    def __init__(self, blocks):
        self.blocks = list(blocks)
        self.log = []
        self.ended = False

    def __iter__(self):
        self.log.append("iter")
        return self.read()

    def read(self):
        for number, block in enumerate(self.blocks):
            self.log.append(number)
            yield block
        self.log.append("end")


class Iterator(Blocks):
    """Its own iterator, as a file is. `next` after the end is an error here, not an end again."""

    def __iter__(self):
        return self

    def __next__(self):
        number = len(self.log)
        if number < len(self.blocks):
            self.log.append(number)
            return self.blocks[number]
        assert not self.ended, "read after its end"
        self.ended = True
        raise StopIteration


ROW = np.arange(HEAD_DIM, dtype=np.float32)

# (id, changed arguments, error, words)
BAD_ROWS = [
    ("q_list", {"q": [1.0]}, TypeError, "^q must be a numpy.ndarray of float16, .*got a list$"),
    ("q_none", {"q": None}, TypeError, "^q must be a numpy.ndarray.*got a NoneType$"),
    ("q_scalar", {"q": np.float32(1)}, TypeError, "^q must be .*got a numpy.float32$"),
    ("q_masked", {"q": np.ma.MaskedArray(ROW)}, TypeError, "^q must be .*MaskedArray$"),
    ("q_int", {"q": np.arange(4)}, TypeError, "^q must .*or float64, got dtype int64$"),
    ("q_swapped", {"q": ROW.astype(">f4")}, TypeError, "^q must .*or float64, got dtype >f4$"),
    ("q_0d", {"q": np.array(1.0)}, ValueError, r"^q must be 1-D \(head_dim,\), got shape \(\)$"),
    ("q_2d", {"q": ROW[None]}, ValueError, r"^q must be 1-D \(head_dim,\), got shape \(1, 4\)$"),
    ("blocks_none", {"blocks": None}, TypeError, "^blocks must be an iterable of .*, got None$"),
    ("blocks_int", {"blocks": 3}, TypeError, r"^blocks must be .* pairs \(k, v\), got 3$"),
    ("blocks_0d", {"blocks": np.array(2.0)}, TypeError, r"^blocks must be .*got array\(2.\)$"),
    ("scale_str", {"scale": "0.5"}, TypeError, "^scale must be a real number or None, got '0.5'"),
    ("scale_bool", {"scale": True}, TypeError, "^scale must be a real number or None, got True"),
    ("scale_npbool", {"scale": np.True_}, TypeError, "^scale must be a real number"),
    ("scale_complex", {"scale": 1j}, TypeError, "^scale must be a real number or None, got 1j"),
    ("scale_array", {"scale": ROW[:1]}, TypeError, "^scale must be a real number or None"),
    ("scale_nan", {"scale": float("nan")}, ValueError, "^scale must be finite.*got nan$"),
    ("scale_inf", {"scale": float("inf")}, ValueError, "^scale must be finite.*got inf$"),
    ("scale_minus_inf", {"scale": -np.inf}, ValueError, "^scale must be finite.*got -inf$"),
    ("scale_1e39", {"scale": 1e39}, ValueError, r"^scale must be finite.*got 1e\+39$"),
    ("scale_huge_int", {"scale": 10**400}, ValueError, "^scale must be finite"),
]


@pytest.mark.parametrize(
    ("changes", "error", "words"),
    [row[1:] for row in BAD_ROWS],
    ids=[row[0] for row in BAD_ROWS],
)
def test_attend_row_refuses_before_it_reads_a_block(changes, error, words):
    blocks = Iterator([pair()])
    args = {"q": ROW, "blocks": blocks} | changes
    scale = {"scale": args.pop("scale")} if "scale" in args else {}
    refuses(online_softmax.attend_row, error, words, **args, **scale)
    assert blocks.log == [], "a block was read although an argument is bad"


@pytest.mark.parametrize(
    ("scale", "same_as"),
    [(fractions.Fraction(1, 3), 1 / 3), (np.float16(0.5), 0.5), (np.int8(2), 2.0), (2, 2.0)],
)
def test_numbers_of_other_types_mean_the_same(scale, same_as):
    rng = np.random.default_rng(41)
    block = rng.standard_normal((2, KEYS, HEAD_DIM)).astype(np.float32)
    o, lse = online_softmax.attend_row(ROW, [tuple(block)], scale=scale)
    expected, expected_lse = online_softmax.attend_row(ROW, [tuple(block)], scale=same_as)
    assert np.array_equal(o, expected) and lse == expected_lse, "seed 41"


@pytest.mark.parametrize("scale", [np.float64(0.3), np.longdouble(0.3)])
def test_a_wide_scale_does_not_widen_the_lse(scale):
    assert online_softmax.attend_row(ROW, [pair()], scale=scale)[1].dtype == np.float32


def test_what_comes_after_blocks_is_by_keyword_only():
    with pytest.raises(TypeError, match="positional"):
        online_softmax.attend_row(ROW, [pair()], 0.5)


K, V = pair()
GOOD_BLOCKS = [pair(keys) for keys in (2, 0, 7, 1)]
# (id, the bad block, error, words; N stands for the block's number)
BAD_BLOCKS = [
    ("list", [K, V], TypeError, r"^blocks must yield pairs \(k, v\), got a list as block N$"),
    ("one", (K,), TypeError, r"^blocks must yield pairs \(k, v\), got a tuple of 1 as block N$"),
    ("three", (K, V, V), TypeError, "^blocks must yield .*, got a tuple of 3 as block N$"),
    ("none", None, TypeError, "^blocks must yield .*, got a NoneType as block N$"),
    ("array", np.stack([K, V]), TypeError, "^blocks must yield .*, got a ndarray as block N$"),
    ("k_list", (K.tolist(), V), TypeError, "^k of block N must be .*ndarray.*got a list$"),
    ("v_none", (K, None), TypeError, "^v of block N must be .*ndarray.*got a NoneType$"),
    ("k_masked", (np.ma.MaskedArray(K), V), TypeError, "^k of block N must be .*MaskedArray$"),
    ("v_masked", (K, np.ma.MaskedArray(V)), TypeError, "^v of block N must be .*MaskedArray$"),
    ("k_int", (K.astype(int), V), TypeError, "^k of block N must .*float64, got dtype int64$"),
    ("v_swapped", (K, V.astype(">f4")), TypeError, "^v of block N must .*got dtype >f4$"),
    (
        "k_wide",
        (K.astype(float), V),
        TypeError,
        "^all arrays .*same dtype, got q float32, k of block N float64, v of block N float32$",
    ),
    ("v_half", (K, V.astype("f2")), TypeError, "^all arrays .*same dtype.*v of block N float16$"),
    ("both", (K.astype("f2"), V.astype("f2")), TypeError, "^all arrays .*same dtype, got q float3"),
    ("k_1d", (K[0], V), ValueError, r"^k of block N must be 2-D \(keys, head_dim\), got .*\(4,\)$"),
    ("v_3d", (K, V[None]), ValueError, r"^v of block N must be 2-D .*got shape \(1, 5, 4\)$"),
    ("k_dim", (K[:, :3], V), ValueError, "^q and k of block N .*head_dim, got q with 4.* with 3"),
    ("v_dim", (K, V[:, :1]), ValueError, "^q and v of block N .*head_dim, got q with 4.* with 1"),
    ("k_turned", (K.T, V), ValueError, "^q and k of block N .*head_dim, got q with 4.* with 5"),
    ("keys", (K, V[:1]), ValueError, "^k of block N and v of block N .*keys, got .*5.*with 1"),
    ("no_keys", (K, V[:0]), ValueError, "^k of block N and v of block N .*keys, got .*5.*with 0"),
]


@pytest.mark.parametrize("number", [0, 1, 3])
@pytest.mark.parametrize(
    ("bad", "error", "words"), [row[1:] for row in BAD_BLOCKS], ids=[row[0] for row in BAD_BLOCKS]
)
def test_a_bad_block_is_named_by_its_number(bad, error, words, number):
    blocks = Iterator([*GOOD_BLOCKS[:number], bad, pair()])
    words = words.replace("block N", f"block {number}")
    refuses(online_softmax.attend_row, error, words, ROW, blocks)
    assert blocks.log == list(range(number + 1)), "it read on after the bad block"


def test_blocks_that_yield_no_pairs():
    # What is iterable, but not over pairs.
    for blocks, got in (
        ("kv", "a str as block 0"),
        ({1: 2}, "a int as block 0"),
        (np.ones((2, 3)), "a ndarray as block 0"),
        (pair(), "a ndarray as block 0"),
    ):
        words = rf"^blocks must yield pairs \(k, v\), got {got}$"
        refuses(online_softmax.attend_row, TypeError, words, ROW, blocks)


@pytest.mark.parametrize("count", [0, 1, 4])
@pytest.mark.parametrize("kind", [Blocks, Iterator])
def test_blocks_are_read_once_and_in_order(kind, count):
    blocks = kind(GOOD_BLOCKS[:count])
    online_softmax.attend_row(ROW, blocks)
    numbers = list(range(count))
    if kind is Blocks:
        assert blocks.log == ["iter", *numbers, "end"]
    else:
        assert blocks.log == numbers and blocks.ended


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_all_blocks_may_lie_in_one_memory(dtype):
    # As tiles on a chip do. A block that was read ahead, or kept, would hold the next one's keys.
    kind = dtype_called(dtype)
    rng = np.random.default_rng(42)
    q = rng.standard_normal(HEAD_DIM).astype(kind)
    kv = rng.standard_normal((2, 14, HEAD_DIM)).astype(kind)
    buffer = np.full((2, 4, HEAD_DIM), np.nan, kind)

    def stream():
        for start in range(0, 14, 4):
            block = kv[:, start : start + 4]
            used = block.shape[1]
            buffer[:, :used] = block
            yield buffer[0, :used], buffer[1, :used]
            buffer[...] = np.nan

    copies = [tuple(kv[:, i : i + 4].copy()) for i in range(0, 14, 4)]
    expected, expected_lse = online_softmax.attend_row(q, copies)
    o, lse = online_softmax.attend_row(q, stream())
    assert np.array_equal(o, expected) and lse == expected_lse, "seed 42"
    assert np.isfinite(o.astype(float)).all()


def test_an_error_of_the_stream_itself_comes_through():
    def broken():
        yield pair()
        raise OSError("the disk is gone")

    with pytest.raises(OSError, match="the disk is gone"):
        online_softmax.attend_row(ROW, broken())


# ---- torch, and arguments that stay as they were ----


def test_tensors_are_refused():
    args = {
        "update": step_arguments(),
        "update_normalised": step_arguments("o"),
        "finish": finish_arguments(),
        "merge_outputs": merge_outputs_arguments(),
    }
    for function, right in args.items():
        for name, array in right.items():
            words = f"^{name} must be a numpy.ndarray.*got a torch.Tensor$"
            bad = right | {name: tensor(array)}
            refuses(getattr(online_softmax, function), TypeError, words, **bad)
    for part, name in enumerate(("m_i", "l_i", "acc")):
        bad = list(state())
        bad[part] = tensor(bad[part])
        words = "^{}'s " + name + " must be a numpy.ndarray.*got a torch.Tensor$"
        refuses(online_softmax.merge, TypeError, words.format("a"), tuple(bad), state())
        refuses(online_softmax.merge, TypeError, words.format("b"), state(), tuple(bad))
    for q, blocks, words in (
        (tensor(ROW.copy()), [(K, V)], "^q must be .*got a torch.Tensor$"),
        (ROW, [(tensor(K), V)], "^k of block 0 must be .*got a torch.Tensor$"),
        (ROW, [(K, V), (K, tensor(V))], "^v of block 1 must be .*got a torch.Tensor$"),
        (ROW, tensor(np.stack([K, V])), "^blocks must yield pairs .*got a Tensor as block 0$"),
    ):
        refuses(online_softmax.attend_row, TypeError, words, q, blocks)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_arguments_stay_as_they_were(dtype):
    rng = np.random.default_rng(43)

    def normal(*shape):
        return rng.standard_normal(shape).astype(dtype)

    m_i, l_i, acc = normal(ROWS), 1 + normal(ROWS) ** 2, normal(ROWS, HEAD_DIM)
    s, q, k, v = (
        normal(ROWS, KEYS),
        normal(HEAD_DIM),
        normal(KEYS, HEAD_DIM),
        normal(KEYS, HEAD_DIM),
    )
    s[0], s[1, 2] = -np.inf, -np.inf
    m_b, l_b, acc_b = normal(ROWS), np.zeros(ROWS, dtype), normal(ROWS, HEAD_DIM)
    m_b[0] = m_i[2] = -np.inf
    arrays = (m_i, l_i, acc, s, q, k, v, m_b, l_b, acc_b)
    before = [x.tobytes() for x in arrays]
    o = online_softmax
    calls = {
        "update": lambda: o.update(m_i, l_i, acc, s, v),
        "update_normalised": lambda: o.update_normalised(m_i, l_i, acc, s, v),
        "merge": lambda: o.merge((m_i, l_i, acc), (m_b, l_b, acc_b)),
        "finish": lambda: o.finish(m_b, l_b, acc_b),
        "merge_outputs": lambda: o.merge_outputs(acc, m_i, acc_b, m_b),
        "attend_row": lambda: o.attend_row(q, [(k, v), (k[:0], v[:0]), (v, k)]),
    }
    assert set(calls) == set(o.__all__)
    for name, call in calls.items():
        call()
        assert [x.tobytes() for x in arrays] == before, f"{name} wrote to its arguments"
