"""Read a chapter's source, `book/chapters/NN-name.md`, into cells.

A chapter is Markdown with two fences of its own, `{code-cell}` and `{exercise}`; the options
of a cell are `:name: value` lines under the opening fence. Everything wrong with a chapter is
a `ChapterError` that names the file and the line.
"""

import ast
import re
from dataclasses import dataclass, field
from itertools import takewhile
from pathlib import Path

from course import markdown
from course.exercise import exercise_ids
from course.paths import CHAPTERS, ROOT

CELL_OPTIONS = {"alt", "caption", "exercise", "fold", "include"}
EXERCISE_OPTIONS = {"exercise", "include"}
INCLUDED_FROM = ("kernels/", "course/exercises/")
FRONT_MATTER = {"title", "time"}
# One word after the number: an exercise's id is split after it.
SLUG = re.compile(r"[0-9]{2}-[a-z0-9]+")
FENCE = re.compile(r"^(`{3,})\{(code-cell|exercise)\}[ ]*(.*)$")
OPTION = re.compile(r"^:([a-z-]+):[ ]*(.*)$")


class ChapterError(ValueError):
    """Something in a chapter's source that its author has to mend."""

    def __init__(self, path: Path, line: int, problem: str):
        super().__init__(f"{path.name}:{line}: {problem}")


@dataclass(frozen=True)
class Cell:
    """A piece of a chapter: `kind` is "markdown", "code" or "exercise" (its statement)."""

    kind: str
    source: str
    line: int
    options: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Chapter:
    slug: str  # "01-naive": the one name of a chapter, everywhere
    title: str
    time: str
    cells: tuple[Cell, ...]


def find_chapters(folder: Path = CHAPTERS) -> list[Chapter]:
    """All chapters in the order of their numbers; FileNotFoundError if there are none."""
    paths = sorted(folder.glob("[0-9][0-9]-*.md"))
    if not paths:
        raise FileNotFoundError(f"no chapters (NN-name.md) in {folder}")
    return [read_chapter(path) for path in paths]


def read_chapter(path: Path) -> Chapter:
    if not SLUG.fullmatch(path.stem):
        raise ChapterError(path, 1, "a chapter's file is called NN-name.md, its name one word")
    try:
        lines = path.read_text(encoding="utf-8-sig").split("\n")
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise ChapterError(path, line, f"not UTF-8: {error.reason}") from None
    settings, start = _front_matter(path, lines)
    cells = tuple(_cells(path, lines, start))
    _check_exercise_order(path, cells)
    return Chapter(path.stem, settings["title"], settings["time"], cells)


def _front_matter(path: Path, lines: list[str]) -> tuple[dict[str, str], int]:
    if lines[0] != "---" or "---" not in lines[1:]:
        raise ChapterError(path, 1, "a chapter starts with front matter between two lines of ---")
    end = lines.index("---", 1)
    settings = {}
    for number, line in enumerate(lines[1:end], start=2):
        name, colon, value = line.partition(":")
        if not colon or name not in FRONT_MATTER:
            raise ChapterError(
                path, number, f"front matter is {sorted(FRONT_MATTER)}, got {line!r}"
            )
        if name in settings:
            raise ChapterError(path, number, f"front matter has {name!r} twice")
        settings[name] = value.strip().strip('"')
    if missing := FRONT_MATTER - {name for name, value in settings.items() if value}:
        raise ChapterError(path, 1, f"front matter lacks {sorted(missing)}")
    return settings, end + 1


def _cells(path: Path, lines: list[str], start: int):
    prose, prose_line = [], start + 1
    number = start
    inside, inside_line = "", 0  # the fence of an ordinary block, whose text is prose
    while number < len(lines):
        line = lines[number]
        fence = FENCE.match(line)
        # In a block with a longer fence it is an example of a cell, not a cell.
        if fence and not (inside and len(fence[1]) < len(inside)):
            if inside:
                raise ChapterError(
                    path,
                    inside_line,
                    f"this block isn't closed before the cell in line {number + 1}",
                )
            yield from _prose(path, prose, prose_line)
            end = next(
                (i for i in range(number + 1, len(lines)) if markdown.closes(lines[i], fence[1])),
                None,
            )
            if end is None:
                raise ChapterError(path, number + 1, "this fence is never closed")
            yield _fenced(path, fence, lines[number + 1 : end], number + 1)
            number = end + 1
            prose, prose_line = [], number + 1
            continue
        if inside:
            inside = "" if markdown.closes(line, inside) else inside
        elif (plain := markdown.FENCE.match(line)) and plain["fence"][0] != ":":
            inside, inside_line = plain["fence"], number + 1
        prose.append(line)
        number += 1
    yield from _prose(path, prose, prose_line)


def _prose(path: Path, lines: list[str], line: int):
    """A Markdown cell, unless `lines` are blank; the first is line `line` of the file."""
    if text := "\n".join(lines).strip():
        line += len(list(takewhile(lambda text: not text.strip(), lines)))
        _check_markdown(path, text, line)
        yield Cell("markdown", text, line)


