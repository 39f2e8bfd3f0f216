"""python -m course doctor: the facts it reads, what it makes of them, and that it never fails."""

import argparse
import io
import json
import os
import re
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from course import doctor
from course.doctor import (
    Gpu,
    Machine,
    Pin,
    diagnose,
    findings,
    look,
    machine,
    read_pins,
    tiers_here,
)
from course.paths import ROOT

COMPILER = {
    "nvidia-cuda-tileiras": "13.4.92",
    "nvidia-cuda-nvcc": "13.4.92",
    "nvidia-nvvm": "13.4.92",
}
PACKAGES = {"numpy": "2.4.6", "ipykernel": "7.4.0", "setuptools": "84.2.1", "torch": "2.13.0+cpu"}
CUTILE = {"cuda-tile": "1.7.0", **COMPILER}
MAC_PINS = tuple(Pin(name, version.split("+")[0]) for name, version in PACKAGES.items())
PINS = MAC_PINS + tuple(Pin(name, version) for name, version in CUTILE.items())
ARCHITECTURES = tuple(f"sm_{number}" for number in (80, 86, 89, 90, 100, 103, 120))

LAPTOP = Machine(
    python="3.12.4",
    executable="/course/.venv/bin/python",
    platform="linux",
    architecture="x86_64",
    root="/course",
    packages=PACKAGES | CUTILE,
    tileiras="/course/.venv/lib/nvidia/cu13/bin/tileiras",
    tileiras_version="13.4.92",
    tileiras_architectures=ARCHITECTURES,
    kernel_spec="/course/.venv/share/jupyter/kernels/python3/kernel.json",
    kernel_python="/course/.venv/bin/python",
    kernel_is_this_python=True,
    imports={"course": "/course/course", "kernels": "/course/kernels"},
    disk_free_gb=100.0,
    memory_free_gb=8.0,
)
MAC = replace(
    LAPTOP,
    platform="darwin",
    architecture="arm64",
    packages=PACKAGES | {"torch": "2.13.0"},
    tileiras=None,
    tileiras_version=None,
    tileiras_architectures=(),
)
B200 = replace(
    LAPTOP,
    packages=LAPTOP.packages | {"torch": "2.13.0"},
    torch_cuda="13.0",
    nvidia_smi="/usr/bin/nvidia-smi",
    gpus=(Gpu("NVIDIA B200", "10.0", 183359),) * 8,
    driver="580.95.05",
)
H200 = replace(B200, gpus=(Gpu("NVIDIA H200", "9.0", 143771),), driver="580.159.04")
WINDOWS = replace(H200, platform="win32", architecture="amd64", gpus=(Gpu("RTX 4090", "8.9"),))
OLD_GPU, NEW_GPU = Gpu("GTX 1660", "7.5", 6144), Gpu("NVIDIA X1", "13.0")


def packages(base: Machine, *without: str, **versions: str) -> Machine:
    """`base` without some packages and with others in other versions (_ stands for -)."""
    kept = {name: version for name, version in base.packages.items() if name not in without}
    changed = {name.replace("_", "-"): version for name, version in versions.items()}
    return replace(base, packages=kept | changed)


def compiler(base: Machine, version: str, *architectures: str) -> Machine:
    """`base` with all three wheels of the compiler in another version."""
    wheels = dict.fromkeys(COMPILER, version)
    return replace(
        base,
        packages=base.packages | wheels,
        tileiras_version=version,
        tileiras_architectures=architectures or ARCHITECTURES,
    )


NO_TILEIRAS = {"tileiras": None, "tileiras_version": None, "tileiras_architectures": ()}
PIP = ".venv/bin/python -m pip install"
THREE_WHEELS = f"{PIP} nvidia-cuda-tileiras==13.4.92 nvidia-cuda-nvcc==13.4.92 nvidia-nvvm==13.4.92"
CUDA_TORCH = f"{PIP} torch==2.13.0+cu130 --index-url https://download.pytorch.org/whl/cu130"
CPU_TORCH = f"{PIP} torch==2.13.0+cpu --index-url https://download.pytorch.org/whl/cpu"
HIDE = "export CUDA_VISIBLE_DEVICES=-1"

