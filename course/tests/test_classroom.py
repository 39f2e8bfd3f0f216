"""`python -m course class`: a folder of learners, graded into a table that nothing spoils."""

import argparse
import csv
import io
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from threading import Event

import pytest
from handed_in import NAIVE, SOFTMAX, START, TRAFFIC, answered, blank, solved, write

from course.exercise import chapter_of, exercise_ids, find_exercise
from course.grader import classroom, submissions
from course.grader.verdict import ERROR, PASSED, WRONG, Grade, Verdict
from course.paths import ROOT, write_whole

FULL = bool(os.environ.get("FULL"))
# These tests are about chapters 00 and 01, however many more there will be.
CHAPTERS = (START, NAIVE)
IDS = [name for name in exercise_ids() if chapter_of(name) in CHAPTERS]
POINTS = sum(find_exercise(name).points for name in IDS)
EXERCISES = len(IDS)
ALL = len(exercise_ids())  # a learner has a grade for each, handed in or not


# ── the real thing, small, and large with FULL=1 ─────────────────────────────────────────────


def hand_in(folder, *notebooks):
    for chapter, notebook in zip(CHAPTERS, notebooks, strict=False):
        write(folder, notebook, f"{chapter}.ipynb")


def handed_in_class(folder, size):
    """A class of `size` of which three are broken; returns each learner's points."""
    # The answer that no other answer calls.
    wrong = answered("def naive_traffic(*sizes, **more):\n    return {}", TRAFFIC)
    kinds = [
        (POINTS, lambda where: hand_in(where, solved(START), solved())),
        (0, lambda where: hand_in(where, blank(START), blank())),
        (POINTS - 2, lambda where: hand_in(where, solved(START), wrong)),
    ]
    expected = {}
    for number in range(size - 3):
        points, make = kinds[number % len(kinds)]
        make(folder / f"learner {number:02}")
        expected[f"learner {number:02}"] = points
    hand_in(folder / "broken json", solved(START))
    (folder / "broken json" / f"{NAIVE}.ipynb").write_text('{"cells": [')
    expected["broken json"] = 1
    leaving = answered("import os\ndef naive_traffic(*_, **__):\n    os._exit(0)", TRAFFIC)
    hand_in(folder / "broken exit", solved(START), leaving)
    expected["broken exit"] = POINTS - 2
    deleting = answered(
        f"import shutil\ndef naive_traffic(*_, **__):\n    shutil.rmtree({str(folder)!r})", TRAFFIC
    )
    hand_in(folder / "broken delete", solved(START), deleting)
    expected["broken delete"] = POINTS - 2
    return expected


def command(folder, out, *options):
    return [sys.executable, "-m", "course", "class", folder, "--out", out, *map(str, options)]


def called(folder, out, *options):
    return subprocess.run(
        command(folder, out, *options), cwd=ROOT, capture_output=True, encoding="utf-8"
    )


def rows_of(out):
    return list(csv.DictReader(io.StringIO(out.read_bytes().decode("utf-8-sig"), newline="")))


