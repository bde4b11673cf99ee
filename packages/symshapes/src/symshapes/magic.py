"""Python operators of `torch.SymInt`, `SymFloat` and `SymBool` on our nodes.

`import torch` itself installs them (`a + b` calls `a.node.add(b.node)`, found on torch 2.11 and 2.13), and they serve any node with
the right method names, but: `torch.sym_ite` insists on torch's own node class, the floor division of floats is the floor of their
rounded quotient there, an int is rounded to a float before it is compared with one, no negative float has a power, and an int
that turned out to be a constant is not divided by a float.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

from symshapes.node import SymNode, number_of_node

_torch_sym_ite = torch.SymBool.__sym_ite__


def _sym_ite(self: torch.SymBool, then: Any, otherwise: Any) -> Any:
    if isinstance(self.node, SymNode):
        return then if bool(self) else otherwise
    return _torch_sym_ite(self, then, otherwise)  # type: ignore[no-untyped-call]


def _as_float(number: Any, beside: SymNode) -> SymNode:
    return number.node.sym_float() if isinstance(number, (torch.SymInt, torch.SymFloat)) else beside.wrap_float(number)


def _of_floats(cls: type, name: str, operation: str, *, reflected: bool) -> Callable[[Any, Any], Any]:
    """The method of `cls`: `left // right` and the like as Python computes it, where one of the two is a float and the node is ours."""
    before = getattr(cls, name)

    @functools.wraps(before)
    def method(self: Any, other: Any) -> Any:
        numbers = isinstance(other, (int, float, torch.SymInt, torch.SymFloat))
        floats = isinstance(self, torch.SymFloat) or isinstance(other, (float, torch.SymFloat))
        if not (numbers and floats and isinstance(self.node, SymNode)):
            return before(self, other)
        own, others = self.node.sym_float(), _as_float(other, self.node)
        left, right = (others, own) if reflected else (own, others)
        return number_of_node(getattr(left, operation)(right))

    return method


def _comparison(cls: type, name: str) -> Callable[[Any, Any], Any]:
    """The method of `cls`: `left < right` and the like as Python has it of an int and a float, exactly, where the node is ours."""
    before = getattr(cls, name)
    ints, floats = (int, torch.SymInt), (float, torch.SymFloat)
    others = floats if cls is torch.SymInt else ints

    @functools.wraps(before)
    def method(self: Any, other: Any) -> Any:
        if not isinstance(other, others) or isinstance(other, bool) or not isinstance(self.node, SymNode):
            return before(self, other)
        if isinstance(other, (torch.SymInt, torch.SymFloat)):
            node = other.node
        else:
            node = self.node.wrap_float(other) if isinstance(other, float) else self.node.wrap_int(other)
        return number_of_node(getattr(self.node, name.strip("_"))(node))

    return method


def install() -> None:
    """Make `torch.sym_ite` choose by a guard where the condition is ours, and floor division and powers of floats and their
    comparison with ints Python's; others' numbers go to torch's methods."""
    torch.SymBool.__sym_ite__ = _sym_ite  # type: ignore[method-assign]
    for cls in (torch.SymInt, torch.SymFloat):
        for name in ("__floordiv__", "__rfloordiv__"):
            setattr(cls, name, _of_floats(cls, name, "float_floordiv", reflected=name == "__rfloordiv__"))
        for name in ("__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__"):
            setattr(cls, name, _comparison(cls, name))
    for name in ("__truediv__", "__rtruediv__"):  # torch asks a float for a method of its own, once the int is known
        setattr(torch.SymInt, name, _of_floats(torch.SymInt, name, "float_truediv", reflected=name == "__rtruediv__"))
    for name in ("__pow__", "__rpow__"):  # that of an int is that of a float where it is one
        setattr(torch.SymFloat, name, _of_floats(torch.SymFloat, name, "float_pow", reflected=name == "__rpow__"))
