"""`python -m course COMMAND`: what every command has in common."""

import subprocess
import sys

import pytest

from course.__main__ import COMMANDS, main
from course.paths import ROOT


def run(*arguments, options=()):
    command = [sys.executable, *options, "-m", "course", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, encoding="utf-8")


@pytest.mark.parametrize("name", [name for name in COMMANDS if name != "doctor"])
def test_without_packages_it_is_said_in_a_line_what_is_missing(name):
    outcome = run(name, "x", options=["-S"])  # -S: no site-packages
    assert outcome.returncode == 2
    assert "is not installed for" in outcome.stderr and "course doctor" in outcome.stderr
    assert "Traceback" not in outcome.stderr


def test_help_names_every_command(capsys):
    with pytest.raises(SystemExit) as end:
        main(["--help"])
    assert end.value.code == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert all(
        f"{name} " in shown and summary[:30] in shown for name, (_, summary) in COMMANDS.items()
    )


BAD = {
    "no command": [],
    "an unknown command": ["grade"],
    "an unknown exercise": ["hint", "01-naive-nothing"],
    "an unknown level": ["hint", "01-naive-softmax", "--level", "4"],
    "an unknown chapter": ["notebooks", "99-nothing"],
    "no folder": ["class", "nowhere-at-all", "--out", "marks.csv"],
    "no jobs": ["class", ".", "--out", "marks.csv", "--jobs", "0"],
}


@pytest.mark.parametrize("name", BAD)
def test_bad_arguments_exit_with_2_and_a_message(name, capsys):
    try:
        code = main(BAD[name])
    except SystemExit as end:
        code = end.code
    error = capsys.readouterr().err
    assert code == 2 and error.strip() and "Traceback" not in error
