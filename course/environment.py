"""Make the environment that the course runs in: what `make` calls before anything else.

Standard library only, and nothing of ours: this runs while nothing is installed.

    python course/environment.py VENV [--wheels DIR]    make VENV, or add to it what is missing
    python course/environment.py --fill DIR             download all that an install needs into DIR

Two small files in the environment say how far it came. `.course-installing` is there while
packages are going in: who finds it knows that an install was cut short. `.course-installed` holds
a digest of what was asked for; while it matches there is nothing to do.
"""

import argparse
import contextlib
import hashlib
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
REQUIREMENTS = ROOT / "requirements.txt"
CONSTRAINTS = ROOT / "constraints.txt"
SUPPORTED = ((3, 11), (3, 13))

# Run by the environment's own Python, whose answers to `sys_platform` and so on count. pip is
# there in every environment, and brings the parser that stands behind it.
SURVEY = """
import importlib.metadata, json, sys
from pip._vendor.packaging.requirements import Requirement

missing = []
for line in json.load(sys.stdin):
    wanted = Requirement(line)
    if wanted.marker and not wanted.marker.evaluate():
        continue
    try:
        version = importlib.metadata.version(wanted.name)
    except importlib.metadata.PackageNotFoundError:
        version = None
    if version is None or not wanted.specifier.contains(version, prereleases=True):
        missing.append(line)
try:
    project = importlib.metadata.distribution("flash-attention-tile-by-tile")
    origin = json.loads(project.read_text("direct_url.json") or "{}").get("url", "elsewhere")
except importlib.metadata.PackageNotFoundError:
    origin = None
print(json.dumps({"python": sys.version_info[:2], "missing": missing, "origin": origin}))
"""


class Unusable(Exception):
    """Why there is no environment, in one line for the person who typed `make`."""


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Make the environment that the course runs in.")
    parser.add_argument("venv", nargs="?", type=Path, help="the environment's folder")
    parser.add_argument("--wheels", type=Path, help="install from this folder, with no network")
    parser.add_argument("--fill", type=Path, help="fill this folder for --wheels elsewhere")
    args = parser.parse_args(arguments)
    if (args.venv is None) == (args.fill is None):
        parser.error("name either an environment's folder or --fill DIR")
    try:
        if args.fill:
            fill(args.fill.resolve())
        else:
            # Not resolve(): bin/python is a link out of the environment.
            prepare(args.venv.absolute(), args.wheels and args.wheels.resolve())
    except Unusable as problem:
        print(problem, file=sys.stderr)
        return 1
    return 0


def prepare(venv: Path, wheels: Path | None) -> None:
    installing, installed = venv / ".course-installing", venv / ".course-installed"
    python = interpreter(venv)
    wanted = digest()
    if python.exists() and installed.is_file() and installed.read_text(encoding="utf-8") == wanted:
        return
    if wheels and not any(wheels.glob("*.whl")):
        raise Unusable(f"WHEELS={wheels} holds no wheels. Fill it with: make wheels WHEELS=DIR")
    ours = not venv.exists() or (venv / ".course-made").exists()
    cut_short = installing.exists()
    if ours and (cut_short or not works(python)):
        if venv.exists():
            print(f"{venv} was left half-made; making it again.", flush=True)
        create(venv)
        cut_short = False
    elif not works(python):
        raise Unusable(f"{venv} is no Python environment with pip: {python} -m pip does not run.")
    survey = surveyed(python)
    check_version(python, tuple(survey["python"]))

    installing.touch()
    installed.unlink(missing_ok=True)
    source = ["--no-index", "--find-links", str(wheels)] if wheels else []
    if cut_short:
        print(f"An install into {venv} was cut short; installing everything again.", flush=True)
        pip(python, "install", *source, "--force-reinstall", "-r", str(REQUIREMENTS))
    elif survey["missing"]:
        print(f"Installing {len(survey['missing'])} packages and what they need ...", flush=True)
        # Only what is missing: an environment that somebody chose keeps its other packages. The
        # lines of requirements.txt go in whole, with the constraints, as pip would read them.
        pip(python, "install", *source, "-c", str(CONSTRAINTS), *survey["missing"])
    if survey["origin"] in (None, ROOT.as_uri()) or ours:
        pip(python, "install", "-q", "--no-index", "--no-deps", "--no-build-isolation", "-e", ROOT)
    else:
        # `make` puts this folder first on the path, so leave the other one as it is.
        print(f"{venv} keeps the course installed from {survey['origin']}.", flush=True)
    installed.write_text(wanted, encoding="utf-8")
    installing.unlink()


