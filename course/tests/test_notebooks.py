"""Blank and solved notebooks from one source, and a learner's work that nothing overwrites."""

import ast
import itertools
import json
import os
import re
import shutil
from pathlib import Path

import nbformat
import pytest

from course import notebooks
from course.__main__ import main
from course.chapter import ChapterError, find_chapters, read_chapter
from course.exercise import exercise_ids, find_exercise
from course.notebooks import (
    BEGIN,
    END,
    Refused,
    blank_notebook,
    mark_solution,
    page_notebook,
    save_copy,
    solved_notebook,
    stub_of,
    to_bytes,
)
from course.tests.copies import copy_repository, git, python

FULL = bool(os.environ.get("FULL"))
CHAPTERS = {chapter.slug: chapter for chapter in find_chapters()}
IDS = exercise_ids()


def solution_cells(notebook):
    return {
        cell.metadata.nbgrader.grade_id: cell
        for cell in notebook.cells
        if cell.metadata.get("nbgrader", {}).get("solution")
    }


def check_cells(notebook):
    return {
        cell.metadata.nbgrader.grade_id: cell
        for cell in notebook.cells
        if cell.metadata.get("nbgrader", {}).get("grade")
    }


def both(exercise_id):
    """The blank and the solved cell of an exercise."""
    chapter = CHAPTERS[find_exercise(exercise_id).chapter]
    return tuple(
        solution_cells(make(chapter))[exercise_id] for make in (blank_notebook, solved_notebook)
    )


def regions(marked):
    """The lines between each pair of markers, the markers included."""
    return re.findall(rf"^[ ]*{BEGIN}\n.*?^[ ]*{END}$", marked, re.M | re.S)


# ── what is generated ────────────────────────────────────────────────────────────────────────


def test_it_comes_out_the_same_in_each_process(tmp_path):
    here = {item.name: item.content for item in notebooks.generate()}
    assert len(here) == 2 * len(CHAPTERS)
    for seed in ("1", "4711"):
        folder = tmp_path / seed
        command = ("-m", "course", "notebooks", "--to", folder)
        made = python(notebooks.ROOT, *command, PYTHONHASHSEED=seed)
        assert made.returncode == 0, made.stderr
        assert bytes_in(folder) == here, f"PYTHONHASHSEED={seed}"


@pytest.mark.parametrize("make", [blank_notebook, solved_notebook, page_notebook])
@pytest.mark.parametrize("slug", CHAPTERS)
def test_a_notebook_is_valid_and_its_ids_are_unique_and_stable(slug, make):
    notebook = nbformat.reads(to_bytes(make(CHAPTERS[slug])).decode(), 4)
    nbformat.validate(notebook)
    ids = [cell.id for cell in notebook.cells]
    assert ids == [f"{slug}-{number:03d}" for number in range(len(ids))]
    # Field case G9-01: no name of somebody's environment.
    assert notebook.metadata.kernelspec.name == "python3"


@pytest.mark.parametrize("slug", CHAPTERS)
def test_blank_and_solved_differ_only_in_solutions_and_check_outputs(slug):
    blank, solved = blank_notebook(CHAPTERS[slug]), solved_notebook(CHAPTERS[slug])
    assert blank.metadata == solved.metadata and len(blank.cells) == len(solved.cells)
    solutions, checks = solution_cells(solved), check_cells(solved)
    assert solutions and len(solutions) == len(checks)
    for mine, theirs in zip(blank.cells, solved.cells, strict=True):
        if theirs in solutions.values():
            assert mine.source != theirs.source
            mine.source = theirs.source
        elif theirs in checks.values():
            exercise = theirs.metadata.nbgrader.grade_id.removesuffix("-check")
            passed = {"name": "stdout", "output_type": "stream", "text": f"passed: {exercise}\n"}
            assert theirs.outputs == [passed] and mine.outputs == []
            assert theirs.metadata.pop("tags") == ["nbval-check-output"]
            mine.outputs, mine.execution_count = theirs.outputs, theirs.execution_count
        assert mine == theirs


