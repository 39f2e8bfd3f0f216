"""The measure, its bounds, and what a learner is told."""

import numpy as np
import pytest

from course.exercise import Case, Part
from course.grader.compare import BOUNDS, fault_of, measure, same
from course.grader.outcome import Outcome, Unknown

INF, NAN = np.inf, np.nan


def fault(got, expected, dtype="float32"):
    dtype = np.dtype(dtype) if dtype else None
    return fault_of(Outcome(got), expected, Case("some input", (), dtype=dtype))


def rows(*values, dtype=np.float32):
    return np.array(values, dtype)


# ── bounds ───────────────────────────────────────────────────────────────────────────────────

FLOATS = [name for name in BOUNDS if name != "bfloat16"]  # NumPy alone has no bfloat16


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_whole_bound_divides_right_from_wrong(dtype):
    whole, _ = BOUNDS[dtype]
    expected = np.ones((100, 100))
    for factor, right in ((0.9, True), (1.1, False)):
        got = (expected * (1 + factor * whole)).astype(dtype)
        assert (fault(got, expected, dtype) is None) == right, factor


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_row_bound_finds_one_bad_row_among_many(dtype):
    whole, row = BOUNDS[dtype]
    expected = np.ones((10_000, 4))
    for factor, right in ((0.9, True), (1.1, False)):
        got = expected.astype(dtype)
        got[1234] *= 1 + factor * row
        assert measure(got, expected).whole < whole, "over the whole it drowns"
        found = fault(got, expected, dtype)
        assert (found is None) == right, factor
    assert "in its worst row [1234]" in found


@pytest.mark.parametrize("dtype", FLOATS)
def test_rounding_to_its_dtype_is_within_the_bounds(dtype):
    for seed in range(20):
        expected = np.random.default_rng(seed).standard_normal((7, 33))
        assert fault(expected.astype(dtype), expected, dtype) is None, f"seed {seed}"


@pytest.mark.parametrize("dtype", BOUNDS)
def test_the_mildest_planted_mistake_is_far_outside_each_bound(dtype):
    whole, row = BOUNDS[dtype]
    assert whole < 3.8e-2 / 3 and row < 3.8e-2 and whole <= row


# ── measure ──────────────────────────────────────────────────────────────────────────────────

# got, expected, (whole, worst row, its place)
MEASURES = {
    "equal": ([[1, 2], [3, 4]], [[1, 2], [3, 4]], (0, 0, (0,))),
    "one row off": ([[1, 1], [2, 2]], [[1, 1], [1, 1]], (2**0.5 / 2, 1, (1,))),
    "zeros for small values": ([[0, 0]], [[1e-9, 1e-9]], (1, 1, (0,))),
    "one row": ([3, 4], [3, 4.5], (0.5 / (9 + 4.5**2) ** 0.5,) * 2 + ((),)),
    "no axes": (2.0, 1.0, (1, 1, ())),
    "a zero row that is not zero": ([[1, 1], [1e-30, 0]], [[1, 1], [0, 0]], (7e-31, INF, (1,))),
    "zeros where all is zero": ([[0, 0]], [[0, 0]], (0, 0, (0,))),
    "no rows": (np.zeros((0, 3)), np.zeros((0, 3)), (0, 0, ())),
    "empty rows": (np.zeros((3, 0)), np.zeros((3, 0)), (0, 0, ())),
    "squares that overflow": ([[1e200, 1e200]], [[2e200, 2e200]], (0.5, 0.5, (0,))),
    "squares that vanish": ([[1e-200, 1e-200]], [[2e-200, 2e-200]], (0.5, 0.5, (0,))),
    "far leading axes": (np.zeros((2, 3, 4)), np.eye(3, 4) * [[[0]], [[1]]], (1, 1, (1, 0))),
}