# name: (machine, [(severity, words of what, words of the fix), ...]): these findings, no others.
CASES = {
    "clean laptop": (LAPTOP, []),
    "clean Mac": (MAC, []),
    "clean B200": (B200, []),
    "clean H200": (H200, []),
    "clean Windows": (WINDOWS, []),
    "driver of exactly r580": (replace(B200, driver="580.0"), []),
    "oldest Python": (replace(LAPTOP, python="3.11.0"), []),
    "newest Python": (replace(LAPTOP, python="3.13.9"), []),
    "one GPU of two is usable": (
        replace(B200, gpus=(OLD_GPU, B200.gpus[0])),
        [("note", "GTX 1660 (compute capability 7.5) is older", HIDE)],
    ),
    "GPU hidden": (
        replace(packages(B200, torch="2.13.0+cpu"), torch_cuda=None, visible_devices="-1"),
        [("note", "CUDA_VISIBLE_DEVICES=-1 hides every GPU", "unset CUDA_VISIBLE_DEVICES")],
    ),
    "hidden by an empty value": (
        replace(H200, driver="470.57.02", visible_devices=""),
        [("note", "hides every GPU", "unset CUDA_VISIBLE_DEVICES")],
    ),
    "one GPU chosen": (replace(B200, visible_devices="1,0"), []),
    "hidden on a laptop": (replace(LAPTOP, visible_devices="-1"), []),
    "another environment": (
        replace(LAPTOP, is_project_venv=False, executable="/opt/env/bin/python"),
        [("note", "/opt/env/bin/python", ".venv/bin/python -m course doctor")],
    ),
    "no environment yet": (
        replace(LAPTOP, has_project_venv=False, is_project_venv=False),
        [("note", "the project has no .venv", "run: python3.13 -m venv .venv, then .venv/bin/py")],
    ),
    "little room": (
        replace(LAPTOP, disk_free_gb=1.0, memory_free_gb=0.5),
        [("note", "1.0 GB of disk", "Make room"), ("note", "0.5 GB of memory", "Close other")],
    ),
    "Python too old": (
        replace(LAPTOP, python="3.10.14"),
        [("fault", "Python 3.10.14", "remove the folder .venv and run: python3.13 -m venv .venv")],
    ),
    "Python too new": (
        replace(WINDOWS, python="3.14.0"),
        [("fault", "Python 3.14.0", r"py -3.13 -m venv .venv, then .venv\Scripts\python -m pip")],
    ),
    "pins unreadable": (
        replace(LAPTOP, problems={"requirements": "the package packaging is not installed"}),
        [("fault", "packaging is not installed", f"{PIP} -r requirements.txt")],
    ),
    "package missing": (
        packages(LAPTOP, "numpy"),
        [("fault", "not installed: numpy", f"{PIP} -r requirements.txt")],
    ),
    "package of another version": (
        packages(LAPTOP, numpy="2.4.60"),
        [("fault", "numpy is 2.4.60, the course needs 2.4.6", f"{PIP} -r requirements.txt")],
    ),
    "in an environment with a space in its path": (
        replace(packages(LAPTOP, "numpy"), is_project_venv=False, executable="/my env/bin/python"),
        [("fault", "numpy", '"/my env/bin/python" -m pip install'), ("note", "/my env", "doctor")],
    ),
    "torch missing": (packages(LAPTOP, "torch"), [("fault", "torch is not installed", CPU_TORCH)]),
    "torch missing beside a GPU": (
        replace(packages(B200, "torch"), torch_cuda=None),
        [("fault", "torch is not installed", CUDA_TORCH)],
    ),
    "torch too old": (
        packages(LAPTOP, torch="2.12.1+cpu"),
        [("fault", "torch is 2.12.1+cpu, and the course needs 2.13.0", CPU_TORCH)],
    ),
    "torch too old on a Mac": (
        packages(MAC, torch="2.12.1"),
        [("fault", "torch is 2.12.1", f"{PIP} torch==2.13.0")],
    ),
    "torch without CUDA beside a GPU": (
        replace(packages(H200, torch="2.13.0+cpu"), torch_cuda=None),
        [
            (
                "fault",
                "torch 2.13.0+cpu is a build without CUDA",
                f"{CUDA_TORCH} (the CUDA build downloads several GB)",
            )
        ],
    ),
    "torch without CUDA on Windows": (
        replace(WINDOWS, torch_cuda=None),
        [
            (
                "fault",
                "without CUDA, and here is a GPU: RTX 4090",
                r".venv\Scripts\python -m pip install torch==2.13.0+cu130",
            )
        ],
    ),
    "compiler missing": (
        replace(packages(LAPTOP, "nvidia-cuda-tileiras"), **NO_TILEIRAS),
        [("fault", "not installed: nvidia-cuda-tileiras; cuTile cannot compile", THREE_WHEELS)],
    ),
    "compiler missing on Windows": (
        replace(packages(WINDOWS, *COMPILER), **NO_TILEIRAS),
        [("fault", "nvidia-cuda-tileiras, nvidia-cuda-nvcc, nvidia-nvvm", r".venv\Scripts")],
    ),
    "another toolkit stands in": (
        replace(packages(LAPTOP, "nvidia-nvvm"), tileiras="/usr/local/cuda/bin/tileiras"),
        [("fault", "nvidia-nvvm; cuTile takes /usr/local/cuda/bin/tileiras", THREE_WHEELS)],
    ),
    "compiler's wheels mismatched": (
        replace(packages(LAPTOP, nvidia_nvvm="13.3.33"), **NO_TILEIRAS),
        [
            (
                "fault",
                "must share major.minor, and do not: nvidia-cuda-tileiras 13.4.92, "
                "nvidia-cuda-nvcc 13.4.92, nvidia-nvvm 13.3.33",
                THREE_WHEELS,
            )
        ],
    ),
    "compiler's wheels differ in the patch only": (
        packages(LAPTOP, nvidia_nvvm="13.4.90"),
        [("fault", "nvidia-nvvm is 13.4.90, the course needs 13.4.92", "-r requirements.txt")],
    ),
    "compiler's binary gone": (
        replace(LAPTOP, **NO_TILEIRAS),
        [("fault", "the binary is gone", f"{PIP} --force-reinstall --no-deps nvidia-cuda-t")],
    ),
    "compiler does not run": (
        replace(LAPTOP, tileiras_architectures=(), problems={"tileiras": "Exec format error"}),
        [("fault", "tileiras could not be read: Exec format error", "--force-reinstall")],
    ),
    "driver too old": (
        replace(B200, driver="575.57.08"),
        [("fault", "driver 575.57.08 is older than r580", "apt install nvidia-driver-580")],
    ),
    "driver too old to name the capability": (
        replace(WINDOWS, driver="472.12", gpus=(Gpu("RTX 4090", None),)),
        [("fault", "driver 472.12 is older than r580", "r580 or newer (nvidia.com/drivers)")],
    ),
    "GPU keeps its capability to itself": (
        replace(B200, gpus=(Gpu("Odd GPU", None),)),
        [("fault", "Odd GPU does not say what it can compute", HIDE)],
    ),
    "nvidia-smi fails": (
        replace(LAPTOP, problems={"gpu": "nvidia-smi failed (exit status 9)"}),
        [("fault", "exit status 9", HIDE)],
    ),
    "nvidia-smi fails, GPU hidden": (
        replace(LAPTOP, problems={"gpu": "nvidia-smi failed"}, visible_devices="-1"),
        [],
    ),
    "GPU too old": (
        # Neither a driver nor another torch would help this one.
        replace(
            packages(B200, torch="2.13.0+cpu"), gpus=(OLD_GPU,), torch_cuda=None, driver="470.1"
        ),
        [("fault", "GTX 1660 (compute capability 7.5) is older than cuTile supports", HIDE)],
    ),
    "GPU newer than the course's compiler": (
        replace(B200, gpus=(NEW_GPU,)),
        [("fault", "tileiras 13.4.92 does not know sm_130, which NVIDIA X1 needs", "git pull")],
    ),
    "compiler of another toolkit does not know the GPU": (
        replace(B200, tileiras_version="13.1.80", tileiras_architectures=("sm_120",)),
        [("fault", "tileiras 13.1.80 does not know sm_100", f"{PIP} --force-reinstall")],
    ),
    "compiler too old for Hopper": (
        compiler(H200, "13.2.78", "sm_80", "sm_100"),
        [("fault", "tileiras 13.2.78 does not know sm_90", f"{PIP} cuda-tile==1.7.0 nvidia-")],
    ),
    "compiler knows Hopper before its time": (
        compiler(H200, "13.2.78"),
        [("fault", "needs tileiras 13.3 or newer, not 13.2.78", f"{PIP} cuda-tile==1.7.0")],
    ),
    "cuda-tile too old for Hopper": (
        packages(H200, cuda_tile="1.3.0"),
        [("fault", "needs cuda-tile 1.4 or newer, not 1.3.0", f"{PIP} cuda-tile==1.7.0")],
    ),
    "cuda-tile missing": (
        packages(LAPTOP, "cuda-tile"),
        [("fault", "not installed: cuda-tile", f"{PIP} -r requirements.txt")],
    ),
    "project not installed": (
        replace(LAPTOP, imports={"course": None, "kernels": None}),
        [
            (
                "fault",
                "cannot import course and kernels",
                f"{PIP} --no-deps --no-build-isolation -e /course",
            )
        ],
    ),
    "another copy of the project": (
        replace(LAPTOP, imports={"course": "/course/course", "kernels": "/course-2025/kernels"}),
        [("fault", "another copy of the project: kernels from /course-2025/kernels", "-e /course")],
    ),
    "imports unreadable": (
        replace(LAPTOP, problems={"imports": "no answer"}),
        [("fault", "no answer", "-e /course")],
    ),
    "ipykernel missing": (
        replace(packages(LAPTOP, "ipykernel"), kernel_spec=None, kernel_is_this_python=False),
        [("fault", "ipykernel is not installed", f"{PIP} ipykernel==7.4.0")],
    ),
    "no kernel python3": (
        replace(LAPTOP, kernel_spec=None, kernel_python=None, kernel_is_this_python=False),
        [("fault", "no notebook kernel called python3", "-m ipykernel install --sys-prefix")],
    ),
    "kernel of another Python": (
        replace(LAPTOP, kernel_python="/usr/bin/python3", kernel_is_this_python=False),
        [
            (
                "fault",
                "runs another Python (/usr/bin/python3)",
                "remove the folder /course/.venv/share/jupyter/kernels/python3, then",
            )
        ],
    ),
    "kernel unreadable": (
        replace(LAPTOP, problems={"kernel": "kernel.json is no kernel description"}),
        [("fault", "no kernel description", "-m ipykernel install --sys-prefix")],
    ),
    "Jupyter missing": (
        replace(LAPTOP, kernel_spec=None, problems={"kernel": "jupyter_core is not installed"}),
        [("fault", "jupyter_core is not installed", f"{PIP} -r requirements.txt")],
    ),
    "two faults": (
        replace(packages(B200, torch="2.13.0+cpu"), torch_cuda=None, driver="570.10"),
        [("fault", "without CUDA", "cu130"), ("fault", "driver 570.10", "nvidia-driver-580")],
    ),
    "a fault before a note": (
        replace(packages(LAPTOP, "numpy"), is_project_venv=False),
        [("fault", "numpy", "pip install"), ("note", "not the one of the project's", "doctor")],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_findings(name):
    this, expected = CASES[name]
    found = diagnose(this, MAC_PINS if this.platform == "darwin" else PINS)
    assert [finding.severity for finding in found] == [severity for severity, _, _ in expected], (
        found
    )
    for finding, (_, what, fix) in zip(found, expected, strict=True):
        assert what in finding.what
        assert fix in finding.fix


def test_every_fix_names_a_command_or_an_action():
    action = re.compile(
        r"-m (pip|venv|ipykernel|course) |CUDA_VISIBLE_DEVICES|Make room|Close other"
    )
    fixes = {finding.fix for this, _ in CASES.values() for finding in diagnose(this, PINS)}
    assert len(fixes) > 20
    assert [fix for fix in fixes if not action.search(fix)] == []


def test_a_mac_is_sent_to_the_one_build_it_has():
    (found,) = diagnose(packages(MAC, torch="2.12.1"), MAC_PINS)
    assert found.fix == f"{PIP} torch==2.13.0"


def test_without_pins_no_command_leaves_a_version_open():
    problems = {"requirements": "the package packaging is not installed"}
    bare = replace(packages(H200, *H200.packages), problems=problems, **NO_TILEIRAS)
    found = diagnose(bare, ())
    assert len(found) == 3
    assert all("install -r requirements.txt" in finding.fix for finding in found)


@pytest.mark.parametrize(
    ("installed", "pinned", "met"),
    [
        ("2.13.0", "2.13.0", True),
        ("2.13.0+cpu", "2.13.0", True),
        ("2.13.0+cpu", "2.13.0+cu130", False),
        ("2.13", "2.13.0", True),
        ("2.13.0", "2.13.*", True),
        ("2.130.0", "2.13.*", False),
        ("2.13.0.post1", "2.13.0", False),
        ("2.13.10", "2.13.1", False),
    ],
)
def test_pin_is_met(installed, pinned, met):
    this = replace(LAPTOP, packages={"torch": installed})
    assert findings.pin_is_met(this, Pin("torch", pinned)) is met


NO_GPU = "there is no NVIDIA GPU"
# machine: reasons for value, value of a cuTile exercise, compile, gpu; speed is always as gpu.
TIERS = {
    "laptop": (LAPTOP, None, None, None, NO_GPU),
    "B200": (B200, None, None, None, None),
    "H200": (H200, None, None, None, None),
    "Windows": (WINDOWS, None, None, None, None),
    "Mac": (MAC, None, "no wheel for macOS", "no wheel for macOS", NO_GPU),
    "Windows on Arm": (
        replace(WINDOWS, architecture="arm64", gpus=()),
        None,
        "Windows on arm64",
        "Windows on arm64",
        NO_GPU,
    ),
    "no numpy": (packages(LAPTOP, "numpy"), *["numpy is not installed"] * 2, None, NO_GPU),
    "no cuda-tile": (packages(B200, "cuda-tile"), None, *["cuda-tile is not installed"] * 3),
    "no torch": (packages(B200, "torch"), None, *["torch is not", None, "torch is not installed"]),
    "no tileiras": (replace(B200, **NO_TILEIRAS), None, None, *["no compiler (tileiras)"] * 2),
    "broken tileiras": (
        replace(B200, tileiras_architectures=()),
        None,
        None,
        *["tileiras does not run"] * 2,
    ),
    "CPU torch": (replace(B200, torch_cuda=None), None, None, None, "a build without CUDA"),
    "old driver": (replace(B200, driver="570.1"), None, None, None, "older than r580"),
    "old GPU": (replace(B200, gpus=(OLD_GPU,)), None, None, None, "older than cuTile supports"),
    "new GPU": (replace(B200, gpus=(NEW_GPU,)), None, None, None, "does not know sm_130"),
    "old and usable GPU": (replace(B200, gpus=(OLD_GPU, *B200.gpus)), None, None, None, None),
    "hidden GPU": (replace(B200, visible_devices="-1"), None, None, None, "hides every GPU"),
    "nvidia-smi fails": (
        replace(LAPTOP, problems={"gpu": "it broke"}),
        None,
        None,
        None,
        "could not be read: it broke",
    ),
}


@pytest.mark.parametrize("name", TIERS)
def test_tiers(name):
    this, value, cutile_value, compiles, gpu = TIERS[name]
    expected = {"value": value, "compile": compiles, "gpu": gpu, "speed": gpu}
    for cutile, first in ((False, value), (True, cutile_value)):
        reasons = tiers_here(this, cutile=cutile)
        assert tuple(reasons) == doctor.TIERS
        for tier, words in (expected | {"value": first}).items():
            if words is None:
                assert reasons[tier] is None, tier
            else:
                assert words in reasons[tier], tier


@pytest.mark.parametrize("function", [diagnose, tiers_here])
def test_a_wrong_argument_is_named(function):
    with pytest.raises(
        TypeError, match=r"machine must be a Machine, as look\(\) returns it, got dict"
    ):
        function({})


# --- the report and the command --------------------------------------------------------------


def run_on(this, monkeypatch, capsys, *options):
    monkeypatch.setattr(doctor, "look", lambda pins: this)
    monkeypatch.setattr(doctor, "pins_here", lambda: PINS)
    parser = argparse.ArgumentParser()
    doctor.add_arguments(parser)
    status = doctor.run(parser.parse_args(options))
    return status, capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "status", "last_line"),
    [
        ("clean laptop", 0, "All good: this machine runs value and compile."),
        ("clean B200", 0, "All good: this machine runs value, compile, gpu and speed."),
        ("another environment", 0, "All good: this machine runs value and compile."),
        ("driver too old", 1, "1 fault found"),
        ("two faults", 1, "2 faults found"),
    ],
)
def test_exit_status_and_last_line(name, status, last_line, monkeypatch, capsys):
    got, text = run_on(CASES[name][0], monkeypatch, capsys)
    assert (got, text.splitlines()[-1]) == (status, last_line)
    got, text = run_on(CASES[name][0], monkeypatch, capsys, "--json")
    assert got == status
    assert json.loads(text)["ok"] is (status == 0)


