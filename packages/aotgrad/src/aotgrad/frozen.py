"""Tensors that a program holds as constants of its graph, where they came in as inputs; and what follows once one is written to.

In: a traced graph, whose last placeholders are those tensors. Out: the same with constants in their places, and which
placeholders are left; a function that is made anew where the constants are no longer what they were.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from operator import attrgetter
from typing import Any

import torch
from torch import fx

from aotgrad.alias import Alias, InputItself, Signature
from aotgrad.joint import InferenceGraph

OFTEN = 2
"""After so many changes a tensor is no constant any more."""


def constants_of(traced: InferenceGraph, held: Sequence[torch.Tensor]) -> tuple[int, ...]:
    """The places in `held`, the graph's last inputs, of the tensors that nothing in it writes to: neither to them nor their memory."""
    first = len(traced.graph.find_nodes(op="placeholder")) - len(held)
    written = {mutation.input for mutation in traced.signature.mutations}
    memory = {held[i - first].untyped_storage().data_ptr() for i in written if i >= first}
    return tuple(
        at
        for at, tensor in enumerate(held)
        if at + first not in written and tensor.untyped_storage().data_ptr() not in memory
    )


def frozen(
    traced: InferenceGraph, held: Sequence[torch.Tensor], places: Collection[int]
) -> tuple[InferenceGraph, tuple[int, ...]]:
    """A copy of the graph in which those of `held`, its last inputs, are constants that stand at `places`.

    The second result is the places of the inputs that it still takes.
    """
    graph, constants = fx.Graph(), dict(traced.constants)
    copies: dict[fx.Node, fx.Node] = {}
    inputs = traced.graph.find_nodes(op="placeholder")
    first = len(inputs) - len(held)
    kept = [i for i in range(len(inputs)) if i - first not in places]
    for node in [inputs[i] for i in kept]:
        copies[node] = graph.node_copy(node, copies.__getitem__)
    for at in sorted(places):
        node = inputs[first + at]
        if node.users:
            made = copies[node] = graph.create_node("get_attr", node.name, (), {}, node.name)
            made.meta |= {key: node.meta[key] for key in ("val", "source") if key in node.meta}
            constants[node.name] = held[at].detach()
    for node in traced.graph.nodes:
        if node.op == "output":
            graph.output(fx.node.map_arg(node.args[0], copies.__getitem__)).meta = dict(node.meta)
        elif node.op != "placeholder":
            copies[node] = graph.node_copy(node, copies.__getitem__)
    return replace(traced, graph=graph, constants=constants), tuple(kept)


def asks_for_held(signature: Signature, kept: Sequence[int], count: int) -> bool:
    """Whether a call has to know tensors beyond its `count` own inputs: to give them to the graph, look whether memory is shared
    with an input that it writes to, or give out a view of one."""
    outputs = (out.input for out in signature.outputs if isinstance(out, Alias | InputItself))
    return (
        len(kept) > count
        or bool(signature.mutations)
        or any(position is not None and position >= count for position in outputs)
    )


def renewing(
    held: Sequence[torch.Tensor],
    places: Collection[int],
    unread: Collection[int],
    make: Callable[[Collection[int]], Callable[..., Any]],
) -> Callable[..., Any]:
    """The function that `make` gives for those of `held` at `places` as constants, made anew at the first call after one of them
    was written to, as its version tells; one that changes often is none of them from then on. Where one that the graph does not
    read changes often, which is there to tell of others, no buffer is any more.

    What is written through `Tensor.data`, and to tensors of inference mode, no version tells.
    """
    changes: Counter[int] = Counter()
    version_of = attrgetter("_version")
    told: list[int] = []
    watched: list[torch.Tensor] = []
    versions: list[int] = []
    run: Callable[..., Any]

    def renew() -> None:
        nonlocal run, told, watched, versions
        changes.update(at for at, was in zip(told, versions, strict=True) if held[at]._version != was)
        constant = [at for at in places if changes[at] < OFTEN]
        if any(changes[at] >= OFTEN for at in unread):
            constant = [at for at in constant if isinstance(held[at], torch.nn.Parameter)]
        new = [at for at in constant if not held[at].is_inference()]
        before = [held[at]._version for at in new]
        run = make(constant)
        told, watched, versions = new, [held[at] for at in new], before

    def call(*args: Any) -> Any:
        if [*map(version_of, watched)] != versions:
            renew()
        return run(*args)

    renew()
    return call
