"""Make `notebooks/` (exercises blank) and `solutions/` (solved) from `book/chapters`.

Both come out the same to the byte each time. A learner's work is never lost: a notebook is
replaced only if its bytes are ones that were generated, which the record of hashes knows.
"""

import ast
import hashlib
import json
import os
import re
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import nbformat

from course import hints, markdown
from course.chapter import Cell, Chapter, ChapterError, find_chapters
from course.exercise import Exercise, find_exercise
from course.grader.collect import is_stub
from course.paths import NOTEBOOKS, ROOT, SOLUTIONS, write_whole

RECORD = ROOT / "course" / "generated.json"
KEPT_HASHES = 50  # for each notebook: those of versions that may still lie in somebody's folder
BEGIN, END = "### BEGIN SOLUTION", "### END SOLUTION"
METADATA = {
    # One name that exists everywhere; a kernel named after somebody's environment does not.
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}


class Refused(Exception):
    """A notebook holds work that was not generated."""


class UnknownChapter(ValueError):
    """An argument names a chapter that isn't there."""


class GitFailed(Exception):
    """git did not answer; the text says what it said."""


def blank_notebook(chapter: Chapter) -> nbformat.NotebookNode:
    """As a learner opens it: stubs in place of solutions."""
    return _notebook(chapter, "blank")


def solved_notebook(chapter: Chapter) -> nbformat.NotebookNode:
    """With solutions between nbgrader's markers, and the output that nbval compares."""
    return _notebook(chapter, "solved")


def page_notebook(chapter: Chapter) -> nbformat.NotebookNode:
    """For the book: solved, with stub and hints shown, and solutions folded."""
    return _notebook(chapter, "page")


def to_bytes(notebook: nbformat.NotebookNode) -> bytes:
    """The same bytes each time, in the form that Jupyter itself writes, a line for each line."""
    return (nbformat.writes(notebook) + "\n").encode()


# ── cells ────────────────────────────────────────────────────────────────────────────────────


def _notebook(chapter: Chapter, form: str) -> nbformat.NotebookNode:
    cells = [_markdown(f"# {chapter.title}\n\n*Time needed: {chapter.time}.*")]
    for cell in chapter.cells:
        try:
            cells += _FORMS[cell.kind](cell, form)
        except ValueError as error:
            raise ChapterError(Path(f"{chapter.slug}.md"), cell.line, str(error)) from error
        if cell.kind == "code" and "exercise" in cell.options:
            cells.append(_check_cell(cell, form))
    for number, cell in enumerate(cells):
        cell["id"] = f"{chapter.slug}-{number:03d}"
    notebook = nbformat.from_dict(
        {"cells": cells, "metadata": METADATA, "nbformat": 4, "nbformat_minor": 5}
    )
    nbformat.validate(notebook)
    return notebook


def _markdown(text: str) -> dict:
    return {"cell_type": "markdown", "metadata": {}, "source": text}


def _code(source: str, metadata: dict, outputs: list | None = None) -> dict:
    return {
        "cell_type": "code",
        "execution_count": 1 if outputs else None,  # nbval compares only cells that were run
        "metadata": metadata,
        "outputs": outputs or [],
        "source": source,
    }


def _from_markdown(cell: Cell, form: str) -> list[dict]:
    convert = markdown.for_page if form == "page" else markdown.for_notebook
    return [_markdown(convert(cell.source))]


def _from_exercise(cell: Cell, form: str) -> list[dict]:
    exercise = find_exercise(cell.options["exercise"])
    points = "1 point" if exercise.points == 1 else f"{exercise.points} points"
    title = f"Exercise: {exercise.title} ({points})"
    statement = cell.source
    if exercise.forbidden:
        names = " and ".join(f"`{name}`" for name in exercise.forbidden)
        statement += f"\n\nNot allowed here: {names}, which would do it for you."
    if form == "page":
        text = markdown.for_page(statement)
        return [_markdown(f"````{{admonition}} {title}\n:class: exercise\n\n{text}\n````")]
    hint = f"For a hint, run `python -m course hint {exercise.id}` in a terminal."
    return [_markdown(f"### {title}\n\n{markdown.for_notebook(statement)}\n\n{hint}")]


