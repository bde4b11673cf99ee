"""Other strides for some values of a graph, and what follows from them for the others.

In: a traced graph with fake values in `meta["val"]`, and for each node the arguments that it had better take from a copy with other
strides. Out: the same graph with these copies; what is computed from them has the strides that eager's rules give it then, and whatever
depends on strides, the graph's results among it, is as before.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Container, Iterator, Mapping
from dataclasses import field
from typing import Any

import torch
from torch import fx

from symshapes import dataclass, facts_if_operator, inverse_permutation, is_dense, memory_order

aten = torch.ops.aten


class Stays(Exception):
    """A value is wanted back as it was that a copy would not be: with holes, or from within another's memory."""


def counts_in_memory(graph: fx.Graph) -> bool:
    """Whether a call reads memory by places that the program says, whatever lies there."""
    return any(node.target in _COUNT_IN_MEMORY for node in graph.nodes)


@dataclass
class Relaying:
    """The new values of nodes, and which arguments are to be copied for which user. Nodes are told in the graph's order.

    Args:
        free: operators that compute the same of arguments with any strides. All others (a library's kernel that was chosen by
            strides, a user's operator) are given what they were traced with.
    """

    free: Container[Any]
    values: dict[fx.Node, Any] = field(default_factory=dict)
    """Of nodes whose results have other strides now."""
    copies: dict[fx.Node, dict[fx.Node, torch.memory_format | None]] = field(default_factory=dict)
    """For each user, the arguments that it takes from a copy: in a format, else as they were."""

    def visit(self, node: fx.Node, wanted: Mapping[fx.Node, torch.memory_format], as_wanted: bool = False) -> None:
        """The node takes some arguments in these formats; what its result is then.

        Args:
            as_wanted: it takes the others as they are by now, though it is none of the free ones.

        Raises:
            Stays: if it needs an argument back that can't be had.
        """
        if node.op == "output":
            self._as_before(node)
        elif node.op == "call_function":
            if not as_wanted and not self.is_free(node):
                self._as_before(node)
            if wanted:
                self.copies.setdefault(node, {}).update(wanted)
            if node in self.copies or any(argument in self.values for argument in node.all_input_nodes):
                self._retrace(node)

    def value(self, node: fx.Node) -> Any:
        """What the node's result is by now."""
        return self.values.get(node, node.meta["val"])

    def apply(self, graph: fx.Graph) -> None:
        """Change the graph as planned."""
        made: dict[tuple[fx.Node, torch.memory_format | None], fx.Node] = {}
        before = {node: node.meta["val"] for node in self.values}
        for node, value in self.values.items():
            node.meta["val"] = value
        for user, arguments in self.copies.items():
            for argument, wanted in arguments.items():
                if (argument, wanted) not in made:
                    with graph.inserting_before(user):
                        made[argument, wanted] = _copy(graph, argument, wanted or before[argument])
                user.replace_input_with(argument, made[argument, wanted])

    def _as_before(self, node: fx.Node) -> None:
        for argument in node.all_input_nodes:
            if argument in self.values:
                if not all(is_dense(each) and each.storage_offset() == 0 for each in _tensors(argument.meta["val"])):
                    raise Stays
                self.copies.setdefault(node, {})[argument] = None

    def is_free(self, node: fx.Node) -> bool:
        """Whether a node computes the same of arguments with any strides."""
        facts = facts_if_operator(node.target)
        if facts is None:
            return node.target is operator.getitem
        return not facts.acts and node.target in self.free

    def _retrace(self, node: fx.Node) -> None:
        """The result that comes of the new arguments; a view that is none any more takes what it took before."""
        try:
            value = self._traced(node)
        except RuntimeError:
            self._as_before(node)
            value = self._traced(node)
        if not _same_place(value, node.meta["val"]):
            self.values[node] = value

    def _traced(self, node: fx.Node) -> Any:
        copies = self.copies.get(node, {})

        def value_of(argument: fx.Node) -> Any:
            if argument not in copies:
                return self.value(argument)
            wanted, before = copies[argument], argument.meta["val"]
            return before if wanted is None else aten.clone.default(before, memory_format=wanted)

        target: Callable[..., Any] = node.target  # type: ignore[assignment]
        return target(*fx.node.map_arg(node.args, value_of), **fx.node.map_arg(node.kwargs, value_of))


_COUNT_IN_MEMORY = (
    aten.as_strided.default,
    aten.as_strided_scatter.default,
    aten.as_strided_copy.default,
    aten.view.dtype,
    aten.view_as_complex.default,
    aten.view_as_real.default,
    aten.resize.default,
)


def _tensors(value: Any) -> Iterator[torch.Tensor]:
    for each in value if isinstance(value, tuple | list) else (value,):
        if isinstance(each, torch.Tensor):
            yield each


def _same_place(one: Any, other: Any) -> bool:
    """Whether elements lie alike, counted from the start of their memory."""
    places = [[(each.stride(), each.storage_offset()) for each in _tensors(value)] for value in (one, other)]
    return places[0] == places[1]


def _copy(graph: fx.Graph, node: fx.Node, wanted: torch.memory_format | torch.Tensor) -> fx.Node:
    """A node's value in a format, or with the strides of a dense tensor."""

    def call(target: Any, *args: Any, **kwargs: Any) -> fx.Node:
        made = graph.call_function(target, args, kwargs)
        made.meta = {**node.meta, "val": target(*fx.node.map_arg(args, lambda n: n.meta["val"]), **kwargs)}
        # To whoever cuts the graph: the program itself reads what this is a copy of.
        made.meta["relaid"] = True
        return made

    if isinstance(wanted, torch.memory_format):
        return call(aten.clone.default, node, memory_format=wanted)
    if wanted.is_contiguous():
        return call(aten.clone.default, node, memory_format=torch.contiguous_format)
    order = memory_order(wanted)
    dense = call(aten.clone.default, call(aten.permute.default, node, order), memory_format=torch.contiguous_format)
    return call(aten.permute.default, dense, inverse_permutation(order))
