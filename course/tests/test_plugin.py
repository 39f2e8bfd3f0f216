"""`pytest tests/`: outcomes, exit status, report and options."""

import json
import os
import subprocess
import sys

import pytest
from handed_in import NAIVE, SOFTMAX, START, TRAFFIC, answered, blank, solved, write

from course.exercise import exercise_ids, find_exercise
from course.grader.report import as_text
from course.grader.submissions import HandedIn, files_in, grade_submission
from course.grader.verdict import NOT_RUN, PASSED, Grade, Verdict
from course.paths import ROOT

ATTENTION, KEYS = "01-naive-attention", "00-start-visible-keys"
# One exercise of each kind, in chapters 00 and 01.
VERDICTS = {ATTENTION: "error", KEYS: "not attempted", SOFTMAX: "wrong", TRAFFIC: "passed"}
POINTS = {ATTENTION: (0, 4), KEYS: (0, 1), SOFTMAX: (0, 2), TRAFFIC: (2, 2)}
# These tests are about chapters 00 and 01, however many more there will be.
ONLY = ["tests/test_00_start.py", "tests/test_01_naive.py"]


def graded(*options):
    """Run the autograder as a learner does."""
    settings = {key: value for key, value in os.environ.items() if not key.startswith("PYTEST")}
    return subprocess.run(
        [sys.executable, "-m", "pytest", *ONLY, *options],
        cwd=ROOT, capture_output=True, encoding="utf-8", env={**settings, "PYTHONUTF8": "1"},
    )  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("graded")
    notebook = answered("def attention(q, k, v, **_):\n    return 1 / 0", ATTENTION)
    wrong = "def softmax(s):\n    return s / 1 + 3"
    write(path, answered(wrong, SOFTMAX, notebook))
    write(path, blank(START), f"{START}.ipynb")
    return path


@pytest.fixture(scope="module")
def run(folder):
    report = folder / "report.json"
    return graded("--grade", folder, "--grade-json", report, "-rs"), json.loads(report.read_text())


def exercises_of(report):
    return {each["id"]: each for chapter in report["chapters"] for each in chapter["exercises"]}


def test_each_verdict_has_its_outcome_and_the_run_fails(run):
    outcome, _ = run
    assert outcome.returncode == 1
    assert "2 failed, 1 passed, 1 skipped" in outcome.stdout
    assert f"wrong: {SOFTMAX}\nIt fails on ordinary scores: relative error" in outcome.stdout
    assert f"error: {ATTENTION}\nIt fails on two batches" in outcome.stdout
    assert (
        "ZeroDivisionError: division by zero (`attention`, line 2: return 1 / 0)" in outcome.stdout
    )
    assert f"not attempted: {KEYS}" in outcome.stdout
    assert "Traceback" not in outcome.stdout and "plugin.py" not in outcome.stdout.split("SKIP")[0]


def test_points_stand_by_chapter_at_the_end(run, folder):
    report = run[0].stdout[run[0].stdout.index(f"grades of {folder}") :]
    lines = [" ".join(line.split()) for line in report.splitlines()]
    assert lines[1:8] == [
        "00-start: 0 of 1 points",
        f"{KEYS} not attempted (value not attempted)",
        "01-naive: 2 of 8 points",
        f"{SOFTMAX} wrong (value wrong)",
        f"{ATTENTION} error (value error)",
        f"{TRAFFIC} passed (value passed)",
        "all: 2 of 9 points",
    ]