def _from_code(cell: Cell, form: str) -> list[dict]:
    if "exercise" in cell.options:
        return _solution_cells(cell, form)
    metadata: dict = {}
    if form == "page":
        if "alt" in cell.options:
            image = {"image": {"alt": cell.options["alt"]}}
            if "caption" in cell.options:
                image["figure"] = {"caption": cell.options["caption"]}
            metadata["mystnb"] = image
        if fold := cell.options.get("fold"):
            metadata["tags"] = ["hide-input" if fold == "true" else "hide-cell"]
    elif "fold" in cell.options:
        metadata["jupyter"] = {"source_hidden": True}  # JupyterLab shows it at a click
    return [_code(cell.source, metadata)]


def _solution_cells(cell: Cell, form: str) -> list[dict]:
    exercise = find_exercise(cell.options["exercise"])
    marked = mark_solution(cell.source)
    _check_stub(stub_of(marked), exercise)
    if form == "page":
        fold = {
            "tags": ["hide-input"],
            "mystnb": {
                "code_prompt_show": "Show the solution",
                "code_prompt_hide": "Hide the solution",
            },
        }
        stub = f"```python\n{stub_of(marked)}\n```"
        folded = "\n".join(  # four backticks, as a hint may hold a block of code
            f"````{{dropdown}} Hint {level}\n{markdown.for_page(text)}\n````\n"
            for level, text in hints.read_hints(exercise.id).items()
        )
        return [_markdown(f"{stub}\n\n{folded}"), _code(cell.source, fold)]
    metadata = _nbgrader(exercise.id, solution=True, grade=False, locked=False)
    return [_code(stub_of(marked) if form == "blank" else marked, metadata)]


def _check_stub(stub: str, exercise: Exercise) -> None:
    """A stub that the grader can't tell from an answer would make a fresh clone fail."""
    stubs = {node.name for node in ast.parse(stub).body if is_stub(node)}
    if missing := [name for name in exercise.names if name not in stubs]:
        raise ValueError(
            f"the stub of {exercise.id} must define {', '.join(missing)}, with nothing but the "
            f"docstring and `raise NotImplementedError` in it:\n{stub}"
        )


def _check_cell(cell: Cell, form: str) -> dict:
    exercise = find_exercise(cell.options["exercise"])
    source = f'check("{exercise.id}", {", ".join(exercise.names)})'
    if form == "page":
        return _code(source, {})
    metadata = _nbgrader(f"{exercise.id}-check", solution=False, grade=True, locked=True)
    metadata["nbgrader"]["points"] = exercise.points
    if form == "blank":
        return _code(source, metadata)
    # nbval compares this output, so that a wrong solution fails there too.
    metadata["tags"] = ["nbval-check-output"]
    passed = {"name": "stdout", "output_type": "stream", "text": f"passed: {exercise.id}\n"}
    return _code(source, metadata, [passed])


def _nbgrader(grade_id: str, **marks: bool) -> dict:
    return {"nbgrader": {"grade_id": grade_id, "schema_version": 3, "task": False, **marks}}


_FORMS = {"markdown": _from_markdown, "exercise": _from_exercise, "code": _from_code}


# ── stubs ────────────────────────────────────────────────────────────────────────────────────


def mark_solution(source: str) -> str:
    """Put nbgrader's markers around each function's body, docstring left out, if there are none."""
    if BEGIN in source:
        return source
    lines = source.split("\n")
    functions = [node for node in ast.parse(source).body if isinstance(node, ast.FunctionDef)]
    if not functions:
        raise ValueError(
            f"an exercise defines at least one function; this cell has none:\n{source}"
        )
    for function in reversed(functions):
        body = function.body[1:] if ast.get_docstring(function) else function.body
        if not body:
            raise ValueError(f"{function.name} has no body to solve")
        header = function.body[0].end_lineno if body != function.body else function.lineno
        if body[0].lineno == header:
            raise ValueError(f"{function.name}: its body must start on a line of its own")
        first, last = _first_line(lines, function, body[0]), _last_line(lines, body[-1])
        indent = " " * body[0].col_offset
        lines[last:last] = [indent + END]
        lines[first - 1 : first - 1] = [indent + BEGIN]
    return "\n".join(lines)


def _first_line(lines: list[str], function: ast.FunctionDef, statement: ast.stmt) -> int:
    """Where the body starts, the comments above its first statement included."""
    line = statement.lineno
    top = function.body[0].end_lineno + 1 if function.body[0] is not statement else function.lineno
    while line > top and (lines[line - 2].strip().startswith("#") or not lines[line - 2].strip()):
        line -= 1
    while not lines[line - 1].strip():
        line += 1
    return line


