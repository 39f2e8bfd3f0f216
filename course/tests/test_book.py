"""`python -m course book`: what it executes, what it refuses, and what it leaves behind.

Each test writes a small book of its own; only the tests that look at pages call Jupyter Book.
"""

import argparse
import shutil
import textwrap

import pytest

from course import book
from course.chapter import find_chapters

PLOT = """
import matplotlib.pyplot as plt
from course.figures import use_book_style
use_book_style()
figure, axes = plt.subplots()
_ = axes.plot([1, 2])
"""


class SmallBook:
    def __init__(self, root, monkeypatch):
        self.root, self.output = root / "book", root / "a place"
        (self.root / "chapters").mkdir(parents=True)
        (self.root / "index.md").write_text("# A book\n\n[The first](chapters/01-one.md)\n")
        monkeypatch.setattr(book, "BOOK", self.root)
        monkeypatch.setattr(book, "CONTENTS", self.root / "_toc.yml")
        monkeypatch.setattr(book, "find_chapters", lambda: find_chapters(self.root / "chapters"))
        # The assets of the real book: without MathJax, pages with math would not be whole.
        shutil.copytree(book.ROOT / "book" / "_assets", self.root / "_assets")

    def write(self, slug, *cells, text="Some words."):
        fences = "".join(f"```{{code-cell}}\n{cell.strip()}\n```\n\n" for cell in cells)
        (self.root / "chapters" / f"{slug}.md").write_text(
            f'---\ntitle: "{slug}"\ntime: "1 minute"\n---\n\n{text}\n\n{fences}', encoding="utf-8"
        )
        self.list_chapters()

    def list_chapters(self):
        entries = "".join(
            f"      - file: chapters/{path.stem}\n"
            for path in sorted((self.root / "chapters").glob("*.md"))
        )
        (self.root / "_toc.yml").write_text(
            f"format: jb-book\nroot: index\nparts:\n  - caption: Part\n    chapters:\n{entries}"
        )

    def run(self, *arguments):
        parser = argparse.ArgumentParser()
        book.add_arguments(parser)
        return book.run(parser.parse_args(["--output", str(self.output), *arguments]))


@pytest.fixture
def small(tmp_path, monkeypatch):
    return SmallBook(tmp_path, monkeypatch)


@pytest.fixture
def no_pages(monkeypatch):
    """Stop before Jupyter Book, which takes seconds; the list says how often it was called."""
    calls = []

    def call(folder):
        calls.append(folder)
        book.write_whole(folder / "html" / "index.html", b"a page")

    monkeypatch.setattr(book, "call_jupyter_book", call)
    return calls