def test_report_tells_facts_faults_and_fixes(monkeypatch, capsys):
    this = replace(
        packages(B200, "numpy"),
        driver="570.10",
        visible_devices="0",
        chromium=None,
        memory_free_gb=None,
        problems={"memory": "the package psutil is not installed"},
    )
    _, text = run_on(this, monkeypatch, capsys)
    lines = [" ".join(line.split()) for line in text.splitlines()]
    for line in (
        "numpy not installed <- 2.4.6 is needed",
        "torch 2.13.0",
        "memory could not be read: the package psutil is not installed",
        "GPU 8 x NVIDIA B200, compute capability 10.0, 179 GiB",
        "driver 570.10",
        "torch build CUDA 13.0",
        "tileiras 13.4.92, /course/.venv/lib/nvidia/cu13/bin/tileiras",
        "compiles for sm_80 sm_86 sm_89 sm_90 sm_100 sm_103 sm_120",
        "value does not run: numpy is not installed",
        "compile runs",
        "speed does not run: the NVIDIA driver 570.10 is older than r580",
        "- not installed: numpy",
        f"Fix: {PIP} -r requirements.txt",
    ):
        assert line in lines, line


def test_report_says_what_a_mac_is_left_with(monkeypatch, capsys):
    monkeypatch.setattr(doctor, "pins_here", lambda: MAC_PINS)
    _, text = run_on(MAC, monkeypatch, capsys)
    assert "in chapters 00 to 03 only: cuda-tile has no wheel for macOS" in text


