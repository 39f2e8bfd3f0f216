"""What doctor looks at: `look` gathers plain facts about this machine and judges none of them.

Every probe is caught: what it could not read becomes an entry of `Machine.problems`, and the
other probes go on. Nothing here imports torch (2 s) or cuda.tile (it may be what is broken).
"""

import importlib.metadata
import importlib.util
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from course.paths import ROOT

# nvidia-smi starts the driver where nothing keeps it awake: about a second a GPU.
NVIDIA_SMI_SECONDS = 10.0
PROGRAM_SECONDS = 10.0

# cuTile takes the compiler from these wheels, and only if it finds all three in one version
# (cuda/tile/_compile.py of cuda-tile 1.7.0, _find_pip_tileiras).
COMPILER_WHEELS = ("nvidia-cuda-tileiras", "nvidia-cuda-nvcc", "nvidia-nvvm")
# What the tiers ask for, whether or not it is pinned.
NEEDED = ("numpy", "torch", "cuda-tile", "ipykernel", *COMPILER_WHEELS)
OUR_PACKAGES = ("course", "kernels", "tilelab")
CHROMIUM_NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome", "msedge")


@dataclass(frozen=True)
class Pin:
    """One line of requirements.txt that asks for an exact version."""

    name: str
    version: str


@dataclass(frozen=True)
class Gpu:
    """One GPU as nvidia-smi tells it; None where it would not say."""

    name: str
    compute_capability: str | None
    memory_mib: int | None = None


@dataclass(frozen=True)
class Machine:
    """Plain facts about a machine. A default stands for "not there"."""

    python: str  # "3.11.7"
    executable: str
    platform: str  # sys.platform: "linux", "win32", "darwin"
    architecture: str  # of this Python: "x86_64", "aarch64", "amd64", "arm64"
    root: str  # the folder that holds course/
    has_project_venv: bool = True  # root holds a .venv
    is_project_venv: bool = True  # and this Python is that of it
    packages: dict[str, str] = field(default_factory=dict)  # of those asked for, the installed
    torch_cuda: str | None = None  # "13.0"; None for a CPU build
    nvidia_smi: str | None = None
    gpus: tuple[Gpu, ...] = ()
    driver: str | None = None  # "580.159.03"
    visible_devices: str | None = None  # CUDA_VISIBLE_DEVICES, None if unset
    tileiras: str | None = None  # the binary that cuTile would run
    tileiras_version: str | None = None
    tileiras_architectures: tuple[str, ...] = ()  # "sm_80", ...
    kernel_spec: str | None = None  # the kernel.json behind "python3", or who stands in for it
    kernel_python: str | None = None
    kernel_is_this_python: bool = False
    imports: dict[str, str | None] = field(default_factory=dict)  # where a notebook finds ours
    disk_free_gb: float | None = None
    memory_free_gb: float | None = None
    chromium: str | None = None
    problems: dict[str, str] = field(default_factory=dict)  # probe -> why it could not be read


def read_pins(path: Path) -> tuple[Pin, ...]:
    """The exact versions (`name==version`) that a requirements file asks for on this machine.

    Lines for another system and lines without `==` are left out. ValueError names the line that
    cannot be read; OSError if there is no such file; ImportError without `packaging`.
    """
    from packaging.requirements import InvalidRequirement, Requirement
    from packaging.utils import canonicalize_name

    pins = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        text = re.sub(r"(^|\s)#.*", "", line).strip()
        if not text or text.startswith("-"):
            continue
        try:
            requirement = Requirement(text)
        except InvalidRequirement as error:
            raise ValueError(f"{path}, line {number}: {text!r} is no requirement") from error
        if requirement.marker is not None and not requirement.marker.evaluate():
            continue
        exact = [part.version for part in requirement.specifier if part.operator == "=="]
        if exact:
            pins.append(Pin(canonicalize_name(requirement.name), exact[0]))
    return tuple(pins)


def pins_here() -> tuple[Pin, ...]:
    """The pins of this project; empty if they cannot be read (`look` then says why)."""
    try:
        return read_pins(ROOT / "requirements.txt")
    except (OSError, ValueError, ImportError):
        return ()


