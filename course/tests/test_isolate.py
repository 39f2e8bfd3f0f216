"""The process that runs an answer: what it may do, what it knows, and what is believed of it."""

import dataclasses
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path

import numpy as np
import psutil
import pytest
from handed_in import SOFTMAX, answered, solved, write

from course.exercise import find_exercise
from course.grader import isolate
from course.grader.isolate import run_isolated
from course.grader.outcome import Outcome, Unknown, load, plain, save
from course.grader.tiers import grade
from course.grader.worker import draw
from course.paths import ROOT

KEYS = "00-start-visible-keys"
POSIX = pytest.mark.skipif(os.name != "posix", reason="needs a POSIX system")


def returned_by(source, tmp_path):
    """What an answer returned on its first case, passed on as it came."""
    run = run_isolated(write(tmp_path, answered(source, KEYS), "00-start.ipynb"), EXERCISE, 0)
    assert not run.died, run.died
    assert run.report["verdict"] is None, run.report
    return next(iter(run.outcomes.values()))


EXERCISE = find_exercise(KEYS)

# What an answer may well do. Each is tried in one process, and must not be refused.
ALLOWED = {
    "write a file": "open('mine.txt', 'w').write('x')",
    "make and remove folders": "os.makedirs('a/b'); os.rename('a', 'c'); shutil.rmtree('c')",
    "a temporary folder": "tempfile.TemporaryDirectory().cleanup()",
    "a temporary file": "tempfile.TemporaryFile().write(b'x')",
    "write to nowhere": "open(os.devnull, 'w').write('x')",
    "read a file of Python's": "open(os.__file__).read(1)",
    "import a package": "import fractions, numpy.fft",
    "a thread": "threading.Thread(target=print).start()",
    "a pool of threads": "ThreadPool(2).map(abs, [1, -1])",
    "change folder": "os.makedirs('d'); os.chdir('d'); open('e', 'w').close(); os.chdir('..')",
    "a traceback": "traceback.format_stack()",
}
REFUSED = {
    "write outside": "open(os.path.join(HERE, 'x'), 'w')",
    "write beside the copy's folder": "open('../x', 'w')",
    "make a folder outside": "os.mkdir(os.path.join(HERE, 'x'))",
    "make a link outside": "os.symlink('y', os.path.join(HERE, 'x'))",
    "link a file into the folder": "os.link(os.__file__, 'x')",
    "connect": "socket.create_connection(('127.0.0.1', 9))",
    "serve": "socket.socket().bind(('127.0.0.1', 0))",
    "start a program": "subprocess.run([sys.executable, '-V'])",
    "start a shell": "os.system('true')",
    "kill the grader": "os.kill(os.getppid(), 0)",
    "read the exercises": "open(os.path.join(ROOT, 'course', 'exercises', 'ch00_start', 'any.py'))",
    "read the chapters": "open(os.path.join(ROOT, 'book/chapters/00-start.md'))",
    "read kernels": "open(os.path.join(ROOT, 'kernels/naive.py'))",
}  # fmt: skip


def test_an_answer_may_work_in_its_own_folder_and_nowhere_else(tmp_path):
    source = f"""
TRIED = {list((ALLOWED | REFUSED).items())!r}
def visible_keys(i, q_len, k_len):
    HERE, ROOT = {str(tmp_path)!r}, {str(ROOT)!r}
    import os, shutil, socket, subprocess, sys, tempfile, threading, traceback
    from multiprocessing.pool import ThreadPool
    refused, names = {{}}, {{**globals(), **locals()}}
    for name, code in TRIED:
        try:
            exec(code, names)
        except (PermissionError, ImportError) as error:
            refused[name] = str(error)
    return refused
"""
    outcome = returned_by(source, tmp_path)
    assert not outcome.raised, outcome.raised
    assert outcome.value.keys() == REFUSED.keys()
    assert all(
        text.startswith(("an answer may", "not your own")) for text in outcome.value.values()
    )
    assert [path.name for path in tmp_path.iterdir()] == ["00-start.ipynb"]