def test_the_report_as_json(run, folder):
    report = run[1]
    assert report["graded"] == str(folder) and (report["points"], report["of"]) == (2, 9)
    assert report["python"] == "{}.{}.{}".format(*sys.version_info)
    assert [
        (chapter["chapter"], chapter["points"], chapter["of"]) for chapter in report["chapters"]
    ] == [(START, 0, 1), (NAIVE, 2, 8)]
    exercises = exercises_of(report)
    assert {name: each["verdict"] for name, each in exercises.items()} == VERDICTS
    assert {name: (each["points"], each["of"]) for name, each in exercises.items()} == POINTS
    for each in exercises.values():
        assert each.keys() == {"id", "verdict", "points", "of", "seed", "seconds", "tiers"}
        assert each["seconds"] > 0
        assert each["tiers"].keys() == {"value"}
        assert each["tiers"]["value"].keys() == {"verdict", "message", "diagnosis", "notes"}
    assert exercises[ATTENTION]["tiers"]["value"]["message"].startswith("It fails on two batches")


def test_two_processes_give_the_same_report(run, folder, tmp_path):
    outcome = graded("--grade", folder, "--grade-json", tmp_path / "report.json", "-n", "2")
    assert outcome.returncode == 1
    report = json.loads((tmp_path / "report.json").read_text())
    for each in (*exercises_of(report).values(), *exercises_of(run[1]).values()):
        each["seconds"] = None
    assert report == run[1]
    assert outcome.stdout.count("all: 2 of 9 points") == 1


def test_solved_notebooks_pass_with_any_seed_and_quietly(tmp_path):
    for chapter in (START, NAIVE):
        write(tmp_path, solved(chapter), f"{chapter}.ipynb")
    report = tmp_path / "report.json"
    outcome = graded("--grade", tmp_path, "--seed", "7", "-q", "--grade-json", report)
    assert outcome.returncode == 0, outcome.stdout
    assert "all: 9 of 9 points" in outcome.stdout and f"written to {report}" in outcome.stdout
    assert {each["seed"] for each in exercises_of(json.loads(report.read_text())).values()} == {7}


def test_a_tier_that_no_exercise_has_is_skipped_with_the_reason_and_no_points(tmp_path):
    write(tmp_path, solved())
    report = tmp_path / "report.json"
    outcome = graded(
        "--grade", tmp_path, "--tier", "gpu", "--grade-json", report, "-rs", "-k", "softmax"
    )
    assert outcome.returncode == 0
    assert f"not run: {SOFTMAX}: {SOFTMAX} has no tier gpu; it has value" in outcome.stdout
    (exercise,) = exercises_of(json.loads(report.read_text())).values()
    assert (exercise["verdict"], exercise["points"]) == ("not run", 0)


def test_the_report_says_once_for_a_chapter_why_a_tier_was_not_run():
    def grade(name, **reasons):
        return Grade(name, 1, {tier: Verdict(*verdict) for tier, verdict in reasons.items()})

    gone = (NOT_RUN, "there is no GPU")
    text = as_text(
        [
            grade(KEYS, gpu=gone),
            grade(SOFTMAX, value=(PASSED,), gpu=gone),
            grade(TRAFFIC, value=(PASSED,), gpu=gone, speed=(NOT_RUN, f"{TRAFFIC} has no speed")),
            grade(ATTENTION, value=(PASSED,), speed=(NOT_RUN, f"{ATTENTION} has no speed")),
        ]
    )
    lines = [line.strip() for line in text.splitlines()]
    assert [line for line in lines if "not run:" in line] == [
        "gpu not run: there is no GPU",
        "gpu not run: there is no GPU",
        "speed not run: the exercise has no speed",
    ]


def test_nothing_selected_replaces_an_old_report(tmp_path):
    report = tmp_path / "report.json"
    report.write_text("old")
    outcome = graded("--grade", tmp_path, "--grade-json", report, "--collect-only")
    assert outcome.returncode == 0 and report.read_text() == "old", "nothing was to be graded"
    outcome = graded("--grade", tmp_path, "--grade-json", report, "-k", "nothing_of_that_name")
    assert outcome.returncode == 5, outcome.stdout
    written = json.loads(report.read_text())
    assert (written["points"], written["of"], written["chapters"]) == (0, 0, [])


