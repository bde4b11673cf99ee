"""Calls of a graph taken out of it, to be compiled and timed alone.

Flows in: a call of a graph. Flows out: a `Region`: the call with the elementwise calls behind it, which a kernel of the compiler's own
would end in.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import fx

from inductor.lowerings.contractions import converts_narrow
from inductor.lowerings.registry import LOWERINGS, READS_MEMORY, VIEWS, is_tensor
from inductor.passes.patterns import is_static
from inductor.samples import made_up
from inductor.traits import TraitsOf
from symshapes import LazyGraphModule, dataclass

LONGEST = 12
"""Calls of a region."""
REACH = 64
"""Calls behind the first among which the others are looked for."""

Call = Callable[[list[Any]], Any]


@dataclass(frozen=True)
class Region:
    """Calls of a graph as a graph of their own, with names that are the same for all like it."""

    module: fx.GraphModule
    inputs: tuple[torch.Tensor, ...]
    """Made up; placeholders hold them as their values."""


@dataclass(frozen=True)
class Compiler:
    """What regions are compiled by."""

    own: Callable[[Region], Call | None]
    """As any graph is; None where that calls the library's kernel anyway."""
    begin: Callable[[Region], None]
    """Starts what `own` would wait for, if that can go on beside other work."""
    library: Callable[[Region], Call]
    """With the library's kernel."""
    key: Callable[[Region], str | None]
    """What the figures of a region depend on; None: what nobody can tell."""


def is_known(node: fx.Node) -> bool:
    """Whether all sizes of the call are, which is of real numbers that lie in memory as they are, and has elements to compute with."""
    read = [each.meta["val"] for each in node.all_input_nodes]
    known = all(isinstance(each, torch.Tensor) and is_static(each) and not each.is_meta for each in read)
    return known and is_static(node.meta["val"])


def region_of(node: fx.Node) -> list[fx.Node]:
    """The call, and those behind it that make one element of one and wait for nothing else that is made of it; of several results, those
    that are read."""
    if not is_tensor(node):
        return [node, *(user for user in node.users if user.target is operator.getitem)]
    region, behind = [node], {node}
    for call in itertools.islice(_after(node), REACH):
        made = [each for each in call.all_input_nodes if each in behind]
        if made:
            behind.add(call)
            if len(region) < LONGEST and all(each in region for each in made) and _is_elementwise(call, node):
                region.append(call)
    return region


def converted_for(node: fx.Node, traits: TraitsOf) -> list[fx.Node]:
    """The conversions of the call's factors from narrower dtypes, with views of them, that are for it alone, where a kernel of the
    compiler's own would do them on the way."""
    if not is_tensor(node) or not traits(node.meta["val"].device).converts_factors:
        return []
    found: list[fx.Node] = []
    for given in node.all_input_nodes:
        chain = [given]
        while chain[0].target in VIEWS and len(chain[0].all_input_nodes) == 1:
            chain.insert(0, chain[0].all_input_nodes[0])
        if converts_narrow(chain[0]) and all(len(each.users) == 1 and is_known(each) for each in chain):
            found += chain
    return found


def _after(node: fx.Node) -> Iterator[fx.Node]:
    while (node := node.next).op == "call_function":
        yield node


def _is_elementwise(call: fx.Node, of: fx.Node) -> bool:
    """Whether a loop makes as many elements as `of` has, of real tensors of known sizes. Not of integers, which may be positions or
    divisors: those made up would be none."""
    if call.target not in LOWERINGS or call.target in READS_MEMORY or not is_tensor(call) or not is_known(call):
        return False
    dtypes = (each.meta["val"].dtype for each in call.all_input_nodes)
    if not all(dtype.is_floating_point or dtype.is_complex or dtype is torch.bool for dtype in dtypes):
        return False
    return bool(call.meta["val"].numel() == of.meta["val"].numel())


def alone(region: Sequence[fx.Node]) -> Region:
    """The calls as a graph; what they read is its inputs, and what others read of them, or nobody, its results."""
    graph = fx.Graph()
    place: dict[fx.Node, fx.Node] = {}
    names = (f"value{at}" for at in itertools.count())
    for value in _read(region):
        place[value] = graph.create_node("placeholder", name := next(names), (), {}, name)
        place[value].meta["val"] = made_up(value.meta["val"])
    inputs = tuple(each.meta["val"] for each in place.values())
    for call in region:
        args, kwargs = fx.node.map_arg((call.args, call.kwargs), place.__getitem__)
        place[call] = graph.create_node("call_function", call.target, args, kwargs, next(names))
        place[call].meta["val"] = call.meta["val"]
    results = (
        each for each in region if is_tensor(each) and not (each.users and all(user in region for user in each.users))
    )
    graph.output(tuple(place[each] for each in results))
    return Region(LazyGraphModule({}, graph, "Region"), inputs)


def _read(region: Sequence[fx.Node]) -> Iterator[fx.Node]:
    yield from dict.fromkeys(each for call in region for each in call.all_input_nodes if each not in region)
