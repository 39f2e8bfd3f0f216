"""No cheat passes; the controls show that the harness can tell."""

from pathlib import Path

import pytest
from handed_in import answered, write

from course.exercise import find_exercise
from course.grader import cheats
from course.grader.cheats import CONTROLS, find_cheats
from course.grader.tiers import grade
from course.grader.verdict import PASSED

FOUND = find_cheats()


@pytest.mark.parametrize("name", FOUND)
def test_a_cheat_does_not_pass(name, tmp_path):
    cheat = FOUND[name]
    notebook = write(tmp_path, answered(cheat.source, cheat.exercise))
    before = notebook.read_bytes()
    result = grade(notebook, find_exercise(cheat.exercise))
    assert result.verdict.kind == cheat.expected, result.verdict.message
    assert cheat.says in result.verdict.message
    assert (result.points > 0) == (name == "control_right")
    assert notebook.read_bytes() == before and list(tmp_path.iterdir()) == [notebook]


def test_every_file_is_found_and_only_the_right_control_is_expected_to_pass():
    files = {path.stem for path in Path(cheats.__file__).parent.glob("*.py")} - {"__init__"}
    assert files == FOUND.keys() > CONTROLS
    assert [name for name, cheat in FOUND.items() if cheat.expected == PASSED] == ["control_right"]
    assert FOUND["control_wrong"].expected == "wrong"
