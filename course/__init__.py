"""What makes the kernels a course: the notebook generator, the grader and the exercises.

A notebook needs one name from here, `check`, which grades an answer where it stands.
"""

import sys

if sys.version_info < (3, 10):  # noqa: UP036 - 3.10 is too old as well; doctor says so there
    sys.exit(f"The course needs Python 3.11, 3.12 or 3.13; this is {sys.version.split()[0]}.")

from course.grader.notebook import check

__all__ = ["check"]
