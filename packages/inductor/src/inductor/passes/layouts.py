"""Images in one layout from a graph's first convolution to its last: channels last, where a device's convolutions are fastest so.

In: a traced graph with fake values in `meta["val"]`, of inference or of forward and backward together, so that what is saved
for the backward has the layout too. Out: the same graph; its convolutions read copies with channels last, all that is computed
from their results has the strides that eager's rules give it then, and results of the graph and what depends on strides are as before.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Container, Iterator
from dataclasses import field
from typing import Any

import torch
from torch import fx

from inductor.passes.patterns import argument_of, is_static
from inductor.traits import TraitsOf
from symshapes import dataclass, facts_if_operator, inverse_permutation, is_dense, memory_order

aten = torch.ops.aten

IMAGES: dict[Any, tuple[str, ...]] = {
    aten.convolution.default: ("input",),
    aten.convolution_backward.default: ("grad_output", "input"),
}
"""Convolutions, and which of their arguments are images."""
HEAVY = 4
"""A weight of so many times the elements of its images: putting it in order would cost more than they gain."""


def channels_last(graph: fx.Graph, traits: TraitsOf, free: Container[Any]) -> int:
    """Give the graph's images channels last; how many calls of convolutions take them so now.

    Args:
        free: operators that compute the same of arguments with any strides. All others (a library's kernel that was chosen by
            strides, a user's operator) are given what they were traced with.

    The graph stays as it is where sizes are symbolic: strides that follow from new ones might ask for guards, when these
    have been made already; where a call counts in memory itself; where a value would have to go back to a layout with holes;
    and where there is one convolution alone, which gains less than the copies before and behind it cost; in inference a transposed
    one gains more.
    """
    found = [node for node in graph.nodes if _gains(node, traits)]
    forward = [node for node in found if node.target is aten.convolution.default]
    inference = len(found) == len(forward)
    if len(forward) < 2 and not (inference and any(argument_of(node, "transposed") for node in forward)):
        return 0
    if any(node.target in _COUNT_IN_MEMORY for node in graph.nodes):
        return 0
    if not all(is_static(node.meta["val"]) for node in graph.nodes if "val" in node.meta):
        return 0
    plan = _Plan(traits, free)
    try:
        for node in graph.nodes:
            plan.visit(node)
    except _Stays:
        return 0
    plan.apply(graph)
    return plan.converted


class _Stays(Exception):
    """A value is wanted back as it was that a copy would not be: with holes, or from within another's memory."""


Copied = tuple[fx.Node, bool]
"""A value, with channels last or as it was in eager."""


@dataclass
class _Plan:
    """The new values of nodes, and which arguments are to be copied for which user."""

    traits: TraitsOf
    free: Container[Any]
    values: dict[fx.Node, Any] = field(default_factory=dict)
    """Of nodes whose results have other strides now."""
    copies: dict[fx.Node, dict[fx.Node, bool]] = field(default_factory=dict)
    """For each user, the arguments that it takes from a copy: with channels last, else as they were."""
    converted: int = 0

    def visit(self, node: fx.Node) -> None:
        if node.op == "output":
            self._as_before(node)
        elif node.op == "call_function":
            if _gains(node, self.traits):
                self._convert(node)
            elif not self._is_free(node):
                self._as_before(node)
            if node in self.copies or any(argument in self.values for argument in node.all_input_nodes):
                self._retrace(node)

    def _convert(self, node: fx.Node) -> None:
        self.converted += 1
        for name in IMAGES[node.target]:
            image = argument_of(node, name)
            if not _has_channels_last(self._value(image)):
                self.copies.setdefault(node, {})[image] = True

    def _as_before(self, node: fx.Node) -> None:
        for argument in node.all_input_nodes:
            if argument in self.values:
                if not all(is_dense(each) and each.storage_offset() == 0 for each in _tensors(argument.meta["val"])):
                    raise _Stays
                self.copies.setdefault(node, {})[argument] = False

    def _is_free(self, node: fx.Node) -> bool:
        facts = facts_if_operator(node.target)
        if facts is None:
            return node.target is operator.getitem
        return not facts.acts and node.target not in IMAGES and (node.target in self.free or node.target in _FREE)

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
                return self._value(argument)
            return _with_channels_last(argument.meta["val"]) if copies[argument] else argument.meta["val"]

        target: Callable[..., Any] = node.target  # type: ignore[assignment]
        return target(*fx.node.map_arg(node.args, value_of), **fx.node.map_arg(node.kwargs, value_of))

    def _value(self, node: fx.Node) -> Any:
        return self.values.get(node, node.meta["val"])

    def apply(self, graph: fx.Graph) -> None:
        made: dict[Copied, fx.Node] = {}
        before = {node: node.meta["val"] for node in self.values}
        for node, value in self.values.items():
            node.meta["val"] = value
        for user, arguments in self.copies.items():
            for argument, last in arguments.items():
                if (argument, last) not in made:
                    with graph.inserting_before(user):
                        wanted = None if last else before[argument]
                        made[argument, last] = _copy(graph, argument, wanted)
                user.replace_input_with(argument, made[argument, last])


def _gains(node: fx.Node, traits: TraitsOf) -> bool:
    """Whether a call is a convolution that runs faster with channels last."""
    if node.target not in IMAGES:
        return False
    names = IMAGES[node.target]
    images = [argument_of(node, name).meta["val"] for name in names]
    weight = argument_of(node, "weight").meta["val"]
    if images[0].dim() != 4 or weight.dtype not in traits(weight.device).channels_last:
        return False
    if not is_static(images) or not is_static(weight):
        return True  # decided for all of the graph
    points = sum(image.numel() for image in images)
    return math.prod(weight.shape[2:]) == 1 or weight.numel() <= HEAVY * points


_FREE = {
    aten.upsample_bilinear2d.default,
    aten.upsample_bilinear2d.vec,
    aten.max_pool2d_with_indices_backward.default,
    aten.avg_pool2d_backward.default,
    aten._adaptive_avg_pool2d_backward.default,
    aten.upsample_nearest2d_backward.default,
    aten.upsample_bilinear2d_backward.default,
}
"""Kernels of ATen's that have a form for channels last, and are called whatever strides there are."""

_COUNT_IN_MEMORY = (
    aten.as_strided.default,
    aten.as_strided_scatter.default,
    aten.as_strided_copy.default,
    aten.view.dtype,
    aten.view_as_complex.default,
    aten.view_as_real.default,
    aten.resize.default,
)
"""What reads memory by places that the program says, whatever lies there."""


def _has_channels_last(value: torch.Tensor) -> bool:
    return value.is_contiguous(memory_format=torch.channels_last)


def _with_channels_last(value: torch.Tensor) -> torch.Tensor:
    return aten.clone.default(value, memory_format=torch.channels_last)


def _tensors(value: Any) -> Iterator[torch.Tensor]:
    for each in value if isinstance(value, tuple | list) else (value,):
        if isinstance(each, torch.Tensor):
            yield each


def _same_place(one: Any, other: Any) -> bool:
    """Whether elements lie alike, counted from the start of their memory."""
    places = [[(each.stride(), each.storage_offset()) for each in _tensors(value)] for value in (one, other)]
    return places[0] == places[1]


def _copy(graph: fx.Graph, node: fx.Node, like: torch.Tensor | None) -> fx.Node:
    """A node's value with channels last, or with the strides of a dense tensor."""

    def call(target: Any, *args: Any, **kwargs: Any) -> fx.Node:
        made = graph.call_function(target, args, kwargs)
        made.meta = {**node.meta, "val": target(*fx.node.map_arg(args, lambda n: n.meta["val"]), **kwargs)}
        # To whoever cuts the graph: the program itself reads what this is a copy of.
        made.meta["relaid"] = True
        return made

    if like is None:
        return call(aten.clone.default, node, memory_format=torch.channels_last)
    if like.is_contiguous():
        return call(aten.clone.default, node, memory_format=torch.contiguous_format)
    order = memory_order(like)
    dense = call(aten.clone.default, call(aten.permute.default, node, order), memory_format=torch.contiguous_format)
    return call(aten.permute.default, dense, inverse_permutation(order))
