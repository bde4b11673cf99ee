"""Calling compiled graphs like the program they came from: generated straight-line code.

In: compiled (boxed) callables and a `Signature`. Out: a function of the program's inputs with its outputs, its
effects and its place in autograd.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

import torch

from aotgrad import _torch
from aotgrad.autograd_function import Backwards, Boxed, autograd_function, edges, keep_inputs, run_forward
from aotgrad.double_backward import DoubleBackward
from aotgrad.epilogue import Epilogue
from aotgrad.inference import Taken, is_piece
from aotgrad.joint import JointGraph
from aotgrad.source import Source, built
from aotgrad.switched_off import without_autocast, without_grad


def training_runner(
    forward: Boxed,
    ways: Sequence[Backwards],
    joint: JointGraph,
    taken: Taken,
    *,
    written: frozenset[int],
    guard_autocast: bool,
    enable_grad: bool,
) -> Any:
    """A function of the inputs whose results autograd can differentiate.

    Args:
        ways: a backward for each group of results that is differentiated by itself.
        written: results that the forward writes to inputs itself.
        taken: its program runs where somebody watches what is saved, and within function transforms, too.
        enable_grad: grad mode is off where the program is called, and the program switches it on.
    """
    signature = joint.signature
    apart = len(ways) > 1 or bool(joint.cuts)
    functions = [autograd_function(forward, way, joint, written, guard_autocast, apart) for way in ways]

    def write(source: Source) -> None:
        source.names |= {"saved_hooks": _torch.top_saved_tensor_hooks, "in_transform": _torch.in_transform}
        source.names["foreign"] = _foreign_or_checkpoint if is_piece(taken.program) else _foreign
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
    with without_grad(source), source.block(*without_autocast(source, guard_autocast)):
        given = keep_inputs(source, ways)
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
        source.line(f"({results},) = apply_{number}({', '.join(['results', given, 'random', *connected])})")


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
