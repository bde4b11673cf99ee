"""Differentiating a compiled graph twice: the program is run again, eagerly, and autograd differentiates that.

In: the program and how its results become its outputs. Out: a `DoubleBackward`, which a backward under `create_graph` asks for
gradients that can be differentiated; or the reason why there are none.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Container, Mapping, Sequence
from typing import Any

import torch
from torch import fx
from torch.utils import _pytree as pytree

from aotgrad.cleanup import stays
from aotgrad.interpret import QuietInterpreter, attached_tensors, swapped
from aotgrad.joint import JointGraph
from aotgrad.partition import Partition
from aotgrad.signature import Computed
from aotgrad.standing import Standing
from symshapes import dataclass, facts_of

COPIED = 1 << 16
"""Bytes of an input that is written to and of which a copy is kept at each call, in case somebody asks for second derivatives."""


class _Same(torch.autograd.Function):
    """The same values at another place in autograd's graph: what is differentiated down to there ends there."""

    @staticmethod
    def forward(ctx: Any, value: torch.Tensor) -> torch.Tensor:
        return value.detach()

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        return gradient


class _Continued(QuietInterpreter):
    """Runs a graph with given values in place of some of its own, from where on these stand. What the calls `kept` gave is there afterwards."""

    def __init__(
        self, module: fx.GraphModule, values: Sequence[tuple[Standing, torch.Tensor]], kept: Container[Any] = ()
    ) -> None:
        super().__init__(module)
        self.values: dict[fx.Node, list[tuple[Standing, torch.Tensor]]] = {}
        for place, given in values:
            self.values.setdefault(place.call, []).append((place, given))
        self.kept = kept
        self.found: dict[Any, Any] = {}

    def run_node(self, n: fx.Node) -> Any:
        value = super().run_node(n)
        if n in self.kept:
            self.found[n] = value
        for place, given in self.values.get(n, ()):
            for node in place.nodes:
                if node is n:
                    value = given
                elif node in self.env:
                    self.env[node] = given
        return value


@dataclass(frozen=True, slots=True)
class WrittenInput:
    """Where a tangent belongs: to what the program makes of an input that it writes to."""

    input: int


Place = int | fx.Node | WrittenInput
"""Where a tangent belongs: an output, by its number; what a call of the program gives, of which outputs are views; an input."""