REFUSED = {
    "a cell that raises": (
        ["print(1)", "x = {}\nx['lost']"],
        ["01-one, code cell 2", "x['lost']", "KeyError: 'lost'"],
    ),
    "a cell that warns": (
        ["import warnings\nwarnings.warn('take care')"],
        ["01-one, code cell 1", "wrote to stderr", "take care"],
    ),
    "a kernel that dies": (
        ["print(1)", "print(2)", "import os\nos._exit(3)"],
        ["01-one, code cell 3", "the kernel died"],
    ),
    "a page without outputs": (["x = 1"], ["01-one: no cell has an output"]),
    "a figure without alt": ([PLOT], ["01-one, code cell 1", "has no `:alt:`"]),
    "an alt without a figure": ([":alt: Nothing.\nprint(1)"], ["`:alt:`, and 0 figures"]),
    "two figures for one alt": (
        [":alt: Two lines." + PLOT + "plt.show()\nplt.plot([1, 2])\nplt.show()\n"],
        ["`:alt:`, and 2 figures"],
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_wrong_is_named(name, small, no_pages, capsys):
    cells, said = REFUSED[name]
    small.write("01-one", *cells)
    assert small.run() == 1
    error = capsys.readouterr().err
    for words in said:
        assert words in error
    assert not no_pages


def test_a_cell_that_never_ends(small, no_pages, capsys, monkeypatch):
    monkeypatch.setattr(book, "CELL_SECONDS", 2)
    small.write("01-one", "while True:\n    pass")
    assert small.run() == 1
    assert "01-one, code cell 1" in (error := capsys.readouterr().err)
    assert "longer than 2 s" in error


def test_contents_and_chapters_name_each_other(small, no_pages, capsys):
    small.write("01-one", "print(1)")
    small.write("02-two", "print(1)")
    (small.root / "chapters" / "02-two.md").unlink()
    assert small.run() == 1
    assert "_toc.yml lists chapters/02-two, which does not exist" in capsys.readouterr().err
    small.list_chapters()
    (small.root / "extra.md").write_text("# Extra\n")
    assert small.run() == 1
    assert "_toc.yml does not list extra" in capsys.readouterr().err


def test_only_what_changed_is_executed(small, no_pages, capsys, monkeypatch):
    def said():
        return capsys.readouterr().out

    small.write("01-one", "print(1)")
    small.write("02-two", "print(2)")
    assert small.run() == 0
    assert "[1/2] 01-one: executing 1 cells" in said()
    assert small.run() == 0
    assert "01-one: unchanged" in (second := said()) and "Nothing has changed" in second
    assert len(no_pages) == 1

    small.write("01-one", "print(1)", text="Other words.")
    assert small.run() == 0
    assert "executing" not in said()
    assert len(no_pages) == 2

    small.write("01-one", "print(3)")
    assert small.run() == 0
    assert "01-one: executing" in (third := said()) and "02-two: unchanged" in third

    # A kernel that changed may change any output.
    monkeypatch.setattr(book, "code_digest", lambda: "other code")
    assert small.run() == 0
    assert said().count("executing") == 2

    assert small.run("--clean") == 0
    assert said().count("executing") == 2


def test_chapters_run_in_an_empty_folder(small, no_pages, capsys):
    small.write("01-one", "import os\nprint(os.listdir(), os.path.exists('notebooks'))")
    assert small.run() == 0, capsys.readouterr().err
    page = (small.output / "_build" / "source" / "chapters" / "01-one.ipynb").read_text()
    assert "[] False" in page


def test_clean_deletes_only_what_was_built(small, no_pages):
    small.write("01-one", "print(1)")
    assert small.run() == 0
    mine = small.output / "_build" / "mine.txt"
    mine.write_text("mine")
    assert small.run("--clean") == 0
    assert mine.read_text() == "mine"


def test_a_page_is_whole_and_goes_when_its_chapter_goes(small, capsys):
    small.write("01-one", ":alt: A line that rises from 1 to 2.\n:caption: A line." + PLOT)
    small.write("02-two", "print(2)")
    assert small.run() == 0, capsys.readouterr().err
    html = small.output / "_build" / "html"
    page = (html / "chapters" / "01-one.html").read_text(encoding="utf-8")
    assert 'alt="A line that rises from 1 to 2."' in page
    assert 'href="chapters/01-one.html"' in (html / "index.html").read_text(encoding="utf-8")
    assert f"Book: {(html / 'index.html').as_uri()}" in capsys.readouterr().out
    assert "%20" in (html / "index.html").as_uri()  # an address that a browser can be given

    picture = next((html / "_images").glob("*.svg")).read_bytes()
    (small.root / "chapters" / "02-two.md").unlink()
    small.list_chapters()
    assert small.run() == 0, capsys.readouterr().err
    assert not (html / "chapters" / "02-two.html").exists()
    assert "02-two" not in (html / "index.html").read_text(encoding="utf-8")
    assert small.run("--clean") == 0, capsys.readouterr().err
    # The same figure gives the same bytes, executed anew.
    assert next((html / "_images").glob("*.svg")).read_bytes() == picture


def test_a_warning_fails_the_build_each_time(small, capsys):
    small.write("01-one", "print(1)", text="[Gone](nowhere.md)")
    for _ in range(2):
        assert small.run() == 1
        error = capsys.readouterr().err
        assert "WARNING" in error and "nowhere.md" in error
    small.write("01-one", "print(1)", text=textwrap.dedent("[Home](../index.md)"))
    assert small.run() == 0, capsys.readouterr().err


def test_the_table_of_chapters_is_that_of_the_chapters():
    rows = (book.BOOK / "index.md").read_text(encoding="utf-8").split("\n")
    for chapter in find_chapters():
        exercises = sum(cell.kind == "exercise" for cell in chapter.cells)
        link = f"| [{chapter.title}](chapters/{chapter.slug}.md) |"
        (row,) = (row for row in rows if row.startswith(link))
        assert row.endswith(f"| {exercises} | {chapter.time} |")
