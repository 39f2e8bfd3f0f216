"""The process that runs one answer: `python -m course.grader.worker REQUEST RESULT`.

REQUEST is a JSON file, RESULT the file that the outcomes go to. The notebook is a copy, alone in
a folder made for this run, and an audit hook keeps the answer inside that folder.
"""

import json
import os
import sys
from pathlib import Path

WRITES = os.O_WRONLY | os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_TRUNC
FILE_EVENTS = {
    "os.remove", "os.rmdir", "os.rename", "os.truncate", "os.mkdir", "os.link", "os.symlink",
    "os.chmod", "os.chown", "os.utime", "shutil.rmtree", "shutil.move", "shutil.copyfile",
}  # fmt: skip
PROCESS_EVENTS = {
    "subprocess.Popen", "os.system", "os.exec", "os.spawn", "os.posix_spawn", "os.fork",
    "os.forkpty", "os.startfile", "os.kill", "os.killpg", "socket.connect", "socket.bind",
}  # fmt: skip


def confine(folder: Path) -> None:
    """Refuse writes outside `folder`, other programs and connections. Can't be undone.

    A guard against accidents, such as an answer that deletes files around it; no sandbox.
    """
    inside = str(folder.resolve()) + os.sep

    def refuse(event: str, path: object) -> None:
        text = os.fsdecode(path) if isinstance(path, str | bytes | os.PathLike) else None
        if text is None or text == os.devnull:
            return
        if not (os.path.realpath(text) + os.sep).startswith(inside):
            raise PermissionError(f"an answer may write only in its own folder; {event} of {text}")

    def hook(event: str, arguments: tuple) -> None:
        if event == "open":
            path, _, flags = arguments
            if (flags or 0) & WRITES and not isinstance(path, int):
                refuse("open for writing", path)
        elif event in FILE_EVENTS:
            refuse(event, arguments[0])
            if event in ("os.rename", "shutil.move"):
                refuse(event, arguments[1])
        elif event in PROCESS_EVENTS:
            raise PermissionError(f"an answer may start no program and no connection ({event})")

    sys.addaudithook(hook)


def limit_memory(count: int) -> None:
    """Cap the address space where the system can; elsewhere the parent watches."""
    try:
        import resource
    except ImportError:  # Windows
        return
    try:
        resource.setrlimit(resource.RLIMIT_AS, (count, count))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    except (ValueError, OSError):  # macOS refuses RLIMIT_AS
        return


def main(request_path: str, result_path: str) -> None:
    from course.exercise import find_exercise
    from course.grader.outcome import save

    request = json.loads(Path(request_path).read_text(encoding="utf-8"))
    notebook = Path(request["notebook"])
    exercise = find_exercise(request["exercise"])
    cases = exercise.cases(request["seed"])
    with open(result_path, "wb") as result:  # before the hook, which would refuse it
        limit_memory(exercise.memory_bytes)
        confine(notebook.parent)
        save(result, *_grade(notebook, exercise, cases))
    os._exit(0)  # whatever threads and exit handlers the answer has left behind don't matter


def _grade(notebook: Path, exercise, cases) -> tuple[dict, dict]:
    from course.grader import answer, collect, ownership, verdict

    try:
        program = collect.collect(collect.read_cells(notebook), exercise.names, exercise.id)
        names = answer.define(program)
    except (collect.Unusable, answer.DefinitionFailed) as error:
        return {"verdict": verdict.ERROR, "message": str(error)}, {}
    report = {"verdict": None, "message": "", "notes": program.notes}
    answers = {name: names[name] for name in exercise.names}
    if answer.untouched(answers):
        return report | {"verdict": verdict.NOT_ATTEMPTED}, {}
    before = set(sys.modules)
    foreign = ownership.foreign_name(list(answers.values()), exercise.forbidden)
    outcomes = {} if foreign else answer.run_cases(exercise, answers, cases)
    imported = {name.split(".")[0] for name in set(sys.modules) - before}
    banned = (ownership.FOREIGN_MODULES | set(exercise.forbidden)) - {"course"}
    foreign = foreign or next(iter(sorted(imported & banned)), None)
    if foreign:
        return report | {"verdict": verdict.WRONG, "message": not_your_own(foreign)}, {}
    return report, outcomes


def not_your_own(name: str) -> str:
    return f"not your own: the answer uses `{name}`, which does what the exercise asks you to write"


if __name__ == "__main__":
    main(*sys.argv[1:])
