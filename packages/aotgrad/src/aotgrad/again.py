"""Differentiating a compiled graph twice: the program is run again, eagerly, and autograd differentiates that.

In: the program and how its results become its outputs. Out: an `Again`, which a backward under `create_graph` asks for
gradients that can be differentiated; or the reason why there are none.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.utils import _pytree as pytree

from aotgrad.alias import Computed, Signature
from aotgrad.cleanup import stays
from aotgrad.joint import JointGraph
from aotgrad.partition import Partition

_DEVICES = ("cpu", "cuda")


class Again:
    """Runs `program` again for gradients that have a graph. Grad mode and autocast are those of now, of compiling.

    Args:
        program: the function that was compiled.
        given: how many of the compiled function's inputs are the program's; the rest are tensors that it holds.
        differentiable: the results that have a tangent.
        written: inputs that the program writes to. Only effects, no result that is differentiated, depend on them.
        checked: the other tensors among the inputs that autograd does not watch, since they are not saved.
    """

    def __init__(
        self,
        program: Callable[..., Any],
        given: int,
        signature: Signature,
        differentiable: Sequence[int],
        written: set[int],
        checked: Sequence[int],
    ) -> None:
        self.program = program
        self.given = given
        self.grad_inputs = signature.grad_inputs
        outputs = [out.result if isinstance(out, Computed) else None for out in signature.outputs]
        self.places = [outputs.index(result) for result in differentiable]
        self.written = written
        self.checked = checked
        self.grad_mode = torch.is_grad_enabled()
        self.autocast = [(d, torch.get_autocast_dtype(d), torch.is_autocast_enabled(d)) for d in _DEVICES]

    def gradients(
        self, args: Sequence[Any] | None, versions: Sequence[int] | None, tangents: Sequence[Any]
    ) -> list[Any]:
        """Gradients of `grad_inputs`, connected to `args` and `tangents`.

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


def again(program: Callable[..., Any], given: int, joint: JointGraph, partition: Partition) -> Again | str:
    """How to differentiate twice; or why that is not possible."""
    signature = joint.signature
    differentiable = [i for i, needed in enumerate(signature.differentiable) if needed]
    returned = {out.result for out in signature.outputs if isinstance(out, Computed)}
    if not returned.issuperset(differentiable):
        return "an output of it is a view, or it writes to an input with its gradient"
    if any(stays(node) for node in joint.graph.nodes):
        return "it draws random numbers"
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
    return Again(program, given, signature, differentiable, written, checked)
