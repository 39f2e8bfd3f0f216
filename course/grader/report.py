"""Grades as a table for people and as JSON for programs."""

import platform
import sys
from collections.abc import Iterable
from itertools import groupby
from pathlib import Path

from course.exercise import chapter_of, exercise_ids
from course.grader.verdict import NOT_RUN, Grade


def by_chapter(grades: Iterable[Grade]) -> dict[str, list[Grade]]:
    order = exercise_ids()
    ordered = sorted(grades, key=lambda grade: order.index(grade.exercise))
    return {
        chapter: list(group)
        for chapter, group in groupby(ordered, key=lambda grade: chapter_of(grade.exercise))
    }


def points_line(grades: Iterable[Grade]) -> str:
    grades = list(grades)
    return f"{sum(g.points for g in grades)} of {sum(g.points_possible for g in grades)} points"


def as_text(grades: list[Grade]) -> str:
    """A line for each exercise with its verdict and the tiers that ran, points by chapter."""
    width = max(len(grade.exercise) for grade in grades) + 2
    lines = []
    for chapter, group in by_chapter(grades).items():
        lines.append(f"{chapter}: {points_line(group)}")
        for grade in group:
            tiers = ", ".join(f"{tier} {v.kind}" for tier, v in grade.tiers.items())
            lines.append(f"  {grade.exercise:<{width}}{grade.verdict.kind:<15}({tiers})")
            lines += [f"    note: {note}" for v in grade.tiers.values() for note in v.notes]
        lines += _why_not_run(group)
    lines.append(f"all: {points_line(grades)}")
    return "\n".join(lines)


def _why_not_run(grades: list[Grade]) -> list[str]:
    """Each reason once for a tier: it's the machine's or the chapter's, not an exercise's."""
    reasons = {
        f"  {tier} not run: {verdict.message.replace(grade.exercise, 'the exercise')}": None
        for grade in grades
        for tier, verdict in grade.tiers.items()
        if verdict.kind == NOT_RUN and verdict.message
    }
    return list(reasons)


def as_json(grades: list[Grade], folder: Path) -> dict:
    return {
        "graded": str(folder),
        "python": platform.python_version(),
        "platform": sys.platform,
        "points": sum(grade.points for grade in grades),
        "of": sum(grade.points_possible for grade in grades),
        "chapters": [
            {
                "chapter": chapter,
                "points": sum(grade.points for grade in group),
                "of": sum(grade.points_possible for grade in group),
                "exercises": [grade.as_json() for grade in group],
            }
            for chapter, group in by_chapter(grades).items()
        ],
    }