def test_the_process_has_its_own_home_folder_and_path(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    (tmp_path / "numpy.py").write_text("raise SystemExit")
    outcome = returned_by(
        "import os, sys, numpy\ndef visible_keys(i, q_len, k_len):\n"
        "    return [os.getcwd(), os.path.expanduser('~'), os.path.dirname(os.__file__),\n"
        "            os.listdir('.'), numpy.__name__, sys.stdin.read()]",
        tmp_path,
    )
    assert not outcome.raised, outcome.raised
    folder, home, _, files, _, typed = outcome.value
    assert os.path.realpath(folder) == os.path.realpath(home)
    assert not os.path.exists(folder), "the copy's folder must go"
    assert files == ["00-start.ipynb"] and typed == ""


@POSIX
def test_packages_installed_for_the_user_are_there(tmp_path):
    """In a Python without a venv, whose packages are all in the user's own folder."""
    python, home = getattr(sys, "_base_executable", sys.executable), tmp_path / "home"
    kept = ("PYTHONPATH", "PYTHONUSERBASE", "PYTHONNOUSERSITE")
    environment = {name: value for name, value in os.environ.items() if name not in kept}
    environment["HOME"] = str(home)
    asked = [python, "-m", "site", "--user-site"]
    site = subprocess.run(asked, env=environment, capture_output=True, encoding="utf-8").stdout
    folder = Path(site.strip())
    assert folder.is_relative_to(home)
    folder.mkdir(parents=True)
    packages = {str(Path(module.__file__).parents[1]) for module in (np, psutil)}
    (folder / "user.pth").write_text("\n".join(packages), encoding="utf-8")
    code = (
        "import pathlib, sys\n"
        "from course.exercise import find_exercise\nfrom course.grader.tiers import grade\n"
        "print(grade(pathlib.Path(sys.argv[1]), find_exercise(sys.argv[2])).verdict)"
    )
    command = [python, "-c", code, str(write(tmp_path, solved())), SOFTMAX]
    graded = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, encoding="utf-8"
    )
    assert "kind='passed'" in graded.stdout, graded


# What may happen before the answer runs, as Python code that a broken machine runs first, and
# what is said of it.
BROKEN_STARTS = {
    "a missing package": ("sys.modules['numpy'] = None", "ModuleNotFoundError: import of numpy"),
    "no hook": ("sys.addaudithook = None", "TypeError: 'NoneType' object is not callable"),
    "an exit that says success": ("os._exit(0)", "its process ended with exit status 0"),
    "an exit": ("os._exit(3)", "its process ended with exit status 3"),
    "a hang": ("time.sleep(600)", "it ran longer than 2 s"),
    "a hang after words": ("print('x', flush=True); time.sleep(600)", "it ran longer than 2 s"),
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN_STARTS)
def test_a_worker_that_cannot_start_is_not_blamed_on_the_answer(name, tmp_path, monkeypatch):
    broken, says = BROKEN_STARTS[name]
    (tmp_path / "first").mkdir()
    (tmp_path / "first" / "sitecustomize.py").write_text(f"import os, sys, time\n{broken}\n")
    path = os.pathsep.join((str(tmp_path / "first"), str(ROOT)))
    given = isolate._environment
    monkeypatch.setattr(isolate, "_environment", lambda box: given(box) | {"PYTHONPATH": path})
    exercise = dataclasses.replace(find_exercise(SOFTMAX), seconds=2)
    died = run_isolated(write(tmp_path, solved()), exercise, 0).died
    assert died.startswith(f"the grader itself failed, and the answer isn't at fault: {says}")
    assert "look for" not in died


def test_the_worker_draws_the_same_cases(tmp_path):
    _, cases = draw(SOFTMAX, 5)
    for name, case in find_exercise(SOFTMAX).cases(5).items():
        np.testing.assert_array_equal(case.args[0], cases[name].args[0])


def test_the_worker_forgets_every_reference():
    """In a process of its own, since this one has them all."""
    code = (
        "import gc, types\n"
        "from course.exercise import exercise_ids\nfrom course.grader.worker import draw\n"
        "drawn = [draw(name, 5) for name in exercise_ids()]\n"
        "assert all(e.reference is None and e.inputs is None and cases for e, cases in drawn)\n"
        "print(*{o.__module__ for o in gc.get_objects() if isinstance(o, types.FunctionType)})"
    )
    command = [sys.executable, "-c", code]
    loaded = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert "course.grader.worker" in loaded
    assert "course.exercises" not in loaded


