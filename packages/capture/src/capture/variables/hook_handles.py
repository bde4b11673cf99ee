"""Hooks that the frame itself registers: their handles, by which it takes them away again.

Torch counts handles for the whole process; which number one has is not looked at, so that a call registers the same hook as the one before.
That there was one more is counted after the graph.
"""

from __future__ import annotations

from collections.abc import Hashable

from torch.utils.hooks import RemovableHandle

from capture.errors import Unsupported

from .base import Args, Interpreter, Kwargs, Variable
from .constants import BoundBuiltin, Constant
from .handlers import handles
from .mappings import Dict
from .sequences import List, Tuple


class HookNumber(Variable):
    """A number that no hook had before. Where it would outlive the graph, the graph ends before the hook was registered."""

    def python_type(self) -> type:
        return int

    def hash_key(self, m: Interpreter) -> Hashable:
        return ("hook", id(self))

    def truth(self, m: Interpreter) -> bool:
        raise Unsupported("the number of a hook")


class HookHandle(Variable):
    """A ``torch.utils.hooks.RemovableHandle``, of one table of hooks and maybe others that say how they are called."""

    def __init__(self, number: HookNumber, tables: list[Dict]) -> None:
        self.number = number
        self.tables = tables

    manages_context = True

    def python_type(self) -> type:
        return RemovableHandle

    def truth(self, m: Interpreter) -> bool:
        return True

    def attribute(self, m: Interpreter, name: str) -> Variable:
        if name == "id":
            return self.number
        if name in ("remove", "__enter__", "__exit__"):
            return BoundBuiltin(self, name)
        raise Unsupported(f"attribute {name!r} of a hook's handle")

    def method(self, m: Interpreter, name: str, args: Args, kwargs: Kwargs) -> Variable:
        if name == "__enter__":
            return self
        if name not in ("remove", "__exit__"):
            raise Unsupported(f"method {name!r} of a hook's handle")
        for table in self.tables:
            if table.contains(m, self.number):
                table.delete_item(m, self.number)
        return Constant(None)


@handles(RemovableHandle)
def _handle(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    """Made for a table of hooks, the others given as ``extra_dict``."""
    extra = kwargs.get("extra_dict", Constant(None)).realize(m)
    more = extra.items if isinstance(extra, (List, Tuple)) else [] if m.builder.is_none(extra) else [extra]
    tables = [table.realize(m) for table in (*args, *more)]
    if len(args) != 1 or set(kwargs) - {"extra_dict"}:
        raise Unsupported("a hook's handle made in another way")
    known = [table for table in tables if isinstance(table, Dict)]
    if len(known) != len(tables):
        raise Unsupported("a hook's handle of what is no dictionary")
    made: Variable = m.effects.created(HookHandle(m.effects.created(HookNumber()), known))
    m.effects.remembered.append(_count)
    return made


def _count() -> None:
    RemovableHandle.next_id += 1
