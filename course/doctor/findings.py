"""What doctor concludes: pure functions from the facts of a Machine. Nothing is looked at here."""

import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from course.doctor.machine import COMPILER_WHEELS, Gpu, Machine, Pin, major_minor

TIERS = ("value", "compile", "gpu", "speed")

OLDEST_PYTHON, NEWEST_PYTHON = (3, 11), (3, 13)
# Tile IR needs r580 and compute capability 8.0 (docs.nvidia.com/cuda/cutile-python, quickstart);
# Hopper came with toolkit 13.3 and cuda-tile 1.4.
OLDEST_DRIVER = 580
OLDEST_CAPABILITY = (8, 0)
HOPPER = (9, 0)
HOPPER_TILEIRAS, HOPPER_CUDA_TILE = (13, 3), (1, 4)
# The systems that cuda-tile and its compiler have wheels for, as (sys.platform, architecture).
CUTILE_SYSTEMS = {("linux", "x86_64"), ("linux", "aarch64"), ("win32", "amd64")}
SYSTEM_NAMES = {"linux": "Linux", "win32": "Windows", "darwin": "macOS"}
# The CUDA build of torch that goes with r580 drivers.
TORCH_CUDA_BUILD = "cu130"
TORCH_INDEX = "https://download.pytorch.org/whl"
# A fresh environment takes 2.2 GB without torch's CUDA libraries.
ENOUGH_DISK_GB, ENOUGH_MEMORY_GB = 3.0, 2.0


@dataclass(frozen=True)
class Finding:
    """Something worth telling: a "fault" has to be mended, a "note" need not."""

    severity: str
    what: str
    fix: str


def tiers_here(machine: Machine, *, cutile: bool = False) -> dict[str, str | None]:
    """For each tier of the grader None if it runs on this machine, else the reason it does not.

    `cutile=True` asks about exercises that hold a cuTile kernel: their values, too, need cuda-tile
    (its front end types the kernel) and torch. Without it "value" is that of the NumPy chapters.
    """
    _check_machine(machine)
    compiles = _no_cutile(machine) or _no_compiler(machine)
    gpu = _no_gpu(machine) or compiles or _no_cuda_in_torch(machine)
    return {
        "value": _no_values(machine, cutile=cutile),
        "compile": compiles,
        "gpu": gpu,
        "speed": gpu,
    }


def diagnose(machine: Machine, pins: Iterable[Pin] = ()) -> list[Finding]:
    """Every fault and note about `machine`, measured by the versions that `pins` ask for.

    Each cause is told once: a package that a telling finding covers (a compiler wheel, torch) is
    left out of the lists of missing and of differing packages.
    """
    _check_machine(machine)
    pins = tuple(pins)
    wrong = [pin for pin in pins if not pin_is_met(machine, pin)]
    explained: set[str] = set()
    findings = [
        *_python(machine),
        *_requirements(machine),
        *_torch(machine, pins, wrong, explained),
        *_compiler(machine, pins, wrong, explained),
        *_gpus(machine, pins, wrong, explained),
        *_kernel(machine, pins, explained),
        *_packages(machine, [pin for pin in wrong if pin.name not in explained]),
        *_project(machine),
        *_room(machine),
    ]
    return sorted(findings, key=lambda finding: finding.severity != "fault")


def pin_is_met(machine: Machine, pin: Pin) -> bool:
    """Whether the pinned version is installed; 2.13.0+cpu is a 2.13.0, as it is for pip."""
    installed = machine.packages.get(pin.name)
    if installed is None:
        return False
    public = installed if "+" in pin.version else installed.split("+")[0]
    if pin.version.endswith(".*"):
        return f"{public}.".startswith(pin.version[:-1])
    return _without_zeros(public) == _without_zeros(pin.version)


# --- why a tier does not run -----------------------------------------------------------------


def _no_values(machine: Machine, *, cutile: bool) -> str | None:
    if "numpy" not in machine.packages:
        return "numpy is not installed"
    if not cutile:
        return None
    if reason := _no_cutile(machine):
        return reason
    return None if "torch" in machine.packages else "torch is not installed"


