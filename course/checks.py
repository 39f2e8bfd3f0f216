"""Check everything, step by step: what `make test` runs.

    python course/checks.py            FULL=1 takes every mutant, every seed and the slow tests

The first step that fails stops it, by name. Nothing here touches `notebooks/`: the notebooks that
are graded are made fresh in a temporary folder. Standard library only.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
WORKERS = str(min(4, os.cpu_count() or 1))
PYTEST = ["-m", "pytest", "-q", "-r", "sxX"]  # the reason of every skip is printed
SPREAD = ["-n", WORKERS, "--dist", "loadfile"]
# A package that is not there yet has no tests yet.
TESTS = [f"{name}/tests" for name in ("kernels", "tilelab", "course") if (ROOT / name).exists()]
NBVAL = ["--nbval-lax", "--nbval-current-env", "--nbval-cell-timeout=120"]
PAGES = "course/tests/test_pages.py"


class Failed(Exception):
    """What went wrong in a step."""


@dataclass(frozen=True)
class Step:
    name: str
    run: Callable[[], None]


def python(*arguments: str | Path, **settings: str) -> None:
    """Run this Python with `arguments` in the project's folder; Failed unless it succeeds."""
    path = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    outcome = subprocess.run(
        [sys.executable, *arguments],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path), **settings},
    )
    if outcome.returncode:
        raise Failed(f"exit status {outcome.returncode}")


def tests(report: Path, *arguments: str, **settings: str) -> None:
    """Run pytest, and keep its report for the last lines, which name what was skipped."""
    python(*PYTEST, f"--junitxml={report}", *arguments, **settings)


def skipped(report: Path) -> str:
    """Such as "browser: 37 of 37", from pytest's report; empty if nothing was skipped."""
    suite = xml.etree.ElementTree.parse(report).getroot()[0]
    count = int(suite.get("skipped", 0))
    return f"{report.stem}: {count} of {suite.get('tests')}" if count else ""


def grade(folder: Path, verdict: str) -> None:
    """Every exercise in `folder` must get `verdict`: pytest lets a skip pass, this does not."""
    report = folder.parent / f"{folder.name}.json"
    python(*PYTEST, "tests", "--grade", folder, "--grade-json", report)
    chapters = json.loads(report.read_text(encoding="utf-8"))["chapters"]
    verdicts = {each["id"]: each["verdict"] for group in chapters for each in group["exercises"]}
    if not verdicts:
        raise Failed("no exercise was graded")
    if other := {name: got for name, got in verdicts.items() if got != verdict}:
        raise Failed(f"expected {verdict!r} for each exercise, got {other}")


def steps(scratch: Path) -> Iterator[Step]:
    fresh, html = scratch / "fresh", scratch / "_build" / "html"
    course = ("-m", "course")
    yield Step("lint", lambda: python("-m", "ruff", "check", "."))
    yield Step("format", lambda: python("-m", "ruff", "format", "--check", "."))
    ours = [*SPREAD, *TESTS, f"--ignore={PAGES}"]
    yield Step("our tests", lambda: tests(scratch / "our tests.xml", *ours))
    yield Step("fresh notebooks", lambda: python(*course, "notebooks", "--to", fresh))
    yield Step("autograder on the solutions", lambda: grade(fresh / "solutions", "passed"))
    yield Step("autograder, untouched", lambda: grade(fresh / "notebooks", "not attempted"))
    yield Step("nbval", lambda: python(*PYTEST, *SPREAD, *NBVAL, fresh))
    yield Step("drift", lambda: python(*course, "notebooks", "--check"))
    yield Step("book from clean", lambda: python(*course, "book", "--clean", "--output", scratch))
    browser = ["-n", WORKERS, PAGES]
    yield Step("browser", lambda: tests(scratch / "browser.xml", *browser, BOOK_HTML=str(html)))


def main() -> int:
    start = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="course-checks-") as scratch:
        for step in steps(Path(scratch)):
            print(f"\n=== {step.name} ===", flush=True)
            begun = time.monotonic()
            try:
                step.run()
            except Failed as reason:
                print(f"make test: the step '{step.name}' failed: {reason}", file=sys.stderr)
                return 1
            print(f"--- {step.name}: {time.monotonic() - begun:.0f} s", flush=True)
        skips = list(filter(None, map(skipped, sorted(Path(scratch).glob("*.xml")))))
    if skips:
        print(f"\nSkipped, for the reasons above, and so not checked: {'; '.join(skips)}.")
    print(f"\nAll of it took {time.monotonic() - start:.0f} s.")
    print("make test: all steps passed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
