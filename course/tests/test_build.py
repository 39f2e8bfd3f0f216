"""`make` on machines in every state: no Python, no network, half an install, another environment.

The real requirements are gigabytes. So these tests run the real Makefile and environment.py in a
small project whose requirements are two empty packages; the tests at the end take the real ones.
"""

import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import pytest

from course.paths import ROOT
from course.tests.browser import unavailable

pytestmark = pytest.mark.skipif(
    not shutil.which("make") or os.name == "nt", reason="there is no make here"
)
FULL = os.environ.get("FULL")
full_only = pytest.mark.skipif(not FULL, reason="takes minutes: runs with FULL=1")

# An in-tree build backend, so that installing the small project needs no setuptools.
BACKEND = """
import zipfile

def build_editable(folder, config_settings=None, metadata_directory=None):
    name = "flash_attention_tile_by_tile-1-py3-none-any.whl"
    info = name.split("-py3")[0] + ".dist-info"
    with zipfile.ZipFile(f"{folder}/{name}", "w") as wheel:
        wheel.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\\n"
                       "Name: flash-attention-tile-by-tile\\nVersion: 1\\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\\nTag: py3-none-any\\n")
        wheel.writestr(f"{info}/RECORD", "")
    return name

build_wheel = build_editable
"""
PYPROJECT = """
[build-system]
requires = []
build-backend = "backend"
backend-path = ["."]
"""


def write_wheel(folder: Path, name: str, needs: str = "") -> None:
    info = f"{name}-1.0.dist-info"
    requires = f"Requires-Dist: {needs}\n" if needs else ""
    with zipfile.ZipFile(folder / f"{name}-1.0-py3-none-any.whl", "w") as wheel:
        wheel.writestr(f"{name}.py", "whole = True\n")
        wheel.writestr(
            f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n{requires}"
        )
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/RECORD", "")


def outer_environment() -> dict[str, str]:
    """This environment without what a `make test VENV=...` around us hands down to every make."""
    handed_down = ("MAKE", "MFLAGS", "VENV", "WHEELS", "PYTHON", "PORT")
    return {k: v for k, v in os.environ.items() if not k.startswith(handed_down)}


class Clone:
    """A small project with the real Makefile, in a folder with a space in its name."""

    def __init__(self, folder: Path):
        self.root = folder / "a clone"
        self.wheels = folder / "wheels"
        (self.root / "course").mkdir(parents=True)
        self.wheels.mkdir()
        for name in ("Makefile", "course/environment.py"):
            shutil.copy(ROOT / name, self.root / name)
        (self.root / "requirements.txt").write_text(
            "# two packages\n-c constraints.txt\nflagstone==1.0  # why\n"
            'gravel==1.0; sys_platform != "nowhere"\nnothing==9; sys_platform == "nowhere"\n'
        )
        (self.root / "constraints.txt").write_text("pebble==1.0\n")
        (self.root / "pyproject.toml").write_text(PYPROJECT)
        (self.root / "backend.py").write_text(BACKEND)
        write_wheel(self.wheels, "flagstone", needs="pebble")
        write_wheel(self.wheels, "gravel")
        write_wheel(self.wheels, "pebble")

    def command(self, *arguments: str) -> list[str]:
        return ["make", "-C", str(self.root), *arguments]

    def make(self, *arguments: str, path: str | None = None) -> subprocess.CompletedProcess:
        return subprocess.run(
            self.command(*arguments),
            capture_output=True,
            text=True,
            env=self.environ(path),
            stdin=subprocess.DEVNULL,
            timeout=300,
        )

    def environ(self, path: str | None = None) -> dict[str, str]:
        # No index at all, whatever this machine's own settings say.
        mine = {k: v for k, v in outer_environment().items() if not k.startswith("PIP_")}
        mine.update(PIP_CONFIG_FILE=os.devnull, PIP_NO_INDEX="1", PIP_RETRIES="0")
        mine["PATH"] = path or f"{Path(sys.base_prefix) / 'bin'}{os.pathsep}{os.environ['PATH']}"
        return mine

    def whole(self, venv: str = ".venv") -> bool:
        """Whether both packages, and what they need, are there and whole."""
        code = "import flagstone, gravel, pebble; print(pebble.whole and gravel.whole)"
        python = self.root / venv / "bin" / "python"
        found = subprocess.run([python, "-c", code], capture_output=True, text=True)
        return found.stdout.strip() == "True"


