"""`python -m course class DIR --out marks.csv`: grade a folder of learners into a table.

Each learner is a folder in DIR that holds notebooks, at any depth, or a single notebook in DIR
itself. Every answer is graded in a process of its own. Results are kept as they come, beside the
table, so an interrupted run loses nothing and goes on where it stopped; a notebook that has
changed since is graded again. One run at a time writes a table and its results: a lock file
holds the process that does.
"""

import contextlib
import csv
import hashlib
import io
import json
import os
import sys
import time
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path

import psutil

from course.exercise import chapter_of, exercise_ids, find_exercise
from course.grader.isolate import LARGEST_NOTEBOOK_BYTES
from course.grader.submissions import (
    HandedIn,
    Submission,
    files_in,
    grade_submission,
    is_left_behind,
    is_notebook,
    learner_of,
)
from course.grader.tiers import seed_argument
from course.grader.verdict import ERROR, PASSED, Grade, Verdict
from course.paths import ROOT, check_target, write_whole

FIRST_BYTES = b'{"'  # of each line of results, as json.dumps writes it
POLL_SECONDS = 0.2  # how soon Ctrl-C is heard on Windows, where it can't end a wait


@dataclass(frozen=True)
class Job:
    """One exercise of one learner. `key` changes with anything that could change the grade."""

    learner: str
    exercise: str
    submission: Submission
    key: str


def find_learners(folder: Path) -> tuple[dict[str, list[Path]], list[Path]]:
    """The files of each learner, by name, and the loose files that are no notebooks.

    ValueError if there are no notebooks at all, or if the folder is one learner's own.
    """
    learners: dict[str, list[Path]] = {}
    loose, nameless = [], []
    for path in sorted(folder.iterdir()):
        if is_left_behind(path.name):
            continue
        if path.is_dir():
            learners.setdefault(path.name, []).extend(files_in(path))
        elif not is_notebook(path):
            loose.append(path)
        elif name := learner_of(path):
            learners.setdefault(name, []).append(path)
        else:
            nameless.append(path.name)
    if nameless:
        raise ValueError(
            f"DIR: {folder} itself holds {' and '.join(nameless)}, as one learner's folder does; "
            "give the folder above it, which has a folder for each learner"
        )
    if not any(is_notebook(path) for files in learners.values() for path in files):
        raise ValueError(
            f"DIR: {folder} holds no notebooks; it should have a folder for each learner, with "
            "notebooks such as 01-naive.ipynb in it"
        )
    return dict(sorted(learners.items())), loose


def plan(learners: dict[str, HandedIn], seed: int | None) -> list[Job]:
    """Every exercise of every learner."""
    course_key = _course_key()
    jobs = []
    for learner, handed_in in learners.items():
        submissions: dict[str, tuple[Submission, str]] = {}
        for exercise_id in exercise_ids():
            chapter = chapter_of(exercise_id)
            if chapter not in submissions:
                found = handed_in.of(chapter)
                submissions[chapter] = (found, _content_key(found))
            submission, content = submissions[chapter]
            parts = json.dumps([learner, exercise_id, content, seed, course_key])
            key = hashlib.sha256(parts.encode()).hexdigest()[:32]
            jobs.append(Job(learner, exercise_id, submission, key))
    return jobs


def _content_key(submission: Submission) -> str:
    if submission.verdict:
        return submission.verdict.message
    notebook = submission.notebook
    try:
        if not notebook.is_file():  # reading a pipe would never end
            return "no file"
        size = notebook.stat().st_size
        if size > LARGEST_NOTEBOOK_BYTES:
            return f"{size} bytes"
        return hashlib.sha256(notebook.read_bytes()).hexdigest()
    except OSError as error:  # grading it says the same, and to whom it concerns
        return f"can't be read: {error.errno}"


def _course_key() -> str:
    """A grade holds as long as the grader, the exercises and the chapters stay the same."""
    digest = hashlib.sha256()
    folders = (ROOT / "course", ROOT / "kernels", ROOT / "book" / "chapters")
    for path in sorted(p for folder in folders for p in folder.rglob("*") if p.is_file()):
        if path.suffix in (".py", ".md") and "tests" not in path.parts:
            digest.update(path.read_bytes())
    return digest.hexdigest()


def run_job(job: Job, seed: int | None) -> Grade:
    exercise = find_exercise(job.exercise)
    try:
        return grade_submission(job.submission, exercise, seed=seed)
    except Exception as error:  # one learner's notebook must never lose the others' marks
        message = f"the grader itself failed: {type(error).__name__}: {error}"
        return Grade(exercise.id, exercise.points, {exercise.tiers[0]: Verdict(ERROR, message)})


