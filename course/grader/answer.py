"""Run an answer: its definitions first, then each case.

This part knows no right results. It runs in the process that holds the learner's code; what it
returns is judged elsewhere.
"""

import __future__

import ast
import linecache
import sys
import traceback
import tracemalloc
import types
import warnings
from collections.abc import Callable, Iterator

import numpy as np

from course.exercise import Case, Exercise
from course.grader.collect import CodeCell, Program, is_future_import
from course.grader.outcome import Outcome, plain

MODULE = "answer"
_FILE = "<notebook: "  # how the names of files begin that a notebook's cells are compiled as


class DefinitionFailed(Exception):
    """The cells that an answer needs raised before anything could be called."""


def define(program: Program) -> dict[str, object]:
    """Execute a program in a module of its own and return its names."""
    module = types.ModuleType(MODULE)
    sys.modules[MODULE] = module
    flags = 0
    for cell, tree in program.by_cell():
        filename = _register(cell)
        flags |= _future_flags(tree)
        try:
            exec(compile(tree, filename, "exec", flags, dont_inherit=True), vars(module))
        except (Exception, SystemExit) as error:
            where = place_of(error)
            raise DefinitionFailed(describe(error) + (f" ({where})" if where else "")) from error
    return vars(module)


def untouched(answers: dict[str, object]) -> bool:
    """True if every one of them is still the stub: nothing but `raise NotImplementedError`."""
    return all(_is_stub(answer) for answer in answers.values())


def run_cases(
    exercise: Exercise, answers: dict[str, object], cases: dict[str, Case]
) -> dict[str, Outcome]:
    """Call the answer on each case; what it raises or changes is part of the outcome."""
    return {name: _run_case(exercise, answers, case) for name, case in cases.items()}


def _run_case(exercise: Exercise, answers: dict[str, object], case: Case) -> Outcome:
    arguments = {f"argument {i + 1}": value for i, value in enumerate(case.args)} | case.kwargs
    arrays = [found for name, value in arguments.items() for found in _arrays(name, value)]
    before = [array.copy() for _, array in arrays]
    value, raised, where, peak_bytes = None, "", "", None
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            if case.peak_bytes is None:
                result = exercise.call(answers, case)
            else:
                result, peak_bytes = _measured(lambda: exercise.call(answers, case))
            value = plain(result)
    except (Exception, SystemExit) as error:
        raised, where = describe(error), place_of(error)
        if isinstance(error, NotImplementedError):
            raised += f": `{_raiser(error)}` still has its `raise NotImplementedError`"
    changed = []
    for (name, array), original in zip(arrays, before, strict=True):
        # `tobytes` belongs to a C type, so that an answer can't patch it.
        if array.tobytes() != original.tobytes():
            changed.append(name)
            array[...] = original
    return Outcome(value, raised, where, tuple(dict.fromkeys(changed)), peak_bytes)


def _arrays(name: str, value: object) -> Iterator[tuple[str, np.ndarray]]:
    """The arrays of an argument, which may be a tuple of some, each with the argument's name."""
    if isinstance(value, np.ndarray):
        yield name, value
    elif isinstance(value, tuple):
        for item in value:
            yield from _arrays(name, item)


def _measured(call: Callable[[], object]) -> tuple[object, int | None]:
    """What `call` returns, and the most bytes that it held at a time; None if that got lost.

    Python's own and NumPy's memory, as both tell it to tracemalloc: unlike what the system says
    of the process, it's the same on every machine.
    """
    was_tracing = tracemalloc.is_tracing()
    tracemalloc.start()
    try:
        tracemalloc.reset_peak()
        start, _ = tracemalloc.get_traced_memory()
        result = call()
        peak = tracemalloc.get_traced_memory()[1] - start if tracemalloc.is_tracing() else None
    finally:
        if not was_tracing:
            tracemalloc.stop()
    return result, peak


def describe(error: BaseException) -> str:
    if isinstance(error, MemoryError):
        return f"MemoryError: {error}" if str(error) else "MemoryError: no memory left"
    text = str(error)
    if len(text) > 300:
        text = text[:300] + " …"
    if isinstance(error, ModuleNotFoundError) and error.name:
        text += (
            f". No package `{error.name}` is installed here, and files beside the notebook are not "
            "graded: put their code into a cell"
        )
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def place_of(error: BaseException) -> str:
    """The innermost line of the learner's own code that an error came through."""
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        in_file = frame.filename.startswith(_FILE)
        if in_file or "ipykernel_" in frame.filename or "<ipython-input" in frame.filename:
            # JupyterLab shows no numbers of cells; a function's name is found everywhere.
            place = f"`{frame.name}`"
            if in_file and frame.name == "<module>":
                place = frame.filename.removeprefix(_FILE).removesuffix(">")
            return f"{place}, line {frame.lineno}: {(frame.line or '').strip()}"
    return ""


def _future_flags(tree: ast.Module) -> int:
    """As in Jupyter, `from __future__ import annotations` holds for all later cells too."""
    names = {alias.name for node in tree.body if is_future_import(node) for alias in node.names}
    return sum(getattr(__future__, name).compiler_flag for name in names)


def _register(cell: CodeCell) -> str:
    """Let tracebacks and `inspect.getsource` find the cell's text."""
    filename = f"{_FILE}{cell.name}>"
    lines = [line + "\n" for line in cell.source.split("\n")]
    linecache.cache[filename] = (len(cell.source), None, lines, filename)
    return filename


def _is_stub(answer: object) -> bool:
    code = getattr(answer, "__code__", None)
    return (
        code is not None
        and code.co_names == ("NotImplementedError",)
        and not any(isinstance(constant, types.CodeType) for constant in code.co_consts)
        and code.co_nlocals == code.co_argcount + code.co_kwonlyargcount
    )


def _raiser(error: NotImplementedError) -> str:
    return traceback.extract_tb(error.__traceback__)[-1].name