def look(pins: Iterable[Pin] | None = None) -> Machine:
    """Look at this machine. Never raises for what it finds, and waits 10 s at the very most.

    `pins` says which packages to look up; None is those of requirements.txt.
    """
    pins = pins_here() if pins is None else tuple(pins)
    names = dict.fromkeys([*NEEDED, *(pin.name for pin in pins)])
    # Each probe gives a dict of fields. They run side by side: most of them wait for a program.
    probes: dict[str, Callable[[], dict[str, Any]]] = {
        "requirements": _requirements,
        "packages": lambda: {"packages": _packages(names)},
        "torch": lambda: {"torch_cuda": _torch_cuda()},
        "gpu": _gpu,
        "tileiras": _tileiras,
        "kernel": _kernel,
        "imports": lambda: {"imports": _imports()},
        "disk": lambda: {"disk_free_gb": shutil.disk_usage(ROOT).free / 1e9},
        "memory": _memory,
        "chromium": lambda: {"chromium": _first_on_path(CHROMIUM_NAMES) or _installed_chromium()},
    }
    facts: dict[str, Any] = {}
    problems: dict[str, str] = {}
    with ThreadPoolExecutor(max_workers=len(probes)) as pool:
        answers = {name: pool.submit(probe) for name, probe in probes.items()}
    for name, answer in answers.items():
        error = answer.exception()
        if error is None:
            facts |= answer.result()
        else:
            facts |= getattr(error, "facts", {})
            problems[name] = _one_line(str(error)) or type(error).__name__
    return Machine(
        python="{}.{}.{}".format(*sys.version_info[:3]),
        executable=sys.executable or "python",
        platform=sys.platform,
        # Of the Python, not of the processor: it decides which wheels fit. platform.machine()
        # would ask WMI on Windows, which can hang.
        architecture=sysconfig.get_platform().rsplit("-", 1)[-1],
        root=str(ROOT),
        has_project_venv=(ROOT / ".venv" / "pyvenv.cfg").is_file(),
        is_project_venv=_same_folder(sys.prefix, ROOT / ".venv"),
        visible_devices=os.environ.get("CUDA_VISIBLE_DEVICES"),
        problems=problems,
        **facts,
    )


class _PartlyRead(Exception):
    """A probe that failed half-way, with the facts it had by then."""

    def __init__(self, reason: str, **facts: Any):
        super().__init__(reason)
        self.facts = facts


# --- probes ----------------------------------------------------------------------------------


def _requirements() -> dict[str, Any]:
    try:
        if not read_pins(ROOT / "requirements.txt"):
            raise ValueError(f"{ROOT / 'requirements.txt'} pins nothing")
    except ImportError as error:
        raise ImportError(f"the package {error.name} is not installed") from error
    return {}


def _packages(names: Iterable[str]) -> dict[str, str]:
    found = {}
    for name in names:
        try:
            version = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
        if version:  # None is what an interrupted uninstall leaves
            found[name] = version
    return found


def _torch_cuda() -> str | None:
    try:
        torch = importlib.metadata.distribution("torch")
    except importlib.metadata.PackageNotFoundError:
        return None
    source = Path(str(torch.locate_file("torch/version.py"))).read_text(encoding="utf-8")
    said = re.search(r"^cuda\b[^=\n]*=\s*(None|['\"]([\d.]+)['\"])", source, re.MULTILINE)
    if said is None:
        raise ValueError("torch/version.py does not say for which CUDA it was built")
    return said[2]


def _gpu() -> dict[str, Any]:
    program = _first_on_path(("nvidia-smi",)) or _first_file(
        "/usr/lib/wsl/lib/nvidia-smi",  # WSL keeps it off the PATH of some shells
        r"C:\Windows\System32\nvidia-smi.exe",
    )
    if program is None:
        return {}
    facts: dict[str, Any] = {"nvidia_smi": program}
    try:
        code, out, err = _query_gpus(program, "name,compute_cap,driver_version,memory.total")
        has_capability = "compute_cap" not in out + err
        if not has_capability:  # a driver from before 2021 does not know that field
            code, out, err = _query_gpus(program, "name,driver_version,memory.total")
        if "no devices were found" in (out + err).lower():
            return facts
        if code != 0:
            raise OSError(f"nvidia-smi failed (exit status {code}): {_one_line(out + ' ' + err)}")
        return facts | parse_gpus(out, has_capability=has_capability)
    except Exception as error:
        raise _PartlyRead(str(error), **facts) from error