@dataclass(frozen=True)
class DoubleBackward:
    """Runs `program` again for gradients that have a graph. Grad mode and autocast are those of compiling.

    `given`: how many of the compiled function's inputs are the program's; the rest are tensors that it holds.
    `places`: what the tangents belong to; None: another result stands for this one, it gets no gradient.
    `inputs`: the inputs that gradients are wanted for. `cuts`: from where on values of the program are taken from the
    first run; they get gradients too. `written`: inputs that the program writes to. No result that is differentiated depends on
    what was in them, but for `copied`: of those a copy is kept from before the forward. `checked`: the other tensors among the inputs that autograd does not watch, since
    they are not saved. `draws`: the program draws random numbers. They are drawn again, from the generator's state
    before the forward.
    """

    program: Callable[..., Any]
    given: int
    places: tuple[Place | None, ...]
    inputs: tuple[int, ...]
    cuts: tuple[Standing, ...]
    written: frozenset[int]
    copied: tuple[int, ...]
    checked: tuple[int, ...]
    draws: bool
    grad_mode: bool
    autocast: tuple[tuple[str, torch.dtype, bool], ...]

    def gradients(
        self,
        args: Sequence[Any] | None,
        cuts: Sequence[torch.Tensor],
        versions: Sequence[int] | None,
        tangents: Sequence[Any],
        random: torch.Tensor | None = None,
    ) -> list[Any]:
        """Gradients of `inputs`, then of `cuts`, connected to those and to `tangents`. `random`: the generator's state then.

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
            if random is not None:
                modes.enter_context(torch.random.fork_rng(devices=()))
                torch.set_rng_state(random)
            with torch.enable_grad():
                # One input or cut may be computed from another: each gradient is the share that does not pass the others.
                ends = [_Same.apply(value) for value in (*(args[i] for i in self.inputs), *cuts)]  # type: ignore[no-untyped-call]
            modes.enter_context(torch.set_grad_enabled(self.grad_mode))
            copies = [a.clone() if i in self.written else a for i, a in enumerate(args)]
            for i, end in zip(self.inputs, ends, strict=False):
                copies[i] = end.clone() if i in self.written else end
            if self.given < len(args):
                modes.enter_context(swapped(attached_tensors(self.program), copies[self.given :]))
            run = self.program
            calls = {place for place in self.places if isinstance(place, fx.Node)}
            found: Mapping[Any, Any] = {}
            if self.cuts or calls:
                assert isinstance(run, fx.GraphModule)
                continued = _Continued(run, [*zip(self.cuts, ends[len(self.inputs) :], strict=True)], calls)
                run, found = continued.run, continued.found
            outputs = pytree.tree_leaves(run(*copies[: self.given]), is_leaf=lambda value: type(value) is torch.Size)

        def made(place: Place) -> Any:
            if isinstance(place, WrittenInput):
                return copies[place.input]
            return outputs[place] if isinstance(place, int) else found[place]

        pairs = [
            (made(place), tangent)
            for place, tangent in zip(self.places, tangents, strict=True)
            if place is not None and tangent is not None
        ]
        # An input may begin to require a gradient by what the program writes to it, and not when it was given.
        asked = [end for end in ends if end.requires_grad]
        if not pairs or not asked:
            return [None] * len(ends)
        made_of = torch.autograd.grad(
            [value for value, _ in pairs],
            asked,
            [tangent for _, tangent in pairs],
            create_graph=True,
            allow_unused=True,
        )
        gradients = iter(made_of)
        return [next(gradients) if end.requires_grad else None for end in ends]


def links(joint: JointGraph, whole: JointGraph) -> tuple[list[int], list[int]]:
    """Where gradients of a part of `whole` may go, first or second: inputs and (their numbers) cuts that are asked about.

    By the others second derivatives go on: what they lead to is computed again with the part.
    """
    count = len(whole.signature.grad_inputs)
    differentiable = [i for i, needed in enumerate(whole.signature.differentiable) if needed]
    tangent_of = {result: at for at, result in enumerate(differentiable)}
    found: set[int] = set()
    waiting = [*frozenset[int]().union(*joint.reached)]
    while waiting:
        place = waiting.pop()
        if place in found:
            continue
        found.add(place)
        if place >= count and not (cut := whole.cuts[place - count]).asked and cut.result is not None:
            waiting.extend(whole.reached[tangent_of[cut.result]])
    inputs = [whole.signature.grad_inputs[place] for place in sorted(found) if place < count]
    return inputs, [p - count for p in sorted(found) if p >= count and whole.cuts[p - count].asked]


def double_backward(
    program: Callable[..., Any], given: int, joint: JointGraph, partition: Partition, whole: JointGraph
) -> DoubleBackward | str:
    """How to differentiate `joint`, a part of `whole`, twice; or why that is not possible."""
    signature = joint.signature
    differentiable = [i for i, needed in enumerate(signature.differentiable) if needed]
    outputs = [out.result if isinstance(out, Computed) else None for out in signature.outputs]
    hidden = {cut.result for cut in whole.cuts if not cut.asked}
    written_with_gradient = {mutation.result: mutation.input for mutation in signature.mutations if mutation.grad}
    known: dict[int, Place] = {
        **whole.calls,
        **{result: WrittenInput(index) for result, index in written_with_gradient.items()},
        **{result: at for at, result in reversed([*enumerate(outputs)]) if result is not None},
    }
    if not {*known, *hidden}.issuperset(differentiable):
        return "outputs of it are views of what is no value of its graph"
    staying = [
        node for node in joint.graph.nodes if stays(node) and not _drops_nothing(node) and not _only_checks(node)
    ]
    if any(not _drawn_alike(node) for node in staying):
        return "it draws random numbers that it cannot draw again, or acts on more than tensors"
    written = {mutation.input for mutation in signature.mutations}
    places = [node for node in joint.graph.nodes if node.op == "placeholder"][: signature.input_count]
    results = next(n for n in reversed(joint.graph.nodes) if n.op == "output").args[0]
    needed = {results[i] for i in differentiable}
    waiting = list(needed)
    while waiting:
        fresh = set(waiting.pop().all_input_nodes) - needed
        needed |= fresh
        waiting.extend(fresh)
    copied = sorted(i for i in written if places[i] in needed)
    if not all(i not in signature.grad_inputs and _is_little(places[i].meta["val"]) for i in copied):
        return "it writes to an input that it computes with, which is large or has a gradient"
    inputs, cuts = links(joint, whole)
    places_of_cuts = [place for number in cuts if (place := whole.cuts[number].standing) is not None]
    if len(places_of_cuts) < len(cuts):
        return (
            "a result of it that another is computed from is no value of its graph, or is written to beside views of it"
        )
    unwatched = set(range(signature.input_count)) - written - {saved.input for saved in partition.saved}
    return DoubleBackward(
        program,
        given,
        tuple(known.get(result) for result in differentiable),
        tuple(inputs),
        tuple(places_of_cuts),
        frozenset(written),
        tuple(copied),
        tuple(i for i in sorted(unwatched) if isinstance(places[i].meta["val"], torch.Tensor)),
        bool(staying),
        torch.is_grad_enabled(),
        tuple((d, torch.get_autocast_dtype(d), torch.is_autocast_enabled(d)) for d in _autocast_devices(joint)),
    )


def _autocast_devices(joint: JointGraph) -> list[str]:
    """The types of device that it computes on for which autocast can be on."""
    values = pytree.tree_leaves([node.meta["val"] for node in joint.graph.nodes if "val" in node.meta])
    found = {value.device.type for value in values if isinstance(value, torch.Tensor)}
    return sorted(device for device in found if torch.amp.autocast_mode.is_autocast_available(device))


def _is_little(value: torch.Tensor) -> bool:
    """Whether a copy of an input is nothing to speak of: a counter, a running vector."""
    size = value.numel()
    return type(size) is int and size * value.itemsize <= COPIED


def _only_checks(node: fx.Node) -> bool:
    """Whether it does no more than raise an error, which it would have done the first time."""
    facts = facts_of(node.target)
    return not (facts.random or facts.written or facts.lasts)


def _drops_nothing(node: fx.Node) -> bool:
    """Whether it is a kernel that draws only what it drops (torch's attention), and drops nothing."""
    names = [argument.name for argument in node.target._schema.arguments]  # type: ignore[union-attr]
    if "dropout_p" not in names:
        return False
    at = names.index("dropout_p")
    chance = node.kwargs.get("dropout_p", node.args[at] if at < len(node.args) else 0.0)
    return isinstance(chance, int | float) and chance == 0 and facts_of(node.target).random


def _drawn_alike(node: fx.Node) -> bool:
    """Whether the program, run again, draws these numbers where its generator stood: in the forward, from the CPU's.

    On other devices what is compiled draws by other operators than eager does: as many numbers, but not the same. Nor are they
    where a compiler's rewrite draws `seeds` (it says so in `meta`), of which kernels make the numbers.
    """
    values = pytree.tree_leaves(node.meta["val"])
    return (
        facts_of(node.target).random
        and not node.meta.get("seeds")
        and not node.meta.get("backward")
        and all(isinstance(value, torch.Tensor) and value.device.type == "cpu" for value in values)
        and not any(isinstance(leaf, torch.Generator) for leaf in pytree.tree_leaves([*node.args, node.kwargs]))
    )
