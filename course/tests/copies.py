"""A copy of the repository in a folder of its own, for tests that change or commit files."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from course.paths import ROOT


def git(folder: Path, *arguments: str) -> bytes:
    """Run git there, whatever repository the tests themselves were started from."""
    settings = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    who = ("-c", "user.name=T", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false")
    command = ["git", "-C", str(folder), *who, *arguments]
    return subprocess.run(command, check=True, capture_output=True, env=settings).stdout


def python(folder: Path, *arguments: str | Path, **settings: str) -> subprocess.CompletedProcess:
    """Run this Python on the copy; its own `course` and `kernels` are found first."""
    environment = {**os.environ, "PYTHONPATH": str(folder), **settings}
    # Options that this test run was started with are not the copy's.
    environment.pop("PYTEST_ADDOPTS", None)
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=900,
    )


def copy_repository(folder: Path) -> Path:
    """What git would commit now, with notebooks made afresh, committed in a new repository."""
    listed = git(ROOT, "ls-files", "-z", "-co", "--exclude-standard")
    for name in filter(None, os.fsdecode(listed).split("\0")):
        # Notebooks are made below: those here may be a learner's, or older than the chapters.
        if name.startswith(("notebooks/", "solutions/")) or not (ROOT / name).is_file():
            continue
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, target)
    made = python(folder, "-m", "course", "notebooks")
    assert made.returncode == 0, made.stderr
    git(folder, "init", "-q")
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "A copy")
    return folder