def _query_gpus(program: str, fields: str) -> tuple[int, str, str]:
    command = [program, f"--query-gpu={fields}", "--format=csv,noheader"]
    return _ask(command, NVIDIA_SMI_SECONDS)


def parse_gpus(text: str, *, has_capability: bool = True) -> dict[str, Any]:
    """The fields `gpus` and `driver` of a Machine, from nvidia-smi's rows.

    A row is "name, compute_cap, driver_version, memory.total"; without `has_capability` the
    second is absent. ValueError shows a row that is anything else.
    """
    gpus, driver = [], None
    for row in text.splitlines():
        if not row.strip() or row.startswith("WARNING"):
            continue
        cells = [cell.strip() for cell in row.rsplit(",", 3 if has_capability else 2)]
        if not has_capability and len(cells) == 3:
            cells.insert(1, "[N/A]")
        if len(cells) != 4 or not re.fullmatch(r"\d+(\.\d+)+", cells[2]):
            raise ValueError(f"nvidia-smi answered with something else than GPUs: {row[:80]!r}")
        name, capability, driver, memory = cells
        known = re.fullmatch(r"\d+\.\d+", capability)
        size = re.match(r"(\d+) MiB", memory)
        gpus.append(Gpu(name, known and known[0], size and int(size[1])))
    return {"gpus": tuple(gpus), "driver": driver}


def _tileiras() -> dict[str, Any]:
    program = _find_tileiras()
    if program is None:
        return {}
    facts: dict[str, Any] = {"tileiras": program}
    try:
        code, out, err = _ask([program, "--version"], PROGRAM_SECONDS)
        version = re.search(r"V(\d+(?:\.\d+)+)", out)
        if code != 0 or version is None:
            said = _one_line(out + " " + err)
            raise OSError(f"tileiras --version failed (exit status {code}): {said}")
        facts["tileiras_version"] = version[1]
        _, out, _ = _ask([program, "--help"], PROGRAM_SECONDS)
        facts["tileiras_architectures"] = tuple(re.findall(r"^\s*=(sm_\d+[a-z]?)\b", out, re.M))
        if not facts["tileiras_architectures"]:
            raise ValueError("tileiras --help names no GPU architecture")
    except Exception as error:
        raise _PartlyRead(str(error), **facts) from error
    return facts


def _find_tileiras() -> str | None:
    """The compiler that cuTile would run: same places, same order as cuda-tile 1.7.0."""
    versions = _packages(COMPILER_WHEELS)
    # Not equality: 13.4.92 and 13.4.88 go together.
    if len(versions) == 3 and len({major_minor(version) for version in versions.values()}) == 1:
        try:
            toolkit = importlib.util.find_spec("nvidia.cu13")
        except ImportError:
            toolkit = None
        for folder in (toolkit and toolkit.submodule_search_locations) or ():
            found = shutil.which("tileiras", path=os.path.join(folder, "bin"))
            if found:
                return found
    windows = sys.platform == "win32"
    home = (os.environ.get("CUDA_PATH") if windows else None) or os.environ.get("CUDA_HOME")
    found = shutil.which("tileiras")
    if not found and home:
        found = shutil.which("tileiras", path=os.path.join(home, "bin"))
    if found:
        return found
    if windows:
        toolkits = Path(r"C:\Program Files\NVIDIA GPU Computing Toolkit\CUDA").glob("[vV]1*")
        name = "tileiras.exe"
    else:
        toolkits = Path("/usr/local").glob("cuda-1*")
        name = "tileiras"
    newest_first = sorted(toolkits, key=lambda folder: major_minor(folder.name), reverse=True)
    if not windows:
        newest_first.insert(0, Path("/usr/local/cuda"))
    return _first_file(*(str(folder / "bin" / name) for folder in newest_first))


def major_minor(version: str) -> tuple[int, int]:
    """(13, 4) of "13.4.92", of "13.4" and of "cuda-13.4"; a missing part is 0."""
    major, minor, *_ = [*re.findall(r"\d+", version), "0", "0"]
    return int(major), int(minor)