@pytest.mark.parametrize("name", MEASURES)
def test_measure(name):
    got, expected, (whole, row, place) = MEASURES[name]
    error = measure(np.asarray(got, np.float64), np.asarray(expected, np.float64))
    assert error.whole == pytest.approx(whole, rel=0.02)
    assert error.worst_row == pytest.approx(row, rel=1e-9)
    assert error.row == place


@pytest.mark.parametrize("got", [rows([65504.0, 1.0]), rows([6e-8, 0.0])])
def test_float16_extremes_are_measured_in_float64(got):
    got = got.astype(np.float16)
    assert fault(got, got.astype(np.float64), "float16") is None
    wrong = np.array(got[..., ::-1])
    assert "relative error" in fault(wrong, got.astype(np.float64), "float16")


def test_a_difference_that_overflows_is_wrong_without_a_warning():
    assert fault(rows([-1e308], dtype=np.float64), rows([1e308], dtype=np.float64), "float64")


# ── what is right, and what is said of what isn't ────────────────────────────────────────────

RIGHT = {
    "equal": (rows([1, 2]), rows([1, 2])),
    "an exact zero row": (rows([0, 0], [1, 2]), rows([0, 0], [1, 2])),
    "a negative zero": (rows([-0.0, 0]), rows([0, 0])),
    "-inf where it is due": (rows([-INF, 1]), rows([-INF, 1])),
    "all -inf": (rows([-INF, -INF]), rows([-INF, -INF])),
    "empty": (rows([], []), rows([], [])),
    "no axes": (np.array(1, np.float32), np.array(1.0)),
}
WRONG = {
    "NaN": (rows([NAN, 1]), rows([1, 1]), "element [0, 0] is nan where 1 is expected; 1 of 2"),
    "all NaN": (rows([NAN, NAN]), rows([1, 1]), "2 of 2 elements"),
    "inf": (rows([1, INF]), rows([1, 1]), "element [0, 1] is inf where 1 is expected"),
    "NaN where -inf is due": (rows([NAN]), rows([-INF]), "is nan where -inf"),
    "inf where -inf is due": (rows([INF]), rows([-INF]), "is inf where -inf"),
    "a number where -inf is due": (rows([-1e30]), rows([-INF]), "where -inf is expected"),
    "-inf where a number is due": (rows([-INF]), rows([3]), "is -inf where 3 is expected"),
    "NaN without axes": (np.array(NAN, np.float32), np.array(1.0), "it returned nan"),
    "a tiny number in a zero row": (
        rows([1e-30, 0], [1, 2]), rows([0, 0], [1, 2]),
        "row [0] must be exactly 0, and element [0, 0] is 1e-30",
    ),
    "zeros": (rows([0, 0]), rows([1e-8, 1e-8]), "element [0, 0] is 0 and should be 1e-08"),
    "wrong in one place": (
        rows([1, 2], [3, 5]), rows([1, 2], [3, 4]), "element [1, 1] is 5 and should be 4"
    ),
    "wrong beside a -inf": (
        rows([-INF, 2]), rows([-INF, 3]), "element [0, 1] is 2 and should be 3"
    ),
    "wrong in the last digits": (
        rows([3000.4]), rows([2999.6]), "element [0, 0] is 3000.3999 and should be 2999.6001"
    ),
    "shape": (rows([1, 2]).T, rows([1, 2]), "shape (2, 1) where (1, 2) is expected"),
    "an axis too few": (rows(1, 2), rows([1, 2]), "shape (2,) where (1, 2) is expected"),
    "wider": (rows([1.0], dtype=np.float64), rows([1]), "dtype float64 where float32"),
    "integers": (rows([1], dtype=np.int32), rows([1]), "dtype int32 where float32"),
    "complex": (rows([1], dtype=np.complex64), rows([1]), "dtype complex64 where float32"),
    "other byte order": (rows([1], dtype=">f4"), rows([1]), "dtype >f4 where float32"),
    "None": (None, rows([1]), "it returned None where a NumPy array is expected"),
    "a number": (1.5, rows([1]), "it returned 1.5 (float) where a NumPy array is expected"),
    "a list": ([1.0], rows([1]), "it returned [1.0] (list) where a NumPy array is expected"),
    "a long list": ([0.0] * 999, rows([1]), "… (list) where a NumPy array is expected"),
    "something": (Unknown("Tensor"), rows([1]), "it returned a Tensor where a NumPy array"),
    "an object": (Unknown("object"), rows([1]), "it returned an object where a NumPy array"),
}  # fmt: skip


