"""From a notebook to the statements that the graded names need, and no others.

The notebook is never run as a whole. Top-level statements that bind a needed name are kept, and
what they use is needed in turn: imports, helpers in added cells, constants. Where several bind it,
those count that the answer would find. Bare expressions, such as plots and calls for show, and
magics never run.
"""

import ast
import builtins
import json
import re
import symtable
from dataclasses import dataclass, field
from pathlib import Path

# Cell magics that run their cell as Python; the cells of all others are left out.
PYTHON_CELL_MAGICS = {"%%time", "%%timeit", "%%capture", "%%prun"}
MAGIC_LINE = re.compile(
    r"^(?P<indent>\s*)(?P<assigned>[\w, ]+=\s*)?[%!?]\S.*$|^\s*[\w.]+\?{1,2}\s*$"
)

DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)

_MAKE_ANEW = "`python -m course notebooks --to DIR` makes a fresh one, to copy the answers into"


class Unusable(Exception):
    """The answer can't be taken from the notebook; the text says why, for the learner."""


@dataclass(frozen=True)
class CodeCell:
    number: int  # position in the notebook from 1, Markdown cells counted: what the reader sees
    source: str
    exercise: str | None = None  # the id, if this is where an exercise is solved

    @property
    def name(self) -> str:
        return f"the cell of {self.exercise}" if self.exercise else f"cell {self.number}"


@dataclass
class Statement:
    cell: CodeCell
    node: ast.stmt
    binds: frozenset[str]
    uses: frozenset[str]


@dataclass
class Program:
    """What has to run for the graded names to exist, in the notebook's order."""

    statements: list[Statement]
    notes: list[str] = field(default_factory=list)

    def by_cell(self) -> list[tuple[CodeCell, ast.Module]]:
        """The statements as one module for each cell, their line numbers those of the cell."""
        cells: dict[int, tuple[CodeCell, ast.Module]] = {}
        for statement in self.statements:
            cell = statement.cell
            _, module = cells.setdefault(cell.number, (cell, ast.Module([], type_ignores=[])))
            module.body.append(statement.node)
        return list(cells.values())


def read_cells(path: Path) -> list[CodeCell]:
    """The code cells of a notebook, check cells left out; Unusable if it is no notebook."""
    try:
        notebook = json.loads(path.read_bytes().decode("utf-8-sig"))
    except FileNotFoundError:
        raise Unusable(f"there is no notebook {path.name}") from None
    except (ValueError, RecursionError) as error:
        raise Unusable(
            f"{path.name} can't be read: it isn't valid JSON ({error}). {_MAKE_ANEW}"
        ) from None
    if isinstance(notebook, dict) and "worksheets" in notebook:
        raise Unusable(
            f"{path.name} is in the notebook format of 2014: open it in JupyterLab and save it"
        )
    if not isinstance(notebook, dict) or not isinstance(notebook.get("cells"), list):
        raise Unusable(
            f"{path.name} can't be read: it has no list of cells, so it's no notebook. {_MAKE_ANEW}"
        )
    cells = []
    for number, cell in enumerate(notebook["cells"], start=1):
        if not isinstance(cell, dict) or cell.get("cell_type") != "code":
            continue
        source = cell.get("source", "")
        if isinstance(source, list):
            source = "".join(part for part in source if isinstance(part, str))
        if not isinstance(source, str):
            raise Unusable(f"{path.name} can't be read: cell {number} has no text")
        metadata = cell.get("metadata")
        marks = metadata.get("nbgrader", {}) if isinstance(metadata, dict) else {}
        marks = marks if isinstance(marks, dict) else {}
        if marks.get("grade"):
            continue
        cells.append(CodeCell(number, source, marks.get("grade_id")))
    return cells


def collect(cells: list[CodeCell], names: tuple[str, ...], exercise: str | None = None) -> Program:
    """The program that defines `names`; Unusable says which cell or name is at fault."""
    statements, broken = [], {}
    for cell in cells:
        try:
            statements += _statements(cell)
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            broken[cell.number] = (cell, error)
    for cell, error in broken.values():
        if cell.exercise == exercise or _might_define(cell.source, names):
            raise Unusable(f"{cell.name} isn't valid Python: {_describe(error)}")
    _check_names(cells, statements, names, exercise, broken)
    notes = _drop_untouched_copies(statements, names)
    needed = _needed(statements, names, exercise)
    borrowed = {statement.cell.exercise for statement in needed} - {None, exercise}
    if borrowed and exercise is not None:
        notes.append(f"it uses your answer to {' and '.join(sorted(borrowed))}")
    return Program(needed, notes)


