"""What an exercise is, and how to find one by its id.

An exercise lives in `course/exercises/chNN_name/its_name/`: `spec.py` says what is graded,
`mutants.py` lists the mistakes that learners make, `variant*.py` are right answers written
another way, `hints.md` has the hints. Its id is derived from the folder:
`ch01_naive/softmax` is `01-naive-softmax`.
"""

import importlib.util
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import numpy as np

from course.paths import CHAPTERS, EXERCISES

TIERS = ("value", "compile", "gpu", "speed")


@dataclass(frozen=True)
class Stream:
    """Tuples of arrays that an answer gets as an iterator, and so reads once.

    All tuples lie in the same memory, as tiles on a chip do: it's overwritten when the next one is
    asked for. A reference gets the stream itself, and may read it more often.
    """

    blocks: tuple[tuple[np.ndarray, ...], ...]

    def __iter__(self) -> Iterator[tuple[np.ndarray, ...]]:
        longest = max((len(block[0]) for block in self.blocks), default=0)
        buffers = [np.empty((longest, *x.shape[1:]), x.dtype) for x in next(iter(self.blocks), ())]
        for block in self.blocks:
            views = [buffer[: len(x)] for buffer, x in zip(buffers, block, strict=True)]
            for view, x in zip(views, block, strict=True):
                view[:] = x
                view.flags.writeable = False  # an input like any other
            yield tuple(views)
            for buffer in buffers:  # whoever still holds a block holds nothing
                buffer[:] = np.nan


@dataclass(frozen=True)
class Part:
    """An array that a result consists of.

    `compared` says how: "rows" along the last axis, each row as a whole; "numbers", each by
    itself; "logarithms", each by its distance, since what counts is what it is the logarithm of;
    "together", all of it as one row, where rounding may be all that a single row holds.
    """

    name: str
    dtype: np.dtype
    compared: str = "rows"

    def __post_init__(self) -> None:
        if self.compared not in ("rows", "numbers", "logarithms", "together"):
            raise ValueError(f"compared: no such way, {self.compared!r}")


@dataclass(frozen=True)
class Case:
    """One call of the answer: `answer(*args, **kwargs)`.

    `shows` is a phrase that finishes "It fails on …". The result must be an array of `dtype`, or a
    tuple of `parts`; with neither it is no array. `peak_bytes` is how much memory the call may
    take at once, besides its arguments; None for any amount.
    """

    shows: str
    args: tuple
    kwargs: dict = field(default_factory=dict)
    dtype: np.dtype | None = None
    parts: tuple[Part, ...] = ()
    peak_bytes: int | None = None


@dataclass(frozen=True)
class Exercise:
    """What is graded. `inputs(rng)` draws the cases, one or more for each class of mistake, and
    `reference(*args, **kwargs)` gives the right result in float64, or exactly, from code that
    shares nothing with the solution.
    """

    title: str
    names: tuple[str, ...]  # what the answer must define; the first is called
    points: int
    inputs: Callable[[np.random.Generator], dict[str, Case]]
    reference: Callable
    forbidden: tuple[str, ...] = ()  # libraries that would do the exercise for the learner
    tiers: tuple[str, ...] = ("value",)
    seconds: float = 20.0  # time limit for one tier, starting Python included
    memory_bytes: int = 4 << 30
    id: str = ""
    folder: Path = Path()

    @property
    def chapter(self) -> str:
        return chapter_of(self.id)

    @property
    def seed(self) -> int:
        """Fixed for each exercise, so that a learner who runs a check twice sees one answer."""
        return zlib.crc32(self.id.encode())

    def cases(self, seed: int) -> dict[str, Case]:
        return self.inputs(np.random.default_rng(seed))

    def call(self, answer: dict[str, object], case: Case) -> object:
        def handed(value: object) -> object:
            return iter(value) if isinstance(value, Stream) else value

        kwargs = {name: handed(value) for name, value in case.kwargs.items()}
        return answer[self.names[0]](*map(handed, case.args), **kwargs)


