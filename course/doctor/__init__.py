"""`python -m course doctor`: what runs on this machine, and how to mend what does not.

Three parts, kept apart: `look` gathers facts, `diagnose` and `tiers_here` judge them without
looking at anything, `report` writes them down. Only the standard library is imported here, since
doctor is what a reader runs when packages are missing.
"""

import argparse

from course.console import show
from course.doctor.findings import TIERS, Finding, diagnose, tiers_here
from course.doctor.machine import Gpu, Machine, Pin, look, pins_here, read_pins
from course.doctor.report import as_json, as_text

__all__ = [
    "TIERS",
    "Finding",
    "Gpu",
    "Machine",
    "Pin",
    "add_arguments",
    "diagnose",
    "look",
    "pins_here",
    "read_pins",
    "run",
    "tiers_here",
]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare doctor's options on `parser`."""
    parser.add_argument(
        "--json", action="store_true", help="print the same report as JSON, for programs and bugs"
    )


def run(args: argparse.Namespace) -> int:
    """Print the report; 0 without faults, 1 with."""
    pins = pins_here()
    machine = look(pins)
    findings = diagnose(machine, pins)
    write = as_json if args.json else as_text
    show(write(machine, pins, findings))
    return int(any(finding.severity == "fault" for finding in findings))
