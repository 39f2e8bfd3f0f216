from course.grader.plugin import graded

test_softmax = graded("01-naive-softmax")
test_attention = graded("01-naive-attention")
test_traffic = graded("01-naive-traffic")
