"""Build the book: execute the chapters, lay out the pages, call Jupyter Book.

Everything that is made lies in `book/_build`: `executed` holds the outputs of each chapter,
`source` the pages as Sphinx reads them, `html` the book. Chapters run in an empty folder, never
in `notebooks/`. Whatever is wrong stops the build by name: a page without its figure, or with
an error in its middle, must not look like a book.
"""

import argparse
import hashlib
import importlib.metadata
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import nbclient
import nbformat
import yaml

from course.chapter import Chapter, ChapterError, find_chapters
from course.notebooks import page_notebook
from course.paths import ROOT, write_whole

CELL_SECONDS = 120
BOOK = ROOT / "book"
CONFIG = ROOT / "_config.yml"
CONTENTS = ROOT / "_toc.yml"
# What a chapter's outputs depend on beside its own cells.
EXECUTED_CODE = ("kernels/**/*.py", "tilelab/**/*.py", "course/**/*.py", "results/**/*")
# Jupyter Book has no `python -m`, and its script may not be on the PATH.
JUPYTER_BOOK = "import sys; from jupyter_book.cli.main import main; sys.exit(main())"
# All that this module ever writes in its folder, and so all that it ever deletes there.
MADE = ("executed", "source", "html", ".doctrees", "book.json", "build.log", "kernel.log")


