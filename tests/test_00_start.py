from course.grader.plugin import graded

test_visible_keys = graded("00-start-visible-keys")
