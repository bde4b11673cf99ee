"""Calling compiled graphs like the program they came from: generated straight-line code.

In: compiled (boxed) callables and a `Signature`. Out: a function of the program's inputs with its outputs, its
effects and its place in autograd.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import fx

from aotgrad import _torch
from aotgrad.alias import Alias, Signature
from aotgrad.autograd_function import Backwards, Boxed, autograd_function, edges, run_forward, without_autocast
from aotgrad.double_backward import DoubleBackward
from aotgrad.epilogue import Epilogue, write_versions
from aotgrad.joint import JointGraph
from aotgrad.source import Source, built, offers, tuple_of
from aotgrad.views import view_results
from aotgrad.writes import tells_shared
from symshapes import dataclass


@dataclass(frozen=True)
class Taken:
    """What a call is looked at for before it goes to compiled code.

    `program`: what was compiled, as a function of its first `count` inputs; it runs where compiled code does not know
    what to do. `constants`: inputs that are built in, by position. `held`: tensors that are inputs after those given.
    `tensors`: the inputs that are tensors, and of these `written` those that are written to.
    """

    program: Callable[..., Any]
    count: int
    constants: Mapping[int, Any]
    held: tuple[torch.Tensor, ...]
    tensors: tuple[int, ...]
    written: tuple[int, ...]

    def write(self, source: Source) -> None:
        """The beginning of a function of `args`; `write_overlap` comes next."""
        source.names["program"] = self.program
        for position, value in self.constants.items():
            kind, given = source.name(type(value), "type"), f"args[{position}]"
            known = source.name(value, "value")
            # Floats are told apart by all their bits but NaN's: 0.0 is not -0.0, NaN is itself.
            differs = f"{given}.hex() != {value.hex()!r}" if type(value) is float else f"{given} != {known}"
            with source.block(f"if type({given}) is not {kind} or {differs}:"):
                source.line("return program(*args)")
        if self.held:
            source.names["held"] = self.held
            source.line("args = (*args, *held)")

    def write_overlap(self, source: Source) -> None:
        """What runs the program where one that is written to shares its memory. Tensors have some: no transform is in force."""
        if self.written and len(self.tensors) > 1:
            source.names["overlap"] = _overlap
            storages = ", ".join(f"args[{i}].untyped_storage().data_ptr()" for i in self.tensors)
            source.line(f"storages = ({storages})")
            written = tuple(self.tensors.index(i) for i in self.written)
            with source.block(f"if len({{*storages}}) < {len(self.tensors)} and overlap(storages, {written}):"):
                source.line(f"return {self.eagerly}")

    def write_refused(self, source: Source, signature: Signature, written: frozenset[int]) -> None:
        """What runs the program where eager refuses a write that compiled code would do: outside of inference mode to a tensor that
        was made in it."""
        inputs = [mutation.input for mutation in signature.mutations if mutation.result in written]
        if inputs:
            source.names |= {
                "is_inference": torch.Tensor.is_inference,
                "in_inference_mode": torch.is_inference_mode_enabled,
            }
            given = tuple_of([f"args[{i}]" for i in inputs])
            with source.block(f"if not in_inference_mode() and any(map(is_inference, {given})):"):
                source.line(f"return {self.eagerly}")

    @property
    def eagerly(self) -> str:
        """What calls the program."""
        return f"program(*args[:{self.count}])" if self.held else "program(*args)"


def _overlap(storages: Sequence[int], written: Sequence[int]) -> bool:
    """Whether one at the places `written` is there twice. Where nothing is held the address is 0."""
    counts = Counter(storages)
    return any(storages[place] and counts[storages[place]] > 1 for place in written)


def inference_runner(
    compiled: Boxed,
    graph: fx.GraphModule,
    signature: Signature,
    taken: Taken,
    *,
    kept: tuple[int, ...] | None = None,
    written: frozenset[int] = frozenset(),
    guard_grad: bool,
    guard_autocast: bool,
    enable_grad: bool,
) -> Any:
    """A function of the inputs that runs `compiled`, which is `graph`, and does the rest of what the program did.

    `kept`: the inputs that `compiled` takes, if not all. `written`: results that it writes to inputs itself. `guard_grad`: some input requires grad although no result does. `guard_autocast`: autocast was on when the program
    was traced; its casts are in the graph, and compiled code must not cast again. `enable_grad`: grad mode is off where the
    program is called; where the program switches it on its views of inputs are differentiable ones.
    """
    views = sorted(view_results(graph) - written)
    uncounted = {m.input for m in signature.mutations if m.result in written and not m.counted}
    given = "*args"
    if kept is not None or uncounted:
        given = _chosen(range(signature.input_count) if kept is None else kept, uncounted)
    told = tells_shared(compiled, graph)

    def write(source: Source) -> None:
        with source.block("def run(*args):"):
            taken.write(source)
            if not told:
                taken.write_overlap(source)
            taken.write_refused(source, signature, written)
            write_versions(source, signature, written)  # also of a call that fails half-way
            with ExitStack() as around:
                if guard_grad:
                    around.enter_context(_without_grad(source))
                around.enter_context(source.block(*without_autocast(source, guard_autocast)))
                if signature.plain and not views and not offers(compiled):
                    source.names["compiled"] = compiled
                    source.line(f"return tuple(compiled([{given}]))")
                    return
                source.call("results", "compiled", compiled, given, listed=bool(views))
            if told:
                with source.block("if results is None:"):
                    source.line(f"return {taken.eagerly}")
            for position in views:  # to autograd no views, which it would refuse writes to
                source.line(f"results[{position}] = results[{position}].detach()")
            if signature.plain:
                source.line("return tuple(results)" if views or source.unready else "return results")
                return
            with ExitStack() as around:
                if enable_grad and any(
                    s.grad for out in signature.outputs if isinstance(out, Alias) for s in out.steps
                ):
                    source.names["set_grad"] = _torch.set_grad_enabled
                    around.enter_context(source.within("set_grad(True)", "set_grad(False)"))
                Epilogue(source, signature, written, told=True).write()

    run = built(write, "run")
    run.separates = True
    return run


def _chosen(kept: Sequence[int], uncounted: Collection[int]) -> str:
    """The text of those of `args`; `uncounted`: whose versions are not to tell of writes."""
    if not uncounted and list(kept) == [*range(len(kept))]:
        return f"*args[:{len(kept)}]"
    return ", ".join(f"args[{position}]{'.data' if position in uncounted else ''}" for position in kept)


@contextmanager
def _without_grad(source: Source) -> Iterator[None]:
    """What is written inside runs with gradients switched off."""
    source.names |= {"set_grad": _torch.set_grad_enabled, "is_grad_enabled": torch.is_grad_enabled}
    source.line("grad = is_grad_enabled()")
    with source.within("set_grad(False)", "set_grad(grad)"):
        yield


def training_runner(
    forward: Boxed,
    ways: Sequence[Backwards],
    joint: JointGraph,
    taken: Taken,
    *,
    written: frozenset[int],
    guard_autocast: bool,
    enable_grad: bool,
    beneath: bool,
) -> Any:
    """A function of the inputs whose results autograd can differentiate.

    Args:
        ways: a backward for each group of results that is differentiated by itself.
        written: results that the forward writes to inputs itself.
        taken: its program runs where somebody watches what is saved, and within function transforms, too.
        beneath: the program is a piece of a function, and who calls the function again does not come by here.
        enable_grad: grad mode is off where the program is called, and the program switches it on.
    """
    signature = joint.signature
    apart = len(ways) > 1 or bool(joint.cuts)
    functions = [autograd_function(forward, way, joint, written, guard_autocast, apart) for way in ways]

    def write(source: Source) -> None:
        source.names |= {"saved_hooks": _torch.top_saved_tensor_hooks, "in_transform": _torch.in_transform}
        source.names["foreign"] = _foreign_or_checkpoint if beneath else _foreign
        with source.block("def run(*args):"):
            taken.write(source)
            with source.block("if in_transform() or ((hooks := saved_hooks(False)) is not None and foreign(hooks)):"):
                source.line(f"return {taken.eagerly}")
            taken.write_overlap(source)
            taken.write_refused(source, signature, written)
            with ExitStack() as around:
                if enable_grad:
                    source.names["set_grad"] = _torch.set_grad_enabled
                    around.enter_context(source.within("set_grad(True)", "set_grad(False)"))
                if apart:
                    epilogue = Epilogue(source, signature, written)
                    _several(source, forward, ways, functions, joint, written, guard_autocast, epilogue)
                    epilogue.write()
                    return
                source.names["apply"] = _torch.apply_of(functions[0])
                call = f"apply({_connected(ways[0].joint)})"
                if signature.plain:
                    source.line(f"return {call}")
                else:
                    source.line(f"results = {call}")
                    Epilogue(source, signature, written).write()

    run = built(write, "run")
    run.functions = tuple(functions)
    run.separates = True
    return run


def _several(
    source: Source,
    forward: Boxed,
    ways: Sequence[Backwards],
    functions: Sequence[Any],
    joint: JointGraph,
    written: frozenset[int],
    guard_autocast: bool,
    epilogue: Epilogue,
) -> None:
    """Run the forward by itself, then give each group of results its own place in autograd.

    What results are computed from stands before them: their place is connected to that result, as the user sees it.
    """
    source.names["random_state"] = torch.default_generator.get_state
    draws = any(isinstance(way.repeated, DoubleBackward) and way.repeated.draws for way in ways)
    source.line(f"random = {'random_state()' if draws else 'None'}")
    with _without_grad(source), source.block(*without_autocast(source, guard_autocast)):
        run_forward(source, forward, ways[0].partition, len(joint.signature.differentiable), written)
        for result in [cut.result for cut in joint.cuts if not cut.asked]:
            source.line(f"results[{result}] = results[{result}].detach()")  # several may be one tensor
    late = _after_writes(ways, joint)
    for number in sorted(range(len(ways)), key=late.__contains__):
        way = ways[number]
        source.names[f"apply_{number}"] = _torch.apply_of(functions[number])
        kept = way.joint.signature.differentiable
        results = ", ".join(f"results[{i}]" for i, needed in enumerate(kept) if needed)
        inputs, cuts = edges(way.joint, joint)
        connected = [*(epilogue.input(i) for i in inputs), *(epilogue.cut(joint.cuts[c]) for c in cuts)]
        source.line(f"({results},) = apply_{number}({', '.join(['results', 'args', 'random', *connected])})")


def _after_writes(ways: Sequence[Backwards], joint: JointGraph) -> frozenset[int]:
    """The numbers of those that lead to what is there once an input is written with its gradient: the others come before, and are
    connected to what was there."""
    written = {mutation.result for mutation in joint.signature.mutations if mutation.grad}
    late: set[int] = set()
    for number, way in enumerate(ways if written else ()):
        cuts = [joint.cuts[c] for c in edges(way.joint, joint)[1]]
        if any(cut.output is not None or cut.result in written for cut in cuts):
            late.add(number)
            written.update(i for i, needed in enumerate(way.joint.signature.differentiable) if needed)
    return frozenset(late)


def _connected(joint: JointGraph) -> str:
    """The arguments of `apply`. Those that no gradient flows to are cut off: their graph is not this backward's to run."""
    reached = frozenset[int]().union(*joint.reached)
    cut = {index for position, index in enumerate(joint.signature.grad_inputs) if position not in reached}
    if not cut:
        return "*args"
    return ", ".join(f"args[{i}].detach()" if i in cut else f"args[{i}]" for i in range(joint.signature.input_count))


def _foreign(hooks: tuple[Any, Any]) -> bool:
    """Whether saved-tensor hooks may give back other values. Those of torch itself do not: checkpoints, offloading.

    With the user's own hooks what is saved is part of the result, so the program saves what it does in eager.
    """
    return not (getattr(hooks[0], "__module__", None) or "").startswith("torch.")


def _foreign_or_checkpoint(hooks: tuple[Any, Any]) -> bool:
    """The same for a piece of a function: a checkpoint around it computes it again, perhaps outside of compiled code."""
    return _foreign(hooks) or hooks[0].__module__ == "torch.utils.checkpoint"
