"""Write the test that finds the faults in updates of the online softmax."""

from pathlib import Path

from course.exercise import Case, Exercise

THREE = Path(__file__).with_name("updates.py").read_text(encoding="utf-8")

RIGHT = """
def update(m_i, l_i, acc, s, v):
    m_new = np.maximum(m_i, s.max(axis=1, initial=-np.inf))
    shift = np.where(m_new == -np.inf, 0, m_new)
    correction = np.exp(m_i - shift)
    p = np.exp(s - shift[:, np.newaxis])
    l_new = correction * l_i + p.sum(axis=1)
    acc_new = correction[:, np.newaxis] * acc + p @ v
    return m_new, l_new, acc_new
"""
ANOTHER_BASE = RIGHT.replace("np.exp(m_i - shift)", "2 ** ((m_i - shift) / np.log(2))")
ANOTHER_ORDER = """
def update(m_i, l_i, acc, s, v):
    for j in range(len(v) - 1, -1, -1):
        m_new = np.maximum(m_i, s[:, j])
        guard = np.maximum(m_new, np.finfo(s.dtype).min)
        old, new = np.exp(m_i - guard), np.exp(s[:, j] - guard)
        l_i, acc = old * l_i + new, old[:, None] * acc + new[:, None] * v[j]
        m_i = m_new
    return m_i, l_i, acc
"""


def _function(source, name="update"):
    """A function of a module of its own, from which nothing else can be reached."""
    module = {}
    exec(f"import numpy as np\n{source}", module)
    return module[name]


def _faulty(*replacements):
    source = RIGHT
    for old, new in replacements:
        assert source.count(old) == 1, old
        source = source.replace(old, new)
    return _function(source)


# What each is, whether it's right, and the update. Each fault shows on other inputs.
UPDATES = {
    "A": ("update A", False, _function(THREE, "update_a")),
    "B": ("update B", False, _function(THREE, "update_b")),
    "C": ("update C", False, _function(THREE, "update_c")),
    "right": ("a right update", True, _function(RIGHT)),
    "right, in base 2": (
        "a right update that computes in base 2",
        True,
        _function(ANOTHER_BASE),
    ),
    "right, key by key": (
        "a right update that takes one key after the other",
        True,
        _function(ANOTHER_ORDER),
    ),
    "acc not corrected": (
        "an update that doesn't correct acc",
        False,
        _faulty(("correction[:, np.newaxis] * acc", "acc")),
    ),
    "no guard": (
        "an update that gives NaN for a hidden first block",
        False,
        _faulty(("np.where(m_new == -np.inf, 0, m_new)", "m_new")),
    ),
    "own maximum": (
        "an update whose weights use the block's own maximum",
        False,
        _faulty(("s - shift[:, np.newaxis]", "s - s.max(axis=1, keepdims=True, initial=-1e300)")),
    ),
    "no maximum": (
        "an update that never subtracts the maximum",
        False,
        _faulty(("m_i - shift", "0 * shift"), ("s - shift", "s - 0 * shift")),
    ),
    "one maximum": (
        "an update that takes one maximum for all rows",
        False,
        _faulty(("s.max(axis=1, initial=-np.inf)", "s.max(initial=-np.inf)")),
    ),
    "guard of all rows": (
        "an update whose guard replaces the maxima of all rows if one of them is hidden",
        False,
        _faulty(("np.where(m_new == -np.inf", "np.where((m_new == -np.inf).any()")),
    ),
    "guard for all rows": (
        "an update whose guard only works if all rows are hidden",
        False,
        _faulty(("np.where(m_new == -np.inf", "np.where((m_new == -np.inf).all()")),
    ),
    "hidden is 0": (
        "an update that takes the score of a hidden key for 0",
        False,
        _faulty(("np.exp(s - ", "np.exp(np.where(s == -np.inf, 0, s) - ")),
    ),
    "ignores the values": (
        "an update that takes all values for 1",
        False,
        _faulty(("p @ v", "p @ np.ones_like(v)")),
    ),
    "loses the state": (
        "an update that loses the state when a later block is hidden",
        False,
        _faulty(
            (
                "correction = np.exp(m_i - shift)",
                "correction = np.exp(m_i - shift) * (s > -np.inf).any(axis=1)",
            )
        ),
    ),
    "divides two powers": (
        "an update that divides two exponentials instead of subtracting first",
        False,
        _faulty(("np.exp(s - shift[:, np.newaxis])", "np.exp(s) / np.exp(shift)[:, np.newaxis]")),
    ),
}


def inputs(rng):
    return {name: Case(shows, (update,)) for name, (shows, _, update) in UPDATES.items()}


def reference(update):
    return any(right for _, right, other in UPDATES.values() if other is update)


exercise = Exercise(
    title="Find the faults",
    names=("is_right",),
    points=3,
    inputs=inputs,
    reference=reference,
    forbidden=("scipy", "torch"),
)
