"""From outcomes to a verdict: compare, and diagnose by matching known mistakes."""

import numpy as np

from course.exercise import Case, Exercise, Mutant, mutants_of
from course.grader import answer, solution
from course.grader.compare import fault_of, same
from course.grader.outcome import Outcome
from course.grader.verdict import ERROR, PASSED, WRONG, Verdict


def judge(
    exercise: Exercise, cases: dict[str, Case], outcomes: dict[str, Outcome], seed: int
) -> Verdict:
    """The verdict on an answer that was run on `cases`, drawn with `seed`."""
    faults = {}
    for name, case in cases.items():
        if fault := fault_of(outcomes[name], expected_of(exercise, case), case):
            faults[name] = fault
    if not faults:
        return Verdict(PASSED)
    known = diagnose(exercise, cases, {name: outcomes[name] for name in faults})
    # What is said first should be what goes wrong first, and be shown on an input of its own.
    order = list(cases)
    known.sort(key=lambda mutant: min(order.index(name) for name in mutant.inputs))
    first = min(known[0].inputs, key=order.index) if known else next(iter(faults))
    crashed = all(outcomes[name].raised for name in faults)
    lines = [
        *(mutant.says if i == 0 else f"Also: {mutant.says}" for i, mutant in enumerate(known)),
        f"It fails on {cases[first].shows}: {faults[first]}.",
        f"It fails on {_some(list(faults), len(cases))} (seed {seed}).",
        f"For a hint: python -m course hint {exercise.id}",
    ]
    kind = ERROR if crashed else WRONG
    return Verdict(kind, "\n".join(lines), tuple(mutant.name for mutant in known))


def _some(names: list[str], count: int) -> str:
    if len(names) == count:
        return f"all {count} inputs"
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return f"{len(names)} of {count} inputs: {'; '.join(names[:3])}{more}"


def expected_of(exercise: Exercise, case: Case) -> object:
    with np.errstate(all="ignore"):
        return exercise.reference(*case.args, **case.kwargs)


def diagnose(exercise: Exercise, cases: dict[str, Case], wrong: dict[str, Outcome]) -> list[Mutant]:
    """The known mistakes that would give these wrong outcomes on the inputs that bring them out.

    None rather than a guess: what matches no mistake gets no diagnosis.
    """
    return [
        mutant for mutant in mutants_of(exercise.id) if _explains(mutant, exercise, cases, wrong)
    ]


def _explains(mutant: Mutant, exercise: Exercise, cases, wrong) -> bool:
    if not wrong.keys() >= set(mutant.inputs) or wrong.keys() & set(mutant.right):
        return False
    telling = {name: cases[name] for name in mutant.inputs}
    answers = solution.with_edit(exercise, mutant.reference)
    mistaken = answer.run_cases(exercise, answers, telling)
    return all(same(wrong[name], mistaken[name], cases[name]) for name in telling)