# ── limits ───────────────────────────────────────────────────────────────────────────────────


@POSIX
def test_a_worker_ends_when_the_grader_was_killed(tmp_path):
    notebook = write(tmp_path, answered("def softmax(s):\n    while True: pass"))
    code = (
        "import dataclasses, pathlib, sys\n"
        "from course.exercise import find_exercise\nfrom course.grader.tiers import grade\n"
        "exercise = dataclasses.replace(find_exercise(sys.argv[2]), seconds=600)\n"
        "grade(pathlib.Path(sys.argv[1]), exercise)\n"
    )
    command = [sys.executable, "-c", code, str(notebook), SOFTMAX]
    with subprocess.Popen(command, cwd=ROOT) as grader:
        workers = waited(lambda: psutil.Process(grader.pid).children())
        time.sleep(2)  # until it is in its loop
        assert workers[0].is_running()
        grader.send_signal(signal.SIGKILL)
        grader.wait()
    assert waited(lambda: not alive(workers[0])), "the worker goes on for ever"


def test_a_worker_ends_with_a_grader_that_is_not_its_parent():
    """As in a venv on Windows, where a launcher stands between."""
    code = (
        "import sys, time\nfrom course.grader import worker\n"
        "worker.WINDOWS = True\nworker.end_with(int(sys.argv[1]))\n"
        "print('ready', flush=True)\ntime.sleep(600)"
    )
    forever = [sys.executable, "-c", "import time; time.sleep(600)"]
    with subprocess.Popen(forever) as grader:
        command = [sys.executable, "-c", code, str(grader.pid)]
        with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE) as worker:
            try:
                assert worker.stdout.readline().strip() == b"ready"
                time.sleep(1.5)
                assert worker.poll() is None, "it ended before the grader"
                grader.kill()
                grader.wait()
                assert waited(lambda: worker.poll() is not None, 5), "it goes on for ever"
            finally:
                grader.kill()
                worker.kill()


def test_ctrl_c_reaches_the_grader_alone_and_ends_the_worker(tmp_path, monkeypatch):
    started, popen = [], subprocess.Popen

    def recorded(*args, creationflags=0, **options):
        # Other systems than Windows refuse the flags.
        started.append((popen(*args, **options), creationflags))
        return started[-1][0]

    def interrupted(_):
        raise KeyboardInterrupt

    monkeypatch.setattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 512, raising=False)
    monkeypatch.setattr(subprocess, "Popen", recorded)
    monkeypatch.setattr(isolate, "_memory", interrupted)
    boxes = tmp_path / "boxes"
    boxes.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(boxes))
    with pytest.raises(KeyboardInterrupt):
        run_isolated(write(tmp_path, answered("def softmax(s):\n    while True: pass")),
                     find_exercise(SOFTMAX), 0)  # fmt: skip
    ((process, flags),) = started
    ended = process.poll() is not None
    process.kill()
    assert ended, "the worker goes on for ever"
    assert not list(boxes.iterdir())
    assert flags == 512


def test_on_windows_the_launcher_and_its_child_are_one_worker(monkeypatch):
    """What psutil says of them is the same on every system."""
    monkeypatch.setattr(isolate, "WINDOWS", True)
    child = "kept = b'x' * (200 << 20); print('ready', flush=True); input()"
    code = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}])"
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as launcher:
        assert launcher.stdout.readline().strip() == b"ready"
        (worker,) = psutil.Process(launcher.pid).children()
        assert isolate._memory(launcher.pid) > 200 << 20
        isolate._kill(launcher)
        assert waited(lambda: not alive(worker)), "the worker goes on for ever"