@pytest.fixture
def clone(tmp_path):
    return Clone(tmp_path)


def fake_python(folder: Path, name: str, script: str) -> None:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(f"#!/bin/sh\n{script}\n")
    (folder / name).chmod(0o755)


def tools_only(folder: Path, *names: str) -> str:
    """A PATH with the shell's tools and no Python but those in `folder`."""
    folder.mkdir(exist_ok=True)
    for name in ("make", "sh", "env", "rm", *names):
        if not (folder / name).exists():
            (folder / name).symlink_to(shutil.which(name))
    return str(folder)


def one_line(outcome: subprocess.CompletedProcess) -> str:
    """What make says when it fails, without make's own last word."""
    assert outcome.returncode != 0, outcome.stdout
    lines = [line for line in outcome.stderr.splitlines() if not line.startswith("make")]
    assert len(lines) == 1, outcome.stderr
    return lines[0]


def test_fresh_then_quick(clone):
    first = clone.make("environment", f"WHEELS={clone.wheels}")
    assert first.returncode == 0, first.stderr
    assert "Installing 2 packages" in first.stdout
    assert clone.whole()
    # Were anything installed again, this would stop it.
    (clone.root / "backend.py").write_text("raise RuntimeError")
    start = time.monotonic()
    second = clone.make("environment")
    assert second.returncode == 0, second.stderr
    assert "Installing" not in second.stdout and "pip" not in second.stdout
    assert time.monotonic() - start < 5  # it takes 0.2 s here


def test_changed_requirements_are_installed(clone):
    assert clone.make("environment", f"WHEELS={clone.wheels}").returncode == 0
    write_wheel(clone.wheels, "sand")
    with (clone.root / "requirements.txt").open("a") as file:
        file.write("sand==1.0\n")
    again = clone.make("environment", f"WHEELS={clone.wheels}")
    assert "Installing 1 packages" in again.stdout, again.stderr


def test_an_install_that_fails_is_not_taken_for_done(clone):
    failed = clone.make("environment")  # no wheels, no index
    assert failed.returncode != 0
    assert "The install failed" in failed.stderr
    assert not (clone.root / ".venv" / ".course-installed").exists()
    again = clone.make("environment", f"WHEELS={clone.wheels}")
    assert again.returncode == 0, again.stderr
    assert clone.whole()


