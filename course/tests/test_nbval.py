"""nbval, as `make test` runs it, must be able to fail: here it is made to."""

import os
import re
import time

import nbformat
import pytest

from course.chapter import find_chapters
from course.checks import NBVAL
from course.exercise import mutants_of
from course.notebooks import BEGIN, blank_notebook, solved_notebook, stub_of, to_bytes
from course.paths import ROOT
from course.tests.copies import python

FULL = bool(os.environ.get("FULL"))
CHAPTERS = {chapter.slug: chapter for chapter in find_chapters()}
RESULT = re.compile(
    r"^(?P<result>PASSED|FAILED|ERROR|SKIPPED|XFAIL|XPASS)\b.*::Cell (?P<cell>\d+)", re.M
)


def nbval(folder, notebook, *options):
    """Results by number of the code cell, counted from 0, and all that was printed."""
    path = folder / "a notebook.ipynb"
    path.write_bytes(to_bytes(notebook))
    command = ("-m", "pytest", "-rA", "-p", "no:cacheprovider", *NBVAL, *options, path.name)
    done = python(folder, *command, PYTHONPATH=str(ROOT))
    results = {int(found["cell"]): found["result"] for found in RESULT.finditer(done.stdout)}
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert sorted(results) == list(range(len(cells))), done.stdout
    assert (done.returncode == 0) == (set(results.values()) == {"PASSED"}), done.stdout
    return results, done.stdout


def failed(results):
    return {number for number, result in results.items() if result != "PASSED"}


def checks(notebook):
    """The numbers of the check cells, counted as nbval counts."""
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    marks = [cell.metadata.get("nbgrader", {}) for cell in cells]
    return {number for number, mark in enumerate(marks) if mark.get("grade")}


def with_solutions(notebook, change):
    for cell in notebook.cells:
        marks = cell.metadata.get("nbgrader", {})
        if marks.get("solution"):
            cell.source = change(marks.grade_id, cell.source)
    return notebook


CORRUPTIONS = {
    "a mistake": lambda name, source: mutants_of(name)[0].reference.apply(source),
    "a stub": lambda name, source: stub_of(source),
    "a syntax error": lambda name, source: source.replace(BEGIN, "return ="),
}


@pytest.mark.parametrize("corruption", CORRUPTIONS if FULL else ["a mistake"])
@pytest.mark.parametrize("slug", CHAPTERS)
def test_each_corrupted_solution_fails_at_its_check(tmp_path, slug, corruption):
    notebook = with_solutions(solved_notebook(CHAPTERS[slug]), CORRUPTIONS[corruption])
    results, printed = nbval(tmp_path, notebook)
    expected = checks(notebook)
    assert expected
    if corruption == "a syntax error":  # the cell itself fails too
        expected |= {number - 1 for number in expected}
    assert failed(results) == expected, printed


# `make test` runs nbval on all of them; this is the proof that the corruptions alone failed.
@pytest.mark.parametrize("make", [blank_notebook, solved_notebook])
@pytest.mark.parametrize("slug", CHAPTERS if FULL else list(CHAPTERS)[:1])
def test_an_untouched_notebook_passes(tmp_path, slug, make):
    results, printed = nbval(tmp_path, make(CHAPTERS[slug]))
    assert failed(results) == set(), printed


def cells(*sources):
    return nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(s) for s in sources])


def test_a_cell_that_raises_fails_and_a_dead_kernel_does_not_hang(tmp_path):
    start = time.monotonic()
    results, printed = nbval(
        tmp_path,
        cells("x = 1", "raise TypeError", "import os\nos._exit(1)", "x = 2"),
        "--nbval-cell-timeout=5",
    )
    assert results[0] == "PASSED" and failed(results) >= {1, 2}, printed
    assert time.monotonic() - start < 60


def test_no_cell_may_raise_on_purpose():
    """nbval passes a cell with this tag whether it raises or not."""
    for chapter in CHAPTERS.values():
        for notebook in (blank_notebook(chapter), solved_notebook(chapter)):
            tags = [tag for cell in notebook.cells for tag in cell.metadata.get("tags", [])]
            assert set(tags) <= {"nbval-check-output"}