def _kernel() -> dict[str, Any]:
    """Which Python a notebook gets that asks for the kernel "python3", as all of ours do."""
    try:
        from jupyter_core.paths import jupyter_path
    except ImportError as error:
        raise ImportError(f"the package {error.name} is not installed") from error
    for folder in jupyter_path("kernels"):
        spec = Path(folder, "python3", "kernel.json")
        if spec.is_file():
            break
    else:
        if importlib.util.find_spec("ipykernel") is None:
            return {}
        # Jupyter then makes one up from the ipykernel beside it.
        return {
            "kernel_spec": "made by ipykernel",
            "kernel_python": sys.executable,
            "kernel_is_this_python": True,
        }
    try:
        program = json.loads(spec.read_text(encoding="utf-8"))["argv"][0]
    except (ValueError, LookupError, TypeError) as error:
        raise _PartlyRead(f"{spec} is no kernel description", kernel_spec=str(spec)) from error
    if re.fullmatch(r"python(3(\.\d+)?)?", program):
        # Jupyter puts its own Python in place of these bare names.
        program, ours = sys.executable, True
    else:
        full = shutil.which(program)
        # The folders, not the files: in a venv, python is a link to one that all venvs share.
        ours = full is not None and _same_folder(Path(full).parent, Path(sys.executable).parent)
    return {"kernel_spec": str(spec), "kernel_python": program, "kernel_is_this_python": ours}


_WHERE = """
import importlib.util, json, sys
sys.path[:] = [folder for folder in sys.path if folder]
def where(name):
    spec = importlib.util.find_spec(name)
    places = list(spec.submodule_search_locations or []) if spec else []
    return places[0] if places else None
print(json.dumps({name: where(name) for name in sys.argv[1:]}))
"""


def _imports() -> dict[str, str | None]:
    # A new process that ignores the current folder sees what a notebook in another folder sees.
    names = [name for name in OUR_PACKAGES if (ROOT / name).is_dir()]
    code, out, err = _ask([sys.executable, "-c", _WHERE, *names], PROGRAM_SECONDS)
    if code != 0:
        raise OSError(f"python failed (exit status {code}): {_one_line(err)}")
    return {name: place and os.path.realpath(place) for name, place in json.loads(out).items()}


def _memory() -> dict[str, Any]:
    try:
        import psutil
    except ImportError as error:
        raise ImportError("the package psutil is not installed") from error
    return {"memory_free_gb": psutil.virtual_memory().available / 1e9}


def _installed_chromium() -> str | None:
    return _first_file(
        "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
        "/Applications/Chromium.app/Contents/MacOS/Chromium",
        r"C:\Program Files\Google\Chrome\Application\chrome.exe",
        r"C:\Program Files (x86)\Microsoft\Edge\Application\msedge.exe",
    )


# --- helpers ---------------------------------------------------------------------------------


def _ask(command: list[str], seconds: float) -> tuple[int, str, str]:
    """Run a program that only prints: its exit status, stdout and stderr.

    TimeoutError after `seconds`. Files, not pipes: a child that outlives its parent keeps a pipe
    open, and reading it would hang. A program stuck inside a driver does not even die when
    killed, so nobody waits for it long.
    """
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            start_new_session=sys.platform != "win32",
        )
        try:
            code = process.wait(seconds)
        except subprocess.TimeoutExpired:
            _stop(process)
            name = Path(command[0]).name
            raise TimeoutError(f"{name} gave no answer in {seconds:g} s") from None
        texts = []
        for stream in (out, err):
            stream.seek(0)
            texts.append(stream.read(1_000_000).decode("utf-8", "replace"))
    return code, texts[0], texts[1]


def _stop(process: subprocess.Popen) -> None:
    try:
        if sys.platform == "win32":
            process.kill()
        else:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(1)
    except (OSError, subprocess.TimeoutExpired):
        pass


def _first_on_path(names: Iterable[str]) -> str | None:
    return next((found for name in names if (found := shutil.which(name))), None)


def _first_file(*paths: str) -> str | None:
    return next((path for path in paths if os.path.isfile(path) and os.access(path, os.X_OK)), None)


def _same_folder(one: str | Path, other: str | Path) -> bool:
    return os.path.normcase(os.path.realpath(one)) == os.path.normcase(os.path.realpath(other))


def _one_line(text: str, limit: int = 200) -> str:
    line = " ".join(text.split())
    return line if len(line) <= limit else line[: limit - 3] + "..."