@pytest.mark.parametrize("name", RIGHT)
def test_right(name):
    got, expected = RIGHT[name]
    assert fault(got, expected.astype(np.float64)) is None


@pytest.mark.parametrize("name", WRONG)
def test_wrong(name):
    got, expected, says = WRONG[name]
    message = fault(got, expected.astype(np.float64))
    assert says in message and len(message) < 400


@pytest.mark.parametrize("bad", [NAN, INF])
def test_a_reference_that_is_not_finite_is_a_fault_of_the_exercise(bad):
    with pytest.raises(AssertionError, match="the reference itself"):
        fault(rows([1]), np.array([[bad]]))


# Results that are no arrays: exact, type and all.
EXACT = {
    "int": (3, 3, None),
    "NumPy's int": (np.array(3), 3, None),
    "another int": (4, 3, "it returned 4 where 3 is expected"),
    "float for int": (3.0, 3, "it returned 3.0 (float) where 3 (int) is expected"),
    "bool for int": (True, 1, "True (bool) where 1 (int)"),
    "array for int": (np.array([3]), 3, "a NumPy array of shape (1,) and dtype int64 where 3"),
    "float array for int": (np.array(3.0), 3, "of shape () and dtype float64"),
    "dict": ({"a": 1, "b": 2}, {"a": 1, "b": 2}, None),
    "dict in another order": ({"b": 2, "a": 1}, {"a": 1, "b": 2}, None),
    "dict with another value": ({"a": 1}, {"a": 2}, "under 'a' it returned 1 where 2"),
    "dict that lacks a key": ({}, {"a": 2}, "the dict lacks 'a'"),
    "dict with a key too many": ({"a": 2, "b": 1}, {"a": 2}, "the dict has 'b', which nobody"),
    "no dict": ([2], {"a": 2}, "it returned [2] (list) where a dict is expected"),
    "None for int": (None, 3, "it returned None where 3 (int) is expected"),
    "None": (None, None, None),
    "int for None": (3, None, "it returned 3 (int) where None is expected"),
    "bool": (True, True, None),
    "NumPy's bool": (np.array(False), False, None),
    "the other bool": (np.array(True), False, "it returned True where False is expected"),
    "int for bool": (1, True, "it returned 1 (int) where True (bool) is expected"),
    "tuple": ((3, 4), (3, 4), None),
    "tuple of NumPy's ints": ((np.array(3), np.array(4)), (3, 4), None),
    "another tuple": ((np.array(3), 5), (3, 4), "it returned (3, 5) where (3, 4) is expected"),
    "tuple of floats": ((3.0, 4.0), (3, 4), "it returned (3.0, 4.0) where (3, 4)"),
    "tuple of NumPy's floats": (
        (np.array(3), np.array(4.0)),
        (3, 4),
        "it returned (3, 4.0) where (3, 4) is expected",
    ),
    "list of NumPy's ints": ([np.array(3), 4], (3, 4), "it returned [3, 4] (list) where (3, 4)"),
    "tuple too long": ((3, 4, 5), (3, 4), "it returned (3, 4, 5) where (3, 4)"),
    "list for tuple": ([3, 4], (3, 4), "it returned [3, 4] (list) where (3, 4) (tuple)"),
    "int for tuple": (3, (3, 4), "it returned 3 (int) where (3, 4) (tuple)"),
}


@pytest.mark.parametrize("name", EXACT)
def test_exact_results(name):
    got, expected, says = EXACT[name]
    message = fault(got, expected, dtype=None)
    assert message is None if says is None else says in message