@pytest.mark.parametrize("name", CASES)
def test_report_can_be_written_for_every_machine(name):
    this, _ = CASES[name]
    found = diagnose(this, PINS)
    assert doctor.as_text(this, PINS, found).isascii()
    assert json.loads(doctor.as_json(this, PINS, found))["machine"]["python"] == this.python


def test_a_console_with_an_old_code_page_is_no_obstacle(monkeypatch):
    console = io.TextIOWrapper(io.BytesIO(), encoding="cp1252", newline="\n")
    monkeypatch.setattr(sys, "stdout", console)
    monkeypatch.setattr(doctor, "look", lambda pins: replace(LAPTOP, root="/コース"))
    monkeypatch.setattr(doctor, "pins_here", lambda: PINS)
    assert doctor.run(argparse.Namespace(json=False)) == 1
    console.flush()
    assert rb"/\u30b3\u30fc\u30b9" in console.buffer.getvalue()


# --- what it reads ---------------------------------------------------------------------------


def write_pins(tmp_path, text):
    path = tmp_path / "requirements.txt"
    path.write_text(text, encoding="utf-8")
    return path


def test_read_pins(tmp_path):
    text = """\
# a comment with torch==1.0
-c constraints.txt
Some_Package==1.2     # why
ranged>=2,<3
bare

here==1.0.post1; python_version >= "3"
elsewhere==1.0; sys_platform == "nowhere"
"""
    expected = (Pin("some-package", "1.2"), Pin("here", "1.0.post1"))
    assert read_pins(write_pins(tmp_path, text)) == expected


