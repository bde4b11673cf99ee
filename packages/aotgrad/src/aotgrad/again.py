"""Differentiating a compiled graph twice: the program is run again, eagerly, and autograd differentiates that.

In: the program and how its results become its outputs. Out: an `Again`, which a backward under `create_graph` asks for
gradients that can be differentiated; or the reason why there are none.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import fx
from torch.utils import _pytree as pytree

from aotgrad.alias import Computed, Signature
from aotgrad.cleanup import stays
from aotgrad.joint import JointGraph
from aotgrad.partition import Partition
from aotgrad.schema import Kind, facts_of

_DEVICES = ("cpu", "cuda")


class Again:
    """Runs `program` again for gradients that have a graph. Grad mode and autocast are those of now, of compiling.

    Args:
        program: the function that was compiled.
        given: how many of the compiled function's inputs are the program's; the rest are tensors that it holds.
        differentiable: the results that have a tangent.
        written: inputs that the program writes to. Only effects, no result that is differentiated, depend on them.
        checked: the other tensors among the inputs that autograd does not watch, since they are not saved.
        draws: the program draws random numbers. They are drawn again, from the generator's state before the forward.
    """

    def __init__(
        self,
        program: Callable[..., Any],
        given: int,
        signature: Signature,
        differentiable: Sequence[int],
        written: set[int],
        checked: Sequence[int],
        draws: bool,
    ) -> None:
        self.program = program
        self.given = given
        self.grad_inputs = signature.grad_inputs
        outputs = [out.result if isinstance(out, Computed) else None for out in signature.outputs]
        self.places = [outputs.index(result) for result in differentiable]
        self.written = written
        self.checked = checked
        self.draws = draws
        self.grad_mode = torch.is_grad_enabled()
        self.autocast = [(d, torch.get_autocast_dtype(d), torch.is_autocast_enabled(d)) for d in _DEVICES]

    def gradients(
        self,
        args: Sequence[Any] | None,
        versions: Sequence[int] | None,
        tangents: Sequence[Any],
        random: torch.Tensor | None = None,
    ) -> list[Any]:
        """Gradients of `grad_inputs`, connected to `args` and `tangents`. `random`: the generator's state then.

        Raises:
            RuntimeError: an input was written to since the forward, or nobody knows (`versions` is None); or `args` are
                gone with an earlier backward.
        """
        if versions is None:
            raise RuntimeError("a compiled graph with an input made in inference mode cannot be differentiated twice")
        if args is None:
            raise RuntimeError(
                "Trying to backward through a compiled graph a second time under create_graph=True; "
                "specify retain_graph=True the first time"
            )
        if [args[i]._version for i in self.checked] != versions:
            raise RuntimeError(
                "one of the variables needed for gradient computation has been modified by an inplace operation: "
                "an input of a compiled graph, which a backward under create_graph=True computes again"
            )
        with contextlib.ExitStack() as modes:
            for device, dtype, enabled in self.autocast:
                modes.enter_context(torch.autocast(device, dtype=dtype, enabled=enabled, cache_enabled=False))
            modes.enter_context(torch.set_grad_enabled(self.grad_mode))
            if random is not None:
                modes.enter_context(torch.random.fork_rng(devices=()))
                torch.set_rng_state(random)
            copies = [a.clone() if i in self.written else a for i, a in enumerate(args)]
            outputs = pytree.tree_leaves(
                self.program(*copies[: self.given]), is_leaf=lambda value: type(value) is torch.Size
            )
        pairs = [(outputs[place], tangent) for place, tangent in zip(self.places, tangents, strict=True)]
        pairs = [(output, tangent) for output, tangent in pairs if tangent is not None]
        # What no gradient flows to was cut off.
        connected = [i for i in self.grad_inputs if args[i].requires_grad]
        found = torch.autograd.grad(
            [output for output, _ in pairs],
            [args[i] for i in connected],
            [tangent for _, tangent in pairs],
            create_graph=True,
            allow_unused=True,
        )
        by_input = dict(zip(connected, found, strict=True))
        return [by_input.get(i) for i in self.grad_inputs]


def again(
    program: Callable[..., Any], given: int, joint: JointGraph, partition: Partition, *, apart: bool
) -> Again | str:
    """How to differentiate twice; or why that is not possible. `apart`: see `runtime`."""
    signature = joint.signature
    differentiable = [i for i, needed in enumerate(signature.differentiable) if needed]
    returned = {out.result for out in signature.outputs if isinstance(out, Computed)}
    if not returned.issuperset(differentiable):
        return "an output of it is a view, or it writes to an input with its gradient"
    staying = [node for node in joint.graph.nodes if stays(node)]
    if any(not _drawn_alike(node) for node in staying):
        return "it draws random numbers that it cannot draw again, or acts on more than tensors"
    if staying and apart:
        return "it draws random numbers, and has results that are differentiated one by one"
    written = {mutation.input for mutation in signature.mutations}
    places = [node for node in joint.graph.nodes if node.op == "placeholder"][: signature.input_count]
    results = next(n for n in reversed(joint.graph.nodes) if n.op == "output").args[0]
    needed = {results[i] for i in differentiable}
    waiting = list(needed)
    while waiting:
        fresh = set(waiting.pop().all_input_nodes) - needed
        needed |= fresh
        waiting.extend(fresh)
    if any(places[i] in needed for i in written):
        return "it writes to an input that it computes with"
    unwatched = set(range(signature.input_count)) - written - {saved.input for saved in partition.saved}
    checked = [i for i in sorted(unwatched) if isinstance(places[i].meta["val"], torch.Tensor)]
    return Again(program, given, signature, differentiable, written, checked, bool(staying))


def _drawn_alike(node: fx.Node) -> bool:
    """Whether the program, run again, draws these numbers where its generator stood: in the forward, from the CPU's.

    On other devices what is compiled draws by other operators than eager does: as many numbers, but not the same.
    """
    values = pytree.tree_leaves(node.meta["val"])
    return (
        facts_of(node.target).kind is Kind.RANDOM
        and not node.meta.get("backward")
        and all(isinstance(value, torch.Tensor) and value.device.type == "cpu" for value in values)
        and not any(isinstance(leaf, torch.Generator) for leaf in pytree.tree_leaves([*node.args, node.kwargs]))
    )
