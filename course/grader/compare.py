"""Is a result right? The measure is the relative L2 error against a float64 reference.

Over the whole output it catches what is wrong everywhere, over the worst row what is wrong in one
place. An absolute tolerance would do neither: it lets zeros pass where the right values are small.
"""

from dataclasses import dataclass

import numpy as np

from course.exercise import Case, Part
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
    if fault := _value_fault(outcome.value, expected, case):
        return fault
    if not _too_large(outcome, case):
        return None
    if outcome.peak_bytes is None or outcome.peak_bytes < 0:
        return "it disturbed the measurement of its memory"
    return (
        f"it held {_size(outcome.peak_bytes)} at a time besides its arguments, where "
        f"{_size(case.peak_bytes)} are allowed"
    )


def same(outcome: Outcome, mistaken: Outcome, case: Case) -> bool:
    """Would an answer with a known mistake, which gives `mistaken`, have this outcome?

    A wrong dtype beside the mistake doesn't hide it, unless the dtype is what the mistake is.
    """
    if outcome.raised or mistaken.raised:
        return outcome.error_kind == mistaken.error_kind
    if outcome.changed != mistaken.changed:
        return False
    if _too_large(outcome, case) != _too_large(mistaken, case):
        return False
    got, other = outcome.value, mistaken.value
    if case.dtype is not None:
        return _same_array(got, other, Part("", case.dtype))
    if not case.parts:
        return _exact_fault(got, other) is None
    count = len(case.parts)
    if not _is_tuple_of(count, got) or not _is_tuple_of(count, other):
        both = isinstance(got, tuple) and isinstance(other, tuple)
        return len(got) == len(other) if both else type(got) is type(other)
    return all(map(_same_array, got, other, case.parts))


def _same_array(got: object, other: object, part: Part) -> bool:
    a, b = _number_as_array(got, other, part), _number_as_array(other, got, part)
    if not isinstance(a, np.ndarray) or not isinstance(b, np.ndarray):
        return type(a) is type(b)
    if a.shape != b.shape or a.dtype.kind not in "fV" or b.dtype.kind not in "fV":
        return False
    if b.dtype != part.dtype and a.dtype != b.dtype:
        return False
    a, b = a.astype(np.float64), b.astype(np.float64)
    finite = np.isfinite(a)
    if not np.array_equal(finite, np.isfinite(b)):
        return False
    if not np.array_equal(a[~finite], b[~finite], equal_nan=True):
        return False
    return _is_close(_error(np.where(finite, a, 0.0), np.where(finite, b, 0.0), part), part)


def _value_fault(got: object, expected: object, case: Case) -> str | None:
    if case.dtype is not None:
        return _array_fault(got, expected, Part("", case.dtype))
    if not case.parts:
        return _exact_fault(got, expected)
    names = ", ".join(part.name for part in case.parts)
    if not _is_tuple_of(len(case.parts), got):
        shown = f"a tuple of {len(got)}" if isinstance(got, tuple) else _kind(got)
        return f"it returned {shown} where a tuple ({names}) is expected"
    faults = map(_array_fault, got, expected, case.parts)
    return next(filter(None, faults), None)


def _is_tuple_of(count: int, value: object) -> bool:
    return isinstance(value, tuple) and len(value) == count


def _number_as_array(value: object, beside: object, part: Part) -> object:
    """Where an array without axes is due, Python's float is as good."""
    if type(value) is float and isinstance(beside, np.ndarray) and beside.shape == ():
        return np.array(value, part.dtype)
    return value


def _too_large(outcome: Outcome, case: Case) -> bool:
    if case.peak_bytes is None:
        return False
    return outcome.peak_bytes is None or not 0 <= outcome.peak_bytes <= case.peak_bytes


def _error(got: np.ndarray, expected: np.ndarray, part: Part) -> ErrorMeasure:
    """The error of finite float64 arrays, as `part` has them compared."""
    if part.compared == "rows" and expected.ndim:
        return measure(got, expected)
    if part.compared == "together":
        return measure(got.ravel(), expected.ravel())
    if part.compared == "logarithms":
        # exp of it is off by a factor of 1 + the difference. A large one is rounded more coarsely.
        scale = np.maximum(1.0, np.abs(expected))
        got, expected = 1.0 + (got - expected) / scale, np.ones(expected.shape)
    each = measure(got[..., np.newaxis], expected[..., np.newaxis])
    return ErrorMeasure(each.worst_row, each.worst_row, each.row)


def _is_close(error: ErrorMeasure, part: Part) -> bool:
    whole, row = BOUNDS[part.dtype.name]
    if part.compared == "numbers":
        return error.worst_row <= row
    return error.whole <= whole and error.worst_row <= row


