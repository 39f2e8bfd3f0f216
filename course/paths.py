"""Where things are, found from this file so that every command works from any folder."""

import contextlib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CHAPTERS = ROOT / "book" / "chapters"
NOTEBOOKS = ROOT / "notebooks"
SOLUTIONS = ROOT / "solutions"
EXERCISES = ROOT / "course" / "exercises"


def check_target(option: str, path: Path) -> None:
    """ValueError, before the work is done, if no file could be written at `path`."""
    if path.is_dir():
        raise ValueError(f"{option}: {path} is a folder; give a file")
    if not path.absolute().parent.is_dir():
        raise ValueError(f"{option}: there is no folder {path.absolute().parent}")


def write_whole(path: Path, content: bytes) -> None:
    """Write `content` to `path` so that a reader, or a crash, never sees half of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(path.name + ".partial")
    try:
        partial.write_bytes(content)
        partial.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):  # the first error is the one to hear about
            partial.unlink()
        raise
