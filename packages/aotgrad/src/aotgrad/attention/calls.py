"""What a call of a captured graph does, by whichever of torch's names: `reading` gives its kind and its arguments by name."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import fx
from torch.nn import functional as F

from aotgrad._torch import safe_softmax

Arguments = Mapping[str, Any]

_TWO = ("input", "other")

FORMS: dict[Any, tuple[str, tuple[str, ...]]] = {}
"""Function, or name of a tensor's method, to what it does and the names of its arguments in order."""


def _form(kind: str, parameters: tuple[str, ...], *targets: Any) -> None:
    FORMS.update(dict.fromkeys(targets, (kind, parameters)))


_form("product", _TWO, torch.matmul, operator.matmul, "matmul", "__matmul__")
_form("product", ("input", "mat2"), torch.bmm, "bmm")
_form("added product", ("input", "batch1", "batch2", "beta", "alpha"), torch.baddbmm, "baddbmm")
_form("einsum", ("equation", "first", "second"), torch.einsum)
_form("softmax", ("input", "dim", "dtype"), torch.softmax, "softmax")
_form("softmax", ("input", "dim", "_stacklevel", "dtype"), F.softmax)
_form("safe softmax", ("input", "dim", "dtype"), safe_softmax)
_form("multiply", _TWO, operator.mul, operator.imul, torch.mul, torch.multiply, "mul", "mul_", "multiply", "__mul__")
_form("divide", _TWO, operator.truediv, operator.itruediv, torch.div, torch.divide, torch.true_divide, "div", "div_")
_form("add", (*_TWO, "alpha"), operator.add, operator.iadd, torch.add, "add", "add_")
_form("fill", ("input", "mask", "value"), torch.masked_fill, "masked_fill", "masked_fill_")
_form("choose", ("condition", "input", "other"), torch.where)
_form("choose", ("input", "condition", "other"), "where")
_form("drop", ("input", "p", "training", "inplace"), F.dropout)
_form("drop", ("input", "p", "train"), torch.dropout)
_form("cast", ("input",), "float", "half", "bfloat16")
_form("cast", ("input", "to", "also", "copy"), "to")
_form("cast", ("input", "dtype"), "type")
_form("cast", ("input", "other"), "type_as")
_form("same", ("input",), "contiguous", "clone", torch.clone)
_form("expand", ("input",), "expand", "expand_as")
_form("transpose", ("input", "dim0", "dim1"), torch.transpose, "transpose", "swapaxes")
_form("permute", ("input", "dims"), torch.permute, "permute")
_form("view", ("input",), "view", "reshape", "unflatten", "flatten", torch.reshape, torch.flatten)
_form("subscript", ("input", "index"), operator.getitem)
_form("unsqueeze", ("input", "dim"), torch.unsqueeze, "unsqueeze")

IN_PLACE = (operator.iadd, operator.imul, operator.itruediv, "add_", "mul_", "div_", "masked_fill_")
"""Those that write their result over their input: whoever reads that later reads the result."""

_OPEN = ("expand", "view", "permute")
"""Calls whose other arguments are numbers in any form: their values tell what they did."""


def reading(node: Any) -> tuple[str, Arguments]:
    """What a node does, and its arguments by name; ("", {}) for what is not in the table, or has arguments that are not."""
    if not isinstance(node, fx.Node) or not node.op.startswith("call_"):
        return "", {}
    try:
        kind, parameters = FORMS.get(node.target, ("", ()))
    except TypeError:  # a callable that cannot be looked up
        return "", {}
    if kind in _OPEN:
        return (kind, {"input": node.args[0]}) if node.args else ("", {})
    arguments = node.args
    if kind == "einsum" and len(arguments) == 2 and isinstance(arguments[1], tuple | list):
        arguments = (arguments[0], *arguments[1])
    named = {"copy", "device", "dtype", "non_blocking", "memory_format", *parameters}
    if len(arguments) > len(parameters) or not named.issuperset(node.kwargs):
        return "", {}
    return kind, {**dict(zip(parameters, arguments, strict=False)), **node.kwargs}


def last_write(node: fx.Node, before: fx.Node) -> fx.Node | None:
    """The last call before another that writes its result over the value of `node`."""
    writes = [user for user in node.users if user.target in IN_PLACE and user.args[0] is node and user < before]
    return max(writes, default=None)


def value_of(node: Any) -> Any:
    """A node's fake value; None where there is none."""
    return node.meta.get("val") if isinstance(node, fx.Node) else None


def shape_of(node: Any) -> tuple[Any, ...]:
    """The sizes of a node's value; of what is no tensor (0,), which fits nothing."""
    value = value_of(node)
    return tuple(value.shape) if isinstance(value, torch.Tensor) else (0,)


def live_nodes(graph: fx.Graph) -> set[fx.Node]:
    """The nodes that a result hangs on, or that do something besides giving results."""
    live: set[fx.Node] = set()
    for node in reversed(list(graph.nodes)):
        acts = node.op in ("output", "call_module") or "effect" in node.meta or node.meta.get("val") is None
        if acts or any(user in live for user in node.users):
            live.add(node)
    return live


def between(first: fx.Node, last: fx.Node) -> Iterator[fx.Node]:
    """The nodes behind `first` and before `last`, in a graph's order."""
    node = first.next
    while node is not last and node.op != "root":
        yield node
        node = node.next
