"""Images in one layout from a graph's first convolution to its last: channels last, where a device's convolutions are fastest so.

In: a traced graph with fake values in `meta["val"]`, of inference or of forward and backward together, so that what is saved
for the backward has the layout too. Out: the same graph; its convolutions read copies with channels last, all that is computed
from their results has the strides that eager's rules give it then, and results of the graph and what depends on strides are as before.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import Any

import torch
from torch import fx

from inductor.passes.patterns import argument_of, is_static
from inductor.passes.relaying import Relaying, Stays, counts_in_memory
from inductor.traits import TraitsOf

aten = torch.ops.aten

IMAGES: dict[Any, tuple[str, ...]] = {
    aten.convolution.default: ("input",),
    aten.convolution_backward.default: ("grad_output", "input"),
}
"""Convolutions, and which of their arguments are images."""
HEAVY = 4
"""A weight of so many times the elements of its images: putting it in order would cost more than they gain."""


def channels_last(graph: fx.Graph, traits: TraitsOf, free: Collection[Any]) -> int:
    """Give the graph's images channels last; how many calls of convolutions take them so now.

    Args:
        free: operators that compute the same of arguments with any strides. All others (a library's kernel that was chosen by
            strides, a user's operator) are given what they were traced with.

    The graph stays as it is where sizes are symbolic: strides that follow from new ones might ask for guards, when these
    have been made already; where a call counts in memory itself; where a value would have to go back to a layout with holes;
    and where there is one convolution alone, which gains less than the copies before and behind it cost; in inference a transposed
    one gains more.
    """
    found = dict.fromkeys(node for node in graph.nodes if _gains(node, traits))
    forward = [node for node in found if node.target is aten.convolution.default]
    inference = len(found) == len(forward)
    if len(forward) < 2 and not (inference and any(argument_of(node, "transposed") for node in forward)):
        return 0
    if counts_in_memory(graph):
        return 0
    if not all(is_static(node.meta["val"]) for node in graph.nodes if "val" in node.meta):
        return 0
    plan = Relaying(free_of_strides(free))
    try:
        for node in graph.nodes:
            images = [argument_of(node, name) for name in IMAGES[node.target]] if node in found else []
            others = (image for image in images if not _has_channels_last(plan.value(image)))
            plan.visit(node, dict.fromkeys(others, torch.channels_last), as_wanted=bool(images))
    except Stays:
        return 0
    plan.apply(graph)
    return len(found)


def free_of_strides(lowered: Collection[Any]) -> frozenset[Any]:
    """Operators that compute the same of arguments with any strides: those with lowerings, but for convolutions, and some of ATen's."""
    return frozenset(lowered).difference(IMAGES) | _FREE


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


def _has_channels_last(value: torch.Tensor) -> bool:
    return value.is_contiguous(memory_format=torch.channels_last)