class Results:
    """Grades by job, kept in a file of JSON lines that is only ever appended to.

    Reading it cuts off a half line, so the caller must hold the lock.
    """

    def __init__(self, path: Path):
        self.path = path
        self.grades: dict[str, Grade] = {}
        self.table_hash = ""
        if path.exists():
            self._read(path.read_bytes())

    def _read(self, content: bytes) -> None:
        whole, newline, half = content.rpartition(b"\n")
        for line in whole.splitlines():
            try:
                entry = json.loads(line)
                if "table" in entry:
                    self.table_hash = entry["table"]
                else:
                    self.grades[entry["key"]] = Grade.from_json(entry["grade"])
            except (ValueError, KeyError, TypeError):
                raise self._not_ours() from None
        if half:  # the last line of a run that was killed while it wrote
            if not half.startswith(FIRST_BYTES[: len(half)]):
                raise self._not_ours()
            os.truncate(self.path, len(whole) + len(newline))

    def _not_ours(self) -> ValueError:
        return ValueError(f"{self.path} isn't a file of results; move it away")

    def add(self, key: str, result: Grade) -> None:
        self._append({"key": key, "grade": result.as_json()})
        self.grades[key] = result

    def add_table(self, content: bytes) -> None:
        self.table_hash = hashlib.sha256(content).hexdigest()
        self._append({"table": self.table_hash})

    def _append(self, entry: dict) -> None:
        with self.path.open("ab") as file:
            file.write((json.dumps(entry) + "\n").encode())
            file.flush()
            os.fsync(file.fileno())


@contextlib.contextmanager
def locked(out: Path) -> Iterator[None]:
    """Hold the lock of a table; ValueError names the run that holds it already."""
    path = out.with_name(out.name + ".lock")
    while True:
        try:
            number = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY)
            break
        except FileExistsError:
            if holder := _holder(path):
                raise ValueError(
                    f"--out: {out} is being written by another run ({holder}); wait for it, or "
                    f"give another file. If there is no such run, delete {path}"
                ) from None
    try:
        with os.fdopen(number, "w") as file:
            file.write(str(os.getpid()))
        yield
    finally:
        path.unlink(missing_ok=True)


def _holder(lock: Path) -> str:
    """Who holds a lock, in words; removes a lock whose process has ended, and returns ""."""
    try:
        number = int(lock.read_text(encoding="ascii"))
        # Our own number: in a container, each run may get the same one.
        if number != os.getpid() and psutil.pid_exists(number):
            return f"process {number}"
    except FileNotFoundError:  # given back just now
        return ""
    except (ValueError, OverflowError):  # it has not written its number yet
        return "one that has just started"
    lock.unlink(missing_ok=True)
    return ""


def table(jobs: list[Job], grades: dict[str, Grade], remarks: dict[str, list[str]]) -> bytes:
    """The marks as CSV: a row for each learner with points, verdicts and reasons.

    `remarks` says what else there is to know about a learner's files.
    """
    exercises = exercise_ids()
    chapters = sorted({chapter_of(id) for id in exercises})
    rows = io.StringIO(newline="")
    writer = csv.writer(rows)
    writer.writerow(["learner", "points", "of", *chapters, *exercises, "remarks"])
    by_learner: dict[str, list[Grade]] = {}
    for job in jobs:
        by_learner.setdefault(job.learner, []).append(grades[job.key])
    for learner, results in by_learner.items():
        per_chapter = [
            sum(grade.points for grade in results if chapter_of(grade.exercise) == chapter)
            for chapter in chapters
        ]
        verdicts = {grade.exercise: grade.verdict.kind for grade in results}
        writer.writerow(
            [
                _no_formula(learner),
                sum(grade.points for grade in results),
                sum(grade.points_possible for grade in results),
                *per_chapter,
                *(verdicts[id] for id in exercises),
                " | ".join([*remarks[learner], *_reasons(results)]),
            ]
        )
    # The mark at the start makes spreadsheets read the names as UTF-8. File names and messages
    # may hold what UTF-8 can't.
    return b"\xef\xbb\xbf" + rows.getvalue().encode("utf-8", "backslashreplace")


def _reasons(grades: list[Grade]) -> list[str]:
    """Why points are missing; what several exercises share, such as a broken notebook, once."""
    said: dict[str, list[str]] = {}
    for grade in grades:
        if grade.verdict.kind != PASSED:
            notes = [note for verdict in grade.tiers.values() for note in verdict.notes]
            for text in dict.fromkeys([grade.verdict.message.split("\n")[0], *notes]):
                said.setdefault(text, []).append(grade.exercise)
    return [f"{', '.join(which)}: {text}" for text, which in said.items() if text]


