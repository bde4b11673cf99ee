"""What a kernel's code names outside itself: constants, helper functions, modules.

In: the Python function. Out: its syntax tree, and a `Reference` for each global, closure variable or module attribute it reads.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
import types
from collections.abc import Iterator
from typing import Any

from capture.errors import Unsupported
from symshapes import dataclass

from .description import is_jit_function

#: Stands for a name that is known to be nothing outside.
MISSING = object()


@dataclass(frozen=True, eq=False)
class Reference:
    """A value that a function's code reads. `namespace` holds it under `name`, or (None) `cell` does."""

    name: str
    value: Any
    namespace: dict[str, Any] | None
    cell: types.CellType | None = None


class Code:
    """A function's syntax tree, and what names in it stand for."""

    def __init__(self, function: types.FunctionType) -> None:
        self.function = function
        try:
            self.text = textwrap.dedent(inspect.getsource(function))
            tree = ast.parse(self.text).body[0]
        except (OSError, TypeError, SyntaxError, IndexError) as error:
            raise Unsupported(f"the Triton function {function.__qualname__}, whose source is not to be had") from error
        if not isinstance(tree, ast.FunctionDef):
            raise Unsupported(f"the Triton function {function.__qualname__}, which is none")
        self.tree = tree
        self.parameters = [arg.arg for arg in (*tree.args.posonlyargs, *tree.args.args, *tree.args.kwonlyargs)]
        self.locals = {*self.parameters} | {
            node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load)
        }
        self._cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))

    def find(self, node: ast.expr) -> Reference | None:
        """What a name, or a chain of attributes of modules, stands for outside the function."""
        if isinstance(node, ast.Name):
            if node.id in self.locals:
                return None
            if node.id in self._cells:
                cell = self._cells[node.id]
                try:
                    return Reference(node.id, cell.cell_contents, None, cell)
                except ValueError:
                    return None
            spaces = self.function.__globals__
            return Reference(node.id, spaces[node.id], spaces) if node.id in spaces else None
        if isinstance(node, ast.Attribute):
            owner = self.find(node.value)
            if owner is not None and isinstance(owner.value, types.ModuleType):
                value = getattr(owner.value, node.attr, MISSING)
                return None if value is MISSING else Reference(node.attr, value, vars(owner.value))
        return None

    def resolve(self, node: ast.expr) -> Any:
        """The value of that, or ``MISSING``."""
        found = self.find(node)
        return MISSING if found is None else found.value

    def references(self) -> Iterator[Reference]:
        """All of them in the body."""
        for statement in self.tree.body:
            for node in ast.walk(statement):
                if isinstance(node, (ast.Name, ast.Attribute)):
                    found = self.find(node)
                    if found is not None:
                        yield found


def references_of(function: types.FunctionType) -> tuple[list[Reference], list[str]]:
    """What a kernel and the functions that it calls read, and their texts; modules and Triton's own functions left out."""
    found: dict[tuple[int, str], Reference] = {}
    texts: list[str] = []
    todo, seen = [function], {function}
    while todo:
        code = Code(todo.pop())
        texts.append(code.text)
        for each in code.references():
            if is_of_triton(each.value):
                continue
            found.setdefault((id(each.namespace if each.cell is None else each.cell), each.name), each)
            if is_jit_function(each.value) and each.value.fn not in seen:
                seen.add(each.value.fn)
                todo.append(each.value.fn)
    return list(found.values()), texts


def is_of_triton(value: Any) -> bool:
    """Whether a value is a module, or something that Triton itself defines and nobody writes anew."""
    if isinstance(value, types.ModuleType):
        return True
    function = value.fn if is_jit_function(value) else value
    module = getattr(function, "__module__", None)
    defined = isinstance(value, (type, types.FunctionType, types.BuiltinFunctionType)) or is_jit_function(value)
    return defined and isinstance(module, str) and module.partition(".")[0] in ("triton", "builtins", "math")
