"""Options and report of the autograder: `pytest tests/ --help`, under "grading"."""

from course.grader.plugin import (  # noqa: F401
    pytest_addoption,
    pytest_configure,
    pytest_terminal_summary,
)
