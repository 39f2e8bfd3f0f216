"""How doctor says it: plain text for a terminal, JSON for programs. ASCII only, no judgement."""

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict

from course.doctor.findings import TIERS, Finding, pin_is_met, tiers_here
from course.doctor.machine import Machine, Pin


def as_json(machine: Machine, pins: Sequence[Pin], findings: Sequence[Finding]) -> str:
    """One JSON object: machine, pins, tiers (tier -> null or the reason), findings, ok."""
    report = {
        "ok": not any(finding.severity == "fault" for finding in findings),
        "tiers": tiers_here(machine),
        "cutile_tiers": tiers_here(machine, cutile=True),
        "findings": [asdict(finding) for finding in findings],
        "pins": {pin.name: pin.version for pin in pins},
        "machine": asdict(machine),
    }
    return json.dumps(report, indent=2)


def as_text(machine: Machine, pins: Sequence[Pin], findings: Sequence[Finding]) -> str:
    """The report: facts, tiers, notes, faults with their fixes, and the verdict as last line."""
    faults = [finding for finding in findings if finding.severity == "fault"]
    notes = [finding for finding in findings if finding.severity == "note"]
    sections = [
        _table("Machine", _machine_rows(machine)),
        _table("Packages (pinned in requirements.txt)", _package_rows(machine, pins)),
        _table("GPU and compiler", _gpu_rows(machine)),
        _table("Tiers of the grader", _tier_rows(machine)),
    ]
    if notes:
        sections.append(_list("Notes", notes))
    if faults:
        sections.append(_list(f"Faults (run the commands in {machine.root})", faults))
    sections.append(_verdict(machine, faults))
    return "\n\n".join(sections)


def _machine_rows(machine: Machine) -> Iterable[tuple[str, str]]:
    def gigabytes(probe: str, number: float | None) -> str:
        return _unread(machine, probe) or f"{number:.1f} GB free"

    yield "Python", f"{machine.python}, {machine.executable}"
    yield "system", f"{machine.platform}, {machine.architecture}"
    kernel = (
        f"{machine.kernel_python or 'not found'} ({machine.kernel_spec or 'no python3 kernel'})"
    )
    yield "notebook kernel", _unread(machine, "kernel") or kernel
    for name, place in machine.imports.items():
        yield f"import {name}", place or "not found from other folders"
    if reason := _unread(machine, "imports"):
        yield "imports", reason
    yield "disk", gigabytes("disk", machine.disk_free_gb)
    yield "memory", gigabytes("memory", machine.memory_free_gb)
    missing = "not found (only the browser checks of `make test` use one)"
    yield "Chromium", _unread(machine, "chromium") or machine.chromium or missing


def _package_rows(machine: Machine, pins: Sequence[Pin]) -> Iterable[tuple[str, str]]:
    if reason := _unread(machine, "requirements"):
        yield "requirements.txt", reason
    for pin in pins:
        installed = machine.packages.get(pin.name, "not installed")
        met = "" if pin_is_met(machine, pin) else f"  <- {pin.version} is needed"
        yield pin.name, installed + met


def _gpu_rows(machine: Machine) -> Iterable[tuple[str, str]]:
    if reason := _unread(machine, "gpu"):
        yield "GPU", reason
    elif not machine.gpus:
        found = "found none" if machine.nvidia_smi else "is not on this machine"
        yield "GPU", f"none (nvidia-smi {found})"
    for gpu, count in Counter(machine.gpus).items():
        number = f"{count} x " if count > 1 else ""
        memory = f", {gpu.memory_mib / 1024:.0f} GiB" if gpu.memory_mib else ""
        capability = gpu.compute_capability or "unknown"
        yield "GPU", f"{number}{gpu.name}, compute capability {capability}{memory}"
    if machine.visible_devices is not None:
        yield "CUDA_VISIBLE_DEVICES", machine.visible_devices or "empty"
    if machine.gpus:
        yield "driver", machine.driver or "unknown"
    if "torch" in machine.packages:
        built = f"CUDA {machine.torch_cuda}" if machine.torch_cuda else "without CUDA"
        yield "torch build", _unread(machine, "torch") or built
    if machine.tileiras:
        yield "tileiras", f"{machine.tileiras_version or 'unknown version'}, {machine.tileiras}"
        if reason := _unread(machine, "tileiras"):
            yield "", reason
        else:
            yield "compiles for", " ".join(machine.tileiras_architectures)
    else:
        yield "tileiras", _unread(machine, "tileiras") or "not found"


def _tier_rows(machine: Machine) -> Iterable[tuple[str, str]]:
    tiers = tiers_here(machine)
    for tier in TIERS:
        yield tier, "runs" if tiers[tier] is None else f"does not run: {tiers[tier]}"
        cutile = tiers_here(machine, cutile=True)["value"]
        if tier == "value" and tiers[tier] is None and cutile is not None:
            yield "", f"in chapters 00 to 03 only: {cutile}"


def _verdict(machine: Machine, faults: Sequence[Finding]) -> str:
    if faults:
        return f"{len(faults)} fault{'s' if len(faults) > 1 else ''} found"
    running = [tier for tier, reason in tiers_here(machine).items() if reason is None]
    return f"All good: this machine runs {_and(running)}."


def _and(words: Sequence[str]) -> str:
    *first, last = words or ["no tier"]
    return f"{', '.join(first)} and {last}" if first else last


def _unread(machine: Machine, probe: str) -> str | None:
    reason = machine.problems.get(probe)
    return None if reason is None else f"could not be read: {reason}"


def _table(title: str, rows: Iterable[tuple[str, str]]) -> str:
    rows = list(rows)
    width = max((len(name) for name, _ in rows), default=0)
    return "\n".join([title, *(f"  {name:<{width}}  {text}".rstrip() for name, text in rows)])


def _list(title: str, findings: Sequence[Finding]) -> str:
    lines = [title]
    for finding in findings:
        lines += [f"  - {finding.what}", f"    Fix: {finding.fix}"]
    return "\n".join(lines)
