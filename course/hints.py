"""`python -m course hint ID [--level 1..3]`: hints, the first of which never shows code."""

import re
import sys

from course.console import show
from course.exercise import find_exercise

LEVELS = (1, 2, 3)


def read_hints(exercise_id: str) -> dict[int, str]:
    """The hints of an exercise by level, from `## 1` to `## 3` of its hints.md."""
    path = find_exercise(exercise_id).folder / "hints.md"
    parts = re.split(r"^## (\d)\s*$", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    hints = {int(level): text.strip() for level, text in zip(parts[1::2], parts[2::2], strict=True)}
    if tuple(map(int, parts[1::2])) != LEVELS or not all(hints.values()) or parts[0].strip():
        raise ValueError(f"{path}: hints are three sections, ## 1 to ## 3, got {parts[1::2]}")
    return hints


def add_arguments(parser) -> None:
    parser.add_argument("id", help="the exercise, such as 01-naive-softmax")
    parser.add_argument(
        "--level", type=int, choices=LEVELS, default=1, help="1 nudges, 3 nearly tells (default 1)"
    )


def run(args) -> int:
    try:
        text = read_hints(args.id)[args.level]
    except (ValueError, OSError) as error:
        print(error, file=sys.stderr)
        return 2
    show(f"{find_exercise(args.id).title} (hint {args.level} of {LEVELS[-1]})\n\n{text}")
    if args.level < LEVELS[-1]:
        show(f"\nMore: python -m course hint {args.id} --level {args.level + 1}")
    return 0