def _no_cutile(machine: Machine) -> str | None:
    if (machine.platform, machine.architecture) not in CUTILE_SYSTEMS:
        return f"cuda-tile has no wheel for {_system(machine)}"
    return None if "cuda-tile" in machine.packages else "cuda-tile is not installed"


def _no_compiler(machine: Machine) -> str | None:
    if machine.tileiras is None:
        return "cuTile finds no compiler (tileiras)"
    if not machine.tileiras_architectures:
        return "tileiras does not run"
    return None


def _no_gpu(machine: Machine) -> str | None:
    if _is_hidden(machine):
        return f"CUDA_VISIBLE_DEVICES={machine.visible_devices} hides every GPU"
    if "gpu" in machine.problems:
        return f"the GPU could not be read: {machine.problems['gpu']}"
    if not machine.gpus:
        return "there is no NVIDIA GPU"
    reasons = [_unusable(gpu, machine) for gpu in machine.gpus]
    if None not in reasons:
        return reasons[0]
    return _old_driver(machine)


def _unusable(gpu: Gpu, machine: Machine) -> str | None:
    """Why cuTile cannot compile for this GPU. None if it can, and where nobody can tell yet."""
    if gpu.compute_capability is None:
        # An old driver does not say; then the driver is what has to be mended first.
        return None if _old_driver(machine) else f"{gpu.name} does not say what it can compute"
    capability = major_minor(gpu.compute_capability)
    described = f"{gpu.name} (compute capability {gpu.compute_capability})"
    if capability < OLDEST_CAPABILITY:
        return f"{described} is older than cuTile supports (8.0 and newer)"
    known = machine.tileiras_architectures
    architecture = "sm_{}{}".format(*capability)
    if known and architecture not in known:
        version = machine.tileiras_version or "of unknown version"
        return f"tileiras {version} does not know {architecture}, which {gpu.name} needs"
    if capability == HOPPER and machine.tileiras_version is not None:
        if major_minor(machine.tileiras_version) < HOPPER_TILEIRAS:
            return f"{described} needs tileiras 13.3 or newer, not {machine.tileiras_version}"
        tile = machine.packages.get("cuda-tile")
        if tile is not None and major_minor(tile) < HOPPER_CUDA_TILE:
            return f"{described} needs cuda-tile 1.4 or newer, not {tile}"
    return None


def _old_driver(machine: Machine) -> str | None:
    if machine.driver is None or major_minor(machine.driver)[0] >= OLDEST_DRIVER:
        return None
    return f"the NVIDIA driver {machine.driver} is older than r{OLDEST_DRIVER}"


def _no_cuda_in_torch(machine: Machine) -> str | None:
    version = machine.packages.get("torch")
    if version is None:
        return "torch is not installed"
    if machine.torch_cuda is None and "torch" not in machine.problems:
        return f"torch {version} is a build without CUDA"
    return None


def _is_hidden(machine: Machine) -> bool:
    value = machine.visible_devices
    # CUDA stops reading at the first entry that names no device.
    return value is not None and value.split(",")[0].strip() in ("", "-1", "NoDevFiles")


# --- findings --------------------------------------------------------------------------------


def _python(machine: Machine) -> list[Finding]:
    newest = "{}.{}".format(*NEWEST_PYTHON)
    make = f"py -{newest}" if machine.platform == "win32" else f"python{newest}"
    make_venv = (
        f"{make} -m venv .venv, then {_venv_python(machine)} -m pip install -r requirements.txt"
    )
    if not OLDEST_PYTHON <= major_minor(machine.python) <= NEWEST_PYTHON:
        what = f"Python {machine.python} is outside 3.11 to {newest}, which the course supports"
        fix = f"Install Python {newest} (python.org/downloads), remove the folder .venv and run: "
        return [Finding("fault", what, fix + make_venv)]
    if machine.is_project_venv:
        return []
    if machine.has_project_venv:
        what = f"this Python ({machine.executable}) is not the one of the project's .venv"
        fix = f"If you did not mean that, run: {_venv_python(machine)} -m course doctor"
    else:
        what = f"the project has no .venv; this Python is {machine.executable}"
        fix = f"To keep the course's packages apart from others, run: {make_venv}"
    return [Finding("note", what, fix)]


