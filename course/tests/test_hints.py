"""`python -m course hint`: three levels, and a plain word for what is wrong."""

import io
import re
import sys
from types import SimpleNamespace

import pytest

from course import hints
from course.__main__ import main
from course.exercise import exercise_ids, find_exercise
from course.hints import LEVELS, read_hints

ID = "01-naive-softmax"
GOOD = "## 1\n\nOne.\n\n## 2\nTwo:\n\n```python\n# 2 lines\n```\n\n## 3\n\nThree.\n"


@pytest.fixture
def written(tmp_path, monkeypatch):
    """Write hints.md of an exercise of its own."""
    monkeypatch.setattr(hints, "find_exercise", lambda _: SimpleNamespace(folder=tmp_path))

    def write(text):
        (tmp_path / "hints.md").write_text(text, encoding="utf-8")
        return tmp_path / "hints.md"

    return write


def test_hints_are_read_by_level(written):
    written(GOOD)
    two = "Two:\n\n```python\n# 2 lines\n```"
    assert read_hints("x") == {1: "One.", 2: two, 3: "Three."}


FAULTS = {
    "two levels": "## 1\nOne.\n## 2\nTwo.\n",
    "four levels": f"{GOOD}## 4\nFour.\n",
    "another order": "## 2\nTwo.\n## 1\nOne.\n## 3\nThree.\n",
    "a level twice": f"## 1\nLost.\n{GOOD}",
    "an empty level": GOOD.replace("Three.", ""),
    "text before the first": f"Text.\n{GOOD}",
    "nothing": "",
}


@pytest.mark.parametrize("fault", FAULTS)
def test_hints_that_are_not_three_levels_are_refused_by_file(written, fault):
    path = written(FAULTS[fault])
    with pytest.raises(ValueError, match=re.escape(f"{path}: hints are three sections")):
        read_hints("x")


@pytest.mark.parametrize("exercise_id", exercise_ids())
@pytest.mark.parametrize("level", LEVELS)
def test_the_command_prints_one_level_and_the_way_to_the_next(capsys, exercise_id, level):
    every = read_hints(exercise_id)
    assert main(["hint", exercise_id, *(["--level", str(level)] if level > 1 else [])]) == 0
    printed, said = capsys.readouterr()
    title = find_exercise(exercise_id).title
    assert printed.startswith(f"{title} (hint {level} of 3)\n\n{every[level]}\n")
    others = [text for number, text in every.items() if number != level]
    assert not any(text in printed for text in others) and said == ""
    further = f"python -m course hint {exercise_id} --level {level + 1}"
    assert printed.rstrip("\n").endswith(further) == (level < 3)


@pytest.mark.parametrize("encoding", ["cp1252", "ascii", "utf-8"])
def test_a_hint_reaches_a_pipe_of_any_encoding(written, monkeypatch, encoding):
    written(GOOD.replace("One.", "Σ q kᵀ"))
    folder = hints.find_exercise(ID).folder
    exercise = SimpleNamespace(folder=folder, title="Softmax · ᵀ")
    monkeypatch.setattr(hints, "find_exercise", lambda _: exercise)
    pipe = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(pipe, encoding))
    assert main(["hint", ID]) == 0
    sys.stdout.flush()
    said = pipe.getvalue().decode(encoding)
    assert ("Σ q kᵀ" if encoding == "utf-8" else r"\u03a3 q k\u1d40") in said
    assert "--level 2" in said


def test_the_first_hint_shows_no_code():
    for exercise_id in exercise_ids():
        names = find_exercise(exercise_id).names
        first = read_hints(exercise_id)[1]
        assert not re.search(r"```|~~~|^ {4}", first, re.M), exercise_id
        assert not re.search(rf"({'|'.join(names)}|return|np\.\w+)\(", first), exercise_id


def test_an_unknown_exercise_is_told_which_there_are(capsys):
    assert main(["hint", "01-naive-lost"]) == 2
    printed, said = capsys.readouterr()
    assert printed == "" and "'01-naive-lost'" in said
    assert all(exercise_id in said for exercise_id in exercise_ids())


def test_missing_hints_are_named(capsys, tmp_path, written):
    assert main(["hint", ID]) == 2
    printed, said = capsys.readouterr()
    assert printed == "" and str(tmp_path / "hints.md") in said


@pytest.mark.parametrize("level", ["0", "4", "one"])
def test_another_level_is_refused(capsys, level):
    with pytest.raises(SystemExit):
        main(["hint", ID, "--level", level])
    assert "--level" in capsys.readouterr().err