def _last_line(lines: list[str], statement: ast.stmt) -> int:
    """Where the body ends, the indented comments below its last statement included."""
    last = line = statement.end_lineno
    while line < len(lines) and (not lines[line].strip() or re.match(r"[ \t]+#", lines[line])):
        line += 1
        last = line if lines[line - 1].strip() else last
    return last


def stub_of(marked: str) -> str:
    """The same cell with what stands between the markers cut out."""
    pattern = rf"^([ \t]*){BEGIN}\n.*?^[ \t]*{END}$"
    stub, count = re.subn(
        pattern,
        r"\1raise NotImplementedError",
        marked,
        flags=re.MULTILINE | re.DOTALL,
    )
    pairs = marked.count(BEGIN) == marked.count(END) == count
    if not count or not pairs:
        raise ValueError(f"{BEGIN} and {END} must come in pairs:\n{marked}")
    return stub


# ── files ────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Generated:
    name: str  # "notebooks/01-naive.ipynb"
    content: bytes


def generate(chapters: list[Chapter] | None = None) -> list[Generated]:
    """Every notebook, blank and solved."""
    chapters = find_chapters() if chapters is None else chapters
    return [
        Generated(f"{folder}/{chapter.slug}.ipynb", to_bytes(make(chapter)))
        for chapter in chapters
        for folder, make in (("notebooks", blank_notebook), ("solutions", solved_notebook))
    ]


def write(
    root: Path = ROOT,
    record: Path = RECORD,
    force: bool = False,
    chapters: list[Chapter] | None = None,
) -> list[str]:
    """Write the notebooks of `chapters` (default: all) under `root`; returns what was done.

    Raises Refused, before anything is written, if a notebook there was not generated. With
    `force` such a notebook is copied to `.saved/` beside it first.
    """
    known = _read_record(record.read_bytes() if record.exists() else b"{}", record)
    done = []
    wanted = generate(chapters)
    edited = [item for item in wanted if _is_edited(root, item, known)]
    if edited and not force:
        names = "\n".join(f"  {item.name}" for item in edited)
        raise Refused(
            f"these notebooks hold work that was not generated; nothing was written:\n{names}\n"
            "Keep a copy under another name and delete them, or run it with --force, which copies "
            "each to .saved/ beside it first"
        )
    for item in wanted:
        path = root / item.name
        if item in edited:
            done.append(f"saved    {save_copy(path).relative_to(root)}")
        same = path.exists() and path.read_bytes() == item.content
        if not same or _hash(item.content) not in known.get(item.name, []):
            # The record first: were we interrupted between the two, the old file is known still.
            hashes = [h for h in known.get(item.name, []) if h != _hash(item.content)]
            known[item.name] = [*hashes, _hash(item.content)][-KEPT_HASHES:]
            write_whole(record, (json.dumps(known, indent=1, sort_keys=True) + "\n").encode())
        if not same:
            write_whole(path, item.content)
        done.append(f"{'the same' if same else 'wrote   '} {item.name}")
    return done


def save_copy(path: Path) -> Path:
    """Copy a file to `.saved/` beside it under a name that nothing has yet."""
    stamp = time.strftime("%Y%m%d-%H%M%S")
    folder = path.parent / ".saved"
    folder.mkdir(exist_ok=True)
    for number in range(1000):
        extra = f"-{number}" if number else ""
        target = folder / f"{path.stem}-{stamp}{extra}{path.suffix}"
        try:
            with target.open("xb") as file:  # x: never over something that is there
                file.write(path.read_bytes())
        except FileExistsError:
            continue
        return target
    raise FileExistsError(f"{folder} has too many copies of {path.name}")


def drift(root: Path = ROOT, chapters: list[Chapter] | None = None) -> list[str]:
    """Notebooks whose committed (or staged) text isn't what the chapters give, with the reason."""
    problems = []
    wanted = {item.name: item.content for item in generate(chapters)}
    committed = _committed(root)
    name_of_record = RECORD.relative_to(ROOT).as_posix()
    known = _read_record(committed.get(name_of_record, b"{}"), Path(name_of_record))
    for name, content in wanted.items():
        if name not in committed:
            problems.append(f"{name}: not committed")
        elif committed[name] != content:
            problems.append(f"{name}: differs from book/chapters")
        elif _hash(content) not in known.get(name, []):
            problems.append(f"{name}: the committed {name_of_record} does not know it")
    if chapters is None:
        notebooks = [name for name in committed if name.endswith(".ipynb")]
        problems += [f"{name}: no chapter makes it" for name in notebooks if name not in wanted]
    return problems


