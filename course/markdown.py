"""Chapter Markdown as plain Markdown, for notebooks.

Pages are rendered by Sphinx, which knows directives; JupyterLab, VS Code and Colab don't. A
chapter uses few of them, and each has a plain form that reads well anywhere.
"""

import re

TITLES = {"note": "Note", "tip": "Tip", "important": "Important", "warning": "Warning"}
DIRECTIVE = re.compile(
    r"^(?P<fence>`{3,}|:{3,})\{(?P<name>[a-z-]+)\}[ ]*(?P<title>.*)\n(?P<body>.*?)^(?P=fence)[ ]*$",
    re.MULTILINE | re.DOTALL,
)


def for_notebook(text: str) -> str:
    """Directives as quotes and <details>, links to chapters as links to notebooks."""
    return DIRECTIVE.sub(_plain_directive, _links_to_notebooks(text))


def for_page(text: str) -> str:
    """Directives stay; links to chapters lead to the staged notebooks."""
    return _links_to_notebooks(text)


def _links_to_notebooks(text: str) -> str:
    return re.sub(r"\]\((\d\d-[a-z0-9-]+)\.md(#[^)]*)?\)", r"](\1.ipynb\2)", text)


def _plain_directive(match: re.Match) -> str:
    name, title, body = match["name"], match["title"].strip(), match["body"].strip("\n")
    body = DIRECTIVE.sub(_plain_directive, body)
    if name == "dropdown":
        return f"<details>\n<summary>{title}</summary>\n\n{body}\n\n</details>"
    if name == "admonition" or name in TITLES:
        lines = [f"**{title or TITLES[name]}**", "", *body.split("\n")]
        return "\n".join(f"> {line}".rstrip() for line in lines)
    raise ValueError(f"the directive {{{name}}} has no plain form for notebooks")