# In a process of its own, for a hook can't be undone: the system of the hook tells the path of a
# descriptor as macOS does, and has no /proc.
AS_ON_MACOS = r"""
import os, pathlib, sys, tempfile
from course.grader import worker

def told(descriptor, request, space):
    assert request == 50 and len(space) == 1024
    return os.readlink(f"/proc/self/fd/{descriptor}").encode().ljust(1024, b"\0")

mine, other = (pathlib.Path(name) for name in sys.argv[1:])
os.chdir(mine)
outside, inside = os.open(other, os.O_RDONLY), os.open(mine, os.O_RDONLY)
worker.F_GETPATH, worker.fcntl = 50, told
real = os.path.realpath
os.path.realpath = lambda path, **how: real(str(path).replace("/proc/self/fd", "/none"), **how)
worker.confine(mine, frozenset())
with tempfile.TemporaryDirectory(dir=mine) as folder:
    pathlib.Path(folder, "a").mkdir()
os.mkdir("b", dir_fd=inside)
for name in ("kept", "../other/kept"):
    try:
        os.remove(name, dir_fd=outside)
    except PermissionError as error:
        assert str(error).startswith("an answer may"), error
    else:
        raise AssertionError("it was removed")
"""


@pytest.mark.skipif(not os.path.exists("/proc/self/fd"), reason="asks /proc in place of macOS")
def test_a_folder_given_by_descriptor_is_found_as_on_macos(tmp_path):
    mine, other = tmp_path / "mine", tmp_path / "other"
    mine.mkdir()
    other.mkdir()
    (other / "kept").touch()
    command = [sys.executable, "-c", AS_ON_MACOS, str(mine), str(other)]
    subprocess.run(command, cwd=ROOT, check=True)
    assert [path.name for path in mine.iterdir()] == ["b"] and (other / "kept").exists()


def alive(process):
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def waited(condition, seconds=20):
    deadline = time.monotonic() + seconds
    while not (found := condition()) and time.monotonic() < deadline:
        time.sleep(0.05)
    return found


def test_the_watchdog_works_where_the_system_has_no_limit(tmp_path):
    """As on macOS and Windows. The worker has the exercise's own limit, this one is lower."""
    source = "def softmax(s):\n    kept = []\n    while True: kept.append(b'x' * (16 << 20))"
    exercise = dataclasses.replace(find_exercise(SOFTMAX), memory_bytes=1 << 28)
    verdict = grade(write(tmp_path, answered(source)), exercise).verdict
    assert verdict.kind == "error"
    assert verdict.message == "it used more than 0.25 GiB of memory"


# ── what comes back ──────────────────────────────────────────────────────────────────────────


class Imitator:
    __class__ = np.float64
    dtype = np.dtype(np.float64)


RECURSIVE: list = []
RECURSIVE.append(RECURSIVE)

# A value that an answer may return, and what is passed on.
VALUES = {
    "None": (None, None),
    "int": (3, 3),
    "negative zero": (-0.0, -0.0),
    "inf": (float("-inf"), float("-inf")),
    "text": ("é\ud800", "é\ud800"),
    "tuple in list": ([(1, True)], [(1, True)]),
    "dict": ({"a": [1.5]}, {"a": [1.5]}),
    "dict with other keys": ({1: 2}, Unknown("dict")),
    "recursive list": (RECURSIVE, [[[[Unknown("list")]]]]),
    "long list": ([0] * 1001, Unknown("list")),
    "large dict": (dict.fromkeys(map(str, range(1001))), Unknown("dict")),
    "huge int": (1 << 5000, Unknown("int of 5001 bits")),
    "long text": ("x" * 10_001, Unknown("str of 10001 characters")),
    "set": ({1}, Unknown("set")),
    "generator": ((x for x in ()), Unknown("generator")),
    "an int's subclass": (type("Mine", (int,), {})(3), Unknown("Mine")),
    "imitator": (Imitator(), Unknown("Imitator")),
    "function": (len, Unknown("builtin_function_or_method")),
    "array": (np.arange(6.0).reshape(2, 3).T, np.arange(6.0).reshape(2, 3).T),
    "array without axes": (np.array(3.0), np.array(3.0)),
    "empty array": (np.zeros((2, 0), np.float16), np.zeros((2, 0), np.float16)),
    "scalar": (np.float16(3), np.array(np.float16(3))),
    "object array": (np.array([None]), Unknown("NumPy array of dtype object")),
    "array of records with objects": (
        np.zeros(1, [("a", object)]), Unknown("NumPy array of dtype [('a', 'O')]")
    ),
    "text array": (np.array(["a"]), Unknown("NumPy array of dtype <U1")),
    "array subclass": (np.ma.masked_array([1.0]), Unknown("MaskedArray")),
    "too large": (np.zeros(65 << 20, np.int8), Unknown("NumPy array of 65 MiB")),
}  # fmt: skip