class BookError(Exception):
    """Why the book could not be built, for its author to read."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--output",
        metavar="DIR",
        type=Path,
        default=BOOK,
        help="build in DIR/_build (default: book)",
    )
    parser.add_argument(
        "--clean", action="store_true", help="forget what was built and executed before"
    )


def run(args: argparse.Namespace) -> int:
    start = time.monotonic()
    try:
        index = build(args.output.resolve() / "_build", clean=args.clean)
    except (BookError, ChapterError) as error:
        print(f"The book was not built. {error}", file=sys.stderr)
        return 1
    print(f"Built in {time.monotonic() - start:.0f} s.")
    print(f"Book: {index.as_uri()}")
    return 0


def build(folder: Path, *, clean: bool = False) -> Path:
    """Build the book in `folder`; returns the path of its first page."""
    if clean:
        remove(folder, MADE)
    chapters = find_chapters()
    folder.mkdir(parents=True, exist_ok=True)
    pages = written_pages(chapters)
    for number, chapter in enumerate(chapters, start=1):
        progress = f"[{number}/{len(chapters)}] {chapter.slug}"
        pages[f"chapters/{chapter.slug}.ipynb"] = executed_page(chapter, folder, progress)
    check_contents(pages)

    # A build is done again from its start whenever a page, a setting or a tool has changed. Sphinx
    # could redo single pages, but then a warning is reported once and never again, titles go stale
    # in the menus of other pages, and a page that was removed stays in the book.
    index, stamp = folder / "html" / "index.html", folder / "book.json"
    fingerprint = digest(pages, CONFIG.read_bytes(), CONTENTS.read_bytes(), installed())
    if index.is_file() and stamp.is_file() and json.loads(stamp.read_bytes()) == fingerprint:
        print("Nothing has changed since the last build.")
        return index
    remove(folder, ("book.json", "source", "html", ".doctrees"))
    for name, content in pages.items():
        write_whole(folder / "source" / name, content)
    print(f"Laying out {len(pages)} files ...", flush=True)
    call_jupyter_book(folder)
    write_whole(stamp, json.dumps(fingerprint).encode())
    return index


def written_pages(chapters: list[Chapter]) -> dict[str, bytes]:
    """The pages and files that are not executed: book/*.md and book/_assets."""
    pages = {}
    for path in sorted(BOOK.glob("*.md")):
        text = path.read_text(encoding="utf-8")
        for chapter in chapters:
            # The link works where the file is read as it lies, and in the book.
            name = re.escape(f"chapters/{chapter.slug}")
            text = re.sub(rf"(\]\({name})\.md\b", r"\1.ipynb", text)
        pages[path.name] = text.encode()
    assets = BOOK / "_assets"
    for path in sorted(assets.rglob("*")):
        if path.is_file():
            pages[f"_assets/{path.relative_to(assets).as_posix()}"] = path.read_bytes()
    return pages


def check_contents(pages: dict[str, bytes]) -> None:
    """`_toc.yml` and the pages that exist must name each other."""
    contents = yaml.safe_load(CONTENTS.read_text(encoding="utf-8"))
    parts = contents.get("parts", [])
    listed = [contents["root"]] + [entry["file"] for part in parts for entry in part["chapters"]]
    existing = [name.rpartition(".")[0] for name in pages if not name.startswith("_assets/")]
    if missing := sorted(set(existing) - set(listed)):
        raise BookError(f"{CONTENTS.name} does not list {', '.join(missing)}.")
    if unknown := sorted(set(listed) - set(existing)):
        raise BookError(f"{CONTENTS.name} lists {', '.join(unknown)}, which does not exist.")


def executed_page(chapter: Chapter, folder: Path, progress: str) -> bytes:
    """The chapter's page with its outputs, executed only if its code or ours has changed."""
    notebook = page_notebook(chapter)
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    key = digest({str(i): cell.source.encode() for i, cell in enumerate(cells)}, code_digest())
    store = folder / "executed" / f"{chapter.slug}.json"
    kept = json.loads(store.read_text(encoding="utf-8")) if store.is_file() else {}
    if kept.get("key") == key:
        print(f"{progress}: unchanged", flush=True)
    else:
        print(f"{progress}: executing {len(cells)} cells ...", flush=True)
        kept = {"key": key, "outputs": execute(chapter, notebook, folder / "kernel.log")}
        write_whole(store, json.dumps(kept).encode())
    for number, (cell, outputs) in enumerate(zip(cells, kept["outputs"], strict=True), start=1):
        cell.outputs = [nbformat.from_dict(output) for output in outputs]
        cell.execution_count = number
        check_picture(chapter, number, cell)
    return nbformat.writes(notebook).encode()


def execute(chapter: Chapter, notebook: nbformat.NotebookNode, log: Path) -> list[list[dict]]:
    """Run the chapter from its top; the outputs of each code cell."""
    notebook = nbformat.from_dict(notebook)
    # What a cell prints arrives in pieces, whose number is a matter of timing: join them.
    client = nbclient.NotebookClient(
        notebook, timeout=CELL_SECONDS, kernel_name="python3", coalesce_streams=True
    )
    number = 0
    # An empty folder of its own, so that no chapter can touch a learner's notebooks, and an empty
    # IPython profile: what the author's own one does must not be in the book.
    with tempfile.TemporaryDirectory(prefix="book-") as scratch, log.open("wb") as kernel_log:
        empty, profile = Path(scratch, "work"), Path(scratch, "ipython")
        empty.mkdir()
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(
                [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
            ),
            "PYTHONHASHSEED": "0",
            "IPYTHONDIR": str(profile),
        }
        environment.pop("MPLBACKEND", None)
        try:
            with client.setup_kernel(cwd=str(empty), env=environment, stderr=kernel_log):
                for index, cell in enumerate(notebook.cells):
                    if cell.cell_type == "code":
                        number += 1
                        client.execute_cell(cell, index)
        except nbclient.exceptions.CellExecutionError as error:
            trace = re.sub(r"\x1b\[[0-9;]*m", "", error.traceback)
            raise failed(chapter, number, cell, f"{error.ename}: {error.evalue}\n{trace}") from None
        except nbclient.exceptions.CellTimeoutError:
            problem = f"it ran for longer than {CELL_SECONDS} s"
            raise failed(chapter, number, cell, problem) from None
        except nbclient.exceptions.DeadKernelError:
            problem = f"the kernel died; its last words are in {log}"
            raise failed(chapter, number, cell, problem) from None
        except RuntimeError as error:  # what is left: the kernel never answered
            raise BookError(f"{chapter.slug}: no kernel started: {error}; see {log}.") from None
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    for number, cell in enumerate(cells, start=1):
        for output in cell.outputs:
            if output.get("name") == "stderr":
                raise failed(chapter, number, cell, f"it wrote to stderr:\n{output.text}")
    if cells and not any(cell.outputs for cell in cells):
        raise BookError(f"{chapter.slug}: no cell has an output.")
    return [cell.outputs for cell in cells]


def check_picture(chapter: Chapter, number: int, cell: nbformat.NotebookNode) -> None:
    """A cell that draws says what its picture shows, and one that says so draws."""
    alt = cell.metadata.get("mystnb", {}).get("image", {}).get("alt", "")
    data = [output.get("data", {}) for output in cell.outputs]
    pictures = sum(any(kind.startswith("image/") for kind in each) for each in data)
    if pictures and not alt.strip():
        raise failed(chapter, number, cell, "it draws a figure and has no `:alt:`")
    if alt and pictures != 1:
        raise failed(chapter, number, cell, f"it has an `:alt:`, and {pictures} figures")


def failed(chapter: Chapter, number: int, cell: nbformat.NotebookNode, problem: str) -> BookError:
    code = "".join(f"    {line}\n" for line in cell.source.splitlines()[:8])
    return BookError(f"{chapter.slug}, code cell {number}, which begins\n{code}failed: {problem}")


def call_jupyter_book(folder: Path) -> None:
    log = folder / "build.log"
    # DIR/_build is where Jupyter Book itself puts things, given DIR.
    arguments = ["build", str(folder / "source"), "--path-output", str(folder.parent)]
    arguments += ["--config", str(CONFIG), "--toc", str(CONTENTS), "-W", "--keep-going"]
    with log.open("wb") as stream:
        outcome = subprocess.run(
            [sys.executable, "-c", JUPYTER_BOOK, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=subprocess.STDOUT,
            env={**os.environ, "PYTHONUTF8": "1", "NO_COLOR": "1"},
        )
    text = re.sub(r"\x1b\[[0-9;]*m", "", log.read_text(encoding="utf-8", errors="replace"))
    found = [line for line in text.splitlines() if re.search(r"\b(WARNING|ERROR|CRITICAL)\b", line)]
    if outcome.returncode or found:
        problems = "\n".join(found or text.splitlines()[-20:])
        raise BookError(f"Jupyter Book says:\n{problems}\nThe whole of it is in {log}.")


def code_digest() -> str:
    """One name for the code, data and packages that a chapter may use."""
    files = {
        path.relative_to(ROOT).as_posix(): path.read_bytes()
        for pattern in EXECUTED_CODE
        for path in sorted(ROOT.glob(pattern))
        if path.is_file() and "tests" not in path.parts
    }
    return digest(files, installed())


def installed() -> str:
    packages = sorted({(d.name, d.version) for d in importlib.metadata.distributions()})
    return repr((sys.version, packages))


def digest(files: dict[str, bytes], *more: str | bytes) -> str:
    total = hashlib.sha256()
    parts = [part for item in sorted(files.items()) for part in item]
    for part in (*parts, *more):
        content = part if isinstance(part, bytes) else part.encode()
        # The length first, so that two files cannot be mistaken for one.
        total.update(f"{len(content)}:".encode())
        total.update(content)
    return total.hexdigest()


def remove(folder: Path, names: tuple[str, ...]) -> None:
    for name in names:
        path = folder / name
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