def _no_formula(text: str) -> str:
    """A folder called `=cmd()` must not become a formula in the teacher's spreadsheet."""
    return "'" + text if text[:1] in "=+-@\t\r" else text


def write_table(path: Path, content: bytes, results: Results) -> Path | None:
    """Write the table; a table there that we didn't write, or that was edited, is moved aside."""
    saved = None
    if path.exists():
        present = path.read_bytes()
        if present == content:
            return None
        if hashlib.sha256(present).hexdigest() != results.table_hash:
            stamp = time.strftime("%Y%m%d-%H%M%S")
            names = (f"{path.stem}.saved-{stamp}{'-again' * n}{path.suffix}" for n in range(100))
            saved = next(p for p in map(path.with_name, names) if not p.exists())
            path.rename(saved)
    write_whole(path, content)
    results.add_table(content)
    return saved


def add_arguments(parser) -> None:
    parser.add_argument(
        "folder", metavar="DIR", type=Path, help="a folder with one for each learner"
    )
    parser.add_argument("--out", type=Path, required=True, metavar="FILE", help="the table, as CSV")
    parser.add_argument(
        "--jobs",
        type=int,
        default=max(1, os.cpu_count() or 1),
        help="answers graded at the same time (default: one for each core)",
    )
    parser.add_argument(
        "--seed", type=seed_argument, help="draw the inputs with this seed, the same for everybody"
    )


def run(args) -> int:
    with contextlib.ExitStack() as held:
        try:
            if args.jobs < 1:
                raise ValueError(f"--jobs: at least 1, got {args.jobs}")
            if not args.folder.is_dir():
                raise ValueError(f"DIR: {args.folder} is not a folder")
            check_target("--out", args.out)
            held.enter_context(locked(args.out))
            results = Results(args.out.with_name(args.out.name + ".results.jsonl"))
            files, loose = find_learners(args.folder)
            learners = {name: HandedIn(paths, args.folder) for name, paths in files.items()}
            jobs = plan(learners, args.seed)
        except (ValueError, OSError) as error:
            print(error, file=sys.stderr)
            return 2
        ours = (args.out.name, f"{args.out.stem}.saved-")  # the table may stand in DIR itself
        if names := [path.name for path in loose if not path.name.startswith(ours)]:
            print(f"in {args.folder}, but no notebooks and nobody's: {', '.join(names)}")
        return _grade_and_write(jobs, learners, results, args)


def _grade_and_write(jobs: list[Job], learners: dict[str, HandedIn], results: Results, args) -> int:
    waiting = [job for job in jobs if job.key not in results.grades]
    if len(waiting) < len(jobs):
        print(f"{len(jobs) - len(waiting)} of {len(jobs)} grades are known from an earlier run")
    try:
        _grade_all(waiting, results, args)
    except KeyboardInterrupt:
        print(
            f"stopped; {len(results.grades)} grades are kept in {results.path}. Give the same "
            "command again to go on",
            file=sys.stderr,
        )
        return 130
    remarks = {name: handed_in.remarks() for name, handed_in in learners.items()}
    saved = write_table(args.out, table(jobs, results.grades, remarks), results)
    if saved:
        print(f"{args.out} had changes that weren't ours; they are kept in {saved}")
    print(f"{len(learners)} learners, {len(jobs)} answers: marks in {args.out}")
    return 0


def _grade_all(waiting: list[Job], results: Results, args) -> None:
    from tqdm import tqdm

    pool = ThreadPoolExecutor(args.jobs)
    futures: dict[Future, Job] = {}
    try:
        for job in waiting:
            futures[pool.submit(run_job, job, args.seed)] = job
        pending = set(futures)
        with tqdm(total=len(futures), unit="answer", disable=not futures) as bar:
            while pending:
                done, pending = wait(pending, POLL_SECONDS, FIRST_COMPLETED)
                for future in done:
                    results.add(futures[future].key, future.result())
                    bar.update()
    except KeyboardInterrupt:
        pool.shutdown(wait=False, cancel_futures=True)
        running = [find_exercise(job.exercise) for f, job in futures.items() if f.running()]
        if running:
            longest = max(exercise.seconds * len(exercise.tiers) for exercise in running)
            print(
                f"\nstopping: at most {longest:g} s for the answers that are being graded",
                file=sys.stderr,
                flush=True,
            )
        pool.shutdown()
        for future, job in futures.items():
            if not future.cancelled() and job.key not in results.grades:
                results.add(job.key, future.result())
        raise
    finally:
        pool.shutdown(cancel_futures=True)
