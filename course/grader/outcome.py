"""What an answer returned, as plain data that can leave the process that ran it."""

import json
import re
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np


@dataclass(frozen=True)
class Unknown:
    """A value of a type that no exercise asks for; only its name is passed on."""

    type_name: str


@dataclass(frozen=True)
class Outcome:
    """One case. `value` is made of None, bool, int, float, str, tuple, list, dict, ndarray and
    Unknown; `raised` is "ValueError: text", or empty if the answer returned.
    """

    value: object = None
    raised: str = ""
    where: str = ""  # "cell 9, line 4: s = q @ k", if it raised in the answer
    changed: tuple[str, ...] = ()  # arguments that the answer modified

    @property
    def error_kind(self) -> str:
        """What was raised, without the numbers and names that differ from answer to answer."""
        return re.sub(r"`.*?`|[^a-zA-Z ]", "", self.raised)[:40]


def plain(value: object, depth: int = 0) -> object:
    """A copy of `value` that shares no memory with it, of exact types only."""
    if value is None or type(value) in (bool, int, float, str):
        return value
    if type(value) is np.ndarray and value.dtype.kind in "biufV?c":
        return value.copy()
    if isinstance(value, np.generic) and value.dtype.kind in "biuf":
        return np.array(value)  # a scalar keeps its dtype as an array without axes
    if depth < 4 and type(value) in (tuple, list) and len(value) <= 1000:
        return type(value)(plain(item, depth + 1) for item in value)
    if depth < 4 and type(value) is dict and all(type(key) is str for key in value):
        return {key: plain(item, depth + 1) for key, item in value.items()}
    return Unknown(type(value).__name__)


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
    return data["report"], outcomes
