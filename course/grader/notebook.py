"""`check(id, answer)`: the check cell of a notebook, by the same code as the autograder."""

import os


class WrongAnswer(AssertionError):
    """Shown in a notebook as its message alone: the traceback would be all ours."""

    def _render_traceback_(self) -> list[str]:  # IPython's protocol
        return str(self).splitlines()


def check(exercise_id: str, *answers: object) -> None:
    """Grade the answers where they stand and print `passed: ID` or `not attempted: …`.

    Raises WrongAnswer for a wrong answer. Under nbgrader (NBGRADER_EXECUTION is set) it raises
    for an untouched stub as well, so that blank work gets no marks there.
    """
    # Imported here, so that `python -m course doctor` starts where NumPy is missing.
    from course.exercise import find_exercise
    from course.grader import answer, judge, ownership, verdict

    exercise = find_exercise(exercise_id)
    if len(answers) != len(exercise.names):
        raise TypeError(
            f"answers: {exercise_id} checks {', '.join(exercise.names)}; got {len(answers)} values"
        )
    given = dict(zip(exercise.names, answers, strict=True))
    if answer.untouched(given):
        message = f"not attempted: {exercise_id}"
        if os.environ.get("NBGRADER_EXECUTION"):
            raise WrongAnswer(message)
        print(message)
        return
    if foreign := ownership.foreign_name(list(answers), exercise.forbidden):
        raise WrongAnswer(f"wrong: {exercise_id}\n{ownership.NotYourOwn(foreign)}")
    cases = exercise.cases(exercise.seed)
    outcomes = answer.run_cases(exercise, given, cases)
    result = judge.judge(exercise, cases, outcomes, exercise.seed)
    if result.kind != verdict.PASSED:
        raise WrongAnswer(f"{result.kind}: {exercise_id}\n{result.message}")
    print(f"passed: {exercise_id}")