def test_a_line_that_cannot_be_read_is_named(tmp_path):
    path = write_pins(tmp_path, "fine==1.0\nbroken==\n")
    with pytest.raises(ValueError, match=r"requirements\.txt, line 2: 'broken=='"):
        read_pins(path)


def test_the_course_pins_what_doctor_judges():
    pins = {pin.name: pin.version for pin in read_pins(ROOT / "requirements.txt")}
    assert {"numpy", "torch", "ipykernel"} <= set(pins)
    if sys.platform != "darwin":
        wheels = {machine.major_minor(pins[name]) for name in machine.COMPILER_WHEELS}
        assert len(wheels) == 1


def put_program(folder, name, source):
    """A program `name` in `folder`, for every system, that runs the Python lines `source`."""
    script = folder / f"{name}_fake.py"
    script.write_text(source, encoding="utf-8")
    if sys.platform == "win32":
        program = folder / f"{name}.bat"
        program.write_text(f'@"{sys.executable}" -S "{script}" %*\n', encoding="utf-8")
    else:
        program = folder / name
        # No exec: the real work happens in a grandchild, which also has to be stopped.
        program.write_text(f'#!/bin/sh\n"{sys.executable}" -S "{script}" "$@"\nexit $?\n')
        program.chmod(0o755)
    return str(program)


