"""Text is read and written as UTF-8 everywhere, whatever the system's own encoding is."""

import ast

import pytest

from course.paths import ROOT

# Tests write what they read, and the cheats are code as a learner would write it.
FILES = [
    path
    for package in ("course", "kernels")
    for path in sorted((ROOT / package).rglob("*.py"))
    if not {"tests", "cheats"} & set(path.parts)
]


def left_open(source):
    """The lines of calls that take their encoding from the system."""
    return [
        node.lineno
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Call) and handles_text(node)
        if not any(each.arg in ("encoding", None) for each in node.keywords)
    ]


def handles_text(call):
    keywords = {each.arg: each.value for each in call.keywords}
    if "text" in keywords or "universal_newlines" in keywords:  # of subprocess
        return True
    if isinstance(call.func, ast.Attribute):
        name, place = call.func.attr, 0
        if isinstance(call.func.value, ast.Name) and call.func.value.id == "os":
            return False
    else:
        name, place = getattr(call.func, "id", ""), 1
    if name == "open":
        mode = keywords.get("mode", call.args[place] if len(call.args) > place else None)
        return not (isinstance(mode, ast.Constant) and "b" in mode.value)
    return name in ("read_text", "write_text")


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_no_call_takes_its_encoding_from_the_system(path):
    assert left_open(path.read_text(encoding="utf-8")) == []


CALLS = {
    "open(path)": True, "open(path, 'w')": True, "path.open()": True, "path.open('a')": True,
    "path.read_text()": True, "path.write_text(text)": True, "run(command, text=True)": True,
    "open(path, encoding='utf-8')": False, "open(path, 'rb')": False, "path.open('ab')": False,
    "path.open(mode='wb')": False, "os.open(path, flags)": False, "path.read_bytes()": False,
    "path.write_text(text, encoding='utf-8')": False, "run(command)": False,
    "run(command, text=True, encoding='utf-8')": False,
}  # fmt: skip


@pytest.mark.parametrize("call", CALLS)
def test_calls_that_name_no_encoding_are_seen(call):
    assert bool(left_open(call)) == CALLS[call]
