from course.grader.plugin import graded

test_update = graded("02-online-update")
test_faults = graded("02-online-faults")
test_merge = graded("02-online-merge")
test_row = graded("02-online-row")