@pytest.fixture
def fake(tmp_path, monkeypatch):
    """fake(name, source) puts a program first on the PATH."""
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    return lambda name, source: put_program(tmp_path, name, source)


OLD_SMI = """
import sys
if "compute_cap" in sys.argv[1]:
    print('Field "compute_cap" is not a valid field to query.')
    sys.exit(2)
print("GeForce GTX 970, 390.157, 4041 MiB")
"""
# nvidia-smi's source: GPUs, driver, words of the problem.
NVIDIA_SMI = {
    "good": (
        "print('NVIDIA H200, 9.0, 580.159.04, 143771 MiB\\nOdd, Inc. GPU, 12.1, 580.1, [N/A]')",
        (Gpu("NVIDIA H200", "9.0", 143771), Gpu("Odd, Inc. GPU", "12.1", None)),
        "580.1",
        None,
    ),
    "asked for the right thing": (
        "import sys\nassert sys.argv[1:] == ['--query-gpu=name,compute_cap,driver_version,"
        "memory.total', '--format=csv,noheader']\nprint('A, 8.0, 580.1, 1 MiB')",
        (Gpu("A", "8.0", 1),),
        "580.1",
        None,
    ),
    "warning": (
        "print('WARNING: infoROM is corrupted\\nNVIDIA B200, 10.0, 590.1, 183359 MiB')",
        (Gpu("NVIDIA B200", "10.0", 183359),),
        "590.1",
        None,
    ),
    "no devices": ("print('No devices were found'); raise SystemExit(6)", (), None, None),
    "old": (OLD_SMI, (Gpu("GeForce GTX 970", None, 4041),), "390.157", None),
    "garbage": ("print('%PDF-1.4 \\xff\\x00')", (), None, "something else than GPUs: '%PDF-1.4"),
    "rows of garbage": ("print('a, b, c, d')", (), None, "something else than GPUs: 'a, b, c, d'"),
    "failing": (
        "import sys; sys.exit('cannot communicate with the\\n driver')",
        (),
        None,
        "nvidia-smi failed (exit status 1): cannot communicate with the driver",
    ),
    "hanging": ("import time; time.sleep(20)", (), None, "gave no answer in 0.5 s"),
}


