"""Is a result right? The measure is the relative L2 error against a float64 reference.

Over the whole output it catches what is wrong everywhere, over the worst row what is wrong in one
place. An absolute tolerance would do neither: it lets zeros pass where the right values are small.
"""

from dataclasses import dataclass

import numpy as np

from course.exercise import Case
from course.grader.outcome import Outcome, Unknown

# (whole output, worst row). Right kernels stay below 3e-4 and 4e-4 in fp16, and the mildest of
# the planted mistakes reaches 3.8e-2. The float32 bounds leave room for another order of
# summation with scores of about 100, whose rounding exp() magnifies a hundredfold.
BOUNDS = {
    "float16": (2e-3, 5e-3),
    "bfloat16": (1e-2, 2e-2),
    "float32": (1e-4, 5e-4),
    "float64": (1e-10, 1e-9),
}


@dataclass(frozen=True)
class ErrorMeasure:
    whole: float
    worst_row: float
    row: tuple[int, ...]  # where the worst row is; empty for a result of one row


def measure(got: np.ndarray, expected: np.ndarray) -> ErrorMeasure:
    """Relative L2 errors of finite arrays of the same shape; a row is the last axis.

    A row that should be zero counts as infinitely wrong unless it's exactly zero.
    """
    rows = expected.shape[:-1]
    got, expected = got.astype(np.float64), expected.astype(np.float64)
    if expected.size == 0:
        return ErrorMeasure(0.0, 0.0, ())
    # What overflows here becomes inf or NaN, and neither is within any bound.
    with np.errstate(all="ignore"):
        difference = _norm(got - expected)
        size = _norm(expected)
        by_row = np.where(difference == 0, 0.0, difference / size)
        total = _norm(difference.ravel())
        whole = 0.0 if total == 0 else float(total / _norm(size.ravel()))
    worst = int(np.argmax(by_row))
    place = tuple(int(i) for i in np.unravel_index(worst, rows)) if rows else ()
    return ErrorMeasure(whole, float(np.max(by_row)), place)


def fault_of(outcome: Outcome, expected: object, case: Case) -> str | None:
    """What is wrong with an outcome, in words for the learner; None if nothing is."""
    if outcome.raised:
        return f"it raised {outcome.raised}" + (f" ({outcome.where})" if outcome.where else "")
    if outcome.changed:
        return f"it changed its input ({', '.join(outcome.changed)}); work on a copy"
    if case.dtype is not None:
        return _array_fault(outcome.value, expected, case)
    return _exact_fault(outcome.value, expected)


def same(outcome: Outcome, mistaken: Outcome, case: Case) -> bool:
    """Would an answer with a known mistake, which gives `mistaken`, have this outcome?

    A wrong dtype beside the mistake doesn't hide it, unless the dtype is what the mistake is.
    """
    if outcome.raised or mistaken.raised:
        return outcome.error_kind == mistaken.error_kind
    if outcome.changed != mistaken.changed:
        return False
    if case.dtype is None:
        return _exact_fault(outcome.value, mistaken.value) is None
    a, b = outcome.value, mistaken.value
    if not isinstance(a, np.ndarray) or not isinstance(b, np.ndarray):
        return type(a) is type(b)
    if a.shape != b.shape or a.dtype.kind not in "fV" or b.dtype.kind not in "fV":
        return False
    if b.dtype != case.dtype and a.dtype != b.dtype:
        return False
    a, b = a.astype(np.float64), b.astype(np.float64)
    finite = np.isfinite(a)
    if not np.array_equal(finite, np.isfinite(b)):
        return False
    if not np.array_equal(a[~finite], b[~finite], equal_nan=True):
        return False
    error = measure(np.where(finite, a, 0.0), np.where(finite, b, 0.0))
    whole, row = BOUNDS[case.dtype.name]
    return error.whole <= whole and error.worst_row <= row


