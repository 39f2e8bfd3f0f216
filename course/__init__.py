"""What makes the kernels a course: the notebook generator, the grader and the exercises.

A notebook needs one name from here, `check`, which grades an answer where it stands.
"""

from course.grader.notebook import check

__all__ = ["check"]