def test_an_install_that_is_killed_is_done_again(clone):
    running = subprocess.Popen(
        clone.command("environment", f"WHEELS={clone.wheels}"),
        env=clone.environ(),
        stdout=subprocess.DEVNULL,
        start_new_session=True,
    )
    mark = clone.root / ".venv" / ".course-installing"
    deadline = time.monotonic() + 120
    while not mark.exists():
        assert running.poll() is None and time.monotonic() < deadline
        time.sleep(0.01)
    os.killpg(running.pid, signal.SIGKILL)
    running.wait()
    assert mark.exists()
    # The worst that a kill leaves: a package that looks installed and is not.
    site = next((clone.root / ".venv").glob("lib/python*/site-packages"))
    for name in ("flagstone", "gravel", "pebble"):
        info = site / f"{name}-1.0.dist-info"
        info.mkdir(exist_ok=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        (site / f"{name}.py").unlink(missing_ok=True)
    assert not clone.whole()
    again = clone.make("environment", f"WHEELS={clone.wheels}")
    assert again.returncode == 0, again.stderr
    assert "half-made" in again.stdout
    assert clone.whole()


def test_no_python(clone, tmp_path):
    path = tools_only(tmp_path / "bin")
    line = one_line(clone.make("book", path=path))
    assert line.startswith("The course needs Python 3.11, 3.12 or 3.13 and found none.")
    assert "make book PYTHON=" in line


@pytest.mark.parametrize("version", ["3.9", "3.10", "3.14"])
def test_python_too_old_or_too_new(clone, tmp_path, version):
    fake_python(tmp_path / "bin", "python3", f"echo {version}")
    line = one_line(clone.make("book", path=tools_only(tmp_path / "bin")))
    assert f"found none (python3 is {version})" in line
    assert not (clone.root / ".venv").exists()


def test_a_shim_that_only_complains_is_passed_over(clone, tmp_path):
    fake_python(tmp_path / "bin", "python3.13", "echo 'pyenv: not found' >&2; exit 127")
    fake_python(tmp_path / "bin", "python3", f'exec "{sys.executable}" "$@"')
    path = tools_only(tmp_path / "bin")
    outcome = clone.make("environment", f"WHEELS={clone.wheels}", path=path)
    assert outcome.returncode == 0, outcome.stderr
    assert "pyenv" not in outcome.stderr


def test_python_by_name(clone, tmp_path):
    line = one_line(clone.make("book", "PYTHON=/nowhere/python3.12"))
    assert "found none" in line
    chosen = clone.make("environment", f"PYTHON={sys.executable}", f"WHEELS={clone.wheels}")
    assert chosen.returncode == 0, chosen.stderr


@pytest.fixture
def environment():
    spec = importlib.util.spec_from_file_location("environment", ROOT / "course" / "environment.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("lacking", ["venv", "ensurepip"])
def test_a_python_without_venv(environment, monkeypatch, tmp_path, capsys, lacking):
    monkeypatch.setattr(
        environment.importlib.util, "find_spec", lambda name: None if name == lacking else name
    )
    assert environment.main([str(tmp_path / "venv")]) == 1
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and "apt install python3" in said
    assert not (tmp_path / "venv").exists()


def test_an_environment_that_somebody_chose_keeps_what_it_has(clone, tmp_path):
    chosen = tmp_path / "chosen"
    subprocess.run([sys.executable, "-m", "venv", chosen], check=True)
    site = next(chosen.glob("lib/python*/site-packages"))
    with zipfile.ZipFile(clone.wheels / "gravel-1.0-py3-none-any.whl") as wheel:
        wheel.extractall(site)
    (site / "gravel.py").write_text("whole = True  # mine\n")
    made = clone.make("environment", f"VENV={chosen}", f"WHEELS={clone.wheels}")
    assert made.returncode == 0, made.stderr
    assert "Installing 1 packages" in made.stdout
    assert "mine" in (site / "gravel.py").read_text()
    assert clone.whole(str(chosen))
    assert not (clone.root / ".venv").exists()


def test_a_folder_that_is_no_environment(clone, tmp_path):
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "cat.jpg").touch()
    line = one_line(clone.make("environment", f"VENV={tmp_path / 'photos'}"))
    assert "photos is no Python environment" in line
    assert (tmp_path / "photos" / "cat.jpg").exists()


def test_wheels_that_are_not_there(clone, tmp_path):
    (tmp_path / "empty").mkdir()
    line = one_line(clone.make("environment", f"WHEELS={tmp_path / 'empty'}"))
    assert "holds no wheels" in line and "make wheels" in line
    assert one_line(clone.make("wheels")) == "Say where: make wheels WHEELS=DIR"


def test_clean_leaves_what_was_typed(clone):
    kept = ["notebooks/01-naive.ipynb", "notebooks/.saved/a.ipynb", ".venv/pyvenv.cfg", "mine.txt"]
    built = ["book/_build/html/index.html", ".ruff_cache/a", ".pytest_cache/a"]
    for name in kept + built:
        (clone.root / name).parent.mkdir(parents=True, exist_ok=True)
        (clone.root / name).write_text("x")
    assert clone.make("clean").returncode == 0
    assert all((clone.root / name).exists() for name in kept)
    assert not any((clone.root / name).exists() for name in built)


def test_help_names_every_target(clone):
    said = clone.make().stdout
    for target in ("book", "lab", "test", "serve", "notebooks", "wheels", "clean"):
        assert f"make {target} " in said
    for variable in ("PYTHON=", "VENV=", "WHEELS=", "FULL=1", "PORT="):
        assert variable in said


# ── the real thing ───────────────────────────────────────────────────────────────────────────


# A namespace without a network has no loopback either, and notebooks talk to their kernels by it.
LOOPBACK = """
import fcntl, os, socket, struct, sys
SIOCGIFFLAGS, SIOCSIFFLAGS, IFF_UP = 0x8913, 0x8914, 1
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
    asked = struct.pack("16sh14x", b"lo", 0)
    (flags,) = struct.unpack("16xh14x", fcntl.ioctl(sock, SIOCGIFFLAGS, asked))
    fcntl.ioctl(sock, SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", flags | IFF_UP))
os.execvp(sys.argv[1], sys.argv[1:])
"""


def no_network() -> list[str]:
    """How to run a command without a network; where that is not allowed, a skip that says so."""
    prefix = ["unshare", "--net", "--map-root-user", sys.executable, "-c", LOOPBACK]
    if not shutil.which("unshare") or subprocess.run([*prefix, "true"]).returncode:
        pytest.skip("this system does not let a test take the network away (unshare --net)")
    reach = "import socket; socket.create_connection(('192.0.2.1', 80), timeout=5)"
    tried = subprocess.run([*prefix, sys.executable, "-c", reach], capture_output=True, text=True)
    assert "Network is unreachable" in tried.stderr
    return prefix


@pytest.fixture
def real_clone(tmp_path):
    """This working tree as a fresh clone would have it, in a folder with a space in its name."""
    listing = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=True,
    )
    root = tmp_path / "a clone"
    for name in filter(None, listing.stdout.decode().split("\0")):
        if (ROOT / name).is_file():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, root / name)
    return root