def _array_fault(got: object, expected: object, part: Part) -> str | None:
    name = f"`{part.name}`" if part.name else ""
    expected = np.asarray(expected)
    got = _number_as_array(got, expected, part)
    is_, has = (f"{name} is", f"{name} has") if name else ("it returned", "it returned")
    if not isinstance(got, np.ndarray):
        return f"{is_} {_kind(got)} where a NumPy array is expected"
    if got.shape != expected.shape:
        return f"{has} shape {got.shape} where {expected.shape} is expected"
    if got.dtype != part.dtype:
        return f"{has} dtype {got.dtype} where {part.dtype} is expected"
    wide = got.astype(np.float64)
    if np.isnan(expected).any() or np.isposinf(expected).any():
        raise AssertionError("the reference itself isn't finite")
    of = f" of {name}" if name else ""
    unlike = np.isfinite(wide) != np.isfinite(expected)
    unlike |= ~np.isfinite(expected) & (wide != expected)  # -inf is right only where it's due
    if unlike.any():
        place = tuple(int(i) for i in np.argwhere(unlike)[0])
        value, right = wide[place], _number(expected[place])
        if not expected.ndim:
            return f"{is_} {value} where {right} is expected"
        return (
            f"element {list(place)}{of} is {value} where {right} is expected; "
            f"{int(unlike.sum())} of {unlike.size} elements are like that"
        )
    finite = np.isfinite(expected)
    error = _error(np.where(finite, wide, 0.0), np.where(finite, expected, 0.0), part)
    if _is_close(error, part):
        return None
    if part.compared in ("numbers", "logarithms") or not expected.ndim:
        value, right = _apart(wide[error.row], expected[error.row])
        place = f"element {list(error.row)}{of} is" if expected.ndim else is_
        return f"{place} {value} where {right} is expected"
    if part.compared == "together":
        apart = np.abs(np.where(finite, wide - np.where(finite, expected, 0.0), 0.0))
        place = tuple(int(i) for i in np.unravel_index(int(np.argmax(apart)), apart.shape))
        value, right = _apart(wide[place], expected[place])
        return (
            f"relative error {_number(error.whole)} over the whole{of or ' result'} (at most "
            f"{BOUNDS[part.dtype.name][0]:g} is allowed); element {list(place)} is {value} and "
            f"should be {right}"
        )
    got_row, right_row = np.ravel(wide[error.row]), np.ravel(expected[error.row])
    with np.errstate(over="ignore", invalid="ignore"):  # -inf where it's due is no difference
        farthest = int(np.argmax(np.nan_to_num(np.abs(got_row - right_row), nan=0.0)))
    value, right = _apart(got_row[farthest], right_row[farthest])
    place = [*error.row, farthest]
    if not right_row.any():
        return f"row {list(error.row)}{of} must be exactly 0, and element {place} is {value}"
    whole, row = BOUNDS[part.dtype.name]
    worst = (
        f"{_number(error.worst_row)} in its worst row {list(error.row)} (at most {row:g}), where "
        if error.row
        else ""
    )
    return (
        f"relative error {_number(error.whole)} over the whole{of or ' result'} (at most {whole:g} "
        f"is allowed), {worst}element {place} is {value} and should be {right}"
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
    if isinstance(expected, tuple) and isinstance(got, tuple):
        if len(got) == len(expected) and not any(map(_exact_fault, got, expected)):
            return None
        return f"it returned {_readable(got)} where {expected} is expected"
    got = _plain_number(got)
    if type(got) is not type(expected):
        return f"it returned {_kind(got)} where {_kind(expected)} is expected"
    return None if got == expected else f"it returned {got} where {expected} is expected"


def _plain_number(value: object) -> object:
    """A NumPy integer or bool is as good as Python's."""
    if isinstance(value, np.ndarray) and value.shape == () and value.dtype.kind in "iub":
        return value.item()
    return value


def _readable(value: object) -> object:
    """A tuple or list as it is printed best: NumPy's numbers as plain ones."""
    if isinstance(value, tuple | list):
        return type(value)(map(_readable, value))
    scalar = isinstance(value, np.ndarray) and value.shape == () and value.dtype.kind in "iubf"
    return value.item() if scalar else value


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


def _size(count: int) -> str:
    return f"{count / 2**20:.1f} MiB" if count >= 2**20 else f"{count / 2**10:.0f} KiB"


def _number(value: float) -> str:
    return f"{value:.4g}"


def _kind(value: object) -> str:
    if isinstance(value, Unknown):
        return f"{'an' if value.type_name[:1].lower() in 'aeiou' else 'a'} {value.type_name}"
    if isinstance(value, np.ndarray):
        return f"a NumPy array of shape {value.shape} and dtype {value.dtype}"
    if value is None:
        return "None"
    text = repr(_readable(value))
    return f"{text if len(text) <= 80 else text[:80] + ' …'} ({type(value).__name__})"
