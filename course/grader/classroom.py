"""`python -m course class DIR --out marks.csv`: grade a folder of learners into a table.

Each learner is a folder in DIR that holds notebooks, at any depth, or a single notebook in DIR
itself. Every answer is graded in a process of its own. Results are kept as they come, beside the
table, so an interrupted run loses nothing and goes on where it stopped; a notebook that has
changed since is graded again.
"""

import csv
import hashlib
import io
import json
import os
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path

from course.exercise import TIERS, chapter_of, exercise_ids, find_exercise
from course.grader.isolate import LARGEST_NOTEBOOK_BYTES
from course.grader.tiers import grade, seed_argument
from course.grader.verdict import ERROR, NOT_ATTEMPTED, Grade, Verdict
from course.paths import ROOT, write_whole

IGNORED_FOLDERS = {".ipynb_checkpoints", ".saved", "__MACOSX"}


@dataclass(frozen=True)
class Job:
    """One exercise of one learner. `key` changes with anything that could change the grade."""

    learner: str
    exercise: str
    notebook: Path | None
    problem: str
    key: str
    remark: str = ""  # for the teacher, beside what the grade says


def find_learners(folder: Path) -> dict[str, list[Path]]:
    """The notebooks of each learner, by name; ValueError if there are none at all."""
    learners: dict[str, list[Path]] = {}
    for path in sorted(folder.iterdir()):
        if path.name in IGNORED_FOLDERS or path.name.startswith("."):
            continue
        if path.is_dir():
            learners.setdefault(path.name, []).extend(_notebooks(path))
        elif path.suffix == ".ipynb":
            chapters = sorted({chapter_of(id) for id in exercise_ids()}, key=len, reverse=True)
            name = path.stem
            for chapter in chapters:
                name = name.replace(chapter, "")
            learners.setdefault(name.strip(" -_.") or path.stem, []).append(path)
    if not any(learners.values()):
        raise ValueError(
            f"DIR: {folder} holds no notebooks; it should have a folder for each learner, with "
            "notebooks such as 01-naive.ipynb in it"
        )
    return dict(sorted(learners.items()))


def _notebooks(folder: Path) -> Iterator[Path]:
    for parent, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if name not in IGNORED_FOLDERS)
        for name in sorted(files):
            if name.endswith(".ipynb"):
                yield Path(parent, name)


@dataclass(frozen=True)
class Choice:
    """A learner's notebook of a chapter, or the problem that leaves none to grade."""

    notebook: Path | None = None
    problem: str = ""
    remark: str = ""


def choose(notebooks: list[Path], chapter: str) -> Choice:
    exact = [path for path in notebooks if path.name == f"{chapter}.ipynb"]
    similar = [path for path in notebooks if chapter in path.stem and path not in exact]
    found = exact or similar
    if not found:
        return Choice(problem=f"handed in no notebook {chapter}.ipynb")
    if len(found) > 1:
        names = ", ".join(sorted(f"{path.parent.name}/{path.name}" for path in found))
        problem = f"handed in {len(found)} notebooks for {chapter} ({names}): keep one"
        return Choice(problem=problem)
    remark = ""
    if exact and similar:
        others = ", ".join(sorted(path.name for path in similar))
        remark = f"{chapter}: {exact[0].name} was graded, {others} was not"
    return Choice(found[0], remark=remark)


def plan(learners: dict[str, list[Path]], seed: int | None) -> list[Job]:
    """Every exercise of every learner."""
    course_key = _course_key()
    jobs = []
    for learner, notebooks in learners.items():
        for exercise_id in exercise_ids():
            choice = choose(notebooks, chapter_of(exercise_id))
            content = _content_key(choice.notebook) if choice.notebook else choice.problem
            parts = json.dumps([learner, exercise_id, content, seed, course_key])
            key = hashlib.sha256(parts.encode()).hexdigest()[:32]
            job = Job(learner, exercise_id, choice.notebook, choice.problem, key, choice.remark)
            jobs.append(job)
    return jobs


def _content_key(notebook: Path) -> str:
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
    if job.notebook is None:
        kind = NOT_ATTEMPTED if job.problem.startswith("handed in no") else ERROR
        verdicts = {exercise.tiers[0]: Verdict(kind, job.problem)}
        return Grade(exercise.id, exercise.points, verdicts)
    try:
        return grade(job.notebook, exercise, TIERS, seed)
    except Exception as error:  # one learner's notebook must never lose the others' marks
        message = f"the grader itself failed: {type(error).__name__}: {error}"
        return Grade(exercise.id, exercise.points, {exercise.tiers[0]: Verdict(ERROR, message)})


