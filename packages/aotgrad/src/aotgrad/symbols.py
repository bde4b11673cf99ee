"""Symbolic numbers in a graph: each becomes nodes that compute it from the sizes of tensors and from inputs that are numbers.

In: a `torch.SymInt`, `SymFloat` or `SymBool`. Out: a node (or a number), one for each distinct expression.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import sympy
import torch
from torch import fx

from aotgrad.errors import Unsupported
from symshapes import FloorDiv, Mod, SymNode, evaluate, expr_of

aten = torch.ops.aten


class SymbolNodes:
    """The symbolic numbers of one graph.

    `bind` says that a node has a symbolic size, or is a number; `node_of` gives the node that computes an expression.
    Nodes are made where they are first needed, after what they are computed from.
    """

    def __init__(self, graph: fx.Graph) -> None:
        self._graph = graph
        self._origins: dict[Any, tuple[fx.Node, tuple[Any, int] | None, Any]] = {}
        self._nodes: dict[Any, Any] = {}

    def bind_tensor(self, node: fx.Node, value: torch.Tensor) -> None:
        """Sizes and strides of `value`, which `node` computes, may be read from it."""
        for dim, size in enumerate(value.shape):
            if isinstance(size, torch.SymInt):
                self.bind(node, dim, size)
        for dim, stride in enumerate(value.stride()):
            if isinstance(stride, torch.SymInt) and expr_of(stride).is_Symbol:  # others follow from sizes
                self._origins.setdefault(expr_of(stride), (node, (aten.sym_stride.int, dim), stride))

    def bind(self, node: fx.Node, dim: int | None, value: torch.SymInt | torch.SymFloat) -> None:
        """`value` is size `dim` of `node`, or (None) `node` itself."""
        expression = expr_of(value)
        if expression not in self._origins:
            self._origins[expression] = (node, None if dim is None else (aten.sym_size.int, dim), value)
        if isinstance(value, torch.SymBool):  # found in data: a number that is 1, which True is
            (number,) = expression.free_symbols
            self._origins.setdefault(number, (node, None, value))

    def knows(self, value: torch.SymInt | torch.SymFloat | torch.SymBool) -> bool:
        """Whether `value` can be read from some node."""
        return expr_of(value) in self._origins

    def can_tell(self, expression: Any) -> bool:
        """Whether all symbols of an expression can be read from nodes."""
        return all(symbol in self._origins for symbol in expression.free_symbols)

    def node_of(self, value: Any) -> Any:
        """The node of a symbolic int, float or bool, or a number where it is one after all.

        Raises Unsupported for an unknown symbol or function.
        """
        return self._of(expr_of(value))

    def _of(self, expression: Any) -> Any:
        if expression.is_Integer:
            return int(expression)
        if expression.is_Number:  # or an infinity, or NaN
            return float(expression)
        if expression is sympy.true or expression is sympy.false:
            return bool(expression)
        node = self._nodes.get(expression)
        if node is None:
            node = self._nodes[expression] = self._make(expression)
        return node

    def _make(self, expression: Any) -> Any:
        if not expression.free_symbols:  # a constant that is no number to sympy, as -0.0
            return evaluate(expression, {})
        origin = self._origins.get(expression)
        if origin is not None:
            node, read, value = origin
            if read is None:
                return node
            return self._described(self._graph.call_function(read[0], (node, read[1])), value)
        if isinstance(expression, sympy.Pow) and expression.args[1].is_Integer and int(expression.args[1]) > 1:
            return self._fold(operator.mul, [self._of(expression.args[0])] * int(expression.args[1]))
        function = _OF_TWO.get(type(expression))
        if function is not None:
            return self._fold(function, [self._of(argument) for argument in expression.args])
        # Floats' functions stand for the Python functions that made them, so nothing is reordered.
        function = _DIRECT.get(type(expression)) or getattr(type(expression), "compute", None)
        if function is None:
            raise Unsupported(f"no tensor of the graph tells the symbolic number {expression}")
        return self._called(function, [self._of(argument) for argument in expression.args], expression)

    def _fold(self, function: Callable[..., Any], values: list[Any]) -> Any:
        result = values[0]
        for value in values[1:]:
            known = [v.meta["val"] if isinstance(v, fx.Node) else v for v in (result, value)]
            result = self._called(function, [result, value], expr_of(function(*known)))
        return result

    def _called(self, function: Callable[..., Any], arguments: list[Any], expression: Any) -> fx.Node:
        """A call on numbers, some of which are nodes, that gives the value of an expression."""
        env = next(v.meta["val"].node.env for v in arguments if isinstance(v, fx.Node))
        kind = next(kind for kind in _KINDS if kind[0](expression))
        value = kind[2](SymNode(expression, env, env.hint(expression), kind[1]))
        return self._described(self._graph.call_function(function, tuple(arguments)), value)

    def _described(self, made: fx.Node, value: Any) -> fx.Node:
        """A new node with its value: of what the backward finds (how much a mask picks there), the backward's as well."""
        made.meta["val"] = value
        if any(node.meta.get("backward") for node in made.all_input_nodes):
            made.meta["backward"] = True
        return made


# What makes an expression a bool, an int, a float: is it one, Python's type, torch's.
_KINDS: tuple[tuple[Callable[[Any], Any], type, Any], ...] = (
    (lambda e: e.is_Boolean or e.is_Relational, bool, torch.SymBool),
    (lambda e: e.is_integer, int, torch.SymInt),
    (lambda e: True, float, torch.SymFloat),
)

_DIRECT: dict[Any, Callable[..., Any]] = {
    sympy.Abs: operator.abs,
    sympy.Eq: operator.eq,
    sympy.Ne: operator.ne,
    sympy.Lt: operator.lt,
    sympy.Le: operator.le,
    sympy.Gt: operator.gt,
    sympy.Ge: operator.ge,
    sympy.Not: operator.not_,
}

_OF_TWO: dict[Any, Callable[..., Any]] = {
    sympy.Add: operator.add,
    sympy.Mul: operator.mul,
    FloorDiv: operator.floordiv,
    Mod: operator.mod,
    sympy.Max: torch.sym_max,
    sympy.Min: torch.sym_min,
    sympy.And: operator.and_,
    sympy.Or: operator.or_,
}
