"""Is the answer the learner's own? Looks at the code that the graded functions reach.

Meant for honest mistakes and cheap hacks; a determined cheat can get round it.
"""

import dis
import functools
import types

# Our own modules, and libraries whose job is the one that the course teaches.
FOREIGN_MODULES = {
    "course", "kernels", "solutions", "notebooks",
    "cudnn", "flash_attn", "flash_attn_interface", "fa3_fwd_interface", "flashinfer",
    "transformer_engine", "xformers",
    "tracemalloc",  # which measures an answer's memory
}  # fmt: skip
FOREIGN_NAMES = {
    "scaled_dot_product_attention", "MultiheadAttention", "flash_attn_func", "flex_attention",
    "memory_efficient_attention",
}  # fmt: skip


class NotYourOwn(ImportError):
    """Raised where an answer imports or reads what does the exercise for it; `name` says what."""

    def __init__(self, name: str):
        super().__init__(
            f"not your own: the answer uses `{name}`, which does what the exercise asks you to "
            "write",
            name=name,
        )


ATTRIBUTE_OPS = ("LOAD_ATTR", "LOAD_METHOD", "IMPORT_FROM")
OWN_MODULES = ("answer", "__main__")  # of a saved notebook, and of one that is open


def foreign_name(answers: list[object], forbidden: tuple[str, ...] = ()) -> str | None:
    """The first name an answer reaches that isn't its own, None if there is none.

    `forbidden` are modules that this exercise rules out besides.
    """
    modules = FOREIGN_MODULES | set(forbidden)
    seen: set[int] = set()

    def root(name: object) -> str:
        return name.split(".")[0] if isinstance(name, str) else ""

    def of_object(value: object) -> str | None:
        if id(value) in seen:
            return None
        seen.add(id(value))
        if isinstance(value, types.ModuleType):
            return value.__name__ if root(value.__name__) in modules else None
        if isinstance(value, functools.partial):
            return of_object(value.func)
        if isinstance(value, list | tuple | set | frozenset):
            return first(of_object(item) for item in list(value)[:1000])
        if isinstance(value, dict):
            return first(of_object(item) for item in list(value.values())[:1000])
        if root(getattr(value, "__module__", None)) in modules:
            return f"{value.__module__}.{getattr(value, '__name__', type(value).__name__)}"
        own = getattr(value, "__module__", None) in OWN_MODULES
        if not own and getattr(value, "__name__", None) in FOREIGN_NAMES:
            return value.__name__
        if isinstance(value, types.MethodType):
            return of_object(value.__func__)
        if isinstance(value, type) and own:
            return first(of_object(member) for member in vars(value).values())
        wrapped = getattr(value, "__wrapped__", None)
        if isinstance(value, types.FunctionType):
            cells = [cell.cell_contents for cell in value.__closure__ or () if _filled(cell)]
            return (
                of_code(value.__code__, value.__globals__)
                or first(of_object(item) for item in cells)
                or first(of_object(item) for item in value.__defaults__ or ())
            )
        return of_object(wrapped) if wrapped is not None else None

    def of_code(code: types.CodeType, namespace: dict) -> str | None:
        for instruction in dis.get_instructions(code):
            name = instruction.argval
            operation, found = instruction.opname, None
            if isinstance(name, types.CodeType):
                found = of_code(name, namespace)
            elif operation in ("LOAD_GLOBAL", "LOAD_NAME"):
                found = of_object(namespace.get(name))  # a helper may have any name
            elif (operation == "IMPORT_NAME" and root(name) in modules) or (
                operation in ATTRIBUTE_OPS and name in FOREIGN_NAMES
            ):
                found = name
            if found:
                return found
        return None

    def first(found) -> str | None:
        return next((name for name in found if name), None)

    return first(of_object(answer) for answer in answers)


def _filled(cell: types.CellType) -> bool:
    try:
        _ = cell.cell_contents
    except ValueError:
        return False
    return True