def _requirements(machine: Machine) -> list[Finding]:
    reason = machine.problems.get("requirements")
    if reason is None:
        return []
    return [
        Finding(
            "fault",
            f"the versions that the course needs could not be read: {reason}",
            f"In a complete copy of the course (its folder holds requirements.txt), run: "
            f"{_pip(machine)} install -r requirements.txt",
        )
    ]


def _torch(
    machine: Machine, pins: Sequence[Pin], wrong: Sequence[Pin], explained: set[str]
) -> list[Finding]:
    # A finding of its own: which build to take depends on the GPU, and pip's choice may be wrong.
    wants_cuda = bool(machine.gpus) and _worth_mending(machine)
    wrong_pin = next((pin for pin in wrong if pin.name == "torch"), None)
    installed = machine.packages.get("torch")
    version = next((pin.version for pin in pins if pin.name == "torch"), None)
    if installed is None:
        if wrong_pin is None:
            return []  # not pinned on this system
        what = "torch is not installed"
    elif wants_cuda and _no_cuda_in_torch(machine):
        what = (
            f"torch {installed} is a build without CUDA, and here is a GPU: {machine.gpus[0].name}"
        )
        version = version or installed.split("+")[0]
    elif wrong_pin is not None:
        what = f"torch is {installed}, and the course needs {version}"
    else:
        return []
    explained.add("torch")
    if machine.platform == "darwin":
        return [Finding("fault", what, f"{_pip(machine)} install torch=={version}")]
    build = TORCH_CUDA_BUILD if wants_cuda else "cpu"
    # The build is spelled out: 2.13.0+cpu satisfies torch==2.13.0, and pip would leave it.
    fix = f"{_pip(machine)} install torch=={version}+{build} --index-url {TORCH_INDEX}/{build}"
    if wants_cuda:
        fix += " (the CUDA build downloads several GB)"
    return [Finding("fault", what, fix)]


def _compiler(
    machine: Machine, pins: Sequence[Pin], wrong: Sequence[Pin], explained: set[str]
) -> list[Finding]:
    if (machine.platform, machine.architecture) not in CUTILE_SYSTEMS:
        return []
    versions = {name: machine.packages.get(name) for name in COMPILER_WHEELS}
    missing = [name for name, version in versions.items() if version is None]
    install = _install(machine, pins, COMPILER_WHEELS)
    if missing:
        explained.update(COMPILER_WHEELS)
        instead = (
            f"cuTile takes {machine.tileiras} ({machine.tileiras_version}) instead"
            if machine.tileiras
            else "cuTile cannot compile"
        )
        what = f"the compiler is incomplete, not installed: {', '.join(missing)}; {instead}"
        return [Finding("fault", what, install)]
    if len({major_minor(version) for version in versions.values()}) > 1:
        explained.update(COMPILER_WHEELS)
        listed = ", ".join(f"{name} {version}" for name, version in versions.items())
        what = f"the compiler's wheels must share major.minor, and do not: {listed}"
        return [Finding("fault", what, install)]
    again = install.replace(" install ", " install --force-reinstall --no-deps ")
    if machine.tileiras is None:
        reason = machine.problems.get("tileiras", "the binary is gone")
        return [Finding("fault", f"tileiras is installed but was not found: {reason}", again)]
    if "tileiras" in machine.problems:
        reason = machine.problems["tileiras"]
        return [Finding("fault", f"{machine.tileiras} could not be read: {reason}", again)]
    return []


def _gpus(
    machine: Machine, pins: Sequence[Pin], wrong: Sequence[Pin], explained: set[str]
) -> list[Finding]:
    if (machine.platform, machine.architecture) not in CUTILE_SYSTEMS:
        return []
    if _is_hidden(machine):
        if not machine.gpus:
            return []
        what = f"{_no_gpu(machine)}, so the GPU tiers do not run"
        return [Finding("note", what, "To use it, unset CUDA_VISIBLE_DEVICES.")]
    if "gpu" in machine.problems:
        what = f"the GPU could not be read: {machine.problems['gpu']}"
        return [Finding("fault", what, f"{_driver_fix(machine)} {_hide(machine)}")]
    findings = []
    if (reason := _old_driver(machine)) and _worth_mending(machine):
        findings.append(Finding("fault", reason, f"{_driver_fix(machine)} {_hide(machine)}"))
    reasons = {gpu: _unusable(gpu, machine) for gpu in dict.fromkeys(machine.gpus)}
    # One GPU that works is enough: an old card beside it, for the screen say, is no fault.
    severity = "note" if None in reasons.values() else "fault"
    for gpu, reason in reasons.items():
        if reason is not None:
            fix = _gpu_fix(gpu, machine, pins, wrong)
            findings.append(Finding(severity, reason, fix))
            if _can_be_learned(gpu) and severity == "fault":
                explained.update(("cuda-tile", *COMPILER_WHEELS))
    return findings