@pytest.mark.parametrize("name", NVIDIA_SMI)
def test_nvidia_smi(name, fake, monkeypatch):
    source, gpus, driver, problem = NVIDIA_SMI[name]
    program = fake("nvidia-smi", source)
    if name == "hanging":
        monkeypatch.setattr(machine, "NVIDIA_SMI_SECONDS", 0.5)
    start = time.monotonic()
    this = look(())
    assert time.monotonic() - start < 6
    assert os.path.normcase(this.nvidia_smi) == os.path.normcase(program)
    assert (this.gpus, this.driver) == (gpus, driver)
    assert (problem or "") in this.problems.get("gpu", "")
    assert ("gpu" in this.problems) is (problem is not None)
    # Whatever it answers, the report gets written and every fault has a fix.
    found = diagnose(this, PINS)
    assert all(finding.fix for finding in found)
    assert (problem or "") in doctor.as_text(this, PINS, found)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows runs it or not by its name alone")
def test_an_nvidia_smi_that_cannot_run(tmp_path, monkeypatch):
    program = tmp_path / "nvidia-smi"
    program.write_bytes(b"\x7fELF no such format")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    assert "Exec format error" in look(()).problems["gpu"]


TILEIRAS = """
import sys
if "--version" in sys.argv:
    print("Cuda compilation tools, release 13.2, V13.2.78")
else:
    print("  --gpu-name=<value> - Specify\\n    =sm_100   -   SM 100\\n    =sm_120a  -   SM 120")
    print("    =x86_64   -   x86_64")
"""


def test_tileiras_on_the_path_where_the_wheels_are_not(fake, monkeypatch):
    program = fake("tileiras", TILEIRAS)
    monkeypatch.setattr(machine, "_packages", lambda names: {})
    this = look(())
    assert os.path.normcase(this.tileiras) == os.path.normcase(program)
    assert this.tileiras_version == "13.2.78"
    assert this.tileiras_architectures == ("sm_100", "sm_120a")


def test_mismatched_wheels_are_passed_over_as_cutile_does(fake, monkeypatch):
    program = fake("tileiras", TILEIRAS)
    monkeypatch.setattr(machine, "_packages", lambda names: COMPILER | {"nvidia-nvvm": "13.3.1"})
    assert os.path.normcase(look(()).tileiras) == os.path.normcase(program)


def test_tileiras_in_cuda_home(tmp_path, monkeypatch):
    (tmp_path / "bin").mkdir()
    program = put_program(tmp_path / "bin", "tileiras", TILEIRAS)
    monkeypatch.setattr(machine, "_packages", lambda names: {})
    monkeypatch.setenv("CUDA_PATH" if sys.platform == "win32" else "CUDA_HOME", str(tmp_path))
    assert os.path.normcase(machine._find_tileiras()) == os.path.normcase(program)


@pytest.mark.parametrize(
    ("source", "problem"),
    [
        ("raise SystemExit(127)", "tileiras --version failed (exit status 127)"),
        ("print('V13.4.92')", "tileiras --help names no GPU architecture"),
        ("import time; time.sleep(20)", "tileiras gave no answer in 0.5 s"),
    ],
)
def test_a_tileiras_that_does_not_run(source, problem, fake, monkeypatch):
    program = fake("tileiras", source)
    monkeypatch.setattr(machine, "_packages", lambda names: {})
    monkeypatch.setattr(machine, "PROGRAM_SECONDS", 0.5)
    with pytest.raises(
        Exception, match=re.escape(problem).replace("tileiras\\ gave", ".*gave")
    ) as got:
        machine._tileiras()
    assert os.path.normcase(got.value.facts["tileiras"]) == os.path.normcase(program)


@pytest.mark.parametrize(
    ("line", "cuda"),
    [
        ("cuda: Optional[str] = '13.0'", "13.0"),
        ('cuda = "12.6"', "12.6"),
        ("cuda: Optional[str] = None", None),
    ],
)
def test_torch_build(line, cuda, tmp_path, monkeypatch):
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "version.py").write_text(f"__all__ = ['cuda']\n{line}\nhip = '6.0'\n")
    installed = argparse.Namespace(locate_file=lambda name: tmp_path / name)
    monkeypatch.setattr(machine.importlib.metadata, "distribution", lambda name: installed)
    assert machine._torch_cuda() == cuda
    (tmp_path / "torch" / "version.py").write_text("hip = '6.0'\n")
    with pytest.raises(ValueError, match="does not say for which CUDA"):
        machine._torch_cuda()


