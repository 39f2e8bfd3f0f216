"""Directives have a plain form in notebooks; what has none is refused."""

import re

import pytest

from course.chapter import find_chapters
from course.markdown import MarkdownError, for_notebook, for_page
from course.notebooks import blank_notebook, solved_notebook

NOTE = "> **Note**\n>\n> One.\n>\n> Two."
PLAIN = {
    "note": ("```{note}\nOne.\n\nTwo.\n```", NOTE),
    "tip": ("```{tip}\nA.\n```", "> **Tip**\n>\n> A."),
    "important": ("```{important}\nA.\n```", "> **Important**\n>\n> A."),
    "warning": ("```{warning}\nA.\n```", "> **Warning**\n>\n> A."),
    "colons": (":::{note}\nOne.\n\nTwo.\n:::", NOTE),
    "tildes": ("~~~{note}\nOne.\n\nTwo.\n~~~", NOTE),
    "closed by a longer fence": ("```{note}\nOne.\n\nTwo.\n`````", NOTE),
    "a space before the name": ("``` {note}\nOne.\n\nTwo.\n```", NOTE),
    "text on the first line": ("```{note} One.\n\nTwo.\n```", NOTE),
    "options": ("```{note}\n:class: wide\n:name: n\nOne.\n\nTwo.\n```", NOTE),
    "admonition": ("```{admonition} A *title*\nText.\n```", "> **A *title***\n>\n> Text."),
    "dropdown": (
        "```{dropdown} If a < b & c\nText.\n\n- item\n```",
        "<details>\n<summary>If a &lt; b &amp; c</summary>\n\nText.\n\n- item\n\n</details>",
    ),
    "with text around it": (
        "Before.\n\n```{tip}\nA.\n```\n\nAfter.",
        "Before.\n\n> **Tip**\n>\n> A.\n\nAfter.",
    ),
    "two in a row": (
        "```{tip}\nA.\n```\n```{tip}\nB.\n```",
        "> **Tip**\n>\n> A.\n\n> **Tip**\n>\n> B.",
    ),
    "a paragraph right after it": ("```{tip}\nA.\n```\nB.", "> **Tip**\n>\n> A.\n\nB."),
    "nested": (
        "````{dropdown} More\n```{note}\nOne.\n\nTwo.\n```\n````",
        f"<details>\n<summary>More</summary>\n\n{NOTE}\n\n</details>",
    ),
    "nested three deep": (
        "`````{note}\n````{note}\n```{tip}\nA.\n```\n````\n`````",
        "> **Note**\n>\n> > **Note**\n> >\n> > > **Tip**\n> > >\n> > > A.",
    ),
    "a listing inside": (
        "````{note}\n```python\nx = 1\n\ny = 1\n```\n````",
        "> **Note**\n>\n> ```python\n> x = 1\n>\n> y = 1\n> ```",
    ),
    "math inside": ("```{note}\n$$\nx\n$$\n```", "> **Note**\n>\n> $$\n> x\n> $$"),
    "a directive shown in a listing": ("````md\n```{note}\nA.\n```\n````",) * 2,
    "an unknown one shown in a listing": ("~~~\n```{figure} x\n```\n~~~",) * 2,
    "listing": ("```python\nx = {a}\n```",) * 2,
    "listing in a list": ("- item\n\n  ```bash\n  ls\n  ```",) * 2,
    "code with braces": ("`{x}` and `{y}`, $\\frac{a}{b}$ `c`, ``{z}`q` ``",) * 2,
    "a role in a listing": ("```\n{ref}`x`\n```",) * 2,
    "colons that are no fence": ("a ::: b\n\n:::\ntext",) * 2,
    "link to a chapter": ("[t](01-naive.md)", "[t](01-naive.ipynb)"),
    "link to a place in it": ("[t](01-naive.md#the-wall)", "[t](01-naive.ipynb#the-wall)"),
    "link in a note": ("```{tip}\n[t](01-naive.md)\n```", "> **Tip**\n>\n> [t](01-naive.ipynb)"),
    "other links": ("[a](https://x.org/01-naive.md) [b](README.md) [c](#here)",) * 2,
}


@pytest.mark.parametrize("case", PLAIN)
def test_the_plain_form(case):
    text, plain = PLAIN[case]
    assert for_notebook(text) == plain


REFUSED = {
    "unknown": ("a\n\n```{figure} x.png\n```", 3, "{figure} has no plain form"),
    "unknown, in capitals": ("```{Note}\nA.\n```", 1, "{Note} has no plain form"),
    "unknown, with a colon": ("```{math:numref} x\n```", 1, "{math:numref} has no plain form"),
    "unknown, in tildes": ("~~~{figure} x.png\n~~~", 1, "{figure} has no plain form"),
    "unknown, in colons": (":::{figure} x.png\n:::", 1, "{figure} has no plain form"),
    "unknown, nested": ("````{note}\n:class: x\nA.\n```{figure} x\n```\n````", 4, "{figure}"),
    "a cell": ("text\n```{code-cell}\nx\n```", 2, "{code-cell} has no plain form"),
    "indented": ("- item\n\n  ```{note}\n  A.\n  ```", 3, "column 0"),
    "no title": ("```{dropdown}\nA.\n```", 1, "{dropdown} needs a title"),
    "an admonition with no title": ("```{admonition}\nA.\n```", 1, "needs a title"),
    "never closed": ("A.\n\n````{note}\nA.\n```", 3, "opened with ```` is never closed"),
    "nested with the same fence": (
        "```{note}\n```python\nx\n```\n```\n",
        2,
        "opened with ``` is never closed",
    ),
    "role": ("A.\nSee {ref}`x` there.", 2, "role"),
    "role of two words": ("{math:numref}`x`", 1, "role"),
    "role in a note": ("```{note}\nA.\n{doc}`x`\n```", 3, "role"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_has_no_plain_form_is_refused_with_its_line(case):
    text, line, words = REFUSED[case]
    with pytest.raises(MarkdownError) as caught:
        for_notebook(text)
    assert caught.value.line == line and words in str(caught.value)


def test_pages_keep_directives_and_get_links():
    text = "```{note}\n[t](01-naive.md#x)\n```"
    assert for_page(text) == "```{note}\n[t](01-naive.ipynb#x)\n```"


def markdown_cells():
    for chapter in find_chapters():
        for notebook in (blank_notebook(chapter), solved_notebook(chapter)):
            for cell in notebook.cells:
                if cell.cell_type == "markdown":
                    yield f"{chapter.slug} {cell.id}", cell.source


def test_no_notebook_shows_a_directive_a_role_or_a_broken_link():
    slugs = {chapter.slug for chapter in find_chapters()}
    cells = dict(markdown_cells())
    assert cells
    for name, text in cells.items():
        assert not re.search(r"^[> ]*(`{3,}|~{3,}|:{3,})\s*\{", text, re.M), name
        assert not re.search(r"(?<!`)\{[a-z:-]+\}`[^`]", text), name
        for target in re.findall(r"\]\(([^)#][^)]*)\)", text):
            local = re.match(r"([\w-]+)\.ipynb(#|$)", target)
            assert target.startswith("https://") or (local and local[1] in slugs), (name, target)


def test_every_note_of_the_chapters_keeps_its_text_out_of_its_title():
    """The title of a note is one line: a heading that swallowed its text has none below it."""
    titles = [
        (name, line)
        for name, text in markdown_cells()
        for line in re.findall(r"^> \*\*.*\n>\n.*$", text, re.M)
    ]
    assert titles
    for name, found in titles:
        assert re.match(r"> \*\*[^*]+\*\*\n>\n> \S", found), name