def is_stub(node: ast.AST) -> bool:
    """True for a function that holds nothing but its docstring and `raise NotImplementedError`."""
    if not isinstance(node, ast.FunctionDef):
        return False
    body = node.body
    if body and isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant):
        body = body[1:]
    if len(body) != 1 or not isinstance(body[0], ast.Raise) or body[0].exc is None:
        return False
    raised = body[0].exc.func if isinstance(body[0].exc, ast.Call) else body[0].exc
    return isinstance(raised, ast.Name) and raised.id == "NotImplementedError"


def _statements(cell: CodeCell) -> list[Statement]:
    tree = _parse(cell.source)
    return [
        Statement(cell, node, _bound(node), _used(node))
        for statement in tree.body
        if not isinstance(statement, ast.Expr)
        for node in _split(statement)
    ]


def _split(statement: ast.stmt) -> list[ast.stmt]:
    """One import for each name: `import numpy as np, torch` must not need torch for np."""
    if isinstance(statement, ast.Import):
        parts = [ast.Import(names=[alias]) for alias in statement.names]
    elif isinstance(statement, ast.ImportFrom):
        parts = [
            ast.ImportFrom(module=statement.module, names=[alias], level=statement.level)
            for alias in statement.names
        ]
    else:
        return [statement]
    return [ast.copy_location(part, statement) for part in parts]


def _parse(source: str) -> ast.Module:
    lines = source.split("\n")
    first = next((i for i, line in enumerate(lines) if line.strip()), 0)
    if lines[first].startswith("%%"):
        if lines[first].split()[0] not in PYTHON_CELL_MAGICS:
            return ast.Module([], type_ignores=[])
        lines[first] = ""
    try:
        return ast.parse("\n".join(lines))
    except SyntaxError:
        without = "\n".join(MAGIC_LINE.sub(_without_magic, line) for line in lines)
        if without == "\n".join(lines):
            raise
        return ast.parse(without)


def _without_magic(line: re.Match) -> str:
    """A line of the same number that is Python: `x = !ls` binds x to None."""
    return (line["indent"] or "") + (f"{line['assigned']}None" if line["assigned"] else "pass")


def _bound(statement: ast.stmt) -> frozenset[str]:
    """Names that a top-level statement binds or changes: `x = 1`, `x += 1`, `x[0] = 1`."""
    names = set()

    def visit(node: ast.AST) -> None:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                names.add(node.name)
                return  # what is bound inside stays inside
            case ast.Lambda():
                return
            case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
                return
            case ast.Import() | ast.ImportFrom():
                for alias in node.names:
                    names.add(alias.asname or alias.name.split(".")[0])
            case ast.Name(ctx=ast.Store()):
                names.add(node.id)
            case ast.Attribute(ctx=ast.Store()) | ast.Subscript(ctx=ast.Store()):
                base = node
                while isinstance(base, ast.Attribute | ast.Subscript):
                    base = base.value
                if isinstance(base, ast.Name):
                    names.add(base.id)
            case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)):
                names.add(name)
            case ast.MatchStar(name=str(name)):
                names.add(name)
        for child in ast.iter_child_nodes(node):
            visit(child)

    visit(statement)
    return frozenset(names)


def _used(statement: ast.stmt) -> frozenset[str]:
    """Global names that a statement refers to, those inside its functions included."""
    names = set()

    def visit(table: symtable.SymbolTable, top: bool) -> None:
        for symbol in table.get_symbols():
            if symbol.is_referenced() if top else symbol.is_global():
                names.add(symbol.get_name())
        for child in table.get_children():
            visit(child, False)

    module = ast.Module([statement], type_ignores=[])
    visit(symtable.symtable(ast.unparse(module), "cell", "exec"), True)
    return frozenset(names)


def _needed(
    statements: list[Statement], names: tuple[str, ...], exercise: str | None
) -> list[Statement]:
    needed = set(names)
    kept = {i for i, s in enumerate(statements) if is_future_import(s.node)}
    stars = {i for i, s in enumerate(statements) if "*" in s.binds}
    known = frozenset().union(*(s.binds for s in statements)) | set(dir(builtins))
    while True:
        # `from x import *` may bind anything that nobody else does.
        more = set(stars if needed - known else ())
        for name in needed:
            binders = [i for i, s in enumerate(statements) if name in s.binds]
            if name not in names:
                binders = _for_the_answer(binders, name, statements, exercise)
            more.update(binders)
        if more <= kept:
            return [statements[i] for i in sorted(kept)]
        kept |= more
        needed |= frozenset().union(*(statements[i].uses for i in more))