def create(venv: Path) -> None:
    check_version(Path(sys.executable), sys.version_info[:2])
    need_venv()
    print(f"Making {venv} with Python {sys.version.split()[0]} ...", flush=True)
    venv.mkdir(parents=True, exist_ok=True)
    # `--clear` empties the folder, so this mark is made before and after it.
    (venv / ".course-made").touch()
    if subprocess.run([sys.executable, "-m", "venv", "--clear", venv]).returncode:
        raise Unusable(f"{sys.executable} -m venv {venv} failed; its reason is above.")
    (venv / ".course-made").touch()


def fill(folder: Path) -> None:
    """Put every wheel that an install on a machine like this one needs into `folder`."""
    check_version(Path(sys.executable), sys.version_info[:2])
    need_venv()
    folder.mkdir(parents=True, exist_ok=True)
    # This Python may have no pip of its own, as Debian's.
    with tempfile.TemporaryDirectory(prefix="wheels-") as scratch:
        subprocess.run([sys.executable, "-m", "venv", scratch], check=True)
        python = interpreter(Path(scratch))
        pip(python, "wheel", "--wheel-dir", str(folder), "-r", str(REQUIREMENTS))
    size = sum(path.stat().st_size for path in folder.glob("*.whl")) / 1e6
    print(
        f"{folder} holds {len(list(folder.glob('*.whl')))} wheels, {size:.0f} MB, for Python "
        f"{sys.version_info[0]}.{sys.version_info[1]}."
    )


def check_version(python: Path, version: tuple[int, ...]) -> None:
    if not SUPPORTED[0] <= version <= SUPPORTED[1]:
        raise Unusable(
            f"The course needs Python 3.11, 3.12 or 3.13; {python} is {version[0]}.{version[1]}. "
            "Choose another with PYTHON=/path/to/python3.12"
        )


def need_venv() -> None:
    # Debian ships venv without ensurepip, so that it starts and then fails half-way.
    if any(importlib.util.find_spec(name) is None for name in ("venv", "ensurepip")):
        version = ".".join(map(str, sys.version_info[:2]))
        raise Unusable(
            f"{sys.executable} cannot make environments: it has no venv or no ensurepip "
            f"(Debian and Ubuntu: apt install python{version}-venv)."
        )


def interpreter(venv: Path) -> Path:
    return venv / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def works(python: Path) -> bool:
    with contextlib.suppress(OSError):
        command = [python, "-m", "pip", "--version"]
        return subprocess.run(command, capture_output=True).returncode == 0
    return False


def surveyed(python: Path) -> dict:
    text = REQUIREMENTS.read_text(encoding="utf-8")
    lines = [line.partition("#")[0].strip() for line in text.splitlines()]
    lines = [line for line in lines if line and not line.startswith("-")]
    outcome = subprocess.run(
        [python, "-X", "utf8", "-c", SURVEY],
        input=json.dumps(lines),
        capture_output=True,
        encoding="utf-8",
        errors="replace",
    )
    if outcome.returncode:
        raise Unusable(f"{python} could not list its packages:\n{outcome.stderr}")
    return json.loads(outcome.stdout)


def pip(python: Path, *arguments: str | Path) -> None:
    command = [python, "-m", "pip", *arguments]
    if subprocess.run(command, stdin=subprocess.DEVNULL).returncode:
        raise Unusable("The install failed; pip's reason is above. `make` takes it up again.")


def digest() -> str:
    total = hashlib.sha256(str(ROOT).encode())
    for path in (REQUIREMENTS, CONSTRAINTS, ROOT / "pyproject.toml"):
        total.update(path.read_bytes())
    return total.hexdigest()


if __name__ == "__main__":
    sys.exit(main())
