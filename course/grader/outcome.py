"""What an answer returned, as plain data that can leave the process that ran it."""

import json
import re
import zipfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np

from course.grader.verdict import ERROR, NOT_ATTEMPTED, WRONG

# What the process that ran an answer may say by itself. Nothing of it earns points, because the
# answer could have said it.
FINAL = (None, ERROR, WRONG, NOT_ATTEMPTED)

# More than any exercise asks for; larger values would only cost the grader memory.
LARGEST_ARRAY_BYTES = 64 << 20
LARGEST_INT_BITS = 4096
LARGEST_TEXT = 10_000
LARGEST_COLLECTION = 1000


@dataclass(frozen=True)
class Unknown:
    """A value that no exercise asks for; only what it is, in words, is passed on."""

    type_name: str

    def __repr__(self) -> str:
        return f"<{self.type_name}>"


@dataclass(frozen=True)
class Outcome:
    """One case. `value` is made of None, bool, int, float, str, tuple, list, dict, ndarray and
    Unknown; `raised` is "ValueError: text", or empty if the answer returned.
    """

    value: object = None
    raised: str = ""
    where: str = ""  # "`softmax`, line 4: s = q @ k", if it raised in the answer
    changed: tuple[str, ...] = ()  # arguments that the answer modified
    peak_bytes: int | None = None  # the most memory that it held, where that was measured

    @property
    def error_kind(self) -> str:
        """What was raised, without the numbers and names that differ from answer to answer."""
        return re.sub(r"`.*?`|[^a-zA-Z ]", "", self.raised)[:40]


def plain(value: object, depth: int = 0) -> object:
    """A copy of `value` that shares no memory with it, of exact types only."""
    kind = type(value)
    if value is None or kind in (bool, float):
        return value
    if kind is int:
        bits = value.bit_length()
        return value if bits <= LARGEST_INT_BITS else Unknown(f"int of {bits} bits")
    if kind is str:
        length = len(value)
        return value if length <= LARGEST_TEXT else Unknown(f"str of {length} characters")
    if kind is np.ndarray:
        if value.nbytes > LARGEST_ARRAY_BYTES:
            return Unknown(f"NumPy array of {value.nbytes >> 20} MiB")
        if value.dtype.kind not in "biufVc" or value.dtype.hasobject:
            return Unknown(f"NumPy array of dtype {value.dtype}")
        return value.copy()
    # issubclass and not isinstance, which asks the value itself.
    if issubclass(kind, np.generic) and value.dtype.kind in "biuf":
        return np.array(value)  # a scalar keeps its dtype as an array without axes
    if depth < 4 and kind in (tuple, list, dict) and len(value) <= LARGEST_COLLECTION:
        if kind is not dict:
            return kind(plain(item, depth + 1) for item in value)
        if all(type(key) is str and len(key) <= LARGEST_TEXT for key in value):
            return {key: plain(item, depth + 1) for key, item in value.items()}
    return Unknown(kind.__name__)


def save(file: BinaryIO, report: dict, outcomes: dict[str, Outcome]) -> None:
    """Write the report and the outcomes by case, so that `load` reads them without pickle."""
    arrays: list[np.ndarray] = []

    def encode(value: object) -> object:
        if isinstance(value, np.ndarray):
            arrays.append(value)
            return {"array": len(arrays) - 1, "dtype": value.dtype.name}
        if isinstance(value, Unknown):
            return {"unknown": value.type_name}
        if isinstance(value, tuple):
            return {"tuple": [encode(item) for item in value]}
        if isinstance(value, list):
            return {"list": [encode(item) for item in value]}
        if isinstance(value, dict):
            return {"dict": [[key, encode(item)] for key, item in value.items()]}
        return {"value": value}

    cases = {
        name: asdict(outcome) | {"value": encode(outcome.value)}
        for name, outcome in outcomes.items()
    }
    text = json.dumps({"report": report, "cases": cases})
    np.savez(file, text=np.array(text), **{f"a{i}": array for i, array in enumerate(arrays)})


def load(path: Path) -> tuple[dict, dict[str, Outcome]]:
    """What `save` wrote; any exception if it is something else, for an answer can write there."""
    with zipfile.ZipFile(path) as archive:
        if any(member.compress_type != zipfile.ZIP_STORED for member in archive.infolist()):
            raise ValueError("it's compressed, so it could be far larger than it looks")
    with np.load(path, allow_pickle=False) as file:
        data = json.loads(str(file["text"]))

        def decode(value: dict) -> object:
            ((kind, content),) = [item for item in value.items() if item[0] != "dtype"]
            if kind == "array":
                return file[f"a{content}"]
            if kind == "unknown":
                return Unknown(content)
            if kind in ("tuple", "list"):
                items = [decode(item) for item in content]
                return tuple(items) if kind == "tuple" else items
            if kind == "dict":
                return {key: decode(item) for key, item in content}
            return content

        outcomes = {
            name: Outcome(
                **case | {"value": decode(case["value"]), "changed": tuple(case["changed"])}
            )
            for name, case in data["cases"].items()
        }
    report = data["report"]
    notes = report.setdefault("notes", [])
    texts = [report["message"], *notes]
    for each in outcomes.values():
        texts += [each.raised, each.where, *each.changed]
    peaks = {type(each.peak_bytes) for each in outcomes.values()}
    texts_are = {type(text) for text in texts}
    if report["verdict"] not in FINAL or texts_are - {str} or peaks - {int, type(None)}:
        raise ValueError("it isn't what the grader writes")
    return report, outcomes
