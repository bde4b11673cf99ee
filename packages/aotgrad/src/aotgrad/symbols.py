"""Symbolic integers in a graph: each becomes nodes that compute it from the sizes of tensors.

In: a `torch.SymInt`. Out: a node (or an int), one for each distinct expression.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import sympy
import torch
from torch import fx

from aotgrad.errors import Unsupported
from symshapes import FloorDiv, Mod, expr_of

aten = torch.ops.aten


class SymbolNodes:
    """The symbolic integers of one graph.

    `bind` says that a node has a symbolic size; `node_of` gives the node that computes an expression.
    Nodes are made where they are first needed, after what they are computed from.
    """

    def __init__(self, graph: fx.Graph) -> None:
        self._graph = graph
        self._origins: dict[Any, tuple[fx.Node, int | None, Any]] = {}
        self._nodes: dict[Any, Any] = {}

    def bind_tensor(self, node: fx.Node, value: torch.Tensor) -> None:
        """Sizes of `value`, which `node` computes, may be read from it."""
        for dim, size in enumerate(value.shape):
            if isinstance(size, torch.SymInt):
                self.bind(node, dim, size)

    def bind(self, node: fx.Node, dim: int | None, value: torch.SymInt) -> None:
        """`value` is size `dim` of `node`, or (None) `node` itself."""
        expression = expr_of(value)
        if expression not in self._origins:
            self._origins[expression] = (node, dim, value)

    def knows(self, value: torch.SymInt) -> bool:
        """Whether `value` can be read from some node."""
        return expr_of(value) in self._origins

    def node_of(self, value: Any) -> Any:
        """The node of a symbolic int or float, or a number where it is one after all.

        Raises Unsupported for an unknown symbol or function.
        """
        return self._of(expr_of(value))

    def _of(self, expression: Any) -> Any:
        if expression.is_Integer:
            return int(expression)
        if expression.is_Float:
            return float(expression)
        node = self._nodes.get(expression)
        if node is None:
            node = self._nodes[expression] = self._make(expression)
        return node

    def _make(self, expression: Any) -> fx.Node:
        origin = self._origins.get(expression)
        if origin is not None:
            node, dim, value = origin
            if dim is None:
                return node
            made = self._graph.call_function(aten.sym_size.int, (node, dim))
            made.meta["val"] = value
            return made
        if isinstance(expression, sympy.Pow) and expression.args[1].is_Integer and int(expression.args[1]) > 1:
            return self._fold(operator.mul, [self._of(expression.args[0])] * int(expression.args[1]))
        function = _FLOAT_FUNCTIONS.get(type(expression).__name__)
        if function is not None:
            return self._apply(function, [self._of(argument) for argument in expression.args])
        for kind, function in _FUNCTIONS:
            if isinstance(expression, kind):
                return self._fold(function, [self._of(argument) for argument in expression.args])
        raise Unsupported(f"no tensor of the graph tells the symbolic size {expression}")

    def _fold(self, function: Callable[..., Any], values: list[Any]) -> Any:
        result = values[0]
        for value in values[1:]:
            result = self._apply(function, [result, value])
        return result

    def _apply(self, function: Callable[..., Any], arguments: list[Any]) -> Any:
        values = [v.meta["val"] if isinstance(v, fx.Node) else v for v in arguments]
        result = function(*values)
        if not any(isinstance(v, fx.Node) for v in arguments):
            return result
        made = self._graph.call_function(function, tuple(arguments))
        made.meta["val"] = result
        return made


# By the names of symshapes' float functions. Each stands for the Python function that made it, so nothing is reordered.
_FLOAT_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "ToFloat": torch.sym_float,
    "FloatAdd": operator.add,
    "FloatSub": operator.sub,
    "FloatMul": operator.mul,
    "FloatDiv": operator.truediv,
    "IntTrueDiv": operator.truediv,
    "FloatPow": operator.pow,
    "FloatMod": operator.mod,
    "FloatFloorDiv": operator.floordiv,
    "FloatMax": torch.sym_max,
    "FloatMin": torch.sym_min,
    "FloatNeg": operator.neg,
    "FloatAbs": operator.abs,
    "FloatFloor": math.floor,
    "FloatCeil": math.ceil,
    "FloatTrunc": math.trunc,
    "FloatRound": round,
    "Sqrt": torch.sym_sqrt,
}

_FUNCTIONS: tuple[tuple[Any, Callable[..., Any]], ...] = (
    (sympy.Add, operator.add),
    (sympy.Mul, operator.mul),
    (FloorDiv, operator.floordiv),
    (Mod, operator.mod),
    (sympy.Max, torch.sym_max),
    (sympy.Min, torch.sym_min),
)