def _can_be_learned(gpu: Gpu) -> bool:
    """Whether a newer compiler could know this GPU; the old ones are never coming."""
    capability = gpu.compute_capability
    return capability is not None and major_minor(capability) >= OLDEST_CAPABILITY


def _worth_mending(machine: Machine) -> bool:
    """Whether driver and torch are worth changing: some GPU here is one that cuTile supports."""
    if _is_hidden(machine) or (machine.platform, machine.architecture) not in CUTILE_SYSTEMS:
        return False
    return any(gpu.compute_capability is None or _can_be_learned(gpu) for gpu in machine.gpus)


def _gpu_fix(gpu: Gpu, machine: Machine, pins: Sequence[Pin], wrong: Sequence[Pin]) -> str:
    needed = ("cuda-tile", *COMPILER_WHEELS)
    if gpu.compute_capability is None:
        return f"{_driver_fix(machine)} {_hide(machine)}"
    if not _can_be_learned(gpu):
        return f"The GPU tiers need another GPU. {_hide(machine)}"
    if any(pin.name in needed for pin in wrong) or not pins:
        return _install(machine, pins, needed)
    if machine.tileiras and _from_elsewhere(machine):
        again = _install(machine, pins, COMPILER_WHEELS)
        return again.replace(" install ", " install --force-reinstall --no-deps ")
    return (
        "The course's compiler does not know this GPU yet: take a newer copy of the course "
        f"(git pull). {_hide(machine)}"
    )


def _from_elsewhere(machine: Machine) -> bool:
    """Whether the tileiras that runs is not the one of the installed wheel."""
    wheel = machine.packages.get(COMPILER_WHEELS[0], machine.tileiras_version)
    return wheel != machine.tileiras_version


def _kernel(machine: Machine, pins: Sequence[Pin], explained: set[str]) -> list[Finding]:
    install = _install(machine, pins, ("ipykernel",))
    register = f"{_python_command(machine)} -m ipykernel install --sys-prefix --name python3"
    if "ipykernel" not in machine.packages:
        explained.add("ipykernel")
        return [Finding("fault", "notebooks have no Python: ipykernel is not installed", install)]
    if "kernel" in machine.problems and machine.kernel_spec is None:
        reason = machine.problems["kernel"]
        what = f"the notebook kernel python3 could not be read: {reason}"
        return [Finding("fault", what, f"{_pip(machine)} install -r requirements.txt")]
    if "kernel" in machine.problems:
        what = f"the notebook kernel python3 could not be read: {machine.problems['kernel']}"
    elif machine.kernel_spec is None:
        return [Finding("fault", "there is no notebook kernel called python3", register)]
    elif not machine.kernel_is_this_python:
        what = (
            f"the notebook kernel python3 runs another Python ({machine.kernel_python}), "
            f"says {machine.kernel_spec}"
        )
    else:
        return []
    folder = re.sub(r"[\\/]kernel\.json$", "", machine.kernel_spec)
    return [Finding("fault", what, f"Rename or remove the folder {folder}, then run: {register}")]


def _packages(machine: Machine, wrong: Sequence[Pin]) -> list[Finding]:
    findings = []
    install = f"{_pip(machine)} install -r requirements.txt"
    missing = [pin.name for pin in wrong if pin.name not in machine.packages]
    if missing:
        findings.append(Finding("fault", f"not installed: {', '.join(missing)}", install))
    others = [
        f"{pin.name} is {machine.packages[pin.name]}, the course needs {pin.version}"
        for pin in wrong
        if pin.name in machine.packages
    ]
    if others:
        findings.append(Finding("fault", "; ".join(others), install))
    return findings


