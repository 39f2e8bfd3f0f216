"""The course's own solution of an exercise, taken from its chapter like a learner's answer."""

from functools import cache

from course.chapter import read_chapter
from course.exercise import Edit, Exercise
from course.grader import answer
from course.grader.collect import CodeCell, collect
from course.paths import CHAPTERS


@cache
def solved_cells(chapter: str) -> tuple[CodeCell, ...]:
    """The code cells of a chapter, solved."""
    cells = enumerate(read_chapter(CHAPTERS / f"{chapter}.md").cells, start=1)
    return tuple(
        CodeCell(number, cell.source, cell.options.get("exercise"))
        for number, cell in cells
        if cell.kind == "code"
    )


def source_of(exercise: Exercise) -> str:
    """The text of the cell that solves an exercise."""
    (cell,) = (c for c in solved_cells(exercise.chapter) if c.exercise == exercise.id)
    return cell.source


@cache
def with_edit(exercise: Exercise, edit: Edit | None = None) -> dict[str, object]:
    """What the solution defines, after `edit` of the exercise's own cell."""
    cells = [
        CodeCell(cell.number, edit.apply(cell.source), cell.exercise)
        if edit is not None and cell.exercise == exercise.id
        else cell
        for cell in solved_cells(exercise.chapter)
    ]
    return _defined(cells, exercise)


def from_text(source: str, exercise: Exercise) -> dict[str, object]:
    """What an answer defines that stands in one text, such as `variant.py`."""
    return _defined([CodeCell(1, source, exercise.id)], exercise)


def _defined(cells: list[CodeCell], exercise: Exercise) -> dict[str, object]:
    names = answer.define(collect(cells, exercise.names, exercise.id))
    return {name: names[name] for name in exercise.names}