def tree(folder):
    return {path: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_a_class_with_three_broken_learners(tmp_path):
    size = 30 if FULL else 6
    folder, out = tmp_path / "class", tmp_path / "marks.csv"
    expected = handed_in_class(folder, size)
    before = tree(folder)
    first = called(folder, out, "--jobs", 2)
    assert first.returncode == 0, first.stderr
    assert f"{size} learners, {ALL * size} answers: marks in {out}" in first.stdout
    assert {row["learner"]: int(row["points"]) for row in rows_of(out)} == expected
    remarks = {row["learner"]: row["remarks"] for row in rows_of(out)}
    assert remarks["broken json"].count("isn't valid JSON") == 1
    assert remarks["broken exit"].startswith(f"{TRAFFIC}: the process ended by itself")
    assert remarks["broken delete"].startswith(f"{TRAFFIC}: It fails on one head: it raised Perm")
    assert "01-naive" not in remarks["learner 00"] + remarks["learner 01"]
    assert tree(folder) == before
    table = out.read_bytes()
    second = called(folder, out, "--jobs", 1)
    assert f"{ALL * size} of {ALL * size} grades are known from an earlier run" in second.stdout
    assert out.read_bytes() == table


@pytest.mark.skipif(os.name != "posix", reason="kill -9 is POSIX")
def test_a_run_that_is_killed_goes_on_where_it_stopped(tmp_path):
    folder, out = tmp_path / "class", tmp_path / "marks.csv"
    for number in range(3):
        hand_in(folder / f"learner {number}", solved(START), solved())
    results = out.with_name("marks.csv.results.jsonl")
    process = subprocess.Popen(
        command(folder, out, "--jobs", 1), cwd=ROOT, stderr=subprocess.DEVNULL
    )
    deadline = time.monotonic() + 60
    while (not results.exists() or results.read_bytes().count(b"\n") < 3) and (
        time.monotonic() < deadline
    ):
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    known = results.read_bytes().count(b"\n")
    assert 3 <= known < 3 * ALL and not out.exists()
    again = called(folder, out, "--jobs", 2)
    assert f"{known} of {3 * ALL} grades are known" in again.stdout
    assert [int(row["points"]) for row in rows_of(out)] == [POINTS] * 3
    assert results.read_bytes().count(b"\n") == 3 * ALL + 1, "each once, and the table"


# ── the same with a grader that takes no time ────────────────────────────────────────────────


@pytest.fixture
def grading(monkeypatch):
    """Replaces the grader: a notebook that holds the word `right` passes. Counts what it graded."""
    counted = Counter()

    def grade(notebook, exercise, tiers, seed):
        counted[f"{notebook.parent.name}/{notebook.name} {exercise.id}"] += 1
        right = "right" in notebook.read_text()
        verdict = Verdict(PASSED) if right else Verdict(ERROR, "it is not\nright")
        return Grade(exercise.id, exercise.points, {"value": verdict}, seed or 0, 0.1)

    for module in (classroom, submissions):
        monkeypatch.setattr(module, "exercise_ids", lambda: IDS)
    monkeypatch.setattr(submissions.grading, "grade", grade)
    monkeypatch.setattr(classroom, "_course_key", lambda: "the same course")
    return counted


def marks(folder, out, *options):
    parser = argparse.ArgumentParser()
    classroom.add_arguments(parser)
    return classroom.run(parser.parse_args([str(folder), "--out", str(out), *options]))


def simple_class(folder, *learners):
    for learner in learners:
        for chapter in CHAPTERS:
            path = folder / learner / f"{chapter}.ipynb"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("right")
    return folder


# Files in DIR, and the learners that are found with the notebooks that are graded.
LAYOUTS = {
    "a folder for each learner": (
        ["anna/01-naive.ipynb", "anna/00-start.ipynb", "ben/01-naive.ipynb"],
        {"anna": ["anna/00-start", "anna/01-naive"], "ben": ["ben/01-naive"]},
    ),
    "nested": (["anna/week 1/work/01-naive.ipynb"], {"anna": ["work/01-naive"]}),
    "several nested": (
        ["anna/deep/one/two/01-naive.ipynb", "anna/deep/one/00-start.ipynb"],
        {"anna": ["two/01-naive", "one/00-start"]},
    ),
    "nbgrader's": (
        ["anna/chapter1/01-naive.ipynb", "anna/chapter0/00-start.ipynb"],
        {"anna": ["chapter0/00-start", "chapter1/01-naive"]},
    ),
    "flat files": (
        ["anna-01-naive.ipynb", "anna-00-start.ipynb", "01-naive_ben.ipynb"],
        {"anna": ["class/anna-00-start", "class/anna-01-naive"], "ben": ["class/01-naive_ben"]},
    ),
    "a folder and flat files of one learner": (
        ["anna/01-naive.ipynb", "00-start-anna.ipynb"],
        {"anna": ["anna/01-naive", "class/00-start-anna"]},
    ),
    "renamed by a browser": (["anna/01-naive (1).ipynb"], {"anna": ["anna/01-naive (1)"]}),
    "copies": (
        ["anna/01-naive(2).ipynb", "ben/01-naive-Copy1.ipynb", "cleo/01-naive - Copy.ipynb"],
        {"anna": ["anna/01-naive(2)"], "ben": ["ben/01-naive-Copy1"],
         "cleo": ["cleo/01-naive - Copy"]},
    ),
    "flat copies": (
        ["dave 00-start.ipynb", "dave 01-naive (late).ipynb", "eve-00-start-Copy1.ipynb",
         "eve-01-naive - Copy (2).ipynb", "01-naive_fay copy 2.ipynb"],
        {"dave": ["class/dave 00-start", "class/dave 01-naive (late)"],
         "eve": ["class/eve-00-start-Copy1", "class/eve-01-naive - Copy (2)"],
         "fay": ["class/01-naive_fay copy 2"]},
    ),
    "other case": (
        ["anna/01-Naive.IPYNB", "Ben-00-START.Ipynb"],
        {"anna": ["anna/01-Naive.IPYNB"], "Ben": ["class/Ben-00-START.Ipynb"]},
    ),
    "what macOS leaves": (
        ["anna/01-naive.ipynb", "anna/._01-naive.ipynb"], {"anna": ["anna/01-naive"]}
    ),
    "checkpoints and archives ignored": (
        ["anna/01-naive.ipynb", "anna/.ipynb_checkpoints/01-naive-checkpoint.ipynb",
         "anna/__MACOSX/01-naive.ipynb", "anna/.saved/01-naive-2026.ipynb", ".hidden/a.ipynb",
         ".ipynb_checkpoints/01-naive.ipynb"],
        {"anna": ["anna/01-naive"]},
    ),
    "other files": (["anna/01-naive.ipynb", "readme.txt", "anna/notes.md"],
                    {"anna": ["anna/01-naive"]}),
    "a learner without notebooks": (
        ["anna/01-naive.ipynb", "ben/notes.md"], {"anna": ["anna/01-naive"], "ben": []}
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", LAYOUTS)
def test_layouts(name, tmp_path, grading):
    files, expected = LAYOUTS[name]
    folder = tmp_path / "class"
    for file in files:
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        (folder / file).write_text("right")
    assert marks(folder, tmp_path / "marks.csv") == 0
    assert [row["learner"] for row in rows_of(tmp_path / "marks.csv")] == sorted(expected)
    graded = {line.rsplit(" ", 1)[0].removesuffix(".ipynb") for line in grading}
    assert graded == {notebook for notebooks in expected.values() for notebook in notebooks}


def test_what_was_not_handed_in_is_said_and_is_no_error(tmp_path, grading):
    folder = simple_class(tmp_path / "class", "anna")
    (folder / "anna" / f"{NAIVE}.ipynb").unlink()
    marks(folder, tmp_path / "marks.csv")
    (row,) = rows_of(tmp_path / "marks.csv")
    assert row[SOFTMAX] == "not attempted"
    of_chapter = ", ".join(name for name in IDS if chapter_of(name) == NAIVE)
    assert f"{of_chapter}: handed in no notebook 01-naive.ipynb" in row["remarks"]


@pytest.mark.parametrize("own", ["01-naive.ipynb", "01-Naive.IPYNB"])
def test_duplicates_are_never_chosen_between_in_silence(own, tmp_path, grading):
    folder = simple_class(tmp_path / "class", "anna", "ben")
    (folder / "anna" / "01-naive.ipynb").rename(folder / "anna" / own)
    (folder / "anna" / "01-naive (1).ipynb").write_text("right")
    (folder / "ben" / "old").mkdir()
    (folder / "ben" / "old" / "01-naive.ipynb").write_text("right")
    marks(folder, tmp_path / "marks.csv")
    anna, ben = rows_of(tmp_path / "marks.csv")
    assert anna[SOFTMAX] == "passed"
    assert anna["remarks"] == f"01-naive: {own} was graded, 01-naive (1).ipynb was not"
    assert ben[SOFTMAX] == "error"
    assert (
        "2 notebooks for 01-naive (ben/01-naive.ipynb, ben/old/01-naive.ipynb): keep"
        in (ben["remarks"])
    )


def with_ids(*ids):
    cells = [{"metadata": {"nbgrader": {"grade_id": name}}} for name in ids]
    return json.dumps({"cells": cells, "text": "right"})


# The content of `My Homework.ipynb`, and how often it is graded.
HOMEWORK = {
    "the answers' cells": (with_ids(SOFTMAX), 3),
    "a check cell": (with_ids(f"{SOFTMAX}-check"), 3),
    "both chapters": (with_ids(SOFTMAX, "00-start-visible-keys"), EXERCISES),
    "broken": (with_ids(SOFTMAX)[:-9] + " right", 3),
    "another course's": (with_ids("99-else-softmax"), 0),
    "the id in a text": (json.dumps({"cells": [{"source": with_ids(SOFTMAX)}]}), 0),
    "nothing": ("right", 0),
}


@pytest.mark.parametrize("name", HOMEWORK)
def test_a_notebook_of_another_name_is_known_by_its_cells_or_named(name, tmp_path, grading):
    content, count = HOMEWORK[name]
    (tmp_path / "class" / "anna").mkdir(parents=True)
    (tmp_path / "class" / "anna" / "My Homework.ipynb").write_text(content)
    marks(tmp_path / "class", tmp_path / "marks.csv")
    (row,) = rows_of(tmp_path / "marks.csv")
    assert sum(grading.values()) == count
    assert list(row.values()).count("passed") == count
    unknown = "found My Homework.ipynb, which is no chapter's"
    assert row["remarks"].startswith(unknown) if not count else unknown not in row["remarks"]


def test_a_notebook_that_is_too_large_to_look_into_is_named(tmp_path, grading, monkeypatch):
    monkeypatch.setattr(submissions, "LARGEST_NOTEBOOK_BYTES", 20)
    (tmp_path / "class" / "anna").mkdir(parents=True)
    (tmp_path / "class" / "anna" / "My Homework.ipynb").write_text(with_ids(SOFTMAX))
    marks(tmp_path / "class", tmp_path / "marks.csv")
    assert "found My Homework.ipynb" in rows_of(tmp_path / "marks.csv")[0]["remarks"]


def test_nothing_handed_in_is_passed_over_in_silence(tmp_path, grading, capsys):
    folder = simple_class(tmp_path / "class", "anna")
    (folder / "ben").mkdir()
    (folder / "ben" / "answers.zip").write_text("zip")
    (folder / "cleo").mkdir()
    for number in range(7):
        (folder / "cleo" / f"part {number}.ipynb").write_text("right")
    (folder / "My Homework.ipynb").write_text("right")
    (folder / "dave.zip").write_text("zip")
    marks(folder, folder / "marks.csv")
    remarks = {row["learner"]: row["remarks"] for row in rows_of(folder / "marks.csv")}
    assert list(remarks) == ["My Homework", "anna", "ben", "cleo"] and remarks["anna"] == ""
    assert remarks["My Homework"].startswith("found My Homework.ipynb, which is no chapter's | ")
    assert remarks["ben"].startswith("found answers.zip, which is no notebook | ")
    assert "part 4.ipynb and 2 more, which are no chapter's" in remarks["cleo"]
    marks(folder, folder / "marks.csv")
    said = capsys.readouterr().out
    assert said.count(f"in {folder}, but no notebooks and nobody's: dave.zip\n") == 2


def test_notes_are_told_where_points_are_missing(tmp_path, grading, monkeypatch):
    def grade(notebook, exercise, tiers, seed):
        verdict = Verdict(WRONG, "off\nby one", notes=("it uses your answer to 01-naive-softmax",))
        kind = verdict if exercise.id == TRAFFIC else Verdict(PASSED, notes=("no matter",))
        return Grade(exercise.id, exercise.points, {"value": kind})

    monkeypatch.setattr(submissions.grading, "grade", grade)
    marks(simple_class(tmp_path / "class", "anna"), tmp_path / "marks.csv")
    assert rows_of(tmp_path / "marks.csv")[0]["remarks"] == (
        f"{TRAFFIC}: off | {TRAFFIC}: it uses your answer to 01-naive-softmax"
    )


def test_a_notebook_is_read_once_however_many_exercises_it_has(tmp_path, grading, monkeypatch):
    folder, read = simple_class(tmp_path / "class", "anna", "ben"), Counter()
    honest = Path.read_bytes
    monkeypatch.setattr(Path, "read_bytes", lambda path: (read.update([path]), honest(path))[1])
    marks(folder, tmp_path / "marks.csv")
    notebooks = {path: count for path, count in read.items() if path.suffix == ".ipynb"}
    assert len(notebooks) == 4 and set(notebooks.values()) == {1}


NAMES = ['a, "b"', "Zoë Müller 李", " spaced  out ", "=cmd()", "+1", "-x", "@me", "it's", "a;b"]


@pytest.mark.skipif(os.name != "posix", reason="Windows allows few of these names")
def test_names_come_through_and_none_becomes_a_formula(tmp_path, grading):
    names = [*NAMES, "line\nbreak", os.fsdecode(b"bytes \xff")]
    folder = simple_class(tmp_path / "class", *names)
    assert marks(folder, tmp_path / "marks.csv") == 0
    found = [row["learner"] for row in rows_of(tmp_path / "marks.csv")]
    expected = ["'" + name if name[0] in "=+-@" else name for name in names]
    expected[-1] = "bytes \\udcff"
    assert sorted(found) == sorted(expected)
    assert (tmp_path / "marks.csv").read_bytes().startswith(b"\xef\xbb\xbf"), "for spreadsheets"


def test_a_message_that_is_no_unicode_costs_nobody_the_table(tmp_path, grading, monkeypatch):
    def grade(notebook, exercise, tiers, seed):
        return Grade(exercise.id, 1, {"value": Verdict(ERROR, "bad \ud800")})

    monkeypatch.setattr(submissions.grading, "grade", grade)
    assert marks(simple_class(tmp_path / "class", "anna"), tmp_path / "marks.csv") == 0
    assert "bad \\ud800" in rows_of(tmp_path / "marks.csv")[0]["remarks"]


def test_a_fault_of_the_grader_costs_one_grade_only(tmp_path, grading, monkeypatch):
    honest = submissions.grading.grade

    def grade(notebook, exercise, tiers, seed):
        if exercise.id == SOFTMAX and notebook.parent.name == "anna":
            raise ZeroDivisionError("oh")
        return honest(notebook, exercise, tiers, seed)

    monkeypatch.setattr(submissions.grading, "grade", grade)
    assert marks(simple_class(tmp_path / "class", "anna", "ben"), tmp_path / "marks.csv") == 0
    anna, ben = rows_of(tmp_path / "marks.csv")
    assert anna["remarks"] == f"{SOFTMAX}: the grader itself failed: ZeroDivisionError: oh"
    assert (int(anna["points"]), int(ben["points"])) == (POINTS - 2, POINTS)


ODD_FILES = {
    "a link to nothing": lambda path: path.symlink_to("gone"),
    "a folder": lambda path: path.mkdir(),
    "a pipe": os.mkfifo if hasattr(os, "mkfifo") else None,
    "an empty file": lambda path: path.write_text(""),
}


@pytest.mark.skipif(os.name != "posix", reason="needs links and pipes")
@pytest.mark.parametrize("name", ODD_FILES)
def test_an_odd_file_stops_nobody(name, tmp_path):
    folder = tmp_path / "class"
    for learner in ("anna", "ben"):
        (folder / learner).mkdir(parents=True)
    ODD_FILES[name](folder / "anna" / "01-naive.ipynb")
    write(folder / "ben", {"cells": []})
    out = tmp_path / "marks.csv"
    assert marks(folder, out) == 0
    anna, ben = rows_of(out)
    assert anna[SOFTMAX] in ("error", "not attempted") and ben[SOFTMAX] == "error"
    assert SOFTMAX in anna["remarks"]


def test_a_notebook_that_cannot_be_read_stops_nobody(tmp_path, grading, monkeypatch):
    honest = Path.read_bytes

    def read_bytes(path):
        if path.parent.name == "anna":
            raise PermissionError(13, "Permission denied")
        return honest(path)

    monkeypatch.setattr(Path, "read_bytes", read_bytes)
    assert marks(simple_class(tmp_path / "class", "anna", "ben"), tmp_path / "marks.csv") == 0
    assert [row["learner"] for row in rows_of(tmp_path / "marks.csv")] == ["anna", "ben"]


# ── resuming ─────────────────────────────────────────────────────────────────────────────────


def test_a_second_run_grades_nothing(tmp_path, grading, capsys):
    folder, out = simple_class(tmp_path / "class", "anna", "ben"), tmp_path / "marks.csv"
    marks(folder, out)
    assert sum(grading.values()) == len(grading) == 2 * EXERCISES
    table = out.read_bytes()
    grading.clear()
    marks(folder, out)
    assert not grading and out.read_bytes() == table
    assert f"{2 * EXERCISES} of {2 * EXERCISES} grades are known" in capsys.readouterr().out


def test_a_changed_notebook_is_graded_alone(tmp_path, grading):
    folder, out = simple_class(tmp_path / "class", "anna", "ben"), tmp_path / "marks.csv"
    marks(folder, out)
    grading.clear()
    (folder / "ben" / f"{NAIVE}.ipynb").write_text("no longer")
    marks(folder, out)
    of_chapter = [name for name in IDS if chapter_of(name) == NAIVE]
    assert grading == {f"ben/{NAIVE}.ipynb {name}": 1 for name in of_chapter}
    assert [int(row["points"]) for row in rows_of(out)] == [POINTS, 1]
    assert list(tmp_path.glob("*saved*")) == [], "a table that is ours is simply replaced"


# What else changes a grade: a new seed, a new learner, another grader.
CHANGES = {
    "seed": (["--seed", "3"], None, 2 * EXERCISES),
    "new learner": ([], lambda folder: simple_class(folder, "cleo"), EXERCISES),
    "a notebook handed in late": (
        [], lambda folder: (folder / "ben" / f"{NAIVE}.ipynb").rename(folder / "ben" / "x"), 0
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CHANGES)
def test_only_what_changed_is_graded(name, tmp_path, grading):
    options, change, expected = CHANGES[name]
    folder, out = simple_class(tmp_path / "class", "anna", "ben"), tmp_path / "marks.csv"
    marks(folder, out)
    grading.clear()
    if change:
        change(folder)
    marks(folder, out, *options)
    assert sum(grading.values()) == expected


def test_the_key_of_the_course_covers_grader_exercises_kernels_and_chapters(tmp_path, monkeypatch):
    files = ["course/grader/a.py", "course/exercises/ch01_a/b/spec.py", "kernels/a.py",
             "book/chapters/01-a.md"]  # fmt: skip
    for file in (*files, "course/tests/test_a.py", "course/a.pyc"):
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_text("1")
    monkeypatch.setattr(classroom, "ROOT", tmp_path)
    keys = [classroom._course_key()]
    for file in files:
        (tmp_path / file).write_text("2")
        keys.append(classroom._course_key())
    assert len(set(keys)) == len(keys)
    (tmp_path / "course/tests/test_a.py").write_text("2")
    (tmp_path / "course/a.pyc").write_text("2")
    assert classroom._course_key() == keys[-1]


CUTS = {"in the last line": -20, "before its newline": -1, "to nothing": None}


@pytest.mark.parametrize("name", CUTS)
def test_a_results_file_that_was_cut_off_loses_its_last_line_only(name, tmp_path, grading):
    folder, out = simple_class(tmp_path / "class", "anna"), tmp_path / "marks.csv"
    marks(folder, out)
    results = tmp_path / "marks.csv.results.jsonl"
    lines = results.read_bytes().splitlines(keepends=True)
    grades = [line for line in lines if b'"grade"' in line]
    assert len(grades) == EXERCISES
    results.write_bytes(b"" if CUTS[name] is None else b"".join(grades)[: CUTS[name]])
    grading.clear()
    table = out.read_bytes()
    marks(folder, out)
    assert sum(grading.values()) == (EXERCISES if CUTS[name] is None else 1)
    assert out.read_bytes() == table
    for line in results.read_bytes().splitlines():
        json.loads(line)
    grading.clear()
    marks(folder, out)
    assert not grading


@pytest.mark.parametrize("diary", ["my diary\n", "my diary", '{"key": 1}\n', "{}"])
def test_a_stranger_s_file_in_place_of_the_results_is_not_touched(diary, tmp_path, grading, capsys):
    folder = simple_class(tmp_path / "class", "anna")
    results = tmp_path / "marks.csv.results.jsonl"
    results.write_text(diary)
    assert marks(folder, tmp_path / "marks.csv") == 2
    assert results.read_text() == diary
    assert f"{results} isn't a file of results; move it away" in capsys.readouterr().err


def test_an_edited_table_is_kept_aside(tmp_path, grading, capsys):
    folder, out = simple_class(tmp_path / "class", "anna"), tmp_path / "marks.csv"
    for edit in ("first edit", "second edit"):
        marks(folder, out)
        out.write_text(edit)
    marks(folder, out)
    kept = {path.read_text() for path in tmp_path.glob("marks.saved-*.csv")}
    assert kept == {"first edit", "second edit"}
    assert "they are kept in" in capsys.readouterr().out
    assert rows_of(out)[0]["learner"] == "anna"


def test_ctrl_c_says_how_long_it_takes_and_keeps_what_was_being_graded(
    tmp_path, grading, monkeypatch, capsys
):
    folder, out = simple_class(tmp_path / "class", "anna", "ben"), tmp_path / "marks.csv"
    honest_grade, honest_wait = submissions.grading.grade, classroom.wait
    started, said = Event(), []

    def slow_grade(notebook, exercise, tiers, seed):
        if sum(grading.values()) == 2:  # the third is under way when Ctrl-C comes
            started.set()
            for _ in range(500):
                said.append(capsys.readouterr().err)
                if "stopping" in said[-1]:
                    break
                time.sleep(0.01)
        return honest_grade(notebook, exercise, tiers, seed)

    def interrupted(*arguments):
        if started.is_set():
            raise KeyboardInterrupt
        return honest_wait(*arguments)

    monkeypatch.setattr(submissions.grading, "grade", slow_grade)
    monkeypatch.setattr(classroom, "wait", interrupted)
    assert marks(folder, out, "--jobs", "1") == 130
    assert "stopping: at most 20 s for the answers that are being graded\n" in said[-1], "at once"
    assert "3 grades are kept" in capsys.readouterr().err and not out.exists()
    monkeypatch.undo()
    assert (tmp_path / "marks.csv.results.jsonl").read_bytes().count(b"\n") == 3


@pytest.mark.skipif(os.name != "posix", reason="sends Ctrl-C as POSIX does")
def test_ctrl_c_is_heard_at_once_and_its_run_goes_on_later(tmp_path):
    folder, out = tmp_path / "class", tmp_path / "marks.csv"
    waiting = answered(
        "import time\ndef naive_traffic(*_, **__):\n    time.sleep(1)\n    return {}", TRAFFIC
    )
    hand_in(folder / "anna", solved(START), waiting)
    process = subprocess.Popen(
        command(folder, out, "--jobs", 2), cwd=ROOT, stderr=subprocess.PIPE, encoding="utf-8"
    )
    results = out.with_name("marks.csv.results.jsonl")
    deadline = time.monotonic() + 60
    while (not results.exists() or results.read_bytes().count(b"\n") < ALL - 1) and (
        time.monotonic() < deadline
    ):
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    error = process.communicate(timeout=60)[1]
    assert process.returncode == 130
    assert "stopping: at most 20 s" in error and f"{ALL} grades are kept" in error
    assert results.read_bytes().count(b"\n") == ALL
    assert not out.with_name("marks.csv.lock").exists()


# ── two runs at once ─────────────────────────────────────────────────────────────────────────


def test_a_second_run_on_the_same_table_is_refused(tmp_path, grading, capsys):
    folder, out = simple_class(tmp_path / "class", "anna"), tmp_path / "marks.csv"
    lock = tmp_path / "marks.csv.lock"
    lock.write_text(str(os.getppid()))
    assert marks(folder, out) == 2
    error = capsys.readouterr().err
    assert f"--out: {out} is being written by another run (process {os.getppid()})" in error
    assert error.count("\n") == 1 and str(lock) in error
    assert not grading and lock.exists() and list(tmp_path.glob("*.jsonl")) == []
    assert marks(folder, tmp_path / "other.csv") == 0, "another table is another matter"


def test_the_lock_is_held_from_the_reading_of_results_to_the_end(tmp_path, grading, monkeypatch):
    folder, out = simple_class(tmp_path / "class", "anna"), tmp_path / "marks.csv"
    lock, seen = tmp_path / "marks.csv.lock", []

    def watched(name):
        honest = getattr(classroom.Results, name)

        def method(*arguments):
            seen.append((name, lock.read_text()))
            return honest(*arguments)

        monkeypatch.setattr(classroom.Results, name, method)

    for name in ("__init__", "add", "add_table"):
        watched(name)
    assert marks(folder, out) == 0
    assert seen[0][0] == "__init__" and seen[-1][0] == "add_table"
    assert {number for _, number in seen} == {str(os.getpid())} and not lock.exists()
    assert marks(tmp_path / "gone", out) == 2 and not lock.exists()


@pytest.mark.parametrize("whose", ["ended", "our own"])
def test_a_lock_whose_run_is_gone_is_taken_over(whose, tmp_path, grading):
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    number = ended.pid if whose == "ended" else os.getpid()
    (tmp_path / "marks.csv.lock").write_text(str(number))
    assert marks(simple_class(tmp_path / "class", "anna"), tmp_path / "marks.csv") == 0
    assert not (tmp_path / "marks.csv.lock").exists()


@pytest.mark.parametrize("content", ["", "x", "9" * 40])
def test_a_lock_that_cannot_be_read_is_kept_and_named(content, tmp_path, grading, capsys):
    lock = tmp_path / "marks.csv.lock"
    lock.write_text(content)
    assert marks(simple_class(tmp_path / "class", "anna"), tmp_path / "marks.csv") == 2
    assert f"delete {lock}" in capsys.readouterr().err and lock.exists()


def test_results_are_appended_and_never_cut_by_a_run_that_only_adds(tmp_path):
    path = tmp_path / "results.jsonl"
    first, second = classroom.Results(path), classroom.Results(path)
    for number, results in enumerate((first, second, first)):
        results.add(str(number), Grade(SOFTMAX, 2, {"value": Verdict(PASSED)}))
    assert classroom.Results(path).grades.keys() == {"0", "1", "2"}


def test_one_job_and_two_give_the_same_table(tmp_path, grading):
    folder = simple_class(tmp_path / "class", *"abcdefgh")
    (folder / "c" / f"{START}.ipynb").write_text("no")
    tables = []
    for jobs in ("1", "2"):
        marks(folder, tmp_path / f"{jobs}.csv", "--jobs", jobs)
        tables.append((tmp_path / f"{jobs}.csv").read_bytes())
    assert tables[0] == tables[1] and sum(grading.values()) == 2 * 8 * EXERCISES


def test_the_table_has_points_by_chapter_and_a_verdict_for_each_exercise(tmp_path, grading):
    folder = simple_class(tmp_path / "class", "anna")
    (folder / "anna" / f"{START}.ipynb").write_text("no")
    marks(folder, tmp_path / "marks.csv")
    (row,) = rows_of(tmp_path / "marks.csv")
    assert list(row) == ["learner", "points", "of", *CHAPTERS, *IDS, "remarks"]
    assert (row["points"], row["of"], row[START]) == (str(POINTS - 1), str(POINTS), "0")
    assert row["00-start-visible-keys"] == "error" and row[SOFTMAX] == "passed"
    assert row["remarks"] == "00-start-visible-keys: it is not", "the first line of the message"


# ── usage ────────────────────────────────────────────────────────────────────────────────────

USAGE = {
    "missing folder": (["gone", "--out", "m.csv"], "DIR: gone is not a folder"),
    "a file": (["file", "--out", "m.csv"], "DIR: file is not a folder"),
    "empty folder": (["empty", "--out", "m.csv"], "DIR: empty holds no notebooks; it should have"),
    "no notebooks": (["none", "--out", "m.csv"], "DIR: none holds no notebooks"),
    "no folder for the table": (["class", "--out", "a/m.csv"], "--out: there is no folder"),
    "a folder for the table": (["class", "--out", "empty"], "--out: empty is a folder; give a"),
    "one learner's folder": (
        ["class/anna", "--out", "m.csv"],
        "DIR: class/anna itself holds 00-start.ipynb and 01-naive.ipynb, as one learner's folder "
        "does; give the folder above it",
    ),
    "one learner's copies": (["copies", "--out", "m.csv"], "itself holds 01-Naive (1).IPYNB, as"),
    "no jobs": (["class", "--out", "m.csv", "--jobs", "0"], "--jobs: at least 1, got 0"),
}


@pytest.mark.parametrize("name", USAGE)
def test_a_usage_error_is_one_line(name, tmp_path, monkeypatch, capsys, grading):
    options, says = USAGE[name]
    monkeypatch.chdir(tmp_path)
    Path("empty").mkdir()
    Path("none/anna").mkdir(parents=True)
    Path("file").touch()
    simple_class(Path("class"), "anna")
    Path("copies").mkdir()
    Path("copies/01-Naive (1).IPYNB").touch()
    assert marks(*[options[0], options[2]], *options[3:]) == 2
    error = capsys.readouterr().err
    assert says in error and error.count("\n") == 1
    assert not grading and not Path("m.csv").exists()


@pytest.mark.parametrize("seed", ["-1", "x"])
def test_a_bad_seed_is_refused_before_anything_runs(seed, tmp_path, capsys):
    with pytest.raises(SystemExit) as caught:
        marks(tmp_path, tmp_path / "m.csv", f"--seed={seed}")
    assert caught.value.code == 2
    assert f"--seed: a whole number, 0 or more, got '{seed}'" in capsys.readouterr().err


@pytest.mark.parametrize("fails", ["write_bytes", "replace"])
def test_a_file_that_cannot_be_written_leaves_no_part_of_it(fails, tmp_path, monkeypatch):
    def fail(path, *_):
        path.touch()
        raise OSError(28, "No space left on device")

    (tmp_path / "marks.csv").write_text("old")
    monkeypatch.setattr(Path, fails, fail)
    with pytest.raises(OSError, match="No space left"):
        write_whole(tmp_path / "marks.csv", b"new")
    assert [path.name for path in tmp_path.iterdir()] == ["marks.csv"]
    assert (tmp_path / "marks.csv").read_text() == "old"