def make(root: Path, *arguments: str, prefix=(), **settings: str) -> tuple[str, float]:
    start = time.monotonic()
    outcome = subprocess.run(
        [*prefix, "make", "-C", root, *arguments],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        env={**outer_environment(), **settings},
    )
    assert outcome.returncode == 0, outcome.stdout[-4000:] + outcome.stderr[-4000:]
    return outcome.stdout, time.monotonic() - start


@full_only
def test_the_book_in_a_fresh_clone_with_the_network_off(real_clone):
    notebooks = {p: p.read_bytes() for p in sorted(real_clone.glob("notebooks/*.ipynb"))}
    prefix = no_network()
    said, _ = make(real_clone, "book", f"VENV={sys.prefix}", prefix=prefix)
    index = real_clone / "book" / "_build" / "html" / "index.html"
    assert f"Book: {index.as_uri()}" in said
    assert "executing" in said
    again, seconds = make(real_clone, "book", f"VENV={sys.prefix}", prefix=prefix)
    assert "executing" not in again and "Nothing has changed" in again
    assert seconds < 20, f"the second call took {seconds:.0f} s"  # 3 s here
    assert notebooks and notebooks == {p: p.read_bytes() for p in notebooks}


@full_only
def test_everything_from_wheels_with_the_network_off(real_clone, tmp_path):
    prefix = no_network()
    index = subprocess.run(
        [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", tmp_path, "six==1.17.0"],
        capture_output=True,
        text=True,
    )
    if index.returncode:
        unavailable(f"no package index can be reached: {index.stderr[-300:]}")
    wheels = tmp_path / "wheels"
    said, _ = make(real_clone, "wheels", f"WHEELS={wheels}", f"PYTHON={sys.executable}")
    assert "MB, for Python" in said
    said, _ = make(
        real_clone, "book", f"WHEELS={wheels}", f"PYTHON={sys.executable}", prefix=prefix
    )
    assert "Making" in said and "Book: file:" in said
