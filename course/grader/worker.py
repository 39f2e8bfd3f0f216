"""The process that runs one answer: `python -m course.grader.worker REQUEST RESULT STARTED`.

REQUEST is a JSON file, RESULT the file that the outcomes go to. STARTED is empty until the answer
is about to run: what fails before that is no fault of the answer's. The notebook is a copy, alone
in a folder made for this run, and an audit hook keeps the answer inside that folder. Right results
are out of the answer's reach: the process forgets the exercise's reference before it runs the
answer, and the hook refuses to read whatever could give it back.
"""

import dataclasses
import gc
import importlib.util
import json
import os
import sys
import threading
import time
from pathlib import Path

from course import exercise as exercises
from course.exercise import Case, Exercise
from course.grader import answer, collect, outcome, ownership, verdict
from course.grader.ownership import NotYourOwn
from course.paths import EXERCISES, ROOT

try:
    from fcntl import F_GETPATH, fcntl
except ImportError:  # all but macOS
    F_GETPATH = fcntl = None

WINDOWS = os.name == "nt"
LARGEST_FILE_BYTES = 1 << 30
LONGEST_PATH_BYTES = 1024  # PATH_MAX of macOS
WRITES = os.O_WRONLY | os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_TRUNC
# How many of an event's first arguments are paths, and where the folders that they are relative
# to are among its arguments (file descriptors; -1 or absent is the current folder).
FILE_EVENTS = {
    "os.remove": (1, (1,)), "os.rmdir": (1, (1,)), "os.mkdir": (1, (2,)),
    "os.rename": (2, (2, 3)), "os.link": (2, (2, 3)), "os.symlink": (2, (None, 2)),
    "os.truncate": (1, ()), "os.chmod": (1, (2,)), "os.chown": (1, (3,)), "os.utime": (1, (3,)),
    "shutil.rmtree": (1, (1,)), "shutil.move": (2, ()),
}  # fmt: skip
PROCESS_EVENTS = {
    "subprocess.Popen", "os.system", "os.exec", "os.spawn", "os.posix_spawn", "os.fork",
    "os.forkpty", "os.startfile", "os.kill", "os.killpg", "socket.connect", "socket.bind",
}  # fmt: skip


def confine(folder: Path, banned: frozenset[str]) -> None:
    """Refuse writes outside `folder`, other programs, connections, and the modules `banned`.

    Can't be undone. A guard against accidents and cheap cheats; no sandbox.
    """
    inside = str(folder.resolve()) + os.sep
    secret = _locations(banned)
    # Bound here, so that an answer that patches the module's names changes nothing.
    realpath, sep, null = os.path.realpath, os.sep, os.devnull
    file_events, process_events = dict(FILE_EVENTS), frozenset(PROCESS_EVENTS)
    ask, get_path = fcntl, F_GETPATH

    def folder_of(descriptor: int) -> str:
        if get_path is None:  # Linux; on Windows no call takes a descriptor for a folder
            return f"/proc/self/fd/{descriptor}"
        return os.fsdecode(ask(descriptor, get_path, bytes(LONGEST_PATH_BYTES)).rstrip(b"\0"))

    def absolute(path: object, base: object = None) -> str | None:
        if not isinstance(path, str | bytes | os.PathLike):
            return None  # a file that is open already
        text = os.fsdecode(path)
        if isinstance(base, int) and base >= 0:
            text = os.path.join(folder_of(base), text)
        return realpath(text) + sep

    def refuse(event: str, path: object, base: object = None) -> None:
        place = absolute(path, base)
        if place is not None and path != null and not place.startswith(inside):
            raise PermissionError(
                f"an answer may write only in its own folder; {event} of {os.fsdecode(path)}"
            )

    def hook(event: str, arguments: tuple) -> None:
        if event == "open":
            path, _, flags = arguments
            if (flags or 0) & WRITES:
                refuse("open for writing", path)
            elif (place := absolute(path)) is not None:
                for name, start in secret:
                    if place.startswith(start):
                        raise NotYourOwn(name)
        elif event == "import":
            if arguments[0].split(".")[0] in banned:
                raise NotYourOwn(arguments[0])
        elif event in file_events:
            count, bases = file_events[event]
            for i, path in enumerate(arguments[:count]):
                at = bases[i] if i < len(bases) else None
                refuse(event, path, arguments[at] if at in range(len(arguments)) else None)
        elif event in process_events:
            raise PermissionError(f"an answer may start no program and no connection ({event})")

    sys.addaudithook(hook)


