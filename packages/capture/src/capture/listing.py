"""A captured graph as text: a line an operation, as Python would write it, with the sizes it gives and the user's line.

Flows in: an FX graph with `val` and `source` in its nodes' `meta`. Flows out: lines.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Iterable
from typing import Any

import torch
from torch import fx

from symshapes import SYMBOLIC, expr_of, print_expr

_INFIX = {
    operator.add: "+", operator.sub: "-", operator.mul: "*", operator.truediv: "/", operator.floordiv: "//", operator.mod: "%",
    operator.pow: "**", operator.matmul: "@", operator.and_: "&", operator.or_: "|", operator.xor: "^",
    operator.lshift: "<<", operator.rshift: ">>", operator.lt: "<", operator.le: "<=", operator.eq: "==", operator.ne: "!=",
    operator.gt: ">", operator.ge: ">=",
    operator.iadd: "+=", operator.isub: "-=", operator.imul: "*=", operator.itruediv: "/=", operator.ifloordiv: "//=",
}  # fmt: skip
_PREFIX = {operator.neg: "-", operator.pos: "+", operator.invert: "~", operator.not_: "not "}
#: FX's own wording of a call, which has its target by name.
_TARGET = re.compile(r"\[target=(.+?)\]\(")
_WIDEST = 64


def listing(graph: fx.Graph) -> list[str]:
    """The calls of a graph and what it returns, a line each."""
    rows = [
        (_statement(node), _remark(node)) for node in graph.nodes if node.op.startswith("call") or node.op == "output"
    ]
    width = max((len(left) for left, right in rows if right and len(left) <= _WIDEST), default=0)
    return [f"{left:<{width}}  # {right}" if right else left for left, right in rows]


def _statement(node: fx.Node) -> str:
    if node.op == "output":
        return f"return {_text(node.args[0])}"
    return f"{node.name} = {_call(node)}" if node.meta.get("val") is not None else _call(node)


def _call(node: fx.Node) -> str:
    target: Any = node.target
    if node.op == "call_method":
        return f"{_text(node.args[0])}.{target}({_arguments(node.args[1:], node.kwargs)})"
    if target in _INFIX and len(node.args) == 2:
        return f"{_text(node.args[0])} {_INFIX[target]} {_text(node.args[1])}"
    if target in _PREFIX and len(node.args) == 1:
        return f"{_PREFIX[target]}{_text(node.args[0])}"
    if target is operator.getitem:
        return f"{_text(node.args[0])}[{_subscript(node.args[1])}]"
    if target is operator.setitem:
        return f"{_text(node.args[0])}[{_subscript(node.args[1])}] = {_text(node.args[2])}"
    found = _TARGET.search(str(node.format_node()))
    return f"{found[1] if found else target}({_arguments(node.args, node.kwargs)})"


def _arguments(args: Iterable[Any], kwargs: dict[str, Any]) -> str:
    return ", ".join([*map(_text, args), *(f"{name}={_text(value)}" for name, value in kwargs.items())])


def _subscript(key: Any) -> str:
    if isinstance(key, tuple) and key:
        return ", ".join(map(_subscript, key)) + ("," if len(key) == 1 else "")
    if isinstance(key, slice):
        ends = ("" if each is None else _text(each) for each in (key.start, key.stop))
        return ":".join(ends) + ("" if key.step is None else f":{_text(key.step)}")
    return "..." if key is ... else _text(key)


def _text(value: Any) -> str:
    if isinstance(value, tuple):
        return f"({', '.join(map(_text, value))}{',' if len(value) == 1 else ''})"
    if isinstance(value, list):
        return f"[{', '.join(map(_text, value))}]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key!r}: {_text(each)}" for key, each in value.items()) + "}"
    if isinstance(value, slice):
        return f"slice({_text(value.start)}, {_text(value.stop)}, {_text(value.step)})"
    return str(value) if isinstance(value, fx.Node) else repr(value)


def _remark(node: fx.Node) -> str:
    return ", ".join(filter(None, [_shape(node.meta.get("val")), node.meta.get("source", "")]))


def _shape(value: Any) -> str:
    """`[s0, 4]`, or the expression of a symbolic number."""
    if isinstance(value, torch.Tensor):
        return f"[{', '.join(map(_number, value.shape))}]"
    return _number(value) if isinstance(value, SYMBOLIC) else ""


def _number(value: Any) -> str:
    return print_expr(expr_of(value), "python") if isinstance(value, SYMBOLIC) else str(value)
