"""The check cell says what the autograder says, in a notebook, with nothing of ours around it."""

import os
import re
import sys
import types

import nbclient
import nbformat
import pytest

from course import check
from course.chapter import read_chapter
from course.exercise import exercise_ids, find_exercise, mutants_of, variants_of
from course.grader import solution
from course.grader.notebook import WrongAnswer
from course.grader.tiers import grade
from course.grader.verdict import PASSED
from course.notebooks import blank_notebook, solved_notebook
from course.paths import CHAPTERS, NOTEBOOKS, ROOT

FULL = bool(os.environ.get("FULL"))
IDS = exercise_ids()
SOFTMAX = "01-naive-softmax"


def chapter_of(exercise_id):
    return read_chapter(CHAPTERS / f"{find_exercise(exercise_id).chapter}.md")


def stub(exercise_id):
    cells = blank_notebook(chapter_of(exercise_id)).cells
    (cell,) = (c for c in cells if c.metadata.get("nbgrader", {}).get("grade_id") == exercise_id)
    return cell.source


def call(exercise_id, source):
    """check() in this process, on what `source` defines."""
    exercise = find_exercise(exercise_id)
    answers = solution.from_text(source, exercise)
    return check(exercise_id, *(answers[name] for name in exercise.names))


# ── in this process ──────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("exercise_id", IDS)
def test_it_prints_one_line_to_stdout(exercise_id, capsys):
    answers = solution.with_edit(find_exercise(exercise_id))
    assert check(exercise_id, *answers.values()) is None
    assert capsys.readouterr() == (f"passed: {exercise_id}\n", "")
    assert call(exercise_id, stub(exercise_id)) is None
    assert capsys.readouterr() == (f"not attempted: {exercise_id}\n", "")


@pytest.mark.parametrize("exercise_id", IDS)
def test_each_variant_passes(exercise_id, capsys):
    for source in variants_of(exercise_id).values():
        call(exercise_id, source)
        assert capsys.readouterr() == (f"passed: {exercise_id}\n", "")


@pytest.mark.parametrize("exercise_id", IDS)
def test_nbgrader_gets_no_marks_out_of_a_stub(exercise_id, monkeypatch, capsys):
    monkeypatch.setenv("NBGRADER_EXECUTION", "autograde")
    with pytest.raises(WrongAnswer, match=f"^not attempted: {exercise_id}$"):
        call(exercise_id, stub(exercise_id))
    answers = solution.with_edit(find_exercise(exercise_id))
    check(exercise_id, *answers.values())
    assert capsys.readouterr() == (f"passed: {exercise_id}\n", "")


@pytest.mark.parametrize("exercise_id", IDS)
def test_a_wrong_answer_prints_nothing_and_raises_its_message_alone(exercise_id, capsys):
    mutant = mutants_of(exercise_id)[0]
    answers = solution.with_edit(find_exercise(exercise_id), mutant.reference)
    with pytest.raises(WrongAnswer) as caught:
        check(exercise_id, *answers.values())
    text = str(caught.value)
    assert re.match(rf"(wrong|error): {exercise_id}\n{re.escape(mutant.says)}\n", text)
    assert caught.value._render_traceback_() == text.split("\n")
    assert capsys.readouterr() == ("", "")


# Answers that are no answers, and how the message starts.
ODD = {
    "numpy's own": ("softmax = numpy.exp", "error: 01-naive-softmax\n|wrong: 01-naive-softmax\n"),
    "a number": ("softmax = 7", "error: 01-naive-softmax\n.*not callable"),
    "None": ("softmax = None", "error: 01-naive-softmax\n.*not callable"),
    "it raises": ("def softmax(s):\n    raise KeyError('x')", "error: .*KeyError: 'x'"),
    "it exits": ("import sys\ndef softmax(s):\n    sys.exit(3)", "error: .*SystemExit: 3"),
    "a helper that is a stub": (
        "def softmax(s):\n    return part(s)\ndef part(s):\n    raise NotImplementedError",
        "error: .*`part` still has its `raise NotImplementedError`",
    ),
    "nothing returned": ("def softmax(s):\n    pass", "wrong: 01-naive-softmax\n"),
    "ours": (
        "from kernels import naive\ndef softmax(s):\n    return naive.softmax(s)",
        "wrong: 01-naive-softmax\n.*kernels",
    ),
    "ours under another name": (
        "from kernels.naive import softmax",
        "wrong: 01-naive-softmax\n.*kernels",
    ),
    "a library's": (
        "import scipy\ndef softmax(s):\n    return scipy.special.softmax(s, -1)",
        "wrong: 01-naive-softmax\n.*scipy",
    ),
}


@pytest.mark.parametrize("case", ODD)
def test_what_is_no_answer_gets_a_plain_reason(case, capsys, monkeypatch):
    source, start = ODD[case]
    monkeypatch.setitem(sys.modules, "scipy", types.ModuleType("scipy"))  # it may be missing
    with pytest.raises(WrongAnswer) as caught:
        call(SOFTMAX, f"import numpy\n{source}")
    assert re.match(start, str(caught.value), re.S), str(caught.value)
    assert capsys.readouterr() == ("", "")


def test_the_number_of_answers_is_checked():
    for answers in ((), (len, len)):
        with pytest.raises(TypeError, match=f"answers: {SOFTMAX} checks softmax; got"):
            check(SOFTMAX, *answers)


def test_an_unknown_exercise_is_told_which_there_are():
    with pytest.raises(ValueError, match="'01-naive-lost'; there are 00-start-visible-keys"):
        check("01-naive-lost", len)


# ── in a real kernel ─────────────────────────────────────────────────────────────────────────