# Files of one learner, and what is said of chapter 01, by `class` and by `pytest tests/` alike.
FOLDERS = {
    "its own name": (["01-naive.ipynb"], "wrong", "It fails on "),
    "a download": (["01-naive(2).ipynb"], "wrong", "It fails on "),
    "a copy": (["01-naive-Copy1.ipynb"], "wrong", "It fails on "),
    "nested": (["deep/one/two/01-naive.ipynb"], "wrong", "It fails on "),
    "another name": (["My Homework.IPYNB"], "wrong", "It fails on "),
    "two": (
        ["01-naive.ipynb", "deep/01-naive.ipynb"],
        "error",
        "handed in 2 notebooks for 01-naive (anna/01-naive.ipynb, anna/deep/01-naive.ipynb): keep",
    ),
    "none": (["notes.md"], "not attempted", "handed in no notebook 01-naive.ipynb"),
}


@pytest.mark.parametrize("name", FOLDERS)
def test_a_class_and_a_learner_get_the_same_verdict(name, tmp_path):
    files, verdict, message = FOLDERS[name]
    folder = tmp_path / "class" / "anna"
    for file in files:
        path = folder / file
        write(path.parent, answered("def softmax(s):\n    return s"), path.name)
    report = tmp_path / "report.json"
    outcome = graded("--grade", folder, "--grade-json", report, "-k", "softmax")
    assert outcome.returncode == (0 if verdict == "not attempted" else 1), outcome.stdout
    (exercise,) = exercises_of(json.loads(report.read_text())).values()
    (tier,) = exercise["tiers"].values()
    handed_in = HandedIn(files_in(folder), folder.parent)
    in_class = grade_submission(handed_in.of(NAIVE), find_exercise(SOFTMAX))
    assert exercise["verdict"] == in_class.verdict.kind == verdict
    assert tier["message"] == in_class.verdict.message
    assert message in tier["message"]
    assert all(remark in outcome.stdout for remark in handed_in.remarks())
    assert bool(handed_in.remarks()) == (name == "none")


USAGE = {
    "missing folder": (
        ["--grade", "no/such"],
        "ERROR: --grade: no folder 'no/such'; give notebooks, solutions or a folder that holds",
    ),
    "a file": (["--grade", "README.md"], "ERROR: --grade: no folder 'README.md'"),
    "unknown tier": (["--tier", "speedy"], "argument --tier: invalid choice: 'speedy'"),
    "a seed that is no number": (["--seed", "x"], "--seed: a whole number, 0 or more, got 'x'"),
    "a negative seed": (["--seed=-1"], "--seed: a whole number, 0 or more, got '-1'"),
    "a folder for the report": (
        ["--grade-json", "course"],
        "ERROR: --grade-json: course is a folder; give a file",
    ),
    "no folder for the report": (
        ["--grade-json", "no/such/report.json"],
        "ERROR: --grade-json: there is no folder",
    ),
}


@pytest.mark.parametrize("name", USAGE)
def test_a_usage_error_is_one_line_and_runs_nothing(name):
    options, says = USAGE[name]
    outcome = graded(*options)
    assert outcome.returncode == 4
    assert says in outcome.stderr and "Traceback" not in outcome.stderr
    assert "passed" not in outcome.stdout


def test_a_message_that_is_no_unicode_is_printed_all_the_same(tmp_path):
    write(tmp_path, answered("def softmax(s):\n    raise ValueError('\\ud800')"))
    outcome = graded("--grade", tmp_path, "-k", "softmax")
    assert outcome.returncode == 1 and "all: 0 of 2 points" in outcome.stdout


def test_there_is_a_test_for_each_exercise():
    listing = subprocess.run(
        [sys.executable, "-m", "pytest", "tests", "--collect-only", "-q"],
        cwd=ROOT, capture_output=True, encoding="utf-8",
    ).stdout  # fmt: skip
    assert listing.count("::test_") == len(exercise_ids())