def test_what_it_raised_and_what_it_changed_come_before_its_value():
    case = Case("some input", (), dtype=np.dtype(np.float32))
    right = rows([1])
    raised = Outcome(right, raised="ValueError: no", where="cell 3, line 2: raise")
    assert fault_of(raised, right, case) == "it raised ValueError: no (cell 3, line 2: raise)"
    changed = Outcome(right, changed=("k",))
    assert fault_of(changed, right, case) == "it changed its input (k); work on a copy"


# ── results of several arrays ────────────────────────────────────────────────────────────────

FLOAT32 = np.dtype(np.float32)
PARTS = (
    Part("o", FLOAT32),
    Part("l_i", FLOAT32, "numbers"),
    Part("lse", FLOAT32, "logarithms"),
    Part("ds", FLOAT32, "together"),
)
OF_PARTS = Case("some input", (), parts=PARTS)
RESULT = (
    rows([1, 2], [3, 4]),
    rows(1, 1e-6),
    np.array(2, FLOAT32),
    rows([1, 2], [0, 0]),
)


def replaced(index, value):
    result = list(RESULT)
    result[index] = value
    return tuple(result)


OF_SEVERAL = {
    "right": (RESULT, None),
    "a list": (list(RESULT), "(list) where a tuple (o, l_i, lse, ds) is expected"),
    "one too few": (RESULT[:3], "it returned a tuple of 3 where a tuple (o, l_i, lse, ds)"),
    "an array alone": (RESULT[0], "a NumPy array of shape (2, 2)"),
    "None for a part": (replaced(0, None), "`o` is None where a NumPy array is expected"),
    "a float for an array without axes": (replaced(2, 2.0), None),
    "an int for an array without axes": (replaced(2, 2), "`lse` is 2 (int) where a NumPy array"),
    "the wrong float": (replaced(2, 3.0), "`lse` is 3 where 2 is expected"),
    "another shape": (replaced(1, rows([1, 2], [3, 4])), "`l_i` has shape (2, 2) where (2,)"),
    "another dtype": (replaced(2, np.array(2.0)), "`lse` has dtype float64 where float32"),
    "NaN": (replaced(0, rows([1, NAN], [3, 4])), "element [0, 1] of `o` is nan where 2 is"),
    "NaN without axes": (replaced(2, np.array(NAN, FLOAT32)), "`lse` is nan where 2 is expected"),
    "rows": (replaced(0, rows([1, 2], [3, 5])), "over the whole of `o` (at most"),
    "rounding where rows cancel": (replaced(3, rows([1, 2], [1e-6, 0])), None),
    "more than rounding": (
        replaced(3, rows([1, 2], [1e-2, 0])), "over the whole of `ds` (at most 0.0001 is allowed); "
        "element [1, 0] is 0.01 and should be 0",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", OF_SEVERAL)
def test_results_of_several_arrays(name):
    got, says = OF_SEVERAL[name]
    message = fault_of(Outcome(got), tuple(x.astype(np.float64) for x in RESULT), OF_PARTS)
    assert message is None if says is None else says in message


# compared, got, expected, right
WAYS = {
    "a small number beside a large one": ("numbers", [1e6, 1.1], [1e6, 1], False),
    "the same in a row": ("rows", [1e6, 1.1], [1e6, 1], True),
    "the same together": ("together", [1e6, 1.1], [1e6, 1], True),
    "a logarithm near 0": ("logarithms", [1e-5, 3], [0, 3], True),
    "a number near 0": ("numbers", [1e-5, 3], [0, 3], False),
    "a logarithm that is off": ("logarithms", [5.01, 3], [5, 3], False),
    "a logarithm that is off by half a thousandth": ("logarithms", [20.01, 3], [20, 3], False),
    "a large logarithm, rounded": ("logarithms", [80000.01, 3], [80000, 3], True),
    "-inf where it is due": ("logarithms", [-INF, 3], [-INF, 3], True),
    "-inf where it is not": ("logarithms", [-INF, 3], [3, 3], False),
}


@pytest.mark.parametrize("name", WAYS)
def test_each_way_of_comparing(name):
    compared, got, expected, right = WAYS[name]
    case = Case("some input", (), parts=(Part("x", FLOAT32, compared),))
    got, expected = np.array(got, FLOAT32), np.array(expected, np.float64)
    assert (fault_of(Outcome((got,)), (expected,), case) is None) == right
    assert same(Outcome((got,)), Outcome((expected.astype(FLOAT32),)), case) == right


def test_there_is_no_other_way_of_comparing():
    with pytest.raises(ValueError, match="'columns'"):
        Part("x", FLOAT32, "columns")


def test_two_results_of_several_arrays_are_the_same_if_each_part_is():
    assert same(Outcome(RESULT), Outcome(RESULT), OF_PARTS)
    assert not same(Outcome(RESULT), Outcome(replaced(2, 3.0)), OF_PARTS)
    assert not same(Outcome(RESULT), Outcome(RESULT[:3]), OF_PARTS)
    assert not same(Outcome(RESULT[:3]), Outcome(RESULT[:2]), OF_PARTS)
    assert same(Outcome(RESULT[:3]), Outcome(RESULT[:3]), OF_PARTS), "both lack the same"
    assert not same(Outcome(RESULT), Outcome(None), OF_PARTS)


def test_too_much_memory_is_a_fault_of_a_right_result():
    case = Case("some input", (), dtype=FLOAT32, peak_bytes=2**20)
    right = rows([1, 2])
    assert fault_of(Outcome(right, peak_bytes=2**20), right, case) is None
    said = fault_of(Outcome(right, peak_bytes=3 * 2**20), right, case)
    assert said == "it held 3.0 MiB at a time besides its arguments, where 1.0 MiB are allowed"
    for disturbed in (None, -1):
        said = fault_of(Outcome(right, peak_bytes=disturbed), right, case)
        assert "disturbed the measurement" in said
    wrong = fault_of(Outcome(right, peak_bytes=3 * 2**20), rows([1, 3]), case)
    assert "relative error" in wrong, "a wrong value is said first"
    assert not same(Outcome(right, peak_bytes=1), Outcome(right, peak_bytes=3 * 2**20), case)
    assert same(Outcome(right, peak_bytes=2**21), Outcome(right, peak_bytes=3 * 2**20), case)


# ── two outcomes of one mistake ──────────────────────────────────────────────────────────────

SAME = {
    "equal": (rows([1, 2]), rows([1, 2]), True),
    "by rounding": (rows([1, 2]), rows([1, 2 + 1e-6]), True),
    "another value": (rows([1, 2]), rows([1, 2.1]), False),
    "the same NaN": (rows([NAN, 2]), rows([NAN, 2]), True),
    "NaN elsewhere": (rows([NAN, 2]), rows([2, NAN]), False),
    "NaN and inf": (rows([NAN]), rows([INF]), False),
    "inf and -inf": (rows([INF]), rows([-INF]), False),
    "another shape": (rows([1, 2]), rows([1], [2]), False),
    "None twice": (None, None, True),
    "None and an array": (None, rows([1]), False),
    "integers": (rows([1], dtype=np.int32), rows([2], dtype=np.int32), False),
}


@pytest.mark.parametrize("name", SAME)
def test_same(name):
    a, b, expected = SAME[name]
    case = Case("some input", (), dtype=np.dtype(np.float32))
    assert same(Outcome(a), Outcome(b), case) is expected


def test_the_same_error_is_the_same_mistake_whatever_the_numbers_in_it():
    case = Case("some input", ())
    a = Outcome(raised="ValueError: shapes (3,4) and (5,) differ")
    b = Outcome(raised="ValueError: shapes (7,1) and (2,) differ")
    assert same(a, b, case)
    assert not same(a, Outcome(raised="TypeError: shapes (3,4) and (5,) differ"), case)
    assert not same(a, Outcome(3), case)
