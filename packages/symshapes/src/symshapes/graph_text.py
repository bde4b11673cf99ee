"""An FX graph in, the Python of a function that runs it out: for graphs of calls, whose arguments are plain.

What FX itself writes is for reading, and is written when somebody reads it; it takes several times as long.
"""

from __future__ import annotations

import keyword
import math
import operator
from collections.abc import Iterable, Sequence
from types import BuiltinFunctionType
from typing import Any

import torch
from torch import fx
from torch.fx.graph import CodeGen

from symshapes import _torch

_BINARY = {
    operator.add: "+", operator.sub: "-", operator.mul: "*", operator.truediv: "/", operator.floordiv: "//", operator.mod: "%",
    operator.matmul: "@", operator.and_: "&", operator.or_: "|", operator.xor: "^", operator.lshift: "<<", operator.rshift: ">>",
    operator.eq: "==", operator.ne: "!=", operator.lt: "<", operator.le: "<=", operator.gt: ">", operator.ge: ">=",
}  # fmt: skip
#: What reads as it is written.
_PLAIN = frozenset({int, bool, str, type(None), type(...)})
#: What is written as a sequence, and in which brackets.
_SEQUENCES: dict[type, tuple[str, str]] = {
    tuple: ("(", ")"),
    torch.Size: ("(", ")"),
    list: ("[", "]"),
    fx.immutable_collections.immutable_list: ("[", "]"),
}


#: Names that no node may have: the function's own, and what slices are made of beside subscripts.
_COMMON = {"self": None, "slice": slice}


class _Unwritten(Exception):
    """There is something in the graph that FX is to write."""


def forward_text(graph: fx.Graph) -> tuple[str, dict[str, Any]] | None:
    """The text of a function `forward`, and what the names in it stand for; None for a graph of another kind."""
    if type(graph._codegen) is not CodeGen or graph._codegen._body_transformer is not None:
        return None
    try:
        return _Writer(graph).text()
    except _Unwritten:
        return None


def read_last(nodes: Sequence[fx.Node]) -> list[list[str]]:
    """For each node of a graph, in order, the names that nothing reads after it, of those that something reads: what it lets go of."""
    found: list[list[str]] = []
    read: set[fx.Node] = set()
    for node in reversed(nodes):
        last = [each for each in node.all_input_nodes if each not in read]
        read.update(last)
        found.append([each.name for each in last])
    found.reverse()
    return found


class _Writer:
    def __init__(self, graph: fx.Graph) -> None:
        self._nodes = list(graph.nodes)
        #: What names stand for; and what functions are called, by identity, and devices and dtypes.
        self._names: dict[str, Any] = {}
        self._called: dict[Any, str] = {}
        self._taken = {node.name for node in self._nodes}
        if not self._taken.isdisjoint(_COMMON):
            raise _Unwritten
        self._taken |= _COMMON.keys()

    def text(self) -> tuple[str, dict[str, Any]]:
        given: list[str] = []
        lines: list[str] = []
        for node, over in zip(self._nodes, read_last(self._nodes), strict=True):
            if node.type is not None or node.meta.get("is_wrapped"):
                raise _Unwritten
            if node.op == "placeholder":
                if node.args or node.target != node.name:
                    raise _Unwritten
                given.append(node.name)
            elif node.op == "output":
                lines.append(f"    return {self._value(node.args[0])}")
            else:
                gone = f";  del {', '.join(over)}" if over else ""
                lines.append(f"    {f'{node.name} = ' if node.users else ''}{self._call(node)}{gone}")
        head = f"def forward({', '.join(['self', *given])}):"
        return "\n".join([head, *lines, ""]), self._names

    def _call(self, node: fx.Node) -> str:
        target, args = node.target, node.args
        if node.op == "get_attr" and _is_name(str(target)):
            return f"self.{target}"
        if node.op == "call_method" and _is_name(str(target)):
            return f"{self._node(args[0])}.{target}({self._arguments(args[1:], node.kwargs)})"
        if node.op != "call_function":
            raise _Unwritten
        if type(target) is BuiltinFunctionType and len(args) == 2 and not node.kwargs:
            if target is operator.getitem:
                return f"{self._node(args[0])}[{self._key(args[1])}]"
            if target in _BINARY:
                return f"{self._value(args[0])} {_BINARY[target]} {self._value(args[1])}"
            if target is getattr and type(args[1]) is str and _is_name(args[1]):
                return f"{self._node(args[0])}.{args[1]}"
        return f"{self._name(target)}({self._arguments(args, node.kwargs)})"

    def _name(self, target: Any) -> str:
        """A name that stands for a function: written as `torch.relu` it would be whatever is there when the graph is called."""
        found = self._called.get(id(target))
        if found is None:
            written = (
                _torch.written_name(target) if _torch.is_written_by_name(target) else getattr(target, "__name__", "")
            )
            found = self._called[id(target)] = self._named(target, written)
        return found

    def _named(self, value: Any, wanted: str) -> str:
        """A name of its own for something, alike to the one that is wanted."""
        name = _checked(wanted.replace(".", "_"))
        while name in self._taken:
            name += "_"
        self._taken.add(name)
        self._names[name] = value
        return name

    def _arguments(self, args: Iterable[Any], kwargs: dict[str, Any]) -> str:
        named = [f"{_checked(name)}={self._value(value)}" for name, value in kwargs.items()]
        return ", ".join([*map(self._value, args), *named])

    def _node(self, value: Any) -> str:
        """What is asked for something, which of a number would read as its fraction."""
        if type(value) is not fx.Node:
            raise _Unwritten
        return self._value(value)

    def _value(self, value: Any) -> str:
        kind = type(value)
        if kind is fx.Node:
            name: str = value.name
            return name
        if kind in _PLAIN or (kind is float and math.isfinite(value)):
            return repr(value)
        if kind in _SEQUENCES:
            inner = ", ".join(map(self._value, value))
            start, end = _SEQUENCES[kind]
            return f"{start}{inner}{',' if start == '(' and len(value) == 1 else ''}{end}"
        if kind is slice:
            self._names["slice"] = slice
            return f"slice({self._arguments((value.start, value.stop, value.step), {})})"
        if kind is torch.device or kind is torch.dtype:  # which would be made, or looked up, at each call
            found = self._called.get(value)
            if found is None:
                found = self._called[value] = self._named(value, str(value).replace(":", "_"))
            return found
        raise _Unwritten

    def _key(self, value: Any) -> str:
        """What stands between the brackets of a subscript, where slices have a form of their own."""
        if type(value) is not tuple or not value:
            return self._part(value)
        return f"{', '.join(map(self._part, value))}{',' if len(value) == 1 else ''}"

    def _part(self, value: Any) -> str:
        if type(value) is not slice:
            return self._value(value)
        start, stop, step = (
            "" if each is None else self._value(each) for each in (value.start, value.stop, value.step)
        )
        return f"{start}:{stop}{':' if step else ''}{step}"


def _is_name(name: str) -> bool:
    """Whether Python takes it for this name where it is written; some that are not ASCII it takes for others."""
    return name.isascii() and name.isidentifier() and not keyword.iskeyword(name)


def _checked(name: str) -> str:
    if not _is_name(name):
        raise _Unwritten
    return name
