"""Print to whatever stdout is."""

import sys


def show(text: str) -> None:
    """Print `text`; what a console or a pipe with an old code page lacks is shown as an escape."""
    encoding = sys.stdout.encoding or "utf-8"
    print(text.encode(encoding, "backslashreplace").decode(encoding))
