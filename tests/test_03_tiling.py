from course.grader.plugin import graded

test_range = graded("03-tiling-range")
test_forward = graded("03-tiling-forward")
test_budget = graded("03-tiling-budget")
test_backward = graded("03-tiling-backward")
