"""Running an answer: what it is handed, and what is noted besides its result."""

import tracemalloc

import numpy as np
import pytest

from course.exercise import Case, Exercise, Stream
from course.grader import answer, outcome

EXERCISE = Exercise("title", ("f",), 1, inputs=None, reference=None)


def run(f, *args, **options):
    case = Case("some input", args, **options)
    return answer.run_cases(EXERCISE, {"f": f}, {"case": case})["case"]


BLOCKS = (np.array([1.0, 2.0]),), (np.array([3.0]),), (np.zeros(0),)


@pytest.mark.parametrize("hand", [lambda s: ((s,), {}), lambda s: ((), {"kwargs": {"x": s}})])
def test_a_stream_is_handed_over_as_an_iterator_that_can_be_read_once(hand):
    args, options = hand(Stream(BLOCKS))

    def read(x):
        return [a.tolist() for (a,) in x], [a.tolist() for (a,) in x]

    assert run(read, *args, **options).value == ([[1, 2], [3], []], [])
    assert run(lambda x: len(x), *args, **options).raised.startswith("TypeError")


def test_the_blocks_of_a_stream_lie_in_one_memory_and_cannot_be_changed():
    stream = Stream(BLOCKS)
    kept = list(iter(stream))
    assert kept[0][0].base is kept[1][0].base
    assert all(np.isnan(a).all() for (a,) in kept), "what is kept is gone"
    assert "read-only" in run(lambda x: next(x)[0].fill(7), stream).raised
    assert [a.tolist() for (a,) in stream] == [[1, 2], [3], []], "others may read it again"
    assert list(Stream(())) == []


def test_a_change_of_an_array_inside_a_tuple_is_seen_and_undone():
    a, b = np.zeros(3), np.zeros(2)

    def f(state, other):
        state[1][1][0] = 7
        return 1

    result = run(f, (1, (a, b)), a)
    assert result.changed == ("argument 1",)
    assert not b.any()
    assert run(lambda state, other: 1, (1, (a, b)), a).changed == ()


def test_each_argument_that_changes_is_named_once():
    def f(state, other):
        for x in (*state, other):
            x += 1

    assert run(f, (np.zeros(3), np.zeros(2)), np.zeros(1)).changed == ("argument 1", "argument 2")


@pytest.mark.parametrize("size", [2**20, 2**22])
def test_the_peak_is_what_the_call_held_at_a_time(size):
    before = np.ones(2**22, np.uint8)  # what was there before isn't counted

    def f(x):
        for _ in range(4):
            np.ones(size, np.uint8)
        return int(x[0])

    result = run(f, before, peak_bytes=1)
    assert size <= result.peak_bytes < size + 2**17
    assert not tracemalloc.is_tracing(), "it goes on as it was"


def test_the_peak_is_measured_only_where_it_is_asked_for_and_beside_other_tracing():
    assert run(lambda x: 1, 3).peak_bytes is None
    tracemalloc.start()
    try:
        assert run(lambda x: np.ones(2**20, np.uint8).sum(), 3, peak_bytes=1).peak_bytes >= 2**20
        assert tracemalloc.is_tracing()
    finally:
        tracemalloc.stop()


def test_an_answer_that_stops_the_measurement_has_no_peak():
    def f(x):
        np.ones(2**24, np.uint8)
        tracemalloc.stop()
        return 1

    assert run(f, 3, peak_bytes=2**30).peak_bytes is None
    assert not tracemalloc.is_tracing()


def test_the_peak_comes_back_from_the_other_process(tmp_path):
    path = tmp_path / "result"
    report = {"verdict": None, "message": "", "notes": []}
    for peak in (None, 7):
        with open(path, "wb") as file:
            outcome.save(file, report, {"case": outcome.Outcome((1, 2), peak_bytes=peak)})
        assert outcome.load(path)[1]["case"] == outcome.Outcome((1, 2), peak_bytes=peak)
    with open(path, "wb") as file:
        outcome.save(file, report, {"case": outcome.Outcome(1, peak_bytes="none")})
    with pytest.raises(ValueError, match="isn't what the grader writes"):
        outcome.load(path)
