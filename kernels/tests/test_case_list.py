"""No field case gets lost: each id of groups 1, 2, 4 and 5 has a test, or a reason for none.

A case counts as tested if some test function of this folder carries its id in its name.
"""

import ast
import re
from pathlib import Path

NUMBERS = {
    "G1": (1, 2, 3, 5, 6, 8, 9, 12),
    "G2": (1, 2, 4, 6, 7, 8, 11, 12),
    "G4": (1, 2),
    "G5": (1, 3, 4, 5, 6, 7, 8, 10),
}
CASES = {f"{group}-{number:02}" for group, numbers in NUMBERS.items() for number in numbers}

NOT_FOR_A_NUMPY_REFERENCE = {
    "G1-09": "the window's width: no kernel here has a window yet (chapter 16 brings them)",
    "G5-04": "tensors on two GPUs: NumPy arrays are on none, and torch tensors are refused",
    "G5-07": "inputs that require grad: NumPy arrays have none, and torch tensors are refused",
    "G5-08": "padding float8 tiles with -inf: there are no tiles, and float8 is refused",
}


def cases_with_a_test():
    found = set()
    for path in Path(__file__).parent.glob("test_*.py"):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.FunctionDef):
                match = re.match(r"test_g(\d+)_(\d+)_", node.name)
                if match:
                    found.add(f"G{match[1]}-{match[2]}")
    return found


def test_every_case_is_tested_or_excused():
    missing = CASES - cases_with_a_test() - set(NOT_FOR_A_NUMPY_REFERENCE)
    assert not missing, f"no test and no reason: {sorted(missing)}"


def test_no_case_is_both_tested_and_excused():
    both = cases_with_a_test() & set(NOT_FOR_A_NUMPY_REFERENCE)
    assert not both, f"tested, so the excuse is stale: {sorted(both)}"


def test_every_id_is_a_known_case():
    unknown = (cases_with_a_test() | set(NOT_FOR_A_NUMPY_REFERENCE)) - CASES
    assert not unknown, f"misspelt: {sorted(unknown)}"
