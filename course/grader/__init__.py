"""The grader: collect an answer, run it apart, judge what came out, say what is wrong."""