def _locations(banned: frozenset[str]) -> tuple[tuple[str, str], ...]:
    """Where banned modules and the course's own answers are: (name, start of the path)."""
    found = [("course.exercises", EXERCISES), ("book", ROOT / "book"), (".git", ROOT / ".git")]
    for name in banned - {"course"}:  # whose modules Python opens to show a traceback
        spec = importlib.util.find_spec(name)
        if spec is not None:
            places = spec.submodule_search_locations or [spec.origin]
            found += [(name, place) for place in places if place]
    return tuple((name, os.path.realpath(place) + os.sep) for name, place in found)


def end_with(grader: int) -> None:
    """End this process when the grader is gone, killed perhaps, and nobody watches it any more."""
    # Windows never changes the id of a parent that is gone, and in a venv there the parent is a
    # launcher between this process and the grader.
    process = None
    if WINDOWS:
        import psutil  # for Windows alone: each answer's process would wait for it

        process = psutil.Process(grader)

    def watch() -> None:
        while process.is_running() if process else os.getppid() == grader:
            time.sleep(1)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def limit(memory_bytes: int) -> None:
    """Cap memory and files where the system can; elsewhere the parent watches the memory."""
    try:
        import resource
    except ImportError:  # Windows
        return
    try:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_FSIZE, (LARGEST_FILE_BYTES, LARGEST_FILE_BYTES))
        resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))
    except (ValueError, OSError):  # macOS refuses RLIMIT_AS
        return


def main(request_path: str, result_path: str, started_path: str) -> None:
    request = json.loads(Path(request_path).read_text(encoding="utf-8"))
    notebook = Path(request["notebook"])
    exercise, cases = draw(request["exercise"], request["seed"])
    banned = frozenset(ownership.FOREIGN_MODULES | set(exercise.forbidden))
    end_with(request["grader"])
    with open(result_path, "wb") as result:  # both before the hook, which would refuse it
        with open(started_path, "wb") as started:
            limit(exercise.memory_bytes)
            confine(notebook.parent, banned)
            started.write(b"started")
        outcome.save(result, *_grade(notebook, exercise, cases))
    os._exit(0)  # whatever threads and exit handlers the answer has left behind don't matter


def draw(exercise_id: str, seed: int) -> tuple[Exercise, dict[str, Case]]:
    """The exercise with its cases, and without what could give the right results away."""
    exercise = exercises.find_exercise(exercise_id)
    cases = exercise.cases(seed)
    exercises.find_exercise.cache_clear()
    exercise = dataclasses.replace(exercise, inputs=None, reference=None)
    gc.collect()  # the module of the reference is a cycle
    return exercise, cases


def _grade(notebook: Path, exercise: Exercise, cases: dict[str, Case]) -> tuple[dict, dict]:
    try:
        return _run(notebook, exercise, cases)
    except BaseException as error:  # KeyboardInterrupt and the like, raised by the answer
        where = answer.place_of(error)
        message = f"it raised {answer.describe(error)}" + (f" ({where})" if where else "")
        if not where and not isinstance(error, MemoryError):
            message = f"the grader itself failed, and the answer isn't at fault: {message}"
        return {"verdict": verdict.ERROR, "message": message}, {}


def _run(notebook: Path, exercise: Exercise, cases: dict[str, Case]) -> tuple[dict, dict]:
    try:
        program = collect.collect(collect.read_cells(notebook), exercise.names, exercise.id)
        names = answer.define(program)
    except collect.Unusable as error:
        return {"verdict": verdict.ERROR, "message": str(error)}, {}
    except answer.DefinitionFailed as error:
        if isinstance(error.__cause__, NotYourOwn):
            return {"verdict": verdict.WRONG, "message": str(error.__cause__)}, {}
        return {"verdict": verdict.ERROR, "message": str(error)}, {}
    if missing := [name for name in exercise.names if name not in names]:
        message = f"`{missing[0]}` isn't defined after its cells have run"
        return {"verdict": verdict.ERROR, "message": message}, {}
    report = {"verdict": None, "message": "", "notes": program.notes}
    answers = {name: names[name] for name in exercise.names}
    if answer.untouched(answers):
        return report | {"verdict": verdict.NOT_ATTEMPTED}, {}
    if foreign := ownership.foreign_name(list(answers.values()), exercise.forbidden):
        return report | {"verdict": verdict.WRONG, "message": str(NotYourOwn(foreign))}, {}
    outcomes = answer.run_cases(exercise, answers, cases)
    refusal = f"{NotYourOwn.__name__}: "
    for each in outcomes.values():
        if each.raised.startswith(refusal):
            message = each.raised.removeprefix(refusal)
            return report | {"verdict": verdict.WRONG, "message": message}, {}
    return report, outcomes


if __name__ == "__main__":
    main(*sys.argv[1:])
