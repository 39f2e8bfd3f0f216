"""Notebooks as learners hand them in: the generated ones, with edits."""

import copy
import json
from functools import cache
from pathlib import Path

from course.chapter import read_chapter
from course.exercise import chapter_of
from course.notebooks import blank_notebook, solved_notebook, to_bytes
from course.paths import CHAPTERS

START, NAIVE = "00-start", "01-naive"
SOFTMAX, TRAFFIC = "01-naive-softmax", "01-naive-traffic"


@cache
def _generated(chapter: str, make) -> bytes:
    return to_bytes(make(read_chapter(CHAPTERS / f"{chapter}.md")))


def solved(chapter: str = NAIVE) -> dict:
    return _loaded(_generated(chapter, solved_notebook))


def blank(chapter: str = NAIVE) -> dict:
    return _loaded(_generated(chapter, blank_notebook))


def _loaded(content: bytes) -> dict:
    """A notebook with each cell's source as one text, whether it's stored so or as lines."""
    notebook = json.loads(content)
    for cell in notebook["cells"]:
        cell["source"] = "".join(cell["source"])
    return notebook


def place_of(notebook: dict, exercise: str) -> int:
    """Where the cell that solves an exercise stands; fails if there isn't exactly one."""
    (place,) = (
        i
        for i, cell in enumerate(notebook["cells"])
        if cell["metadata"].get("nbgrader", {}).get("grade_id") == exercise
    )
    return place


def answered(source: str, exercise: str = SOFTMAX, notebook: dict | None = None) -> dict:
    """A solved notebook, or `notebook`, with `source` as the answer to an exercise."""
    notebook = copy.deepcopy(notebook) if notebook else solved(chapter_of(exercise))
    notebook["cells"][place_of(notebook, exercise)]["source"] = source
    return notebook


def with_cell(source: str, notebook: dict, at: int) -> dict:
    """A copy of a notebook with a code cell added before cell `at`, or at the end for -1."""
    notebook = copy.deepcopy(notebook)
    cell = {
        "cell_type": "code", "execution_count": None, "id": "added", "metadata": {},
        "outputs": [], "source": source,
    }  # fmt: skip
    notebook["cells"].insert(at if at >= 0 else len(notebook["cells"]), cell)
    return notebook


def write(folder: Path, notebook: dict, name: str = f"{NAIVE}.ipynb") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(json.dumps(notebook), encoding="utf-8")
    return path