@pytest.mark.parametrize("slug", CHAPTERS)
def test_nothing_but_the_checks_of_a_solved_notebook_was_run(slug):
    for make in (blank_notebook, solved_notebook):
        notebook = make(CHAPTERS[slug])
        checks = list(check_cells(notebook).values()) if make is solved_notebook else []
        for cell in notebook.cells:
            if cell.cell_type == "code" and cell not in checks:
                assert cell.outputs == [] and cell.execution_count is None


@pytest.mark.parametrize("exercise_id", IDS)
def test_the_solution_pasted_into_the_blank_makes_it_equal(exercise_id):
    """Field case G10-02: what a learner gets who fills in only the marked regions."""
    blank, solved = both(exercise_id)
    pasted = blank.source
    for region in regions(solved.source):
        indent = region[: len(region) - len(region.lstrip())]
        pasted = pasted.replace(f"{indent}raise NotImplementedError", region, 1)
    assert pasted == solved.source
    source = "\n".join(line for line in pasted.split("\n") if line.strip() not in (BEGIN, END))
    (own,) = (
        cell.source
        for cell in CHAPTERS[find_exercise(exercise_id).chapter].cells
        if cell.kind == "code" and cell.options.get("exercise") == exercise_id
    )
    assert source == own


@pytest.mark.parametrize("exercise_id", IDS)
def test_the_stub_keeps_signature_and_docstring_and_nothing_else(exercise_id):
    blank, solved = both(exercise_id)
    before, after = ast.parse(solved.source), ast.parse(blank.source)
    assert len(before.body) == len(after.body)
    for full, stub in zip(before.body, after.body, strict=True):
        assert isinstance(stub, ast.FunctionDef) and ast.get_docstring(stub)
        assert ast.unparse(stub.args) == ast.unparse(full.args) and stub.name == full.name
        assert ast.get_docstring(stub, clean=False) == ast.get_docstring(full, clean=False)
        assert [ast.unparse(line) for line in stub.body[1:]] == ["raise NotImplementedError"]
    assert {*find_exercise(exercise_id).names} <= {stub.name for stub in after.body}


def texts(value):
    """Every text in a notebook, wherever it stands: sources, outputs, metadata."""
    if isinstance(value, dict):
        return [text for item in (*value, *value.values()) for text in texts(item)]
    return (
        [text for item in value for text in texts(item)]
        if isinstance(value, list)
        else [str(value)]
    )


def docstring_lines(source):
    found = [ast.get_docstring(node, clean=False) for node in ast.parse(source).body]
    return {line.strip() for text in found if text for line in text.split("\n")}


@pytest.mark.parametrize("exercise_id", IDS)
def test_no_line_of_the_solution_leaks_into_a_blank_notebook(exercise_id):
    _, solved = both(exercise_id)
    chapter = CHAPTERS[find_exercise(exercise_id).chapter]
    blank = "\n".join(texts(json.loads(to_bytes(blank_notebook(chapter)))))
    told = docstring_lines(solved.source)
    lines = [line.strip() for region in regions(solved.source) for line in region.split("\n")[1:-1]]
    telling = [line for line in lines if len(line) > 20 and line not in told]
    assert telling, "no line of this solution is long enough to prove anything"
    # What the chapter hands out elsewhere, such as the updates to find faults in, may look alike.
    plain = (cell.source for cell in chapter.cells if "exercise" not in cell.options)
    given = "\n".join(plain)
    assert [line for line in telling if blank.count(line) > given.count(line)] == []
    assert BEGIN not in blank and END not in blank


def test_grade_ids_points_and_marks_are_what_nbgrader_expects():
    for make in (blank_notebook, solved_notebook):
        seen = []
        for slug, chapter in CHAPTERS.items():
            notebook = make(chapter)
            for cell in notebook.cells:
                if marks := cell.metadata.get("nbgrader"):
                    seen.append(marks.grade_id)
                    assert cell.cell_type == "code" and marks.schema_version == 3
                    assert marks.task is False
            for exercise_id, cell in solution_cells(notebook).items():
                marks = cell.metadata.nbgrader
                assert (marks.solution, marks.grade, marks.locked) == (True, False, False)
                assert find_exercise(exercise_id).chapter == slug and "points" not in marks
            for grade_id, cell in check_cells(notebook).items():
                marks = cell.metadata.nbgrader
                exercise = find_exercise(grade_id.removesuffix("-check"))
                assert (marks.solution, marks.grade, marks.locked) == (False, True, True)
                assert marks.points == exercise.points
                assert cell.source == f'check("{exercise.id}", {", ".join(exercise.names)})'
                assert "raises-exception" not in cell.metadata.get("tags", [])
        assert sorted(seen) == sorted([*IDS, *(f"{name}-check" for name in IDS)])