@pytest.mark.parametrize("name", VALUES)
def test_a_value_survives_the_way_back_or_is_named(name, tmp_path):
    value, expected = VALUES[name]
    path = tmp_path / "result"
    with path.open("wb") as file:
        save(file, {"verdict": None, "message": ""}, {"case": Outcome(plain(value))})
    _, outcomes = load(path)
    got = outcomes["case"].value
    assert type(got) is type(expected)
    if isinstance(expected, np.ndarray):
        assert got.dtype == expected.dtype and got.shape == expected.shape
        np.testing.assert_array_equal(got, expected)
    else:
        assert repr(got) == repr(expected)


def test_a_copy_is_passed_on_so_that_later_calls_cannot_change_it():
    array = np.zeros(3)
    kept = plain([array])
    array[:] = 1
    assert kept[0].tolist() == [0, 0, 0]


REPORT = {"verdict": None, "message": "", "notes": []}
CASE = {"value": {"value": 1}, "raised": "", "where": "", "changed": []}
# What an answer could have written instead of the grader.
FORGED = {
    "it says passed": {"report": REPORT | {"verdict": "passed"}, "cases": {}},
    "it says undefined": {"report": REPORT | {"verdict": "undefined"}, "cases": {}},
    "no message": {"report": {"verdict": None}, "cases": {}},
    "a message that is no text": {"report": REPORT | {"message": 3}, "cases": {}},
    "notes that are no texts": {"report": REPORT | {"notes": [3]}, "cases": {}},
    "an error that is no text": {"report": REPORT, "cases": {"a": CASE | {"raised": 3}}},
    "changes that are no texts": {"report": REPORT, "cases": {"a": CASE | {"changed": [None]}}},
    "an unknown field": {"report": REPORT, "cases": {"a": CASE | {"more": 1}}},
    "a lost array": {"report": REPORT, "cases": {"a": CASE | {"value": {"array": 7}}}},
    "cases that are a list": {"report": REPORT, "cases": []},
    "a list": [],
}


@pytest.mark.parametrize("name", FORGED)
def test_a_forged_report_is_not_believed(name, tmp_path):
    path = tmp_path / "result.npz"
    np.savez(path, text=np.array(json.dumps(FORGED[name])))
    with pytest.raises(Exception) as caught:  # of any kind
        load(path)
    assert isinstance(caught.value, Exception)


def test_the_forged_reports_differ_from_a_good_one_only_in_what_they_forge(tmp_path):
    path = tmp_path / "result.npz"
    np.savez(path, text=np.array(json.dumps({"report": REPORT, "cases": {"a": CASE}})))
    assert load(path)[1]["a"] == Outcome(1)


def test_a_compressed_result_is_refused_before_it_is_unpacked(tmp_path):
    path = tmp_path / "result.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("text.npy", b"\0" * 1000)
    with pytest.raises(ValueError, match="compressed"):
        load(path)


# What an answer writes to the result's descriptor before it leaves.
GARBAGE = {
    "text": "b'passed'",
    "half a zip file": "b'PK\\x03\\x04' + bytes(99)",
    "much": "bytes(1 << 20)",
}


@pytest.mark.parametrize("name", GARBAGE)
def test_a_result_that_is_garbage_is_an_error(name, tmp_path):
    source = (
        "import os\ndef softmax(s):\n"
        "    for fd in range(3, 64):\n"
        "        try:\n"
        f"            os.write(fd, {GARBAGE[name]})\n"
        "        except OSError:\n"
        "            pass\n"
        "    os._exit(0)"
    )
    result = grade(write(tmp_path, answered(source)), find_exercise(SOFTMAX))
    assert result.verdict.kind == "error" and result.points == 0
    assert result.verdict.message.startswith("no result could be read from it")