@pytest.mark.parametrize(
    ("argv", "ours"),
    [
        (["python", "-m", "ipykernel_launcher"], True),
        (["python3.11", "-m", "ipykernel_launcher"], True),
        ([sys.executable, "-m", "ipykernel_launcher"], True),
        (["/nowhere/bin/python", "-m", "ipykernel_launcher"], False),
    ],
)
def test_kernel(argv, ours, tmp_path, monkeypatch):
    spec = tmp_path / "kernels" / "python3" / "kernel.json"
    spec.parent.mkdir(parents=True)
    spec.write_text(json.dumps({"argv": argv}), encoding="utf-8")
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path))
    this = look(())
    assert (this.kernel_spec, this.kernel_is_this_python) == (str(spec), ours)
    assert this.kernel_python == (sys.executable if ours else argv[0])


def test_kernel_that_cannot_be_read(tmp_path, monkeypatch):
    spec = tmp_path / "kernels" / "python3" / "kernel.json"
    spec.parent.mkdir(parents=True)
    spec.write_text("{", encoding="utf-8")
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path))
    this = look(())
    assert "is no kernel description" in this.problems["kernel"]
    assert this.kernel_spec == str(spec)


def test_without_a_kernel_file_jupyter_makes_one(monkeypatch):
    import jupyter_core.paths

    monkeypatch.setattr(jupyter_core.paths, "jupyter_path", lambda *names: [])
    assert machine._kernel()["kernel_is_this_python"] is True
    monkeypatch.setattr(machine.importlib.util, "find_spec", lambda name: None)
    assert machine._kernel() == {}


def test_where_notebooks_import_from(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.chdir(tmp_path)
    assert look(()).imports["course"] == os.path.realpath(ROOT / "course")
    # A folder of that name where one happens to stand is not an installed project,
    (tmp_path / "kernels").mkdir()
    (tmp_path / "kernels" / "__init__.py").touch()
    assert look(()).imports["kernels"] == os.path.realpath(ROOT / "kernels")
    # but another copy that comes first on Python's path is what a notebook would get.
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    this = look(())
    assert this.imports["kernels"] == os.path.realpath(tmp_path / "kernels")
    assert any("another copy" in finding.what for finding in diagnose(this))


def test_a_probe_that_breaks_stops_no_other(monkeypatch):
    def broken():
        raise RuntimeError("two\nlines")

    for name in ("_requirements", "_gpu", "_tileiras", "_kernel", "_imports", "_memory"):
        monkeypatch.setattr(machine, name, broken)
    for name in ("_packages", "_torch_cuda", "_first_on_path"):
        monkeypatch.setattr(machine, name, lambda *arguments: broken())
    monkeypatch.setattr(machine.shutil, "disk_usage", lambda path: broken())
    this = look(())
    assert len(this.problems) == 10
    assert set(this.problems.values()) == {"two lines"}
    found = diagnose(this, PINS)
    assert "could not be read: two lines" in doctor.as_text(this, PINS, found)


def doctor_process(*flags, cwd=ROOT, **environment):
    """`python FLAGS -m course doctor --json` as a reader runs it."""
    return subprocess.run(
        [sys.executable, *flags, "-m", "course", "doctor", "--json"],
        cwd=cwd,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=60,
    )


def test_the_command_on_this_machine():
    done = doctor_process()
    assert done.stderr == ""
    report = json.loads(done.stdout)
    assert done.returncode == (0 if report["ok"] else 1)
    assert report["machine"]["python"] == "{}.{}.{}".format(*sys.version_info[:3])
    assert Path(report["machine"]["executable"]).exists()
    assert report["pins"]["torch"]


def test_without_any_package_it_still_reports():
    done = doctor_process("-S", PYTHONPATH="")
    assert "Traceback" not in done.stderr
    assert done.returncode == 1
    report = json.loads(done.stdout)
    assert "packaging is not installed" in report["machine"]["problems"]["requirements"]
    assert report["tiers"]["value"] == "numpy is not installed"
    assert report["machine"]["torch_cuda"] is None


def test_nothing_slow_is_imported():
    code = (
        "import sys, course.doctor; course.doctor.look(); "
        "print(sorted({'torch', 'numpy', 'cuda.tile'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60
    )
    assert done.stdout.strip() == "[]", done.stderr
