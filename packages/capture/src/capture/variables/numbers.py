"""Symbolic numbers: an integer, float or bool that depends on dynamic sizes, with the graph node that computes it."""

from __future__ import annotations

import operator
from collections.abc import Hashable, Iterable
from typing import Any

import torch
from torch import fx

from capture.errors import Unsupported

from .base import Args, Interpreter, Kwargs, Variable
from .constants import BoundBuiltin, Constant
from .reconstruction import CannotReconstruct, Emitter

_PYTHON_TYPES = {torch.SymInt: int, torch.SymFloat: float, torch.SymBool: bool}


class Symbolic(Variable):
    """``value`` is a ``torch.SymInt``, ``SymFloat`` or ``SymBool``; ``node`` computes it in the graph."""

    node: fx.Node

    def __init__(self, node: fx.Node, value: Any) -> None:
        self.node = node
        self.value = value

    def python_type(self) -> type:
        return _PYTHON_TYPES[type(self.value)]

    def truth(self, m: Interpreter) -> bool:
        return bool(self.value)

    def specialise(self, m: Interpreter) -> Any:
        """The number itself, guarded to stay so."""
        return self.python_type()(self.value)

    def hash_key(self, m: Interpreter) -> Hashable:
        key: Hashable = self.specialise(m)
        return key

    def attribute(self, m: Interpreter, name: str) -> Variable:
        if name in ("real", "numerator"):
            return self
        if name in ("is_integer", "bit_length", "__int__", "__index__", "__float__"):
            return BoundBuiltin(self, name)
        raise Unsupported(f"attribute {name!r} of a symbolic number")

    def method(self, m: Interpreter, name: str, args: Args, kwargs: Kwargs) -> Variable:
        if name in ("__int__", "__index__") and self.python_type() is int:
            return self
        if name in ("is_integer", "bit_length"):
            return Constant(getattr(self.specialise(m), name)())
        op = getattr(operator, name, None)
        if op is not None and name.startswith("__"):
            return m.recorder.record("call_function", op, [self, *args], kwargs)
        raise Unsupported(f"method {name!r} of a symbolic number")

    def made_of(self) -> Iterable[Variable]:
        return ()

    def reconstruct(self, e: Emitter) -> None:
        raise CannotReconstruct(self, "a graph result that was not planned")

    def as_argument(self, m: Interpreter) -> tuple[Any, Any]:
        return self.node, self.value

    def __repr__(self) -> str:
        return f"<symbolic {self.value}>"
