"""Read a chapter's source, `book/chapters/NN-name.md`, into cells.

A chapter is Markdown with two fences of its own, `{code-cell}` and `{exercise}`; the options
of a cell are `:name: value` lines under the opening fence. Everything wrong with a chapter is
a `ChapterError` that names the file and the line.
"""

import ast
import re
from dataclasses import dataclass, field
from pathlib import Path

from course.paths import CHAPTERS, ROOT

CELL_OPTIONS = {"alt", "caption", "exercise", "fold", "include"}
FRONT_MATTER = {"title", "time"}
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
    lines = path.read_text(encoding="utf-8").split("\n")
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
        settings[name] = value.strip().strip('"')
    if missing := FRONT_MATTER - settings.keys():
        raise ChapterError(path, 1, f"front matter lacks {sorted(missing)}")
    return settings, end + 1


def _cells(path: Path, lines: list[str], start: int):
    prose, prose_line = [], start + 1
    number, inside = start, ""  # `inside` is the fence of an ordinary block, whose text is prose
    while number < len(lines):
        line = lines[number]
        fence = None if inside else FENCE.match(line)
        if not fence:
            if inside:
                inside = "" if line.strip() == inside else inside
            elif plain := re.match(r"^(`{3,}|~{3,})", line):
                inside = plain[1]
            prose.append(line)
            number += 1
            continue
        if text := "\n".join(prose).strip():
            yield Cell("markdown", text, prose_line)
        end = next((i for i in range(number + 1, len(lines)) if lines[i] == fence[1]), None)
        if end is None:
            raise ChapterError(path, number + 1, "this fence is never closed")
        yield _fenced(path, fence, lines[number + 1 : end], number + 1)
        number = end + 1
        prose, prose_line = [], number + 1
    if inside:
        raise ChapterError(path, len(lines), f"a block opened with {inside} is never closed")
    if text := "\n".join(prose).strip():
        yield Cell("markdown", text, prose_line)


def _fenced(path: Path, fence: re.Match, body: list[str], line: int) -> Cell:
    _, kind, argument = fence.groups()
    if kind == "exercise":
        if not argument:
            raise ChapterError(path, line, "{exercise} needs the exercise's id")
        return Cell("exercise", "\n".join(body).strip(), line, {"exercise": argument.strip()})
    if argument:
        raise ChapterError(path, line, f"{{code-cell}} takes no argument, got {argument!r}")
    options = {}
    while body and (option := OPTION.match(body[0])):
        if option[1] not in CELL_OPTIONS:
            raise ChapterError(
                path, line, f"unknown option {option[1]!r}; a cell takes {sorted(CELL_OPTIONS)}"
            )
        options[option[1]] = option[2].strip()
        body = body[1:]
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


def included(path: Path, line: int, target: str, root: Path = ROOT) -> str:
    """The text between `# region: NAME` and `# endregion` for a target `kernels/file.py#NAME`."""
    name, _, region = target.partition("#")
    file = root / name
    if not region or not name.startswith("kernels/") or not file.is_file():
        raise ChapterError(path, line, f":include: takes kernels/FILE.py#REGION, got {target!r}")
    text = file.read_text(encoding="utf-8")
    pattern = rf"^# region: {re.escape(region)}\n(.*?)^# endregion$"
    found = re.findall(pattern, text, flags=re.MULTILINE | re.DOTALL)
    if len(found) != 1:
        known = re.findall(r"^# region: (\S+)$", text, flags=re.MULTILINE)
        raise ChapterError(
            path, line, f"{name} has {len(found)} regions {region!r}; it has {known}"
        )
    return found[0].strip("\n")


def _check_exercise_order(path: Path, cells: tuple[Cell, ...]) -> None:
    """Each statement is followed by its one solution cell; each solution has a statement."""
    seen = set()
    for before, cell in zip((None, *cells), cells, strict=False):
        exercise = cell.options.get("exercise")
        if cell.kind == "code" and exercise:
            if (
                before is None
                or before.kind != "exercise"
                or before.options != {"exercise": exercise}
            ):
                raise ChapterError(
                    path, cell.line, f"the solution of {exercise} must follow its {{exercise}}"
                )
            if exercise in seen:
                raise ChapterError(path, cell.line, f"{exercise} is solved twice")
            seen.add(exercise)
    for cell in cells:
        if cell.kind == "exercise" and cell.options["exercise"] not in seen:
            raise ChapterError(
                path, cell.line, f"{cell.options['exercise']} has no solution cell after it"
            )
