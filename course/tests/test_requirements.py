"""requirements.txt can be installed beside the CUDA build of torch, on every Python we promise.

pip resolves it by dry run against the public index. A machine with a CPU build of torch hides the
conflict that this looks for, so pip's own settings, and any folder of wheels, are out of the way.

Markers such as `python_version < "3.12"` are evaluated by the Python that runs pip, whatever
--python-version says; constraints.txt, which uv made for all systems, has those for the others.
"""

import functools
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from course.paths import ROOT
from course.tests.browser import unavailable

REQUIREMENTS = ROOT / "requirements.txt"
CONSTRAINTS = ROOT / "constraints.txt"
network = pytest.mark.skipif(
    not os.environ.get("FULL"), reason="asks the package index: runs with FULL=1"
)
linux_only = pytest.mark.skipif(
    sys.platform != "linux", reason="only Linux has a CUDA build of torch on the index"
)


# pip as it is where nobody has set anything: the public index, and no folder of wheels.
PLAIN = {k: v for k, v in os.environ.items() if not k.startswith(("PIP_", "PYTHONPATH"))}
PLAIN |= {"PIP_CONFIG_FILE": os.devnull, "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
if "PIP_CERT" in os.environ:  # this machine's certificates are no setting of the index
    PLAIN["PIP_CERT"] = os.environ["PIP_CERT"]


@functools.cache
def offline() -> str:
    """Why the public index cannot be reached; empty where it can."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "pip", "download", "-q", "--retries", "1"]
        command += ["--no-deps", "--no-cache-dir", "-d", folder, "six==1.17.0"]
        outcome = subprocess.run(command, capture_output=True, text=True, env=PLAIN)
    if outcome.returncode:
        return f"no package index can be reached: {outcome.stderr[-300:]}"
    return ""


def resolve(folder: Path, python: str, requirements: Path) -> subprocess.CompletedProcess:
    """pip's report on what it would install for that Python."""
    if offline():
        unavailable(offline())
    command = [sys.executable, "-m", "pip", "install", "--dry-run", "--ignore-installed", "-q"]
    command += ["--only-binary=:all:", "--target", str(folder / "target")]
    command += ["--implementation", "cp", "--abi", f"cp{python}"]
    # A patch release that everybody can have: bare 3.11 is 3.11.0, which some packages have left.
    command += ["--python-version", f"3.{python[1:]}.9"]
    command += ["--abi", "abi3", "--abi", "none"]
    # Asked for a platform by name, pip does not take wheels for an older glibc too.
    for platform in [f"manylinux_2_{glibc}" for glibc in range(28, 4, -1)] + ["manylinux2014"]:
        command += ["--platform", f"{platform}_x86_64"]
    command += ["--platform", "linux_x86_64", "--platform", "any"]
    command += ["--report", str(folder / "report.json"), "-r", str(requirements)]
    return subprocess.run(command, capture_output=True, text=True, env=PLAIN)


@network
@linux_only
@pytest.mark.parametrize("python", ["311", "312", "313"])
def test_resolves_beside_the_cuda_build_of_torch(python, tmp_path):
    outcome = resolve(tmp_path, python, REQUIREMENTS)
    assert outcome.returncode == 0, outcome.stderr[-3000:]
    report = json.loads((tmp_path / "report.json").read_text())
    chosen = {
        re.sub(r"[-_.]+", "-", item["metadata"]["name"]).lower(): item["metadata"]["version"]
        for item in report["install"]
    }
    assert chosen["torch"] == "2.13.0"  # not 2.13.0+cpu
    for cuda in ("nvidia-cublas", "nvidia-cudnn-cu13", "nvidia-cuda-runtime", "triton"):
        assert cuda in chosen, f"no {cuda}: this is no CUDA build"
    assert chosen["nvidia-cuda-tileiras"] == chosen["nvidia-cuda-nvcc"] == chosen["nvidia-nvvm"]
    unpinned = sorted(name for name in chosen if name not in pins(CONSTRAINTS))
    assert not unpinned, f"constraints.txt lacks {unpinned}; its top says how to make it anew"


@network
@linux_only
def test_the_extra_cannot_be_resolved(tmp_path):
    # The conflict that the pins avoid, so that we know the tests above would notice one.
    # Without the constraints, which would say no at once.
    lines = REQUIREMENTS.read_text(encoding="utf-8").replace("-c constraints.txt", "")
    asked = tmp_path / "requirements.txt"
    asked.write_text(lines + "\ncuda-tile[tileiras]==1.7.0\n")
    outcome = resolve(tmp_path, "312", asked)
    assert outcome.returncode != 0
    assert "ResolutionImpossible" in outcome.stderr


def pins(file: Path) -> dict[str, set[str]]:
    """Name to the versions that the file pins; some differ from Python to Python."""
    found: dict[str, set[str]] = {}
    for line in file.read_text(encoding="utf-8").splitlines():
        if line and not line.startswith(("#", "-")):
            name, version = re.match(r"([A-Za-z0-9._-]+)==([^ ;#]+)", line).groups()
            found.setdefault(re.sub(r"[-_.]+", "-", name).lower(), set()).add(version)
    return found


def test_every_requirement_is_pinned_with_its_reason():
    lines = REQUIREMENTS.read_text(encoding="utf-8").splitlines()
    assert "-c constraints.txt" in lines
    wanted = [line for line in lines if line and not line.startswith(("#", "-c"))]
    assert len(wanted) > 10
    for line in wanted:
        assert re.match(r"[a-z0-9-]+==[^ ;]+(; sys_platform != \"darwin\")? +# \S.+", line), line


def test_constraints_agree_with_the_requirements():
    constraints = pins(CONSTRAINTS)
    for name, versions in pins(REQUIREMENTS).items():
        assert constraints[name] == versions


def test_nothing_is_pinned_to_a_build_of_one_machine():
    for name, versions in pins(CONSTRAINTS).items():
        assert not [version for version in versions if "+" in version], name


def test_macos_is_asked_for_nothing_that_it_lacks():
    for line in REQUIREMENTS.read_text(encoding="utf-8").splitlines():
        if line.startswith(("cuda-", "nvidia-")):
            assert 'sys_platform != "darwin"' in line