def run(cells, profile, *, folder=None, **settings):
    """Execute cells in one kernel, in `folder` (default: `profile`), whatever they raise."""
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(c) for c in cells])
    client = nbclient.NotebookClient(
        notebook, timeout=120, kernel_name="python3", allow_errors=True
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **settings}
    environment.pop("NBGRADER_EXECUTION", None)
    environment |= settings
    # An empty profile: what somebody's own IPython does at the start is not tested here.
    environment |= {"IPYTHONDIR": str(profile / "ipython"), "MPLBACKEND": "agg"}
    with client.setup_kernel(cwd=str(folder or profile), env=environment):
        for index, cell in enumerate(notebook.cells):
            client.execute_cell(cell, index)
    return [cell.outputs for cell in notebook.cells]


def printed(text):
    return [{"output_type": "stream", "name": "stdout", "text": text}]


CHECK = f'check("{SOFTMAX}", softmax)'
IMPORTS = "import numpy as np\nfrom course import check"


def test_a_learners_session(tmp_path):
    right = solution.source_of(find_exercise(SOFTMAX))
    mutant = mutants_of(SOFTMAX)[0]
    wrong = mutant.reference.apply(right)
    cells = [
        IMPORTS,
        CHECK.replace("softmax)", "soft)"),  # 1: before anything is defined
        stub(SOFTMAX),
        CHECK,  # 3
        "def softmax(s):\n    return s -",
        CHECK,  # 5: the stub is still there
        wrong,
        CHECK,  # 7
        "def softmax(s):\n    return np.exp(s) / lost",
        CHECK,  # 9
        right,
        CHECK,  # 11
    ]
    outputs = run(cells, tmp_path)
    assert outputs[3] == outputs[5] == printed(f"not attempted: {SOFTMAX}\n")
    assert outputs[11] == printed(f"passed: {SOFTMAX}\n")
    assert outputs[1][0].ename == "NameError" and outputs[4][0].ename == "SyntaxError"
    for number in (7, 9):
        (error,) = outputs[number]
        assert (error.output_type, error.ename) == ("error", "WrongAnswer")
        # What is shown is the message, and no line of the grader's own code.
        assert error.traceback == error.evalue.split("\n")
        assert not re.search(r"Traceback|\.py\b|-->", error.evalue)
    assert outputs[7][0].evalue.startswith(f"wrong: {SOFTMAX}\n{mutant.says}\n")
    assert "NameError: name 'lost' is not defined" in outputs[9][0].evalue
    assert "`softmax`, line 2: return np.exp(s) / lost" in outputs[9][0].evalue


# Where a kernel may be started; None is a folder far from the repository (field case G9-07).
PLACES = {"elsewhere": None} | ({"the root": ROOT, "the notebooks": NOTEBOOKS} if FULL else {})


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("slug", sorted({find_exercise(name).chapter for name in IDS}))
def test_under_nbgrader_a_blank_notebook_raises_at_its_checks_only(tmp_path, slug, place):
    notebook = blank_notebook(read_chapter(CHAPTERS / f"{slug}.md"))
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    sources, settings = [cell.source for cell in cells], {"NBGRADER_EXECUTION": "autograde"}
    outputs = run(sources, tmp_path, folder=PLACES[place], **settings)
    checked = 0
    for cell, output in zip(cells, outputs, strict=True):
        errors = [each.evalue for each in output if each.output_type == "error"]
        marks = cell.metadata.get("nbgrader", {})
        if marks.get("grade"):
            checked += 1
            exercise_id = marks.grade_id.removesuffix("-check")
            assert errors == [f"not attempted: {exercise_id}"]
        else:
            assert errors == [], cell.source
    assert checked


# ── the same verdict as the autograder's ─────────────────────────────────────────────────────


def mistakes(exercise_id):
    """Wrong answers by name: each mutant in both ways of writing; without FULL=1 one of each."""
    source = solution.source_of(find_exercise(exercise_id))
    variant = variants_of(exercise_id)["variant.py"]
    found = {}
    for mutant in mutants_of(exercise_id):
        found[mutant.name] = mutant.reference.apply(source)
        found[f"{mutant.name}, written differently"] = mutant.variant.apply(variant)
    odd = len(found) // 2 | 1  # so that both ways of writing come up
    return dict(list(found.items())[:: 1 if FULL else odd])


@pytest.mark.parametrize("exercise_id", IDS)
def test_the_kernel_and_the_autograder_say_the_same(tmp_path, exercise_id):
    exercise = find_exercise(exercise_id)
    notebook = solved_notebook(chapter_of(exercise_id))
    (place,) = (
        number
        for number, cell in enumerate(notebook.cells)
        if cell.metadata.get("nbgrader", {}).get("grade_id") == exercise_id
    )
    answers = mistakes(exercise_id)
    checking = notebook.cells[place + 1].source
    before = [
        cell.source
        for cell in notebook.cells[:place]
        if cell.cell_type == "code" and not cell.metadata.get("nbgrader", {}).get("grade")
    ]
    cells = [cell for source in answers.values() for cell in (source, checking)]
    live = run([*before, *cells], tmp_path)[len(before) :][1::2]
    for (name, source), output in zip(answers.items(), live, strict=True):
        notebook.cells[place].source = source
        path = tmp_path / f"{exercise.chapter}.ipynb"
        nbformat.write(notebook, path)
        verdict = grade(path, exercise).verdict
        assert verdict.kind != PASSED, name
        (error,) = output
        saved = f"{verdict.kind}: {exercise_id}\n{verdict.message}"
        assert error.evalue == saved, name
