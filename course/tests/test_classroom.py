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

import pytest
from handed_in import NAIVE, SOFTMAX, START, TRAFFIC, answered, blank, solved, write

from course.exercise import chapter_of, exercise_ids, find_exercise
from course.grader import classroom
from course.grader.verdict import ERROR, PASSED, Grade, Verdict
from course.paths import ROOT

FULL = bool(os.environ.get("FULL"))
CHAPTERS = (START, NAIVE)
POINTS = sum(find_exercise(name).points for name in exercise_ids())
EXERCISES = len(exercise_ids())


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


@pytest.mark.skipif(len(exercise_ids()) != 4, reason="its points are those of chapters 00 and 01")
def test_a_class_with_three_broken_learners(tmp_path):
    size = 30 if FULL else 6
    folder, out = tmp_path / "class", tmp_path / "marks.csv"
    expected = handed_in_class(folder, size)
    before = tree(folder)
    first = called(folder, out, "--jobs", 2)
    assert first.returncode == 0, first.stderr
    assert f"{size} learners, {4 * size} answers: marks in {out}" in first.stdout
    assert {row["learner"]: int(row["points"]) for row in rows_of(out)} == expected
    remarks = {row["learner"]: row["remarks"] for row in rows_of(out)}
    assert remarks["broken json"].count("isn't valid JSON") == 1
    assert remarks["broken exit"].startswith(f"{TRAFFIC}: the process ended by itself")
    assert remarks["broken delete"].startswith(f"{TRAFFIC}: It fails on one head: it raised Perm")
    assert remarks["learner 00"] == remarks["learner 01"] == ""
    assert tree(folder) == before
    table = out.read_bytes()
    second = called(folder, out, "--jobs", 1)
    assert f"{4 * size} of {4 * size} grades are known from an earlier run" in second.stdout
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
    assert 3 <= known < 3 * EXERCISES and not out.exists()
    again = called(folder, out, "--jobs", 2)
    assert f"{known} of {3 * EXERCISES} grades are known" in again.stdout
    assert [int(row["points"]) for row in rows_of(out)] == [POINTS] * 3
    assert results.read_bytes().count(b"\n") == 3 * EXERCISES + 1, "each once, and the table"


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

    monkeypatch.setattr(classroom, "grade", grade)
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
    assert f"{SOFTMAX}, {TRAFFIC}: handed in no notebook 01-naive.ipynb" in row["remarks"]


def test_duplicates_are_never_chosen_between_in_silence(tmp_path, grading):
    folder = simple_class(tmp_path / "class", "anna", "ben")
    (folder / "anna" / "01-naive (1).ipynb").write_text("right")
    (folder / "ben" / "old").mkdir()
    (folder / "ben" / "old" / "01-naive.ipynb").write_text("right")
    marks(folder, tmp_path / "marks.csv")
    anna, ben = rows_of(tmp_path / "marks.csv")
    assert anna[SOFTMAX] == "passed"
    assert anna["remarks"] == "01-naive: 01-naive.ipynb was graded, 01-naive (1).ipynb was not"
    assert ben[SOFTMAX] == "error"
    assert (
        "2 notebooks for 01-naive (ben/01-naive.ipynb, old/01-naive.ipynb): keep"
        in (ben["remarks"])
    )


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

    monkeypatch.setattr(classroom, "grade", grade)
    assert marks(simple_class(tmp_path / "class", "anna"), tmp_path / "marks.csv") == 0
    assert "bad \\ud800" in rows_of(tmp_path / "marks.csv")[0]["remarks"]


def test_a_fault_of_the_grader_costs_one_grade_only(tmp_path, grading, monkeypatch):
    honest = classroom.grade

    def grade(notebook, exercise, tiers, seed):
        if exercise.id == SOFTMAX and notebook.parent.name == "anna":
            raise ZeroDivisionError("oh")
        return honest(notebook, exercise, tiers, seed)

    monkeypatch.setattr(classroom, "grade", grade)
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
    of_chapter = [name for name in exercise_ids() if chapter_of(name) == NAIVE]
    assert sorted(grading) == [f"ben/{NAIVE}.ipynb {name}" for name in of_chapter]
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


def test_a_stranger_s_file_in_place_of_the_results_is_not_touched(tmp_path, grading, capsys):
    folder = simple_class(tmp_path / "class", "anna")
    results = tmp_path / "marks.csv.results.jsonl"
    results.write_text("my diary\n")
    assert marks(folder, tmp_path / "marks.csv") == 2
    assert results.read_text() == "my diary\n"
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


def test_an_interrupted_run_keeps_its_grades(tmp_path, grading, monkeypatch, capsys):
    folder, out = simple_class(tmp_path / "class", "anna"), tmp_path / "marks.csv"
    honest = classroom.Results.add

    def add(self, key, result):
        honest(self, key, result)
        if len(self.grades) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(classroom.Results, "add", add)
    assert marks(folder, out, "--jobs", "1") == 130
    assert "2 grades are kept" in capsys.readouterr().err and not out.exists()
    monkeypatch.setattr(classroom.Results, "add", honest)
    marks(folder, out)
    assert f"2 of {EXERCISES} grades are known" in capsys.readouterr().out
    assert [int(row["points"]) for row in rows_of(out)] == [POINTS]


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
    chapters = sorted({chapter_of(name) for name in exercise_ids()})
    assert list(row) == ["learner", "points", "of", *chapters, *exercise_ids(), "remarks"]
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
    assert marks(*[options[0], options[2]], *options[3:]) == 2
    error = capsys.readouterr().err
    assert says in error and error.count("\n") == 1
    assert not grading and not Path("m.csv").exists()


@pytest.mark.parametrize("seed", ["-1", "x"])
def test_a_bad_seed_is_refused_before_anything_runs(seed, tmp_path, capsys):
    with pytest.raises(SystemExit) as caught:
        marks(tmp_path, tmp_path / "m.csv", f"--seed={seed}")
    assert caught.value.code == 2 and "--seed" in capsys.readouterr().err
