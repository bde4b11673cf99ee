"""Tensors that a program holds as constants of its graph, where they came in as inputs; and what follows once one is written to.

In: a traced graph, whose last placeholders are those tensors. Out: the same with constants in their places, and which
placeholders are left; a function that is made anew where the constants are no longer what they were.
"""

from __future__ import annotations

import functools
import weakref
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from operator import attrgetter
from typing import Any

import torch
from torch import fx
from torch.autograd.graph import increment_version
from torch.optim.optimizer import register_optimizer_step_post_hook

from aotgrad.joint import InferenceGraph
from aotgrad.signature import Alias, InputItself, Signature

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
    was written to, as its version or its address tells; one that changes often is none of them from then on. Where one that the
    graph does not read changes often, which is there to tell of others, no buffer is any more.

    What is written in place through `Tensor.data`, or an array of numpy's, nothing tells; nor does a tensor of inference mode say
    what is written to it: it is no constant.
    """
    changes: Counter[int] = Counter()
    version_of, address_of = attrgetter("_version"), torch.Tensor.data_ptr
    constants: list[int] = []
    watched: list[torch.Tensor] = []
    memory: list[torch.Tensor] = []
    versions: list[int] = []
    addresses: list[int] = []
    run: Callable[..., Any]

    def renew() -> None:
        nonlocal run, constants, watched, memory, versions, addresses
        before = zip(constants, versions, addresses, strict=True)
        changes.update(at for at, *was in before if [held[at]._version, held[at].data_ptr()] != was)
        new = [at for at in places if changes[at] < OFTEN and not held[at].is_inference()]
        if any(changes[at] >= OFTEN for at in unread):
            new = [at for at in new if isinstance(held[at], torch.nn.Parameter)]
        told = [(held[at]._version, held[at].data_ptr()) for at in new]
        # No other tensor is put at these addresses, should the program give the watched ones memory elsewhere.
        memory = [held[at].detach() for at in new]
        run = make(new)
        constants, watched = new, [held[at] for at in new]
        versions, addresses = [version for version, _ in told], [address for _, address in told]

    def call(*args: Any) -> Any:
        if [*map(version_of, watched)] != versions or [*map(address_of, watched)] != addresses:
            renew()
        return run(*args)

    renew()
    _watch_steps(call, [held[at] for at in places])
    return call


_frozen: Counter[int] = Counter()
"""Of tensors that are constants somewhere, by `id`."""


def _watch_steps(call: Callable[..., Any], tensors: Sequence[torch.Tensor]) -> None:
    """As long as `call` lives, let an optimizer's step on these be told by their versions: kernels of fused ones leave those as they are."""
    known = [id(tensor) for tensor in tensors]
    _frozen.update(known)
    _hook_steps()
    weakref.finalize(call, _forget, known).atexit = False


def _forget(known: Sequence[int]) -> None:
    _frozen.subtract(known)
    for each in known:
        if not _frozen[each]:
            del _frozen[each]


@functools.cache
def _hook_steps() -> None:
    register_optimizer_step_post_hook(_after_step)


def _after_step(optimizer: Any, args: Any, kwargs: Any) -> None:
    if _frozen:
        stepped = [tensor for group in optimizer.param_groups for tensor in group["params"] if id(tensor) in _frozen]
        increment_version([tensor for tensor in stepped if not tensor.is_inference()])
