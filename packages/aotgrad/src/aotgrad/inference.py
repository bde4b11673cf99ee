"""Calling a compiled graph of inference like the program that it came from: generated straight-line code.

In: a compiled (boxed) callable and a `Signature`. Out: a function of the program's inputs with its outputs and its effects. Nothing here
takes part in compiling: it is what a program that was compiled before needs.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack
from typing import Any

import torch

from aotgrad import _torch
from aotgrad.drawn_again import may_draw_again
from aotgrad.epilogue import Epilogue, write_versions
from aotgrad.signature import Alias, Signature
from aotgrad.source import Source, built, offers, tuple_of
from aotgrad.switched_off import without_autocast, without_grad
from aotgrad.writes import written_by
from symshapes import dataclass, share_memory, shares_memory_lines

Boxed = Callable[[list[Any]], Sequence[Any] | None]


@dataclass(frozen=True)
class Taken:
    """What a call is looked at for before it goes to compiled code.

    `program`: what was compiled, as a function of its first `count` inputs; it runs where compiled code does not know
    what to do. `constants`: inputs that are built in, by position. `held`: tensors that are inputs after those given.
    `tensors`: the inputs that are tensors, and of these `written` those that are written to. `repeatable`: it draws random numbers and is a
    piece of a function, which may be called again by itself.
    """

    program: Callable[..., Any]
    count: int
    constants: Mapping[int, Any]
    held: tuple[torch.Tensor, ...]
    tensors: tuple[int, ...]
    written: tuple[int, ...]
    repeatable: bool

    @classmethod
    def of(
        cls,
        program: Callable[..., Any],
        inputs: Sequence[Any],
        held: tuple[torch.Tensor, ...],
        signature: Signature,
        *,
        draws: bool,
    ) -> Taken:
        """Of a program compiled for these inputs."""
        tensors = [i for i, value in enumerate((*inputs, *held)) if isinstance(value, torch.Tensor)]
        symbolic = (torch.Tensor, torch.SymInt, torch.SymFloat)
        return cls(
            program,
            len(inputs),
            {position: value for position, value in enumerate(inputs) if not isinstance(value, symbolic)},
            held,
            tuple(tensors),
            tuple(sorted({mutation.input for mutation in signature.mutations})),
            draws and is_piece(program),
        )

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
        if self.repeatable:
            source.names["may_draw_again"] = may_draw_again
            with source.block("if may_draw_again():"):
                source.line(f"return {self.eagerly}")

    def write_overlap(self, source: Source) -> None:
        """What runs the program where one that is written to shares its memory. Tensors have some: no transform is in force."""
        if self.written and len(self.tensors) > 1:
            source.names["share_memory"] = share_memory
            written = [self.tensors.index(i) for i in self.written]
            line, head = shares_memory_lines([f"args[{i}]" for i in self.tensors], written)
            source.line(line)
            with source.block(head):
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


def is_piece(program: Callable[..., Any]) -> bool:
    """Whether the program is a piece of a function, and who calls the function again does not come by here."""
    return bool(getattr(program, "meta", {}).get("beneath"))


@dataclass(frozen=True)
class Plan:
    """What is to be known of a program of inference besides its compiled graph, to run it.

    `kept`: the inputs that the graph takes, if not all. `offered`: results that the graph could write to inputs itself. `views`: results that
    are views of what the graph computes on the way. `apart`: it was asked to look for shared memory itself. `guard_grad`: some input requires
    grad although no result does. `guard_autocast`: autocast was on when the program was traced; its casts are in the graph, and compiled code
    must not cast again. `enable_grad`: grad mode is off where the program is called; where the program switches it on its views of inputs are
    differentiable ones. `draws`: it draws random numbers.
    """

    signature: Signature
    kept: tuple[int, ...] | None
    offered: frozenset[int]
    views: frozenset[int]
    apart: bool
    guard_grad: bool
    guard_autocast: bool
    enable_grad: bool
    draws: bool


def inference_runner(compiled: Boxed, plan: Plan, taken: Taken) -> Any:
    """A function of the inputs that runs `compiled`, and does the rest of what the program did."""
    signature, kept = plan.signature, plan.kept
    written = written_by(compiled, plan.offered)
    views = sorted(plan.views - written)
    uncounted = {m.input for m in signature.mutations if m.result in written and not m.counted}
    given = "*args"
    if kept is not None or uncounted:
        given = _chosen(range(signature.input_count) if kept is None else kept, uncounted)
    told = plan.apart and bool(getattr(compiled, "tells_shared", False))

    def write(source: Source) -> None:
        with source.block("def run(*args):"):
            taken.write(source)
            if not told:
                taken.write_overlap(source)
            taken.write_refused(source, signature, written)
            write_versions(source, signature, written)  # also of a call that fails half-way
            with ExitStack() as around:
                if plan.guard_grad:
                    around.enter_context(without_grad(source))
                around.enter_context(source.block(*without_autocast(source, plan.guard_autocast)))
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
                if plan.enable_grad and any(
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
