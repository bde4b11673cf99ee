"""Python operators of `torch.SymInt`, `SymFloat` and `SymBool` on our nodes.

`import torch` itself installs them (`a + b` calls `a.node.add(b.node)`, found on torch 2.11 and 2.13), and they serve
any node with the right method names, with two exceptions: `torch.sym_ite` insists on torch's own node class, and the
floor division of floats is the floor of their quotient there, which rounds where Python's `//` does not.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

from symshapes.node import SymNode

_torch_sym_ite = torch.SymBool.__sym_ite__


def _sym_ite(self: torch.SymBool, then: Any, otherwise: Any) -> Any:
    if isinstance(self.node, SymNode):
        return then if bool(self) else otherwise
    return _torch_sym_ite(self, then, otherwise)  # type: ignore[no-untyped-call]


def _as_float(number: Any, beside: SymNode) -> SymNode:
    return number.node.sym_float() if isinstance(number, torch.SymInt | torch.SymFloat) else beside.wrap_float(number)


def _floor_division(cls: type, name: str, *, reflected: bool) -> Callable[[Any, Any], Any]:
    """The method of `cls`: `left // right` as Python computes it, where one of the two is a float and the node is ours."""
    before = getattr(cls, name)

    @functools.wraps(before)
    def method(self: Any, other: Any) -> Any:
        numbers = isinstance(other, int | float | torch.SymInt | torch.SymFloat)
        floats = isinstance(self, torch.SymFloat) or isinstance(other, float | torch.SymFloat)
        if not (numbers and floats and isinstance(self.node, SymNode)):
            return before(self, other)
        own, others = self.node.sym_float(), _as_float(other, self.node)
        left, right = (others, own) if reflected else (own, others)
        return torch.SymFloat(left.float_floordiv(right))  # type: ignore[attr-defined]

    return method


def install() -> None:
    """Make `torch.sym_ite` choose by a guard where the condition is ours, and floor division of floats Python's; others'
    numbers go to torch's methods."""
    torch.SymBool.__sym_ite__ = _sym_ite  # type: ignore[method-assign]
    for cls in (torch.SymInt, torch.SymFloat):
        for name in ("__floordiv__", "__rfloordiv__"):
            setattr(cls, name, _floor_division(cls, name, reflected=name == "__rfloordiv__"))
