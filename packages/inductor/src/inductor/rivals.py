"""`Options.autotune`: which calls of a graph the library's kernels do faster than the compiler's own, found by timing both here.

Flows in: a graph as it is about to be lowered, and what compiles small ones. Flows out: the calls to leave to the library. What is
timed is a region: the call with the elementwise calls behind it, which the compiler's own kernel would end in.
"""

from __future__ import annotations

import itertools
import json
import operator
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

import torch
from torch import fx

from inductor.cache import DiskCache
from inductor.lowerings.registry import LOWERINGS, READS_MEMORY, is_tensor
from inductor.passes.freezing import eagerly
from inductor.passes.patterns import is_static
from inductor.samples import random_input, waits_for
from symshapes import LazyGraphModule

SECTION = "rivals"
LONGEST = 12
"""Calls of a region."""
REACH = 64
"""Calls behind the first among which the others are looked for."""
WALKED = 64 << 20
"""Bytes of inputs that calls walk through: in a program a call finds its weights where others' have been since."""
MOST_SETS = 8
ROUNDS = 9
SECONDS = 0.02
"""What one round of a rival takes at least."""
WORTH = 0.97
"""The library's has to be this much faster: the rest of the graph may have fused with the compiler's own."""

Call = Callable[[list[Any]], Any]


@dataclass(frozen=True)
class Region:
    """Calls of a graph as a graph of their own, with names that are the same for all like it."""

    module: fx.GraphModule
    inputs: tuple[torch.Tensor, ...]
    """Made up; placeholders hold them as their values."""


@dataclass(frozen=True)
class Figures:
    """Seconds a call of a region."""

    own: float
    library: float

    @property
    def leave(self) -> bool:
        """Whether the library's kernel is the one to take."""
        return self.library < WORTH * self.own


@dataclass(frozen=True)
class Compiler:
    """What regions are compiled by."""

    own: Callable[[Region], Call | None]
    """As any graph is; None where that calls the library's kernel anyway."""
    library: Callable[[Region], Call]
    """With the library's kernel."""
    key: Callable[[Region], str | None]
    """What the figures of a region depend on; None: what nobody can tell."""


def left_to_the_library(graph: fx.Graph, compiler: Compiler, cache: DiskCache | None) -> frozenset[str]:
    """The names of the calls, of those whose sizes are known, that are faster so."""
    found: dict[str | fx.Node, Figures | None] = {}
    left = []
    for node in graph.nodes:
        if node.target not in READS_MEMORY or not _is_known(node):
            continue
        region = _alone(_region(node))
        key = compiler.key(region)
        alike = key or node
        if alike not in found:
            found[alike] = _figures(region, compiler, key, cache)
        figures = found[alike]
        if figures is not None and figures.leave:
            left.append(node.name)
    return frozenset(left)


def all_rivals(graph: fx.Graph) -> frozenset[str]:
    """The names of all calls that the library has kernels for."""
    return frozenset(node.name for node in graph.nodes if node.target in READS_MEMORY)


def _figures(region: Region, compiler: Compiler, key: str | None, cache: DiskCache | None) -> Figures | None:
    entry = None if cache is None or key is None else cache.get(key)
    if entry is not None:
        return Figures(*json.loads(entry.files["figures.json"]))
    own = compiler.own(region)
    if own is None:
        return None
    figures = _timed(own, compiler.library(region), region.inputs)
    if cache is not None and key is not None:
        cache.put(key, {"figures.json": json.dumps([figures.own, figures.library]).encode()})
    return figures


def _timed(own: Call, library: Call, inputs: Sequence[torch.Tensor]) -> Figures:
    """Medians of rounds in turn."""
    size = max(sum(each.untyped_storage().nbytes() for each in inputs), 1)
    sets = [inputs, *(tuple(map(_made_up, inputs)) for _ in range(min(MOST_SETS, WALKED // size) - 1))]
    waits = waits_for(inputs)

    def seconds(call: Call, count: int) -> float:
        start = time.perf_counter()
        for each in itertools.islice(itertools.cycle(sets), count):
            call(list(each))
        for wait in waits:
            wait()
        return (time.perf_counter() - start) / count

    with eagerly():
        for call in (own, library):
            seconds(call, 2)
        counts = [max(1, int(SECONDS / seconds(call, 3))) for call in (own, library)]
        rounds = [(seconds(own, counts[0]), seconds(library, counts[1])) for _ in range(ROUNDS)]
    return Figures(*(median(times) for times in zip(*rounds, strict=True)))


def _is_known(node: fx.Node) -> bool:
    """Whether all sizes of the call are, which is of real numbers that lie in memory as they are."""
    read = [each.meta["val"] for each in node.all_input_nodes]
    return is_static(node.meta["val"]) and all(isinstance(each, torch.Tensor) and is_static(each) for each in read)


def _region(node: fx.Node) -> list[fx.Node]:
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


def _after(node: fx.Node) -> Iterator[fx.Node]:
    while (node := node.next).op == "call_function":
        yield node


def _is_elementwise(call: fx.Node, of: fx.Node) -> bool:
    """Whether a loop makes as many elements as `of` has, of real tensors of known sizes."""
    if call.target not in LOWERINGS or call.target in READS_MEMORY or not is_tensor(call) or not _is_known(call):
        return False
    return bool(call.meta["val"].numel() == of.meta["val"].numel())


def _alone(region: Sequence[fx.Node]) -> Region:
    graph = fx.Graph()
    place: dict[fx.Node, fx.Node] = {}
    names = (f"value{at}" for at in itertools.count())
    for value in _read(region):
        place[value] = graph.create_node("placeholder", name := next(names), (), {}, name)
        place[value].meta["val"] = _made_up(value.meta["val"])
    inputs = tuple(each.meta["val"] for each in place.values())
    for call in region:
        args, kwargs = fx.node.map_arg((call.args, call.kwargs), place.__getitem__)
        place[call] = graph.create_node("call_function", call.target, args, kwargs, next(names))
        place[call].meta["val"] = call.meta["val"]
    results = (each for each in region if is_tensor(each) and not all(user in region for user in each.users))
    graph.output(tuple(place[each] for each in results))
    return Region(LazyGraphModule({}, graph, "Region"), inputs)


def _read(region: Sequence[fx.Node]) -> Iterator[fx.Node]:
    yield from dict.fromkeys(each for call in region for each in call.all_input_nodes if each not in region)


def _made_up(value: torch.Tensor) -> torch.Tensor:
    generator = torch.Generator(value.device).manual_seed(0)  # the program's random numbers are its own
    made: torch.Tensor = random_input((tuple(value.size()), value.stride(), value.dtype, value.device), generator)
    return made