@dataclass(frozen=True)
class Edit:
    """Replacements in a source text, each of which must match exactly once."""

    replacements: tuple[tuple[str, str], ...]

    def apply(self, source: str) -> str:
        for old, new in self.replacements:
            if (found := source.count(old)) != 1:
                raise ValueError(f"the edit of {old!r} matches {found} times, not once")
            source = source.replace(old, new)
        return source


def edit(old: str, new: str, *more: tuple[str, str]) -> Edit:
    return Edit(((old, new), *more))


@dataclass(frozen=True)
class Mutant:
    """A mistake that learners make: planted in the solution (`reference`) and in `variant.py`.

    `inputs` names the cases that bring it out: an answer is taken to contain the mistake if it
    gives what the mistake would give on all of them. `right` names cases that the mistake leaves
    right, where another one with the same outcomes fails. `says` is what its author is told.
    """

    name: str
    inputs: tuple[str, ...]
    right: tuple[str, ...]
    says: str
    reference: Edit
    variant: Edit


def mutant(
    name: str,
    *,
    inputs: str | tuple[str, ...],
    right: str | tuple[str, ...] = (),
    says: str,
    reference: Edit,
    variant: Edit,
) -> Mutant:
    inputs, right = ((names,) if isinstance(names, str) else names for names in (inputs, right))
    return Mutant(name, inputs, right, says, reference, variant)


def chapter_of(exercise_id: str) -> str:
    """The chapter's slug: `01-naive` of `01-naive-softmax`; chapter names are one word each."""
    return "-".join(exercise_id.split("-")[:2])


def exercise_ids(folder: Path = EXERCISES) -> list[str]:
    """Every exercise's id, in the order of the chapters and of their text."""
    return list(_exercise_ids(folder))


@cache  # asked for each learner of a class, and answered from every chapter's file
def _exercise_ids(folder: Path) -> tuple[str, ...]:
    found = [spec.parent for spec in folder.glob("ch[0-9][0-9]_*/*/spec.py")]
    if not found:
        raise FileNotFoundError(f"no exercises (chNN_name/exercise/spec.py) in {folder}")
    return tuple(sorted((_id(path) for path in found), key=_place_in_text))


def _place_in_text(exercise_id: str) -> tuple[str, int, str]:
    chapter = chapter_of(exercise_id)
    path = CHAPTERS / f"{chapter}.md"
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    return chapter, text.find(f"{{exercise}} {exercise_id}\n"), exercise_id


def _id(folder: Path) -> str:
    chapter = folder.parent.name.removeprefix("ch").replace("_", "-")
    return f"{chapter}-{folder.name.replace('_', '-')}"


def _folder(exercise_id: str) -> Path:
    for spec in EXERCISES.glob("ch[0-9][0-9]_*/*/spec.py"):
        if _id(spec.parent) == exercise_id:
            return spec.parent
    raise ValueError(f"exercise: no such id {exercise_id!r}; there are {', '.join(exercise_ids())}")


@cache
def find_exercise(exercise_id: str) -> Exercise:
    """The exercise with this id; ValueError naming all ids if there is none."""
    folder = _folder(exercise_id)
    exercise = _module(folder / "spec.py").exercise
    return Exercise(**{**vars(exercise), "id": exercise_id, "folder": folder})


@cache
def mutants_of(exercise_id: str) -> tuple[Mutant, ...]:
    return tuple(_module(_folder(exercise_id) / "mutants.py").MUTANTS)


def variants_of(exercise_id: str) -> dict[str, str]:
    """Source of each right answer written another way, by file name; `variant.py` is first."""
    paths = sorted(_folder(exercise_id).glob("variant*.py"), key=lambda path: path.stem)
    return {path.name: path.read_text(encoding="utf-8") for path in paths}


def _module(path: Path):
    name = ".".join(("course.exercises", *path.relative_to(EXERCISES).with_suffix("").parts))
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
