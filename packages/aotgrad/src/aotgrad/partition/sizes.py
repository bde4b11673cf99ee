"""Which sizes a graph of a partition has to be told beside what it is given.

In: the nodes that a graph computes and those it is given. Out: nodes of the joint graph whose values are the missing symbols.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import torch
from torch import fx

from symshapes import SYMBOLIC, expr_of

aten = torch.ops.aten


def untold(
    graph: fx.Graph, inputs: Sequence[fx.Node], computed: Iterable[fx.Node], given: Iterable[fx.Node]
) -> list[fx.Node]:
    """Nodes of forward numbers for symbols in sizes of `computed` that no size of `given` is; made of `inputs`, if need be.

    From rows padded to whole chunks, say, nobody can tell how many there were. A symbol that no input has stays untold.
    """
    told = {part for node in given for part in _parts(node.meta["val"]) if part.is_Symbol}
    wanted = {
        symbol for part in {p for node in computed for p in _parts(node.meta["val"])} for symbol in part.free_symbols
    }
    missing = sorted(wanted - told, key=str)
    if not missing:
        return []
    numbers = {
        expr_of(value): node
        for node in reversed(graph.nodes)
        if isinstance(value := node.meta.get("val"), SYMBOLIC) and not node.meta.get("backward")
    }
    found = (numbers.get(symbol) or _measured(graph, inputs, symbol) for symbol in missing)
    return [node for node in found if node is not None]


def _measured(graph: fx.Graph, inputs: Sequence[fx.Node], symbol: Any) -> fx.Node | None:
    """A new node that reads `symbol` from an input's size."""
    for node in inputs:
        value = node.meta["val"]
        for dim, size in enumerate(value.shape if isinstance(value, torch.Tensor) else ()):
            if isinstance(size, torch.SymInt) and expr_of(size) == symbol:
                with graph.inserting_before(next(node for node in graph.nodes if node.op != "placeholder")):
                    made = graph.call_function(aten.sym_size.int, (node, dim))
                made.meta["val"] = size
                return made
    return None


def _parts(value: Any) -> Iterator[Any]:
    """Expressions of the symbolic numbers in a value."""
    if isinstance(value, SYMBOLIC):
        yield expr_of(value)
    elif isinstance(value, torch.Tensor):
        for number in (*value.shape, *(value.stride() if value.layout is torch.strided else ())):
            if isinstance(number, torch.SymInt):
                yield expr_of(number)
    elif isinstance(value, tuple | list):
        for part in value:
            yield from _parts(part)