def _committed(root: Path) -> dict[str, bytes]:
    """What git's index holds, since a learner's answers in the working tree are no drift."""
    places = ("notebooks", "solutions", RECORD.relative_to(ROOT).as_posix())
    names = os.fsdecode(_git(root, "ls-files", "-z", *places)).split("\0")
    return {name: _git(root, "show", f":./{name}") for name in names if name}


def _git(root: Path, *arguments: str) -> bytes:
    try:
        done = subprocess.run(["git", "-C", str(root), *arguments], capture_output=True)
    except OSError as error:
        raise GitFailed(f"--check compares with git, which can't be run: {error}") from None
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip()
        raise GitFailed(f"--check compares with git, and `git {arguments[0]}` failed: {said}")
    return done.stdout


def _read_record(content: bytes, path: Path) -> dict[str, list[str]]:
    try:
        record = json.loads(content)
    except ValueError as error:
        raise ValueError(f"{path} is no JSON ({error}); get it back with git") from None
    if not isinstance(record, dict):
        raise ValueError(f"{path} is no record of notebooks; get it back with git")
    return record


def _is_edited(root: Path, item: Generated, known: dict[str, list[str]]) -> bool:
    """Bytes that were never generated, nor would be now."""
    path = root / item.name
    hashes = {*known.get(item.name, []), _hash(item.content)}
    return path.exists() and _hash(path.read_bytes()) not in hashes


def _hash(content: bytes) -> str:
    # A checkout on Windows may have other line ends; they aren't anybody's work.
    return hashlib.sha256(content.replace(b"\r\n", b"\n")).hexdigest()


# ── command ──────────────────────────────────────────────────────────────────────────────────


def add_arguments(parser) -> None:
    parser.add_argument(
        "chapters", nargs="*", metavar="CHAPTER", help="such as 01-naive (default: all chapters)"
    )
    choice = parser.add_mutually_exclusive_group()
    choice.add_argument(
        "--check", action="store_true", help="write nothing; fail if what git has committed drifts"
    )
    choice.add_argument(
        "--force", action="store_true", help="replace edited notebooks, after copying to .saved/"
    )
    choice.add_argument(
        "--to", metavar="DIR", type=Path, help="write fresh notebooks/ and solutions/ into DIR"
    )


def run(args) -> int:
    try:
        chapters = _named(args.chapters)
        if args.check:
            return _run_check(chapters)
        if args.to:
            return _run_to(args.to, chapters)
        print("\n".join(write(force=args.force, chapters=chapters)))
    except (Refused, GitFailed, ValueError, OSError) as problem:
        print(problem, file=sys.stderr)
        return 2 if isinstance(problem, UnknownChapter) else 1
    return 0


def _named(slugs: list[str]) -> list[Chapter] | None:
    if not slugs:
        return None
    chapters = {chapter.slug: chapter for chapter in find_chapters()}
    if unknown := [slug for slug in slugs if slug not in chapters]:
        raise UnknownChapter(f"CHAPTER: no {', '.join(unknown)}; there are {', '.join(chapters)}")
    return [chapters[slug] for slug in slugs]


def _run_check(chapters: list[Chapter] | None) -> int:
    problems = drift(chapters=chapters)
    for problem in problems:
        print(problem, file=sys.stderr)
    if problems:
        print("run `python -m course notebooks` and commit what it writes", file=sys.stderr)
        return 1
    print(f"no drift: {NOTEBOOKS.name}/ and {SOLUTIONS.name}/ are what book/chapters gives")
    return 0


def _run_to(folder: Path, chapters: list[Chapter] | None) -> int:
    wanted = generate(chapters)
    if taken := [item.name for item in wanted if (folder / item.name).exists()]:
        print(f"--to: {folder} has {', '.join(taken)} already", file=sys.stderr)
        return 1
    for item in wanted:
        write_whole(folder / item.name, item.content)
        print(folder / item.name)
    return 0