class Results:
    """Grades by job, kept in a file of JSON lines that is only ever appended to."""

    def __init__(self, path: Path):
        self.path = path
        self.grades: dict[str, Grade] = {}
        self.table_hash = ""
        self.whole_bytes = 0
        if path.exists():
            self._read(path.read_bytes())

    def _read(self, content: bytes) -> None:
        for line in content.splitlines(keepends=True):
            if not line.endswith(b"\n"):
                break  # the last line of a run that was killed while it wrote
            try:
                entry = json.loads(line)
                if "table" in entry:
                    self.table_hash = entry["table"]
                else:
                    self.grades[entry["key"]] = Grade.from_json(entry["grade"])
            except (ValueError, KeyError, TypeError):
                raise ValueError(f"{self.path} isn't a file of results; move it away") from None
            self.whole_bytes += len(line)

    def add(self, key: str, result: Grade) -> None:
        self.grades[key] = result
        self._append({"key": key, "grade": result.as_json()})

    def add_table(self, content: bytes) -> None:
        self.table_hash = hashlib.sha256(content).hexdigest()
        self._append({"table": self.table_hash})

    def _append(self, entry: dict) -> None:
        with self.path.open("ab") as file:
            file.truncate(self.whole_bytes)
            line = (json.dumps(entry) + "\n").encode()
            file.write(line)
            file.flush()
            os.fsync(file.fileno())
        self.whole_bytes += len(line)


def table(jobs: list[Job], grades: dict[str, Grade]) -> bytes:
    """The marks as CSV: a row for each learner with points, verdicts and reasons."""
    exercises = exercise_ids()
    chapters = sorted({chapter_of(id) for id in exercises})
    rows = io.StringIO(newline="")
    writer = csv.writer(rows)
    writer.writerow(["learner", "points", "of", *chapters, *exercises, "remarks"])
    by_learner: dict[str, list[Grade]] = {}
    for job in jobs:
        by_learner.setdefault(job.learner, []).append(grades[job.key])
    for learner, results in by_learner.items():
        remarks = list(
            dict.fromkeys(job.remark for job in jobs if job.learner == learner and job.remark)
        )
        said: dict[str, list[str]] = {}  # a notebook that can't be read fails all that is in it
        for each in results:
            said.setdefault(_first_line(each.verdict.message), []).append(each.exercise)
        remarks += [f"{', '.join(which)}: {text}" for text, which in said.items() if text]
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
                " | ".join(remarks),
            ]
        )
    # The mark at the start makes spreadsheets read the names as UTF-8. File names and messages
    # may hold what UTF-8 can't.
    return b"\xef\xbb\xbf" + rows.getvalue().encode("utf-8", "backslashreplace")


def _first_line(message: str) -> str:
    return message.split("\n")[0]


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
    if args.jobs < 1:
        print(f"--jobs: at least 1, got {args.jobs}", file=sys.stderr)
        return 2
    try:
        if not args.folder.is_dir():
            raise ValueError(f"DIR: {args.folder} is not a folder")
        if not args.out.absolute().parent.is_dir():
            raise ValueError(f"--out: there is no folder {args.out.absolute().parent}")
        results = Results(args.out.with_name(args.out.name + ".results.jsonl"))
        jobs = plan(find_learners(args.folder), args.seed)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    waiting = [job for job in jobs if job.key not in results.grades]
    if len(waiting) < len(jobs):
        print(f"{len(jobs) - len(waiting)} of {len(jobs)} grades are known from an earlier run")
    try:
        _grade_all(waiting, results, args)
    except KeyboardInterrupt:
        print(
            f"\nstopped; {len(results.grades)} grades are kept in {results.path}. Give the same "
            "command again to go on",
            file=sys.stderr,
        )
        return 130
    saved = write_table(args.out, table(jobs, results.grades), results)
    if saved:
        print(f"{args.out} had changes that weren't ours; they are kept in {saved}")
    learners = len({job.learner for job in jobs})
    print(f"{learners} learners, {len(jobs)} answers: marks in {args.out}")
    return 0


def _grade_all(waiting: list[Job], results: Results, args) -> None:
    from tqdm import tqdm

    with ThreadPoolExecutor(args.jobs) as pool:
        futures = {pool.submit(run_job, job, args.seed): job for job in waiting}
        try:
            bar = tqdm(
                as_completed(futures), total=len(futures), unit="answer", disable=not futures
            )
            for future in bar:
                results.add(futures[future].key, future.result())
        except KeyboardInterrupt:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
