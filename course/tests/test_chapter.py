"""A chapter's source is read into cells, and each fault is named with its file and line."""

import pytest

from course.chapter import ChapterError, find_chapters, included, read_chapter
from course.exercise import exercise_ids
from course.hints import read_hints

FRONT = '---\ntitle: "01 · A title"\ntime: "5 minutes"\n---\n'  # lines 1 to 4
SOFTMAX = "01-naive-softmax"
STATEMENT = f"```{{exercise}} {SOFTMAX}\nWrite it.\n```\n"
SOLUTION = f"```{{code-cell}}\n:exercise: {SOFTMAX}\ndef softmax(s):\n    return s\n```\n"


def read(folder, text, name="01-naive.md"):
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return read_chapter(path)


def cells_of(folder, body):
    return [(cell.kind, cell.source, cell.line) for cell in read(folder, FRONT + body).cells]


# What is wrong: the text after the front matter, the line that is named, words of the message.
FAULTS = {
    "unknown option": ("```{code-cell}\n:tags: x\nx = 1\n```", 5, "unknown option 'tags'"),
    "option twice": ("```{code-cell}\n:fold: true\n:fold: true\nx = 1\n```", 5, "'fold' needs one"),
    "option without value": ("```{code-cell}\n:alt:\nx = 1\n```", 5, "'alt' needs one value"),
    "fold that is no word": ("```{code-cell}\n:fold: yes\nx = 1\n```", 5, "'fold' is true"),
    "figure that is folded away": (
        "```{code-cell}\n:fold: all\n:alt: a line\nx = 1\n```",
        5,
        "a figure is there to be seen",
    ),
    "caption without alt": ("```{code-cell}\n:caption: C.\nx = 1\n```", 5, "needs 'alt'"),
    "folded solution": (
        STATEMENT + SOLUTION.replace(":exercise:", ":fold: true\n:exercise:"),
        8,
        "a solution takes ['exercise', 'include'], got ['fold']",
    ),
    "argument of a cell": ("```{code-cell} python\nx = 1\n```", 5, "takes no argument"),
    "empty cell": ("text\n\n```{code-cell}\n\n```", 7, "is empty"),
    "no Python": ("```{code-cell}\nx = \n```", 5, "not Python"),
    "magic (field case G9-04)": (
        "Text.\n\n```{code-cell}\n%notmagic\nx = 0\nraise TypeError\n```",
        7,
        "not Python",
    ),
    "shell": ("```{code-cell}\n!pip install x\n```", 5, "not Python"),
    "cell never closed": ("text\n```{code-cell}\nx = 1\n", 6, "never closed"),
    "cell closed by the next": (
        "```{code-cell}\nx = 1\n\n```{code-cell}\ny = 1\n```",
        5,
        "not Python",
    ),
    "statement never closed": (f"```{{exercise}} {SOFTMAX}\nWrite.\n", 5, "never closed"),
    "statement closed by its solution": (
        f"```{{exercise}} {SOFTMAX}\nWrite.\n\n{SOLUTION}",
        8,
        "opened with ``` is never closed",
    ),
    "block never closed": ("text\n\n```bash\nls\n", 7, "opened with ``` is never closed"),
    "tildes never closed": ("~~~\nls\n```\n", 5, "opened with ~~~ is never closed"),
    "note closed by a cell": (
        "\n```{note}\nText.\n\n```{code-cell}\nx = 1\n```\n",
        6,
        "isn't closed before the cell in line 9",
    ),
    "listing closed by a cell": (
        "```bash\nls\n\n```{code-cell}\nx = 1\n```\n",
        5,
        "isn't closed before the cell in line 8",
    ),
    "cell in a note": (
        "````{note}\n```{code-cell}\nx = 1\n```\n````\n",
        6,
        "{code-cell} has no plain form",
    ),
    "cell in a colon fence": (
        "text\n\n:::{note}\n```{code-cell}\nx = 1\n```\n:::\n",
        7,
        "opened with ::: is never closed",
    ),
    "code and include": (
        "```{code-cell}\n:include: kernels/naive.py#softmax\nx = 1\n```",
        5,
        "either :include: or code",
    ),
    "include of no file": (
        "```{code-cell}\n:include: kernels/none.py#a\n```",
        5,
        "takes FILE.py#REGION of kernels/ or course/exercises/, got 'kernels/none.py#a'",
    ),
    "include of no kernel": (
        "```{code-cell}\n:include: course/paths.py#a\n```",
        5,
        "takes FILE.py#REGION of kernels/",
    ),
    "include without region": (
        "```{code-cell}\n:include: kernels/naive.py\n```",
        5,
        "takes FILE.py#REGION of kernels/",
    ),
    "unknown region": (
        "```{code-cell}\n:include: kernels/naive.py#lost\n```",
        5,
        "0 regions 'lost'; it has ['softmax'",
    ),
    "statement without id": ("```{exercise}\nWrite.\n```\n", 5, "needs the exercise's id"),
    "statement without text": (f"```{{exercise}} {SOFTMAX}\n\n```\n", 5, "has no statement"),
    "statement without solution": (STATEMENT, 5, f"{SOFTMAX} has no solution cell"),
    "something between": (f"{STATEMENT}text\n{SOLUTION}", 5, f"{SOFTMAX} has no solution cell"),
    "solution without statement": (SOLUTION, 5, f"solution of {SOFTMAX} must follow"),
    "solution of another": (
        STATEMENT.replace("softmax", "traffic") + SOLUTION,
        5,
        "01-naive-traffic has no solution cell",
    ),
    "solved twice": ((STATEMENT + SOLUTION) * 2, 16, "solved twice"),
    "stated twice": (STATEMENT + SOLUTION + STATEMENT, 13, f"{SOFTMAX} has no solution cell"),
    "two solutions": (STATEMENT + SOLUTION * 2, 13, f"solution of {SOFTMAX} must follow"),
    "unknown exercise": (
        STATEMENT.replace("softmax", "lost"),
        5,
        "no exercise '01-naive-lost' in this chapter; there are ['01-naive-softmax'",
    ),
    "exercise of another chapter": (
        "```{exercise} 00-start-visible-keys\nWrite.\n```\n",
        5,
        "no exercise '00-start-visible-keys' in this chapter",
    ),
    "unknown directive": ("\n\ntext\n\n```{figure} x.png\n```\n", 9, "{figure} has no plain form"),
    "misspelt cell": ("```{code_cell}\nx = 1\n```\n", 5, "{code_cell} has no plain form"),
    "cell with a space": ("``` {code-cell}\nx = 1\n```\n", 5, "{code-cell} has no plain form"),
    "cell in a list": ("- item\n\n  ```{code-cell}\n  x = 1\n  ```\n", 7, "column 0"),
    "directive in a statement": (
        f"text\n\n```{{exercise}} {SOFTMAX}\n\nWrite.\n\n~~~{{figure}} x\n~~~\n```\n{SOLUTION}",
        11,
        "{figure} has no plain form",
    ),
    "role": ("text\n\nsee {ref}`there`\n", 7, "a role has no plain form"),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_named_with_its_file_and_line(tmp_path, fault):
    body, line, words = FAULTS[fault]
    with pytest.raises(ChapterError) as caught:
        read(tmp_path, FRONT + body)
    assert str(caught.value).startswith(f"01-naive.md:{line}: ")
    assert words in str(caught.value)


FRONT_FAULTS = {
    "none": ("# Title\n", 1, "starts with front matter"),
    "empty file": ("", 1, "starts with front matter"),
    "not closed": ('---\ntitle: "x"\ntime: "1"\n', 1, "starts with front matter"),
    "no time": ('---\ntitle: "x"\n---\n', 1, "lacks ['time']"),
    "empty title": ('---\ntitle: ""\ntime: "1"\n---\n', 1, "lacks ['title']"),
    "unknown setting": ('---\ntitle: "x"\nauthor: y\ntime: "1"\n---\n', 3, "got 'author: y'"),
    "setting twice": ('---\ntitle: "x"\ntitle: "y"\ntime: "1"\n---\n', 3, "has 'title' twice"),
    "no setting": ('---\ntitle: "x"\n\ntime: "1"\n---\n', 3, "got ''"),
    "not UTF-8": (FRONT.encode() + b"\n\ncaf\xe9\n", 7, "not UTF-8"),
}


@pytest.mark.parametrize("fault", FRONT_FAULTS)
def test_a_fault_of_the_front_matter_is_named(tmp_path, fault):
    text, line, words = FRONT_FAULTS[fault]
    with pytest.raises(ChapterError) as caught:
        read(tmp_path, text)
    assert str(caught.value).startswith(f"01-naive.md:{line}: ")
    assert words in str(caught.value)


@pytest.mark.parametrize("name", ["01-online-softmax.md", "1-naive.md", "01-Naive.md", "naive.md"])
def test_a_name_that_ids_can_not_be_derived_from_is_refused(tmp_path, name):
    with pytest.raises(ChapterError, match="is called NN-name"):
        read(tmp_path, FRONT, name)


LISTING = "text\n\n{0}\n```{{code-cell}}\nprint(1)\n```\n{0}"
# The text after the front matter, and the cells: kind, source, line.
READ = {
    "prose and a cell": (
        "\nOne.\n\n```{code-cell}\nx = 1\n```\n\n\nTwo.\n",
        [("markdown", "One.", 6), ("code", "x = 1", 8), ("markdown", "Two.", 13)],
    ),
    "two cells": (
        "```{code-cell}\nx = 1\n```\n```{code-cell}\n\ny = 1\n\n```\n",
        [("code", "x = 1", 5), ("code", "y = 1", 8)],
    ),
    "longer fence": (
        '````{code-cell}\nx = """\n```\n"""\n````\n',
        [("code", 'x = """\n```\n"""', 5)],
    ),
    "closing fence longer, and spaces": (
        "```{code-cell}\nx = 1\n`````  \n",
        [("code", "x = 1", 5)],
    ),
    "a cell shown": (LISTING.format("````"), [("markdown", LISTING.format("````"), 5)]),
    "a cell shown in Markdown": (
        LISTING.format("`````").replace("`````\n", "`````md\n", 1),
        [("markdown", LISTING.format("`````").replace("`````\n", "`````md\n", 1), 5)],
    ),
    "a listing in tildes": (
        "~~~\nx\n```\n~~~\n```{code-cell}\nx = 1\n```\n",
        [("markdown", "~~~\nx\n```\n~~~", 5), ("code", "x = 1", 9)],
    ),
    "a listing in a list": (
        "- item\n\n  ```bash\n  ls\n  ```\n\n```{code-cell}\nx = 1\n```\n",
        [("markdown", "- item\n\n  ```bash\n  ls\n  ```", 5), ("code", "x = 1", 11)],
    ),
    "a span that looks like a fence": (
        "```x``` is a span.\n\n```{code-cell}\nx = 1\n```\n",
        [("markdown", "```x``` is a span.", 5), ("code", "x = 1", 7)],
    ),
    "a listing in a note": (
        "````{note}\n```python\nx\n```\n````\n\n```{code-cell}\nx = 1\n```\n",
        [("markdown", "````{note}\n```python\nx\n```\n````", 5), ("code", "x = 1", 11)],
    ),
    "a statement with a listing": (
        STATEMENT.replace("```", "````").replace("it.", "it:\n```python\nx\n```") + SOLUTION,
        [
            ("exercise", "Write it:\n```python\nx\n```", 5),
            ("code", "def softmax(s):\n    return s", 11),
        ],
    ),
    "a colon in code": ("```{code-cell}\n\n:x: int\n```\n", None),
}  # fmt: skip


@pytest.mark.parametrize("case", READ)
def test_a_chapter_is_read_into_cells(tmp_path, case):
    body, expected = READ[case]
    if expected is None:  # `:name:` counts as an option only directly under the fence
        with pytest.raises(ChapterError, match="not Python"):
            cells_of(tmp_path, body)
    else:
        assert cells_of(tmp_path, body) == expected


def test_options_and_front_matter_are_read(tmp_path):
    body = "```{code-cell}\n:fold: true\n:alt: A: b\n:caption: C.\nx = 1\n```\n"
    chapter = read(tmp_path, FRONT + body)
    assert (chapter.slug, chapter.title, chapter.time) == ("01-naive", "01 · A title", "5 minutes")
    assert chapter.cells[0].options == {"fold": "true", "alt": "A: b", "caption": "C."}


def test_line_ends_and_a_byte_order_mark_change_nothing(tmp_path):
    text = FRONT + "One.\n\n" + STATEMENT + SOLUTION
    plain = read(tmp_path, text)
    assert read(tmp_path, text.replace("\n", "\r\n").encode()) == plain
    assert read(tmp_path, b"\xef\xbb\xbf" + text.encode()) == plain


KERNEL = "a = 0\n# region: one\n\nx = 1\n\n# endregion\n{}\n# endregion\n"
REGIONS = {
    "there twice": (KERNEL.format("# region: one\nx = 2"), "has 2 regions 'one'"),
    "not there": (KERNEL.format("# region: two\nx = 2").replace(": one", ": uno"), "0 regions"),
    "without an end": ("# region: one\nx = 1\n# region: two\n# endregion\n", "no # endregion"),
    "a longer name": (KERNEL.replace(": one", ": one_more"), "0 regions 'one'"),
}


@pytest.mark.parametrize("case", REGIONS)
def test_a_region_that_is_not_there_once_is_refused(tmp_path, case):
    text, words = REGIONS[case]
    (tmp_path / "kernels").mkdir()
    (tmp_path / "kernels" / "k.py").write_text(text)
    with pytest.raises(ChapterError) as caught:
        included(tmp_path / "01-naive.md", 7, "kernels/k.py#one", tmp_path)
    assert str(caught.value).startswith("01-naive.md:7: ") and words in str(caught.value)


def test_a_region_is_what_stands_between_its_marks(tmp_path):
    (tmp_path / "kernels").mkdir()
    text = KERNEL.format("# region: two\ny = 1").replace("\n", "\r\n")
    (tmp_path / "kernels" / "k.py").write_bytes(text.encode())
    handed_out = tmp_path / "course" / "exercises" / "ch01_naive" / "softmax"
    handed_out.mkdir(parents=True)
    (handed_out / "given.py").write_bytes(text.encode())
    given = f"{handed_out.relative_to(tmp_path).as_posix()}/given.py#one"
    assert included(tmp_path / "c.md", 1, given, tmp_path) == "x = 1"
    assert included(tmp_path / "c.md", 1, "kernels/k.py#one", tmp_path) == "x = 1"
    assert included(tmp_path / "c.md", 1, "kernels/k.py#two", tmp_path) == "y = 1"


LONGEST_LINE = 82  # what the page of a desktop shows without scrolling; see book/_assets/book.css


def test_code_fits_the_page():
    lines = [
        (chapter.slug, line)
        for chapter in find_chapters()
        for cell in chapter.cells
        if cell.kind == "code"
        for line in cell.source.split("\n")
    ]
    lines += [
        (exercise_id, line)
        for exercise_id in exercise_ids()
        for hint in read_hints(exercise_id).values()
        for block in hint.split("```")[1::2]
        for line in block.split("\n")
    ]
    assert [(where, line) for where, line in lines if len(line) > LONGEST_LINE] == []


def test_chapters_come_in_order_and_none_is_an_error(tmp_path):
    with pytest.raises(FileNotFoundError, match="no chapters"):
        find_chapters(tmp_path)
    for name in ("10-c", "02-b", "01-a", "notes"):
        (tmp_path / f"{name}.md").write_text(FRONT, encoding="utf-8")
    assert [chapter.slug for chapter in find_chapters(tmp_path)] == ["01-a", "02-b", "10-c"]
