"""Which of the files that a learner handed in is their notebook of a chapter.

`python -m course class` and `pytest tests/ --grade DIR` both ask here, so that they can't disagree
about a folder.
"""

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from course.exercise import TIERS, Exercise, chapter_of, exercise_ids
from course.grader import tiers as grading
from course.grader.isolate import LARGEST_NOTEBOOK_BYTES
from course.grader.verdict import ERROR, NOT_ATTEMPTED, Grade, Verdict

# As it stands in JSON; in a cell's own text the quotes would be escaped. Unlike a parser it reads
# broken files too, which then get the verdict that says what is broken.
GRADE_ID = re.compile(rb'"grade_id"\s*:\s*"([\w-]+)"')
# What browsers, file managers and JupyterLab put after a copy's name, and what people do.
COPY_MARK = re.compile(r"(\s*\([^()]*\)|[ _-]+copy[ _-]?\d*)\s*$", re.IGNORECASE)
SHOWN_NAMES = 5


@dataclass(frozen=True)
class Submission:
    """The notebook of a chapter to grade, or the verdict where there isn't exactly one."""

    notebook: Path | None = None
    verdict: Verdict | None = None
    remark: str = ""


class HandedIn:
    """A learner's files, by chapter; they are named as they stand below `root`."""

    def __init__(self, files: Iterable[Path], root: Path):
        self._root = root
        self._by_chapter: dict[str, list[Path]] = {}
        self._unknown: list[Path] = []
        files = sorted(files)
        notebooks = [path for path in files if is_notebook(path)]
        for path in notebooks:
            chapters = _chapters_of(path)
            for chapter in chapters:
                self._by_chapter.setdefault(chapter, []).append(path)
            if not chapters:
                self._unknown.append(path)
        self._others = [] if notebooks else files

    def of(self, chapter: str) -> Submission:
        """What to grade. The chapter's own name goes before others; duplicates are an error."""
        found = self._by_chapter.get(chapter, [])
        exact = [path for path in found if path.name.lower() == f"{chapter}.ipynb"]
        similar = [path for path in found if path not in exact]
        candidates = exact or similar
        if not candidates:
            message = f"handed in no notebook {chapter}.ipynb"
            return Submission(verdict=Verdict(NOT_ATTEMPTED, message))
        if len(candidates) > 1:
            names = ", ".join(path.relative_to(self._root).as_posix() for path in candidates)
            message = f"handed in {len(candidates)} notebooks for {chapter} ({names}): keep one"
            return Submission(verdict=Verdict(ERROR, message))
        remark = ""
        if exact and similar:
            others = ", ".join(path.name for path in similar)
            remark = f"{chapter}: {exact[0].name} was graded, {others} was not"
        return Submission(candidates[0], remark=remark)

    def remarks(self) -> list[str]:
        """What a teacher should know about the files, whatever the verdicts are."""
        remarks = [self.of(chapter).remark for chapter in sorted(self._by_chapter)]
        remarks.append(_found(self._unknown, "is no chapter's", "are no chapter's"))
        remarks.append(_found(self._others, "is no notebook", "are no notebooks"))
        return [remark for remark in remarks if remark]


def grade_submission(
    submission: Submission,
    exercise: Exercise,
    tiers: tuple[str, ...] = TIERS,
    seed: int | None = None,
) -> Grade:
    """Grade a chapter's notebook; where there is none to grade, each tier says so."""
    selected = [tier for tier in exercise.tiers if tier in tiers]
    if submission.verdict and selected:
        verdicts = dict.fromkeys(selected, submission.verdict)
        seed = exercise.seed if seed is None else seed
        return Grade(exercise.id, exercise.points, verdicts, seed)
    return grading.grade(submission.notebook, exercise, tiers, seed)


def files_in(folder: Path) -> Iterator[Path]:
    """The files in `folder` at any depth, without those that programs leave behind."""
    for parent, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if not is_left_behind(name)]
        yield from (Path(parent, name) for name in files if not is_left_behind(name))


def is_left_behind(name: str) -> bool:
    """`.ipynb_checkpoints`, `.saved`, and what macOS adds to archives: nobody's work."""
    return name.startswith(".") or name == "__MACOSX"


def is_notebook(path: Path) -> bool:
    return path.suffix.lower() == ".ipynb"


def learner_of(notebook: Path) -> str:
    """The learner that `dave 01-naive (late).ipynb` is named after; "" for `01-naive.ipynb`."""
    name = notebook.stem
    while (shorter := COPY_MARK.sub("", name)) != name:
        name = shorter
    for chapter in _chapters():
        name = re.sub(re.escape(chapter), "", name, flags=re.IGNORECASE)
    return name.strip(" -_.")


@cache
def _chapters() -> list[str]:
    """The longest first: `01-naive` must not be found in what says `01-naivest`."""
    return sorted({chapter_of(id) for id in exercise_ids()}, key=len, reverse=True)


def _chapters_of(notebook: Path) -> list[str]:
    """By its name, else by the exercises that are marked in its cells."""
    name = notebook.stem.lower()
    for chapter in _chapters():
        if chapter in name:
            return [chapter]
    ids = {found.decode().removesuffix("-check") for found in _grade_ids(notebook)}
    return sorted({chapter_of(id) for id in ids & set(exercise_ids())})


def _grade_ids(notebook: Path) -> list[bytes]:
    try:
        # Reading a pipe would never end.
        if notebook.is_file() and notebook.stat().st_size <= LARGEST_NOTEBOOK_BYTES:
            return GRADE_ID.findall(notebook.read_bytes())
    except OSError:  # it stays unknown, and the remark names it
        pass
    return []


def _found(paths: list[Path], one: str, several: str) -> str:
    if not paths:
        return ""
    more = f" and {len(paths) - SHOWN_NAMES} more" if len(paths) > SHOWN_NAMES else ""
    names = ", ".join(path.name for path in paths[:SHOWN_NAMES])
    return f"found {names}{more}, which {one if len(paths) == 1 else several}"