@pytest.mark.parametrize("slug", CHAPTERS)
def test_a_check_cell_follows_its_exercise(slug):
    cells = blank_notebook(CHAPTERS[slug]).cells
    for before, cell in itertools.pairwise(cells):
        if before.metadata.get("nbgrader", {}).get("solution"):
            wanted = f"{before.metadata.nbgrader.grade_id}-check"
            assert cell.metadata.nbgrader.grade_id == wanted


@pytest.mark.parametrize("slug", CHAPTERS)
def test_no_cell_needs_more_than_python(slug):
    """nbval passes a cell with an unknown magic whatever follows it (field case G9-04)."""
    for cell in solved_notebook(CHAPTERS[slug]).cells:
        if cell.cell_type == "code":
            ast.parse(cell.source)


# ── solutions and stubs ──────────────────────────────────────────────────────────────────────

RAISE = "raise NotImplementedError"
# The cell, and its stub.
STUBS = {
    "docstring": (
        'def f(x):\n    """Doc."""\n    return x',
        f'def f(x):\n    """Doc."""\n    {RAISE}',
    ),
    "no docstring": ("def f(x):\n    return x", f"def f(x):\n    {RAISE}"),
    "long docstring": (
        'def f(x):\n    """One.\n\n    # Two.\n    """\n\n    y = x\n\n    return y\n',
        f'def f(x):\n    """One.\n\n    # Two.\n    """\n\n    {RAISE}\n',
    ),
    "comments above the first statement": (
        'def f(x):\n    """Doc."""\n    # The trick.\n\n    # And why.\n    return x',
        f'def f(x):\n    """Doc."""\n    {RAISE}',
    ),
    "comments, no docstring": (
        "def f(x):\n    # The trick.\n    return x",
        f"def f(x):\n    {RAISE}",
    ),
    "comments below the last statement": (
        "def f(x):\n    return x\n    # The trick.\n\n        # And why.\n\n\n# Other.\ny = 1",
        f"def f(x):\n    {RAISE}\n\n\n# Other.\ny = 1",
    ),
    "a comment on the last line": ("def f(x):\n    return x  # trick", f"def f(x):\n    {RAISE}"),
    "several functions": (
        'import math\n\n\ndef f(x):\n    """F."""\n    return g(x)\n\n\ndef g(x):\n    return x\n',
        f'import math\n\n\ndef f(x):\n    """F."""\n    {RAISE}\n\n\ndef g(x):\n    {RAISE}\n',
    ),
    "decorator and long signature": (
        "@cache\ndef f(\n    x,  # a comment\n    *,\n    y=None,\n):\n    return x",
        f"@cache\ndef f(\n    x,  # a comment\n    *,\n    y=None,\n):\n    {RAISE}",
    ),
    "function inside": (
        'def f(x):\n    """Doc."""\n    def g():\n        """In."""\n    return g()',
        f'def f(x):\n    """Doc."""\n    {RAISE}',
    ),
    "a text at the start that looks like a comment": (
        'def f(x):\n    y = """\n# not code\n"""\n    return y',
        f"def f(x):\n    {RAISE}",
    ),
    "markers of its own": (
        f"def f(x):\n    y = 1\n    {BEGIN}\n    return x\n    {END}\n    # kept",
        f"def f(x):\n    y = 1\n    {RAISE}\n    # kept",
    ),
    "two pairs of markers": (
        f"def f(x):\n    {BEGIN}\n    y = 1\n    {END}\n    if y:\n        {BEGIN}\n"
        f"        x\n        {END}",
        f"def f(x):\n    {RAISE}\n    if y:\n        {RAISE}",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", STUBS)
def test_the_stub_of_a_cell(case):
    source, stub = STUBS[case]
    marked = mark_solution(source)
    assert stub_of(marked) == stub
    ast.parse(marked)
    if BEGIN not in source:
        lines = [line for line in marked.split("\n") if line.strip() not in (BEGIN, END)]
        assert lines == source.split("\n")


NO_STUB = {
    "no function": ("x = 1", "defines at least one function"),
    "only a class": ("class A:\n    def f(self):\n        return 1", "at least one function"),
    "only a docstring": ('def f(x):\n    """Doc."""', "f has no body"),
    "on one line": ("def f(x): return x", "f: its body must start on a line of its own"),
    "on the docstring's line": ('def f(x):\n    """Doc."""; return x', "a line of its own"),
    "an end too few": (f"def f(x):\n    {BEGIN}\n    return x", "must come in pairs"),
    "two beginnings": (f"def f():\n    {BEGIN}\n    {BEGIN}\n    x\n    {END}", "come in pairs"),
    "an end too many": (f"def f():\n    {BEGIN}\n    x\n    {END}\n    {END}", "come in pairs"),
}


@pytest.mark.parametrize("case", NO_STUB)
def test_a_cell_that_has_no_stub_is_refused(case):
    source, words = NO_STUB[case]
    with pytest.raises(ValueError, match=re.escape(words)):
        stub_of(mark_solution(source))


FRONT = '---\ntitle: "A title"\ntime: "5 minutes"\n---\n'
CHAPTER = """
{text}

```{{exercise}} 01-naive-softmax
Write it.
```

```{{code-cell}}
:exercise: 01-naive-softmax
{solution}
```
"""
SOLUTION = 'def softmax(s):\n    """Doc."""\n    return s - s.max()'


def chapter_of(folder, text="Text.", solution=SOLUTION):
    path = folder / "01-naive.md"
    path.write_text(FRONT + CHAPTER.format(text=text, solution=solution), encoding="utf-8")
    return read_chapter(path)


UNGRADABLE = {
    "another name": ("def soft_max(s):\n    return s", "must define softmax"),
    "no function": ("softmax = sum", "at least one function"),
    "a stub with code in it": (
        f"def softmax(s):\n    x = 1\n    {BEGIN}\n    return x\n    {END}",
        "with nothing but the docstring",
    ),
    "a stub that is no function": (
        f"{BEGIN}\ndef softmax(s):\n    return s\n{END}",
        "must define softmax",
    ),
}


@pytest.mark.parametrize("case", UNGRADABLE)
def test_a_solution_that_could_not_be_graded_is_refused_with_its_line(tmp_path, case):
    solution, words = UNGRADABLE[case]
    with pytest.raises(ChapterError, match=words) as caught:
        blank_notebook(chapter_of(tmp_path, solution=solution))
    assert str(caught.value).startswith("01-naive.md:12: ")


# ── files ────────────────────────────────────────────────────────────────────────────────────


class Desk:
    """A folder with one chapter, its notebooks, and the record of what was generated."""

    blank, solved = "notebooks/01-naive.ipynb", "solutions/01-naive.ipynb"

    def __init__(self, root):
        self.root, self.record = root, root / "course" / "generated.json"
        self.chapters = []
        self.revise("Text.")

    def revise(self, text):
        self.chapters = [chapter_of(self.root, text)]

    def write(self, **options):
        return notebooks.write(self.root, self.record, chapters=self.chapters, **options)

    @property
    def wanted(self):
        return {item.name: item.content for item in notebooks.generate(self.chapters)}

    @property
    def files(self):
        return {
            path.relative_to(self.root).as_posix(): path.read_bytes()
            for path in self.root.rglob("*")
            if path.is_file()
        }

    @property
    def notebooks(self):
        return {name: text for name, text in self.files.items() if name.endswith(".ipynb")}


@pytest.fixture
def desk(tmp_path):
    return Desk(tmp_path)


def saved_by_jupyterlab(content, *, run=True):
    """The bytes after JupyterLab saved a notebook: lines apart, counts, outputs."""
    notebook = nbformat.reads(content.decode(), 4)
    for number, cell in enumerate(notebook.cells if run else (), start=1):
        if cell.cell_type == "code":
            cell.execution_count = number
            cell.outputs = [nbformat.v4.new_output("stream", text="ran\n")]
    return nbformat.writes(notebook).encode() + b"\n"


def test_a_first_run_writes_all_and_a_second_nothing(desk):
    assert desk.write() == [f"wrote    {desk.blank}", f"wrote    {desk.solved}"]
    assert desk.notebooks == desk.wanted
    before, path = desk.files, desk.root / desk.blank
    os.utime(path, (1, 1))
    assert desk.write() == [f"the same {desk.blank}", f"the same {desk.solved}"]
    assert desk.files == before and path.stat().st_mtime == 1


def test_any_generated_version_is_replaced(desk):
    desk.write()
    first = desk.notebooks
    for text in ("Second.", "Third."):
        desk.revise(text)
        assert desk.write() == [f"wrote    {desk.blank}", f"wrote    {desk.solved}"]
        assert desk.notebooks == desk.wanted
    for name, content in first.items():  # a checkout of an old commit
        (desk.root / name).write_bytes(content)
    desk.write()
    assert desk.notebooks == desk.wanted


def test_opening_and_saving_a_notebook_leaves_its_bytes(desk):
    desk.write()
    content = (desk.root / desk.blank).read_bytes()
    assert saved_by_jupyterlab(content, run=False) == content


EDITS = {
    "a character": lambda content: content.replace(b"Text.", b"Text!"),
    "run and saved": saved_by_jupyterlab,
    "emptied": lambda content: b"",
    "an end of line": lambda content: content + b"\n",
}


@pytest.mark.parametrize("revised", [False, True])
@pytest.mark.parametrize("edit", EDITS)
def test_an_edited_notebook_is_refused_by_name_and_nothing_is_written(desk, edit, revised):
    desk.write()
    path = desk.root / desk.blank
    path.write_bytes(EDITS[edit](path.read_bytes()))
    if revised:
        desk.revise("Other text.")
    before = desk.files
    with pytest.raises(Refused) as caught:
        desk.write()
    assert f"  {desk.blank}\n" in str(caught.value) and desk.solved not in str(caught.value)
    assert desk.files == before


def test_a_file_that_nobody_generated_is_refused(desk):
    (desk.root / "solutions").mkdir()
    (desk.root / desk.solved).write_text("mine")
    before = desk.files
    with pytest.raises(Refused, match=desk.solved):
        desk.write()
    assert desk.files == before


def test_force_keeps_each_copy_under_a_name_of_its_own(desk, monkeypatch):
    monkeypatch.setattr(notebooks.time, "strftime", lambda _: "20260101-000000")
    desk.write()
    path, mine = desk.root / desk.blank, []
    for number in range(3):
        mine.append(f"mine {number}".encode())
        path.write_bytes(mine[-1])
        done = desk.write(force=True)
        assert done[0].startswith("saved    notebooks/.saved/01-naive-20260101-000000")
        assert done[1:] == [f"wrote    {desk.blank}", f"the same {desk.solved}"]
    kept = [text for name, text in desk.files.items() if ".saved/" in name]
    assert sorted(kept) == mine
    assert {name: desk.files[name] for name in desk.wanted} == desk.wanted


def test_force_copies_nothing_that_was_generated(desk):
    desk.write()
    desk.revise("Other text.")
    desk.write(force=True)
    assert not (desk.root / "notebooks" / ".saved").exists()


def test_a_copy_never_goes_over_another(tmp_path, monkeypatch):
    monkeypatch.setattr(notebooks.time, "strftime", lambda _: "now")
    path = tmp_path / "a.ipynb"
    path.write_text("1")
    (tmp_path / ".saved").mkdir()
    (tmp_path / ".saved" / "a-now.ipynb").write_text("0")
    assert save_copy(path).name == "a-now-1.ipynb"
    assert (tmp_path / ".saved" / "a-now.ipynb").read_text() == "0"


class Crash(BaseException):
    """The process ends here."""


@pytest.mark.parametrize("calls", [0, 1, 2, 3])
def test_an_interruption_between_record_and_file_is_recovered(desk, monkeypatch, calls):
    """Stopped after `calls` writes of a run's four (record, file, record, file)."""
    desk.write()
    desk.revise("Other text.")
    left, write_whole = [calls], notebooks.write_whole

    def stop_there(path, content):
        if not left[0]:
            raise Crash
        left[0] -= 1
        write_whole(path, content)

    with monkeypatch.context() as patch, pytest.raises(Crash):
        patch.setattr(notebooks, "write_whole", stop_there)
        desk.write()
    desk.write()
    assert desk.notebooks == desk.wanted


@pytest.mark.parametrize("edited", [False, True])
def test_a_crash_while_a_file_is_written_leaves_the_old_one(desk, monkeypatch, edited):
    desk.write()
    if edited:
        (desk.root / desk.blank).write_bytes(b"mine")
    before = desk.files
    desk.revise("Other text.")
    write_bytes = Path.write_bytes

    def half(path, content):
        write_bytes(path, content[: len(content) // 2])
        raise Crash

    with monkeypatch.context() as patch, pytest.raises(Crash):
        patch.setattr(Path, "write_bytes", half)
        desk.write(force=True)
    after = desk.files
    names = [name for name in before if not name.endswith(".md")]
    assert {name: after[name] for name in names} == {name: before[name] for name in names}
    desk.write(force=True)
    assert {name: desk.files[name] for name in desk.wanted} == desk.wanted


def test_a_checkout_with_other_line_ends_is_no_edit(desk):
    desk.write()
    for name, content in desk.notebooks.items():
        (desk.root / name).write_bytes(content.replace(b"\n", b"\r\n"))
    desk.write()
    assert desk.notebooks == desk.wanted
    for name, content in desk.notebooks.items():
        (desk.root / name).write_bytes(content.replace(b"\n", b"\r\n"))
    desk.revise("Other text.")
    desk.write()
    assert desk.notebooks == desk.wanted


def test_a_lost_record_is_made_again_for_files_that_are_as_they_would_be(desk):
    desk.write()
    before = desk.files
    desk.record.unlink()
    assert desk.write() == [f"the same {desk.blank}", f"the same {desk.solved}"]
    assert desk.files == before


@pytest.mark.parametrize("text", ["{", "<<<<<<< HEAD\n{}", "[]", ""])
def test_a_spoilt_record_is_named(desk, text):
    desk.write()
    desk.record.write_text(text)
    before = desk.files
    with pytest.raises(ValueError, match=re.escape(f"{desk.record} is no")):
        desk.write()
    assert desk.files == before


def test_the_record_forgets_only_the_oldest_versions(desk, monkeypatch):
    monkeypatch.setattr(notebooks, "KEPT_HASHES", 3)
    desk.write()
    first = desk.notebooks
    for number in range(3):
        desk.revise(f"Text {number}.")
        desk.write()
    assert {len(hashes) for hashes in json.loads(desk.record.read_text()).values()} == {3}
    (desk.root / desk.blank).write_bytes(first[desk.blank])
    with pytest.raises(Refused):
        desk.write()


# ── drift ────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def committed(desk, monkeypatch):
    monkeypatch.setattr(notebooks, "find_chapters", lambda: desk.chapters)
    # The tests may run inside a hook of git, which says where the repository is.
    for name in [name for name in os.environ if name.startswith("GIT_")]:
        monkeypatch.delenv(name)
    desk.write()
    git(desk.root, "init", "-q")
    git(desk.root, "add", "-A")
    git(desk.root, "commit", "-qm", "All")
    return desk


def test_what_was_generated_and_committed_is_no_drift(committed):
    assert notebooks.drift(committed.root) == []


def test_a_learners_work_is_no_drift(committed):
    (committed.root / committed.blank).write_bytes(b"mine")
    (committed.root / "notebooks" / "my own.ipynb").write_bytes(b"mine")
    assert notebooks.drift(committed.root) == []
    (committed.root / committed.blank).unlink()
    assert notebooks.drift(committed.root) == []


@pytest.mark.parametrize("commit", [False, True])
def test_what_was_staged_or_committed_is_compared(committed, commit):
    (committed.root / committed.solved).write_bytes(b"{}")
    git(committed.root, "add", "-A")
    if commit:
        git(committed.root, "commit", "-qm", "Changed")
    assert notebooks.drift(committed.root) == [f"{committed.solved}: differs from book/chapters"]


def test_a_changed_chapter_is_drift_until_its_notebooks_are_staged(committed):
    committed.revise("Other text.")
    differs = [
        f"{name}: differs from book/chapters" for name in (committed.blank, committed.solved)
    ]
    assert notebooks.drift(committed.root) == differs
    committed.write()
    assert notebooks.drift(committed.root) == differs
    git(committed.root, "add", "-A")
    assert notebooks.drift(committed.root) == []


@pytest.mark.parametrize("name", ["notebooks/02-extra.ipynb", "solutions/é x.ipynb"])
def test_a_committed_notebook_that_no_chapter_makes_is_drift(committed, name):
    (committed.root / name).write_bytes(b"{}")
    git(committed.root, "add", "-A")
    assert notebooks.drift(committed.root) == [f"{name}: no chapter makes it"]


def test_a_notebook_that_is_not_committed_is_drift(committed):
    git(committed.root, "rm", "-q", "--cached", committed.blank)
    assert notebooks.drift(committed.root) == [f"{committed.blank}: not committed"]


def test_a_record_that_was_not_committed_is_drift(committed):
    """On such a clone every notebook would count as edited once the chapters change."""
    git(committed.root, "rm", "-q", "--cached", "course/generated.json")
    unknown = "the committed course/generated.json does not know it"
    names = (committed.blank, committed.solved)
    assert notebooks.drift(committed.root) == [f"{name}: {unknown}" for name in names]


def test_a_project_inside_another_repository(committed):
    outer = committed.root / "outer"
    inner = outer / "inner"
    inner.mkdir(parents=True)
    for name in ("notebooks", "solutions", "course"):
        shutil.copytree(committed.root / name, inner / name)
    git(outer, "init", "-q")
    git(outer, "add", "-A")
    assert notebooks.drift(inner) == []


def test_without_a_repository_it_says_what_git_said(desk, monkeypatch):
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(desk.root.parent))
    with pytest.raises(notebooks.GitFailed, match=r"`git ls-files` failed: .*not a git repository"):
        notebooks.drift(desk.root, desk.chapters)


def test_without_git_it_says_so(committed, monkeypatch):
    monkeypatch.setenv("PATH", str(committed.root))
    with pytest.raises(notebooks.GitFailed, match="compares with git, which can't be run"):
        notebooks.drift(committed.root)


# ── the commands, on a copy of the repository ────────────────────────────────────────────────


@pytest.fixture(scope="module")
def clone(tmp_path_factory):
    return copy_repository(tmp_path_factory.mktemp("clone") / "course of mine")


def course(clone, *arguments):
    return python(clone, "-m", "course", "notebooks", *arguments)


def filled(content):
    """A blank notebook with every answer in it, run and saved as JupyterLab saves."""
    notebook = nbformat.reads(content.decode(), 4)
    slug = notebook.cells[0].id.rsplit("-", 1)[0]
    answers = solution_cells(solved_notebook(CHAPTERS[slug]))
    for exercise_id, cell in solution_cells(notebook).items():
        cell.source = answers[exercise_id].source
    notebook.cells.insert(1, nbformat.v4.new_markdown_cell("My own note: é ∑ 🙂"))
    return saved_by_jupyterlab(nbformat.writes(notebook).encode())


def bytes_in(folder):
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


def test_nothing_touches_a_learners_work(clone, tmp_path):
    learner = clone / "notebooks"
    fresh = bytes_in(learner)
    for name, content in fresh.items():
        (learner / name).write_bytes(filled(content))
    (learner / "scratch.ipynb").write_bytes(b"mine")
    before = bytes_in(learner)
    assert all(before[name] != content for name, content in fresh.items())

    graded = python(clone, "-m", "pytest", "tests/", "-p", "no:cacheprovider")
    assert graded.returncode == 0 and f"{len(IDS)} passed" in graded.stdout, graded.stdout
    assert bytes_in(learner) == before

    checked = course(clone, "--check")
    assert (checked.returncode, checked.stderr) == (0, "")
    assert bytes_in(learner) == before

    everything = bytes_in(clone)
    refused = course(clone)
    assert refused.returncode == 1 and refused.stdout == ""
    assert all(f"  notebooks/{name}\n" in refused.stderr for name in fresh)
    assert "Traceback" not in refused.stderr
    assert bytes_in(clone) == everything

    there = course(clone, "--to", tmp_path / "fresh")
    assert there.returncode == 0
    assert bytes_in(tmp_path / "fresh" / "notebooks") == fresh
    assert bytes_in(clone) == everything

    if FULL:
        made = python(clone, "-m", "course", "book", "--clean")
        assert made.returncode == 0, made.stdout + made.stderr
        assert bytes_in(learner) == before

    one, *others = sorted(fresh)
    forced = course(clone, one.removesuffix(".ipynb"), "--force")
    assert forced.returncode == 0, forced.stderr
    after = bytes_in(learner)
    assert after.pop(one) == fresh[one]
    (kept,) = (name for name in after if name.startswith(".saved/"))
    assert after.pop(kept) == before.pop(one) and after == before
    assert others, "one chapter alone would prove nothing about the others"
    for name in bytes_in(learner):
        (learner / name).unlink()
    assert course(clone).returncode == 0


@pytest.fixture
def command(monkeypatch, capsys):
    """Run the command in this process; it can't write here. Returns status, stdout, stderr."""

    def refuse(*_, **__):
        raise AssertionError("it writes")

    def run(*arguments):
        status = main(["notebooks", *map(str, arguments)])
        return status, *capsys.readouterr()

    monkeypatch.setattr(notebooks, "write_whole", refuse)
    return run


@pytest.mark.parametrize("more", [(), ("--force",), ("--check",), ("--to", "elsewhere")])
def test_an_unknown_chapter_is_named(command, more):
    known = ", ".join(CHAPTERS)
    said = f"CHAPTER: no 99-lost, 98-gone; there are {known}\n"
    assert command("99-lost", "01-naive", "98-gone", *more) == (2, "", said)


@pytest.mark.parametrize("more", [(), ("--check",)])
def test_a_faulty_chapter_stops_all_with_its_line(command, desk, monkeypatch, more):
    path = desk.root / "01-naive.md"
    path.write_text(f"{FRONT}\n```{{figure}} x\n```\n", encoding="utf-8")
    monkeypatch.setattr(notebooks, "find_chapters", lambda: [read_chapter(path)])
    said = "01-naive.md:6: the directive {figure} has no plain form for notebooks\n"
    assert command(*more) == (1, "", said)


@pytest.mark.parametrize("more", [(), ("--check",)])
def test_a_folder_without_chapters_is_no_fault_of_git(command, tmp_path, monkeypatch, more):
    monkeypatch.setattr(notebooks, "find_chapters", lambda: find_chapters(tmp_path))
    status, _, said = command(*more)
    assert status == 1 and said.startswith("no chapters") and "git" not in said


def test_drift_fails_the_command(command, monkeypatch):
    asked = []

    def drift(chapters):
        asked.append(chapters and [chapter.slug for chapter in chapters])
        return ["solutions/x.ipynb: not committed"]

    monkeypatch.setattr(notebooks, "drift", drift)
    status, _, said = command("--check")
    assert status == 1 and said.startswith("solutions/x.ipynb: not committed\n")
    command("01-naive", "--check")
    assert asked == [None, ["01-naive"]]


def test_a_place_that_has_notebooks_is_refused(command, desk):
    desk.record.parent.mkdir()
    (desk.root / "notebooks").mkdir()
    (desk.root / desk.blank).write_bytes(b"mine")
    said = f"--to: {desk.root} has {desk.blank} already\n"
    assert command("--to", desk.root) == (1, "", said)


def test_one_chapter_can_be_written_elsewhere(tmp_path):
    assert main(["notebooks", "01-naive", "--to", str(tmp_path)]) == 0
    wanted = {f"{name}/01-naive.ipynb" for name in ("notebooks", "solutions")}
    assert bytes_in(tmp_path).keys() == wanted