def _project(machine: Machine) -> list[Finding]:
    # Building with the setuptools that is here needs no network.
    offline = "--no-build-isolation " if "setuptools" in machine.packages else ""
    install = f"{_pip(machine)} install --no-deps {offline}-e {_quote(machine.root)}"
    if reason := machine.problems.get("imports"):
        what = f"whether notebooks find the course's packages could not be read: {reason}"
        return [Finding("fault", what, install)]
    findings = []
    absent = [name for name, place in machine.imports.items() if place is None]
    if absent:
        what = f"notebooks cannot import {' and '.join(absent)}: the project is not installed"
        findings.append(Finding("fault", what, install))
    foreign = {
        name: place
        for name, place in machine.imports.items()
        if place is not None and not _inside(place, machine.root)
    }
    if foreign:
        listed = ", ".join(f"{name} from {place}" for name, place in foreign.items())
        what = f"notebooks import another copy of the project: {listed}"
        findings.append(Finding("fault", what, install))
    return findings


def _room(machine: Machine) -> list[Finding]:
    findings = []
    disk, memory = machine.disk_free_gb, machine.memory_free_gb
    if disk is not None and disk < ENOUGH_DISK_GB:
        what = f"{disk:.1f} GB of disk are free, and an environment takes 2.2 GB"
        findings.append(Finding("note", what, "Make room before you install anything."))
    if memory is not None and memory < ENOUGH_MEMORY_GB:
        what = f"{memory:.1f} GB of memory are free"
        fix = "Close other programs if an exercise runs out of memory."
        findings.append(Finding("note", what, fix))
    return findings


# --- commands that the reader can type -------------------------------------------------------


def _install(machine: Machine, pins: Sequence[Pin], names: Sequence[str]) -> str:
    versions = {pin.name: pin.version for pin in pins}
    if not versions.keys() >= set(names):
        # Without its version a package may come in one that does not fit the others.
        return f"{_pip(machine)} install -r requirements.txt"
    wanted = [f"{name}=={versions[name]}" for name in names]
    return f"{_pip(machine)} install {' '.join(wanted)}"


def _pip(machine: Machine) -> str:
    return f"{_python_command(machine)} -m pip"


def _python_command(machine: Machine) -> str:
    if machine.is_project_venv:
        return _venv_python(machine)
    return _quote(machine.executable)


def _venv_python(machine: Machine) -> str:
    return r".venv\Scripts\python" if machine.platform == "win32" else ".venv/bin/python"


def _quote(path: str) -> str:
    return f'"{path}"' if " " in path else path


def _driver_fix(machine: Machine) -> str:
    if machine.platform == "win32":
        return (
            f"Install an NVIDIA driver r{OLDEST_DRIVER} or newer (nvidia.com/drivers) and restart."
        )
    return (
        f"Install an NVIDIA driver r{OLDEST_DRIVER} or newer (on Ubuntu: sudo apt install "
        f"nvidia-driver-{OLDEST_DRIVER}; under WSL: on the Windows side; elsewhere "
        "nvidia.com/drivers) and restart."
    )


def _hide(machine: Machine) -> str:
    setting = (
        '$env:CUDA_VISIBLE_DEVICES = "-1" (PowerShell)'
        if machine.platform == "win32"
        else "export CUDA_VISIBLE_DEVICES=-1"
    )
    return f"To work without the GPU, run: {setting}"


# --- helpers ---------------------------------------------------------------------------------


def _check_machine(machine: Machine) -> None:
    if not isinstance(machine, Machine):
        got = type(machine).__name__
        raise TypeError(f"machine must be a Machine, as look() returns it, got {got}")


def _system(machine: Machine) -> str:
    name = SYSTEM_NAMES.get(machine.platform, machine.platform)
    return name if machine.platform == "darwin" else f"{name} on {machine.architecture}"


def _inside(place: str, root: str) -> bool:
    place, root = os.path.normcase(place), os.path.normcase(root)
    return place == root or place.startswith(root.rstrip("\\/") + os.sep)


def _without_zeros(version: str) -> str:
    return re.sub(r"(\.0)+$", "", version)
