"""Random numbers drawn within kernels: ATen's random operators give way to pure functions of seeds (`inductor.draws`).

In: a traced graph with fake values in `meta["val"]`, of inference or of forward and backward together. Out: the same graph; one
random call for each device draws the seeds of all draws, from the device's default generator (`inductor.seeds`). What a backward reads of a draw
it can compute again, then, from the seeds. Draws that nobody reads are gone.

What is said of one operator is its rule, a row of `draw_rows.DRAWS`. It stays a call where numbers come from a generator of the
program's own, or the rule does not cover it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Any

import torch
from torch import fx

from inductor.draws import SEEDS
from inductor.passes.graphs import remove_unread
from inductor.passes.patterns import argument_of
from symshapes import SYMBOLIC, dataclass, expr_of

aten = torch.ops.aten


def _first(node: fx.Node) -> torch.Tensor:
    value = node.meta["val"]
    tensor: torch.Tensor = value[0] if isinstance(value, tuple | list) else value
    return tensor


class _Sizes:
    """Which nodes of a graph, as far as it has been walked, are symbolic numbers."""

    def __init__(self) -> None:
        self._nodes: dict[Any, fx.Node] = {}

    def learn(self, node: fx.Node) -> None:
        """Remember a node that is a number."""
        value = node.meta.get("val")
        if isinstance(value, SYMBOLIC):
            self._nodes.setdefault(expr_of(value), node)

    def of(self, node: fx.Node, value: torch.Tensor) -> list[Any] | None:
        """The sizes of a call's result as arguments, those that are symbolic read from the call's own; None where none tells."""
        found: list[Any] = []
        for size in value.shape:
            part = size if type(size) is int else self._nodes.get(expr_of(size)) or _measured(node, size)
            if part is None:
                return None
            if isinstance(part, fx.Node):
                self.learn(part)
            found.append(part)
        return found


def _measured(node: fx.Node, size: Any) -> fx.Node | None:
    for argument in node.all_input_nodes:
        value = argument.meta["val"]
        for dim, known in enumerate(value.shape if isinstance(value, torch.Tensor) else ()):
            if isinstance(known, torch.SymInt) and expr_of(known) == expr_of(size):
                with node.graph.inserting_before(node):
                    made = node.graph.call_function(aten.sym_size.int, (argument, dim))
                made.meta.update(node.meta, val=known)
                return made
    return None


@dataclass
class _Seeds:
    """The seeds of one device's draws, drawn before the first of them."""

    first: fx.Node
    like: torch.Tensor
    draws: list[fx.Node] = field(default_factory=list)

    def place(self, told: Callable[[torch.device], bool]) -> None:
        """Put the call that draws them where the first draw stands."""
        if not self.draws:
            return
        graph = self.first.graph
        count = len(self.draws)
        with graph.inserting_before(self.draws[0]):
            if told(self.like.device):
                made = graph.call_function(SEEDS, (count, self.like.device))
            else:
                whole = -(1 << 63), (1 << 63) - 1
                made = graph.call_function(
                    aten.randint.low, (*whole, [count]), {"dtype": torch.int64, "device": self.like.device}
                )
        # A program that is run again draws from eager's operators, and not these numbers.
        made.meta.update(self.draws[0].meta, val=self.like.new_empty((count,), dtype=torch.int64), seeds=True)
        for which, draw in enumerate(self.draws):
            draw.args = (made, which, *draw.args[2:])


@dataclass
class Draw:
    """One random call, and what takes its place."""

    node: fx.Node
    size: list[Any]
    seeds: _Seeds

    @property
    def value(self) -> torch.Tensor:
        """The fake value of the result, the first if there are several."""
        return _first(self.node)

    def argument(self, name: str) -> Any:
        """An argument of the call, or its default, by its name in the schema."""
        return argument_of(self.node, name)

    def numbers(self, *names: str) -> list[float] | None:
        """Arguments that are plain numbers; None where one is not."""
        found = [self.argument(name) for name in names]
        return found if all(isinstance(each, int | float) for each in found) else None

    def call(self, dtype: torch.dtype, target: Any, /, *args: Any, **kwargs: Any) -> fx.Node:
        """A new call before the random one, with a result of its size and of `dtype`."""
        graph = self.node.graph
        with graph.inserting_before(self.node):
            made = graph.call_function(target, args, kwargs)
        made.meta.update(self.node.meta, val=self.value.new_empty(self.value.shape, dtype=dtype))
        return made

    def draw(self, dtype: torch.dtype, target: Any, *args: Any) -> fx.Node:
        """Numbers of a distribution; which seed's is told when all draws are known."""
        made = self.call(dtype, target, None, None, self.size, *args, dtype=dtype)
        self.seeds.draws.append(made)
        return made

    def cast(self, node: fx.Node) -> fx.Node:
        """Its values in the result's dtype."""
        dtype = self.value.dtype
        if node.meta["val"].dtype is dtype:
            return node
        return self.call(dtype, aten._to_copy.default, node, dtype=dtype)

    def becomes(self, made: fx.Node, old: fx.Node | None = None) -> bool:
        """Put a new call in the place of the random one, or of one of its results: with its metadata, strides too."""
        old = old or self.node
        made.meta["val"] = old.meta["val"]
        old.replace_all_uses_with(made)
        return True


Rule = Callable[[Draw], bool]
"""Puts something in a draw's place, and says whether it did; otherwise it has made nothing."""


def replace_draws(
    graph: fx.Graph,
    rules: Mapping[Any, Rule],
    wanted: Callable[[torch.device], bool],
    told: Callable[[torch.device], bool] = lambda _: False,
) -> int:
    """Replace the draws of devices where it is `wanted`; returns how many were replaced.

    Args:
        told: whether a device's seeds are told by where its generator stands (`inductor.seeds`). Elsewhere a launch draws them.
    """
    sizes = _Sizes()
    seeds: dict[tuple[torch.device, bool], _Seeds] = {}
    count = 0
    read: dict[fx.Node, None] = {}
    for node in list(graph.nodes):
        sizes.learn(node)
        rule = rules.get(node.target) if node.op == "call_function" else None
        if rule is None or argument_of(node, "generator") is not None:
            continue
        first = _first(node)
        if not wanted(first.device):
            continue
        if not node.users:
            read.update(dict.fromkeys(node.all_input_nodes))
            graph.erase_node(node)
            continue
        size = sizes.of(node, first)
        if size is None:
            continue
        # A backward that runs twice draws twice, a forward's numbers stay.
        key = first.device, bool(node.meta.get("backward"))
        draw = Draw(node, size, seeds.setdefault(key, _Seeds(node, first)))
        if rule(draw):
            count += 1
            read.update(dict.fromkeys(node.all_input_nodes))
            graph.erase_node(node)
    for each in seeds.values():
        each.place(told)
    remove_unread(*read)
    return count
