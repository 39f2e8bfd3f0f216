"""Grade one exercise of one notebook, tier by tier."""

import argparse
from pathlib import Path

from course.exercise import TIERS, Exercise
from course.grader.isolate import run_isolated
from course.grader.judge import judge
from course.grader.verdict import ERROR, NOT_RUN, Grade, Verdict


def grade(
    notebook: Path, exercise: Exercise, tiers: tuple[str, ...] = TIERS, seed: int | None = None
) -> Grade:
    """Verdicts of `exercise` as answered in `notebook`, for those of `tiers` that it has.

    A notebook that is broken gets a verdict like any other; nothing that it does is raised here.
    """
    seed = exercise.seed if seed is None else seed
    selected = [tier for tier in exercise.tiers if tier in tiers]
    if not selected:
        has = " and ".join(exercise.tiers)
        reason = f"{exercise.id} has no tier {' or '.join(tiers)}; it has {has}"
        return Grade(
            exercise.id, exercise.points, {tier: Verdict(NOT_RUN, reason) for tier in tiers}
        )
    verdicts, seconds = {}, 0.0
    for tier in selected:
        verdicts[tier], took = GRADERS[tier](notebook, exercise, seed)
        seconds += took
    return Grade(exercise.id, exercise.points, verdicts, seed, seconds)


def seed_argument(text: str) -> int:
    """The value of `--seed`, or the usage error that argparse and pytest show."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"a whole number, 0 or more, got {text!r}")
    return int(text)


def grade_value(notebook: Path, exercise: Exercise, seed: int) -> tuple[Verdict, float]:
    """Run the answer in a process of its own, and judge what it returned in this one."""
    run = run_isolated(notebook, exercise, seed)
    if run.died:
        return Verdict(ERROR, run.died), run.seconds
    notes = tuple(run.report.get("notes", ()))
    if run.report["verdict"] is not None:
        return Verdict(run.report["verdict"], run.report["message"], notes=notes), run.seconds
    cases = exercise.cases(seed)
    if cases.keys() != run.outcomes.keys():
        return Verdict(ERROR, "not every result came back; grade it again"), run.seconds
    verdict = judge(exercise, cases, run.outcomes, seed)
    return Verdict(verdict.kind, verdict.message, verdict.diagnosis, notes), run.seconds


# A tier enters here and in TIERS; an exercise says in its spec which of them it has.
GRADERS = {"value": grade_value}