def _check_markdown(path: Path, text: str, line: int) -> None:
    try:
        markdown.for_notebook(text)
    except markdown.MarkdownError as error:
        raise ChapterError(path, line + error.line - 1, str(error)) from None


def _fenced(path: Path, fence: re.Match, body: list[str], line: int) -> Cell:
    _, kind, argument = fence.groups()
    if kind == "exercise":
        if not argument:
            raise ChapterError(path, line, "{exercise} needs the exercise's id")
        text = "\n".join(body).strip()
        if not text:
            raise ChapterError(path, line, f"{argument.strip()} has no statement")
        blank = len(list(takewhile(lambda text: not text.strip(), body)))
        _check_markdown(path, text, line + 1 + blank)
        return Cell("exercise", text, line, {"exercise": argument.strip()})
    if argument:
        raise ChapterError(path, line, f"{{code-cell}} takes no argument, got {argument!r}")
    options = {}
    while body and (option := OPTION.match(body[0])):
        if option[1] not in CELL_OPTIONS:
            raise ChapterError(
                path, line, f"unknown option {option[1]!r}; a cell takes {sorted(CELL_OPTIONS)}"
            )
        if option[1] in options or not option[2].strip():
            raise ChapterError(path, line, f"option {option[1]!r} needs one value, once")
        options[option[1]] = option[2].strip()
        body = body[1:]
    _check_options(path, line, options)
    source = "\n".join(body).strip("\n")
    if "include" in options:
        if source.strip():
            raise ChapterError(path, line, "a cell has either :include: or code of its own")
        source = included(path, line, options["include"])
    if not source.strip():
        raise ChapterError(path, line, "this code cell is empty")
    try:
        ast.parse(source)
    except SyntaxError as error:
        raise ChapterError(path, line, f"not Python: {error}") from None
    return Cell("code", source, line, options)


def _check_options(path: Path, line: int, options: dict[str, str]) -> None:
    """What would be ignored silently is an error."""
    if "exercise" in options and (extra := sorted(options.keys() - EXERCISE_OPTIONS)):
        raise ChapterError(path, line, f"a solution takes {sorted(EXERCISE_OPTIONS)}, got {extra}")
    if options.get("fold", "true") not in ("true", "all"):
        raise ChapterError(
            path,
            line,
            "option 'fold' is true (the code), all (what it gives too) or left out, "
            f"got {options['fold']}",
        )
    if options.get("fold") == "all" and "alt" in options:
        raise ChapterError(path, line, "a figure is there to be seen: fold its code alone")
    if "caption" in options and "alt" not in options:
        raise ChapterError(path, line, "a figure with a caption needs 'alt' too")


def included(path: Path, line: int, target: str, root: Path = ROOT) -> str:
    """The text between `# region: NAME` and `# endregion` for a target `kernels/file.py#NAME`.

    What an exercise hands out may lie in its own folder, in `course/exercises`.
    """
    name, _, region = target.partition("#")
    file = root / name
    if not region or not name.startswith(INCLUDED_FROM) or not file.is_file():
        raise ChapterError(
            path,
            line,
            f":include: takes FILE.py#REGION of {' or '.join(INCLUDED_FROM)}, got {target!r}",
        )
    text = file.read_text(encoding="utf-8")
    pattern = rf"^# region: {re.escape(region)}\n(.*?)^# endregion$"
    found = re.findall(pattern, text, flags=re.MULTILINE | re.DOTALL)
    if len(found) != 1:
        known = re.findall(r"^# region: (\S+)$", text, flags=re.MULTILINE)
        raise ChapterError(
            path, line, f"{name} has {len(found)} regions {region!r}; it has {known}"
        )
    if "# region:" in found[0]:
        raise ChapterError(path, line, f"the region {region!r} of {name} has no # endregion")
    return found[0].strip("\n")


def _check_exercise_order(path: Path, cells: tuple[Cell, ...]) -> None:
    """Each statement is followed by its one solution cell; each solution has a statement."""
    known, solved = exercise_ids(), set()
    for before, cell, after in zip((None, *cells), cells, (*cells[1:], None), strict=False):
        exercise = cell.options.get("exercise")
        if exercise is None:
            continue
        if exercise not in known or not exercise.startswith(f"{path.stem}-"):
            own = [name for name in known if name.startswith(f"{path.stem}-")]
            raise ChapterError(
                path, cell.line, f"no exercise {exercise!r} in this chapter; there are {own}"
            )
        if cell.kind == "exercise":
            if not (after and after.kind == "code" and after.options.get("exercise") == exercise):
                raise ChapterError(path, cell.line, f"{exercise} has no solution cell after it")
            continue
        if not (before and before.kind == "exercise" and before.options["exercise"] == exercise):
            raise ChapterError(
                path, cell.line, f"the solution of {exercise} must follow its {{exercise}}"
            )
        if exercise in solved:
            raise ChapterError(path, cell.line, f"{exercise} is solved twice")
        solved.add(exercise)
