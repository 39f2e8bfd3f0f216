"""Chapter Markdown as plain Markdown, for notebooks.

Pages are rendered by Sphinx, which knows directives; JupyterLab, VS Code and Colab don't. A
chapter uses few of them, and each has a plain form that reads well anywhere.
"""

import html
import re

TITLES = {"note": "Note", "tip": "Tip", "important": "Important", "warning": "Warning"}
TITLED = ("admonition", "dropdown")
# What follows a fence of backticks holds none itself: ```x``` at the start of a line is a span.
FENCE = re.compile(r"^(?P<indent>[ ]*)(?P<fence>`{3,}(?!.*`)|~{3,}|:{3,}(?=\s*\{))(?P<info>.*)$")
DIRECTIVE = re.compile(r"^\{(?P<name>[^}]*)\}(?P<title>.*)$")
OPTION = re.compile(r"^:[\w-]+:")
SPAN = re.compile(
    r"(?P<role>\{[A-Za-z][\w:+-]*\})?(?<!`)(?P<ticks>`+)(?!`).+?(?<!`)(?P=ticks)(?!`)"
)


class MarkdownError(ValueError):
    """A chapter's text has no plain form; `line` counts from 1 in that text."""

    def __init__(self, line: int, problem: str):
        super().__init__(problem)
        self.line = line


def for_notebook(text: str) -> str:
    """Directives as quotes and <details>, links to chapters as links to notebooks."""
    return "\n".join(_plain(_links_to_notebooks(text).split("\n"), 1))


def for_page(text: str) -> str:
    """Directives stay; links to chapters lead to the staged notebooks."""
    return _links_to_notebooks(text)


def closes(line: str, fence: str) -> bool:
    """True if `line` ends the block that `fence` opened: the same characters, as many or more."""
    mark = line.strip()
    return len(mark) >= len(fence) and set(mark) == {fence[0]}


def _links_to_notebooks(text: str) -> str:
    return re.sub(r"\]\((\d\d-[a-z0-9-]+)\.md(#[^)]*)?\)", r"](\1.ipynb\2)", text)


def _plain(lines: list[str], first: int) -> list[str]:
    """The plain form of `lines`, the first of which is line `first` of the text."""
    plain, number = [], 0
    while number < len(lines):
        opening = FENCE.match(lines[number])
        if not opening:
            if any(span["role"] for span in SPAN.finditer(lines[number])):
                raise MarkdownError(first + number, f"a role has no plain form: {lines[number]}")
            plain.append(lines[number])
            number += 1
            continue
        end = next(
            (i for i in range(number + 1, len(lines)) if closes(lines[i], opening["fence"])), None
        )
        if end is None:
            raise MarkdownError(
                first + number, f"the block opened with {opening['fence']} is never closed"
            )
        if directive := DIRECTIVE.match(opening["info"].strip()):
            if opening["indent"]:
                raise MarkdownError(first + number, "a directive starts in column 0")
            name, title = directive["name"], directive["title"].strip()
            plain += _plain_directive(name, title, lines[number + 1 : end], first + number)
        else:
            plain += lines[number : end + 1]
        number = end + 1
        if directive and number < len(lines) and lines[number].strip():
            plain.append("")  # or the next line would belong to the quote
    return plain


def _plain_directive(name: str, title: str, body: list[str], line: int) -> list[str]:
    if name not in TITLES and name not in TITLED:
        raise MarkdownError(line, f"the directive {{{name}}} has no plain form for notebooks")
    if name in TITLED and not title:
        raise MarkdownError(line, f"{{{name}}} needs a title")
    first = line + 1
    while body and OPTION.match(body[0]):  # options are about looks on the page
        body, first = body[1:], first + 1
    if name in TITLES and title:  # Sphinx takes it for the first line of the text
        body, first = [title, *body], first - 1
    body = "\n".join(_plain(body, first)).strip("\n").split("\n")
    if name == "dropdown":
        summary = f"<summary>{html.escape(title, quote=False)}</summary>"
        return ["<details>", summary, "", *body, "", "</details>"]
    heading = TITLES.get(name, title)
    return [f"> {text}".rstrip() for text in (f"**{heading}**", "", *body)]