def _for_the_answer(
    binders: list[int], name: str, statements: list[Statement], exercise: str | None
) -> list[int]:
    """Those of the statements that bind `name` which decide what the answer finds under it.

    A helper may be called like a variable of a demonstration elsewhere in the notebook. The
    answer's own cell comes first, then what stands above it, then what stands below.
    """
    fresh = {i for i in binders if _binds_anew(statements[i], name)}
    defined = {i for i in fresh if isinstance(statements[i].node, DEFINITIONS)}
    if defined:  # variables of that name are others'
        binders = [i for i in binders if i in defined or i not in fresh]
        fresh = defined
    own = [i for i, s in enumerate(statements) if exercise and s.cell.exercise == exercise]
    inside = [i for i in binders if i in own]
    if fresh & set(inside):
        return inside
    above = [i for i in binders if own and i <= own[-1]]
    if not fresh & set(above):
        return binders
    return [i for i in above if i >= max(fresh & set(above))]


def _binds_anew(statement: Statement, name: str) -> bool:
    """True if what `name` was before doesn't matter after it: not for `x += 1` or `x[0] = 1`."""
    node = statement.node
    if isinstance(node, (*DEFINITIONS, ast.Import, ast.ImportFrom)):
        return True
    if isinstance(node, ast.Assign):
        names = (n for n in ast.walk(node) if isinstance(n, ast.Name))
        stored = {n.id for n in names if isinstance(n.ctx, ast.Store)}
        return name in stored and name not in statement.uses
    return False


def is_future_import(node: ast.stmt) -> bool:
    return isinstance(node, ast.ImportFrom) and node.module == "__future__"


def _check_names(cells, statements, names, exercise, broken) -> None:
    bound = frozenset().union(*(statement.binds for statement in statements))
    missing = [name for name in names if name not in bound]
    if not missing:
        return
    wanted = " and ".join(f"`{name}`" for name in missing)
    own_cells = [cell for cell in cells if exercise is not None and cell.exercise == exercise]
    if exercise is not None and not own_cells:
        raise Unusable(
            f"{wanted} isn't defined: the cell of {exercise} was deleted. Copy it back from a "
            "fresh notebook (`python -m course notebooks --to DIR` makes one)"
        )
    found = sorted(
        statement.node.name
        for statement in statements
        if statement.cell in own_cells and isinstance(statement.node, ast.FunctionDef)
    )
    if found:
        raise Unusable(
            f"{wanted} isn't defined: {own_cells[-1].name} defines "
            + " and ".join(f"`{name}`" for name in found)
            + f". The exercise is graded by its name, so call it {wanted} again"
        )
    bad = "".join(f"; {cell.name} isn't valid Python" for cell, _ in broken.values())
    raise Unusable(f"{wanted} isn't defined in any cell{bad}")


def _drop_untouched_copies(statements: list[Statement], names: tuple[str, ...]) -> list[str]:
    """Where a graded function stands twice, an untouched stub never hides an answer."""
    notes = []
    for name in names:
        definitions = [
            s for s in statements if isinstance(s.node, ast.FunctionDef) and s.node.name == name
        ]
        answers = [s for s in definitions if not is_stub(s.node)]
        if len(definitions) > 1 and answers:
            for stub in definitions:
                if stub not in answers:
                    statements.remove(stub)
            where = " and ".join(str(s.cell.number) for s in definitions)
            graded = answers[-1].cell.number  # both cells may be called by the exercise's id
            notes.append(f"`{name}` is defined in cells {where}, from the top; {graded} was graded")
    return notes


def _might_define(source: str, names: tuple[str, ...]) -> bool:
    return any(
        re.search(rf"^\s*(def\s+)?{re.escape(name)}\b\s*[=(]", source, re.M) for name in names
    )


def _describe(error: Exception) -> str:
    if isinstance(error, SyntaxError):
        text = (error.text or "").strip()
        return f"{error.msg} in line {error.lineno}" + (f": {text}" if text else "")
    return f"{type(error).__name__}: {error}"