def _array_fault(got: object, expected: np.ndarray, case: Case) -> str | None:
    if not isinstance(got, np.ndarray):
        return f"it returned {_kind(got)} where a NumPy array is expected"
    if got.shape != expected.shape:
        return f"it returned shape {got.shape} where {expected.shape} is expected"
    if got.dtype != case.dtype:
        return f"it returned dtype {got.dtype} where {case.dtype} is expected"
    wide = got.astype(np.float64)
    if np.isnan(expected).any() or np.isposinf(expected).any():
        raise AssertionError("the reference itself isn't finite")
    unlike = np.isfinite(wide) != np.isfinite(expected)
    unlike |= ~np.isfinite(expected) & (wide != expected)  # -inf is right only where it's due
    if unlike.any():
        place = tuple(int(i) for i in np.argwhere(unlike)[0])
        return (
            f"element {list(place)} is {wide[place]} where {_number(expected[place])} is expected; "
            f"{int(unlike.sum())} of {unlike.size} elements are like that"
        )
    finite = np.isfinite(expected)
    error = measure(np.where(finite, wide, 0.0), np.where(finite, expected, 0.0))
    whole, row = BOUNDS[case.dtype.name]
    if error.whole <= whole and error.worst_row <= row:
        return None
    got_row, right_row = np.ravel(wide[error.row]), np.ravel(expected[error.row])
    with np.errstate(over="ignore", invalid="ignore"):  # -inf where it's due is no difference
        farthest = int(np.argmax(np.nan_to_num(np.abs(got_row - right_row), nan=0.0)))
    value, right = _apart(got_row[farthest], right_row[farthest])
    place = [*error.row, farthest] if wide.ndim else []
    if not right_row.any():
        return f"row {list(error.row)} must be exactly 0, and element {place} is {value}"
    return (
        f"relative error {_number(error.whole)} over the whole result (at most {whole:g} is "
        f"allowed), {_number(error.worst_row)} in its worst row {list(error.row)} (at most "
        f"{row:g}), where element {place} is {value} and should be {right}"
    )


def _exact_fault(got: object, expected: object) -> str | None:
    if isinstance(expected, dict):
        if not isinstance(got, dict):
            return f"it returned {_kind(got)} where a dict is expected"
        if missing := [key for key in expected if key not in got]:
            return f"the dict lacks {', '.join(map(repr, missing))}"
        if extra := [key for key in got if key not in expected]:
            return f"the dict has {', '.join(map(repr, extra))}, which nobody asked for"
        for key, value in expected.items():
            if fault := _exact_fault(got[key], value):
                return f"under {key!r} {fault}"
        return None
    if isinstance(got, np.ndarray) and got.shape == () and got.dtype.kind in "iu":
        got = int(got)  # a NumPy integer is as good as Python's
    if type(got) is not type(expected):
        return f"it returned {_kind(got)} where {_kind(expected)} is expected"
    return None if got == expected else f"it returned {got} where {expected} is expected"


def _norm(rows: np.ndarray) -> np.ndarray:
    """L2 norm over the last axis, scaled by the largest entry so that squares can't overflow."""
    largest = np.max(np.abs(rows), axis=-1, keepdims=True, initial=0.0)
    scaled = rows / np.where(largest == 0, 1.0, largest)
    return np.asarray(np.squeeze(largest, -1) * np.sqrt(np.sum(scaled * scaled, axis=-1)))


def _apart(value: float, other: float) -> tuple[str, str]:
    """Both numbers, with as many digits as it takes to tell them apart."""
    for digits in (4, 8, 17):
        shown = f"{value:.{digits}g}", f"{other:.{digits}g}"
        if shown[0] != shown[1]:
            break
    return shown


def _number(value: float) -> str:
    return f"{value:.4g}"


def _kind(value: object) -> str:
    if isinstance(value, Unknown):
        return f"{'an' if value.type_name[:1].lower() in 'aeiou' else 'a'} {value.type_name}"
    if isinstance(value, np.ndarray):
        return f"a NumPy array of shape {value.shape} and dtype {value.dtype}"
    if value is None:
        return "None"
    text = repr(value)
    return f"{text if len(text) <= 80 else text[:80] + ' …'} ({type(value).__name__})"
