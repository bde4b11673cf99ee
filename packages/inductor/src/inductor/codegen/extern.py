"""Extern calls as Python text.

Flows in: an `ExternOp` and how to name buffers. Flows out: the call's text, and what the module has to bind for it.
"""

from __future__ import annotations

import keyword
import math
from collections.abc import Callable
from typing import Any

import sympy
import torch

from inductor._torch import OpOverload, native_call
from inductor.ir.program import ExternOp, StridedView
from inductor.schedule.extern import direct_function, writes_into
from symshapes import SYMBOLIC, print_expr

Globals = dict[str, str]
"""Module-level name to the expression it is bound to."""

_LITERALS = (torch.dtype, torch.layout, torch.memory_format)


class ArgumentPrinter:
    """Prints arguments of extern calls.

    Args:
        view: how to write a tensor argument.
        bind: adds a module-level name.
        objects: what no text stands for; the module gets these when it is loaded.
        named: an expression with names for parts that have been computed.
    """

    def __init__(
        self,
        view: Callable[[StridedView], str],
        bind: Callable[[str, str], str],
        objects: dict[str, Any],
        named: Callable[[Any], Any] = lambda expr: expr,
    ) -> None:
        self._view = view
        self._named = named
        self._bind = bind
        self._objects = objects

    def text(self, value: Any) -> str:
        """An argument as text: tensors by variable, sizes as expressions, what has no text as an object of the namespace."""
        if isinstance(value, StridedView):
            return self._view(value)
        if isinstance(value, SYMBOLIC):
            value = value.node.expr
        if isinstance(value, sympy.Basic):
            return self.number(value)
        if value is None or isinstance(value, bool | int | str):
            return repr(value)
        if isinstance(value, float):
            return repr(value) if math.isfinite(value) else f"float({str(value)!r})"
        if isinstance(value, complex):
            return f"complex({self.text(value.real)}, {self.text(value.imag)})"
        if isinstance(value, _LITERALS):
            return self._bind("_" + str(value).removeprefix("torch."), str(value))
        if isinstance(value, torch.device):
            return self._bind("_" + str(value).replace(":", ""), f"torch.device({str(value)!r})")
        if isinstance(value, tuple):
            return "(" + "".join(f"{self.text(v)}, " for v in value).strip() + ")"
        if isinstance(value, list):
            return "[" + ", ".join(map(self.text, value)) + "]"
        return self.object(value)

    def number(self, value: sympy.Basic) -> str:
        """An expression as text, with names for what has one."""
        return self.expression(self._named(value))

    def expression(self, value: sympy.Basic) -> str:
        """An expression as text."""
        text = print_expr(value, "python")
        for module in ("math", "operator"):
            if f"{module}." in text:
                self._bind(module, f"__import__({module!r})")
        return text

    def object(self, value: Any) -> str:
        """The name of a Python object in the wrapper's namespace; one name for one object."""
        for name, known in self._objects.items():
            if known is value:
                return name
        name = f"_object{len(self._objects)}"
        self._objects[name] = value
        return name

    def call(self, op: ExternOp, into: str | None = None) -> str:
        """The call; with `into`, of the variant that writes its result there."""
        out = writes_into(op)
        if into is not None and out is not None:
            function = self._bind("_" + out.removeprefix("torch."), out)
        else:
            function = self.function(op.target)
        args = [self.text(arg) for arg in op.args]
        args += [f"{name}={self.text(arg)}" for name, arg in op.kwargs.items()]
        if into is not None:
            args.append(f"out={into}")
        return f"{function}({', '.join(args)})"

    def function(self, target: Any) -> str:
        """A module-level name for what is called."""
        direct = direct_function(target)
        if direct is not None:
            return self._bind("_" + direct.rpartition(".")[2], direct)
        if isinstance(target, OpOverload):
            namespace, name = target._schema.name.split("::")
            if name.isidentifier():
                path = f"torch.ops.{namespace}.{name}.{target._overloadname}"
                if keyword.iskeyword(target._overloadname):
                    path = f"getattr(torch.ops.{namespace}.{name}, {target._overloadname!r})"
                path = native_call(path, target)
                short = f"_{name}" if target._overloadname == "default" else f"_{name}_{target._overloadname}"
                return self._bind(short, path)
        return self.object(target)


def unpacked(op: ExternOp) -> bool | None:
    """How an extern call's result becomes its flattened results: False: it is the one result itself; True: a flat
    sequence; None: nested, to be flattened."""
    if not isinstance(op.target, OpOverload):
        return None
    lists = [isinstance(result.type, torch.ListType) for result in op.target._schema.returns]
    if len(lists) == 1:
        return lists[0]
    return None if any(lists) else True
