"""`pytest tests/`: options, one test for each exercise, and the report at the end."""

import json
from pathlib import Path

import pytest

from course.exercise import TIERS, find_exercise
from course.grader.report import as_json, as_text
from course.grader.submissions import HandedIn, files_in, grade_submission
from course.grader.tiers import seed_argument
from course.grader.verdict import FAILURES, PASSED, Grade
from course.paths import NOTEBOOKS, SOLUTIONS, check_target, write_whole

NAMED = {"notebooks": NOTEBOOKS, "solutions": SOLUTIONS}


def pytest_addoption(parser):
    group = parser.getgroup("grading")
    group.addoption(
        "--grade",
        metavar="DIR",
        default="notebooks",
        help="grade notebooks (yours, the default), solutions, or any folder of notebooks",
    )
    group.addoption(
        "--tier", choices=TIERS, action="append", help="only this tier; may be given several times"
    )
    group.addoption("--grade-json", metavar="FILE", help="write the report to FILE as JSON too")
    group.addoption(
        "--seed",
        type=seed_argument,
        help="draw the inputs with this seed instead of the exercise's own",
    )


def pytest_configure(config):
    folder = NAMED.get(config.getoption("--grade"), Path(config.getoption("--grade")))
    if not folder.is_dir():
        raise pytest.UsageError(
            f"--grade: no folder {config.getoption('--grade')!r}; give notebooks, solutions or a "
            "folder that holds notebooks such as 01-naive.ipynb"
        )
    if target := config.getoption("--grade-json"):
        try:
            check_target("--grade-json", Path(target))
        except ValueError as error:
            raise pytest.UsageError(str(error)) from None
    folder = folder.resolve()
    config.stash[_FOLDER] = folder
    config.stash[_HANDED_IN] = HandedIn(files_in(folder), folder.parent)


_FOLDER = pytest.StashKey[Path]()
_HANDED_IN = pytest.StashKey[HandedIn]()


def graded(exercise_id: str):
    """A test that grades one exercise: `test_softmax = graded("01-naive-softmax")`."""
    find_exercise(exercise_id)  # an id that does not exist stops the collection, by name

    def test(request, record_property):
        exercise = find_exercise(exercise_id)
        submission = request.config.stash[_HANDED_IN].of(exercise.chapter)
        tiers = tuple(request.config.getoption("--tier") or TIERS)
        seed = request.config.getoption("--seed")
        result = grade_submission(submission, exercise, tiers, seed)
        record_property("grade", json.dumps(result.as_json()))
        verdict = result.verdict
        if verdict.kind in FAILURES:
            pytest.fail(f"{verdict.kind}: {exercise_id}\n{verdict.message}", pytrace=False)
        if verdict.kind != PASSED:
            pytest.skip(
                f"{verdict.kind}: {exercise_id}" + (f": {verdict.message}" * bool(verdict.message))
            )

    return test


def pytest_terminal_summary(terminalreporter, config):
    grades = [
        Grade.from_json(json.loads(value))
        for reports in terminalreporter.stats.values()
        for report in reports
        for name, value in getattr(report, "user_properties", ())
        if name == "grade"
    ]
    target = config.getoption("--grade-json")
    if config.getoption("--collect-only") or not (grades or target):
        return
    grades = list({grade.exercise: grade for grade in grades}.values())
    folder = config.stash[_FOLDER]
    terminalreporter.section(f"grades of {folder}")
    if grades:
        terminalreporter.write_line(as_text(grades))
    for remark in config.stash[_HANDED_IN].remarks():
        terminalreporter.write_line(remark)
    if target:  # without any grades too: an old report must not pass for this run's
        content = json.dumps(as_json(grades, folder), indent=1) + "\n"
        write_whole(Path(target), content.encode())
        terminalreporter.write_line(f"written to {target}")
