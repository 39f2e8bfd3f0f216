"""Run one answer in a process of its own, on a copy, with a time and a memory limit.

Whatever the answer does there (loops for ever, exits, crashes, fills the memory or the output,
deletes files), the caller gets a report or a reason within the time limit.
"""

import contextlib
import json
import os
import shutil
import signal
import site
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from course.exercise import Exercise
from course.grader.outcome import Outcome, load
from course.paths import ROOT

WINDOWS = os.name == "nt"
POLL_SECONDS = 0.02
LARGEST_NOTEBOOK_BYTES = 200 << 20


@dataclass(frozen=True)
class Run:
    """What came back. `died` says why there is nothing to judge, empty if there is."""

    report: dict = field(default_factory=dict)
    outcomes: dict[str, Outcome] = field(default_factory=dict)
    died: str = ""
    seconds: float = 0.0


def run_isolated(notebook: Path, exercise: Exercise, seed: int) -> Run:
    """Collect and run an answer; never raises for what a notebook holds or does."""
    started = time.monotonic()
    box = Path(tempfile.mkdtemp(prefix="grade-"))
    try:
        died, result = _run(notebook, exercise, seed, box)
        if died:
            return Run(died=died, seconds=time.monotonic() - started)
        try:
            report, outcomes = load(result)
        except Exception as error:  # the answer could write to the file: anything may be in it
            died = f"no result could be read from it ({type(error).__name__}: {error})"
            return Run(died=died, seconds=time.monotonic() - started)
        return Run(report, outcomes, seconds=time.monotonic() - started)
    finally:
        shutil.rmtree(box, ignore_errors=True)


def _run(notebook: Path, exercise: Exercise, seed: int, box: Path) -> tuple[str, Path]:
    folder = box / "copy"  # all that the answer may write to
    folder.mkdir()
    copy = folder / notebook.name
    if problem := _copy(notebook, copy):
        return problem, box
    request, result, started = box / "request.json", box / "result.npz", box / "started"
    content = {
        "notebook": str(copy),
        "exercise": exercise.id,
        "seed": seed,
        "grader": os.getpid(),
    }
    request.write_text(json.dumps(content), encoding="utf-8")
    # -P: a file beside the notebook must not stand in for one of our modules, or NumPy.
    command = [sys.executable, "-P", "-B", "-m", "course.grader.worker", request, result, started]
    process = subprocess.Popen(
        command,
        cwd=folder,
        env=_environment(folder),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        # Ctrl-C is for the grader alone, which then ends this process.
        start_new_session=not WINDOWS,
        creationflags=getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0),
    )
    tail = _Tail(process.stdout)
    killed = _watch(process, exercise)
    tail.join(1)  # not for ever: a process that got away may hold the pipe
    if not started.is_file() or started.stat().st_size == 0:
        return _how_it_failed_to_start(killed, process.returncode, tail.text()), result
    if killed:
        return killed, result
    if process.returncode != 0 or result.stat().st_size == 0:
        return _how_it_ended(process.returncode, tail.text()), result
    return "", result


def _copy(notebook: Path, target: Path) -> str:
    """Copy a notebook; what is wrong with it if that can't be done."""
    try:
        if notebook.is_dir():
            return f"{notebook.name} is a folder; a notebook is a file"
        if not notebook.is_file():  # a link to nothing, a pipe
            if os.path.lexists(notebook):
                return f"{notebook.name} is no file, or a link to a file that isn't there"
            return f"there is no notebook {notebook.name}"
        if (size := notebook.stat().st_size) > LARGEST_NOTEBOOK_BYTES:
            return f"{notebook.name} has {size >> 20} MiB; clear its outputs and save it again"
        shutil.copyfile(notebook, target)
    except OSError as error:
        return f"{notebook.name} can't be read: {error.strerror}. Look at the file's permissions"
    return ""


def _environment(folder: Path) -> dict[str, str]:
    # One thread: several answers are graded at once, and each thread's buffers count against
    # the memory limit.
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    return {
        **os.environ,
        **threads,
        "PYTHONPATH": str(ROOT),
        "PYTHONIOENCODING": "utf-8:replace",
        "MPLBACKEND": "agg",
        "MPLCONFIGDIR": str(folder),
        "HOME": str(folder),
        "USERPROFILE": str(folder),  # the same on Windows
        "PYTHONUSERBASE": site.getuserbase(),  # where pip install --user puts packages: below HOME
        "TMPDIR": str(folder),
    }


def _watch(process: subprocess.Popen, exercise: Exercise) -> str:
    """Wait for the end, or a limit, and say which limit it was; nothing goes on after that."""
    deadline = time.monotonic() + exercise.seconds
    try:
        while True:
            try:
                process.wait(POLL_SECONDS)
                return ""
            except subprocess.TimeoutExpired:
                if time.monotonic() > deadline:
                    limit = f"it ran longer than {exercise.seconds:g} s"
                    return f"{limit}: look for a loop that never ends"
                if _memory(process.pid) > exercise.memory_bytes:
                    return f"it used more than {exercise.memory_bytes / (1 << 30):g} GiB of memory"
    finally:  # Ctrl-C too: the process isn't told of it
        _kill(process)


def _memory(pid: int) -> int:
    """What the worker uses. It has no children to count: its hook forbids them."""
    try:
        process = psutil.Process(pid)
        # In a venv on Windows python.exe is a launcher, and the worker is its child.
        family = [process, *(process.children(recursive=True) if WINDOWS else ())]
        return sum(each.memory_info().rss for each in family)
    except psutil.Error:
        return 0


def _kill(process: subprocess.Popen) -> None:
    """Kill the worker, and what it may have started, past its hook."""
    if not WINDOWS:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
    else:
        # Windows has no groups to kill: children of a worker that has ended are not found.
        with contextlib.suppress(psutil.Error):
            for child in psutil.Process(process.pid).children(recursive=True):
                child.kill()
        process.kill()
    process.wait()


def _how_it_failed_to_start(killed: str, code: int, printed: str) -> str:
    if killed:
        why = killed.partition(":")[0]  # what follows is advice to the learner
    else:
        why = (printed.strip().splitlines() or [f"its process ended with exit status {code}"])[-1]
    return f"the grader itself failed, and the answer isn't at fault: {why[:200]}"


def _how_it_ended(code: int, printed: str) -> str:
    if code < 0:
        known = {number.value: number.name for number in signal.Signals}
        return (
            f"the process was killed by {known.get(-code, f'signal {-code}')}: look for what can "
            "crash Python itself, such as ctypes or a compiled library, or for too much memory"
        )
    last = printed.strip().splitlines()[-1:] if code else []
    said = f"; its last words: {last[0][:200]}" if last else ""
    return (
        f"the process ended by itself (exit status {code}) before it returned anything: "
        f"look for a call that exits, such as os._exit{said}"
    )


class _Tail(threading.Thread):
    """Drains a pipe, so that the process can't block on it, and keeps the last few lines."""

    KEPT_BYTES = 4096

    def __init__(self, pipe):
        super().__init__(daemon=True)
        self._pipe, self._kept = pipe, b""
        self.start()

    def run(self) -> None:
        with self._pipe:
            while block := self._pipe.read1(1 << 20):
                self._kept = (self._kept + block)[-self.KEPT_BYTES :]

    def text(self) -> str:
        return self._kept.decode("utf-8", "replace")
