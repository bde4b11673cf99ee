"""Calling compiled graphs like the program they came from: generated straight-line code.

In: compiled (boxed) callables and a `Signature`. Out: a function of the program's inputs with its outputs, its
effects and its place in autograd.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx

from aotgrad import _torch
from aotgrad.again import Again, links
from aotgrad.alias import Signature
from aotgrad.ending import Ending
from aotgrad.joint import JointGraph
from aotgrad.partition import Partition, Saved
from aotgrad.source import Source
from aotgrad.views import view_results

Boxed = Callable[[list[Any]], Sequence[Any]]


def inference_runner(
    compiled: Boxed, graph: fx.GraphModule, signature: Signature, *, guard_grad: bool, guard_autocast: bool
) -> Any:
    """A function of the inputs that runs `compiled`, which is `graph`, and does the rest of what the program did.

    `guard_grad`: some input requires grad although no result does. `guard_autocast`: autocast was on when the program
    was traced; its casts are in the graph, and compiled code must not cast again.
    """
    source = Source()
    source.names["compiled"] = compiled
    call = "compiled([*args])"
    guards = []
    if guard_grad:
        source.names["no_grad"] = torch.no_grad
        guards.append("no_grad()")
    if guard_autocast:
        source.names["without_autocast"] = _torch.DisableAutocast
        guards.append("without_autocast()")
    source.line("def run(*args):")
    views = view_results(graph)
    if signature.plain and not guards and not views:
        source.line(f"return tuple({call})", 1)
        return source.build("run")
    if guards:
        source.line(f"with {', '.join(guards)}:", 1)
        source.line(f"results = {call}", 2)
    else:
        source.line(f"results = {call}", 1)
    _on_their_own(source, views, 1)
    Ending(source, signature).write()
    return source.build("run")


@dataclass(frozen=True)
class Backwards:
    """The backward of results that are differentiated together.

    `joint` has only their tangents. `repeated`: how to differentiate twice, or why that is not possible.
    """

    compiled: Boxed
    partition: Partition
    joint: JointGraph
    repeated: Again | str


def training_runner(
    forward: Boxed,
    ways: Sequence[Backwards],
    joint: JointGraph,
    program: Callable[..., Any],
    *,
    guard_autocast: bool,
    enable_grad: bool,
    beneath: bool,
) -> Any:
    """A function of the inputs whose results autograd can differentiate.

    Args:
        ways: a backward for each group of results that is differentiated by itself.
        program: what was compiled, as a function of the same inputs; run where somebody watches what is saved.
        beneath: the program is a piece of a function, and who calls the function again does not come by here.
        enable_grad: grad mode is off where the program is called, and the program switches it on.
    """
    signature = joint.signature
    source = Source()
    source.names |= {"saved_hooks": _torch.top_saved_tensor_hooks, "program": program}
    source.names["foreign"] = _foreign_or_checkpoint if beneath else _foreign
    source.line("def run(*args):")
    source.line("if (hooks := saved_hooks(False)) is not None and foreign(hooks):", 1)
    source.line("return program(*args)", 2)
    start = len(source.lines)
    apart = len(ways) > 1 or bool(joint.cuts)
    functions = [_autograd_function(forward, way, joint, guard_autocast, apart) for way in ways]
    ending = Ending(source, signature)
    if apart:
        _several(source, forward, ways, functions, joint, guard_autocast, ending)
    else:
        source.names["apply"] = functions[0].apply
        call = f"apply({_connected(ways[0].joint)})"
        # Function.apply returns a lone result as it is.
        source.line(f"results = ({call},)" if len(signature.differentiable) == 1 else f"results = {call}", 1)
    ending.write()
    if enable_grad:
        body = source.lines[start:]
        source.names |= {"set_grad": _torch.set_grad_enabled}
        source.lines[start:] = ["    set_grad(True)", "    try:", *("    " + line for line in body)]
        source.line("finally:", 1)
        source.line("set_grad(False)", 2)
    run = source.build("run")
    run.functions = tuple(functions)
    return run


def _several(
    source: Source,
    forward: Boxed,
    ways: Sequence[Backwards],
    functions: Sequence[Any],
    joint: JointGraph,
    guard_autocast: bool,
    ending: Ending,
) -> None:
    """Run the forward by itself, then give each group of results its own place in autograd.

    What results are computed from stands before them: their place is connected to that result, as the user sees it.
    """
    source.names |= {"compiled_forward": forward, "no_grad": torch.no_grad, "random_state": torch.get_rng_state}
    draws = any(isinstance(way.repeated, Again) and way.repeated.draws for way in ways)
    source.line(f"random = {'random_state()' if draws else 'None'}", 1)
    guards = "no_grad()"
    if guard_autocast:
        source.names["without_autocast"] = _torch.DisableAutocast
        guards += ", without_autocast()"
    source.line(f"with {guards}:", 1)
    source.line("results = [*compiled_forward([*args])]", 2)
    _no_views(source, ways[0].partition, len(joint.signature.differentiable))
    for result in [cut.result for cut in joint.cuts if not cut.asked]:
        source.line(f"results[{result}] = results[{result}].detach()", 2)  # several may be one tensor
    for number, way in enumerate(ways):
        source.names[f"apply_{number}"] = functions[number].apply
        kept = way.joint.signature.differentiable
        taken = ", ".join(f"results[{i}]" for i, needed in enumerate(kept) if needed)
        inputs, cuts = _edges(way.joint, joint)
        connected = [*(ending.input(i) for i in inputs), *(ending.cut(joint.cuts[c]) for c in cuts)]
        source.line(f"{taken} = apply_{number}({', '.join(['results', 'args', 'random', *connected])})", 1)


def _edges(part: JointGraph, whole: JointGraph) -> tuple[list[int], list[int]]:
    """The inputs and cuts that a part of `whole` is connected to: those that gradients flow to, first or second."""
    inputs, cuts = links(part, whole)
    count = len(whole.signature.grad_inputs)
    first = {place - count for place in frozenset[int]().union(*part.reached) if place >= count}
    return inputs, sorted(first.union(cuts))


def _connected(joint: JointGraph) -> str:
    """The arguments of `apply`. Those that no gradient flows to are cut off: their graph is not this backward's to run."""
    reached = frozenset[int]().union(*joint.reached)
    cut = {index for position, index in enumerate(joint.signature.grad_inputs) if position not in reached}
    if not cut:
        return "*args"
    return ", ".join(f"args[{i}].detach()" if i in cut else f"args[{i}]" for i in range(joint.signature.input_count))


def _on_their_own(source: Source, views: Iterable[int], depth: int) -> None:
    """Make the results at these positions no views to autograd, which would refuse writes to them."""
    for first, position in enumerate(sorted(views)):
        if first == 0:
            source.line("results = [*results]", depth)
        source.line(f"results[{position}] = results[{position}].detach()", depth)


def _no_views(source: Source, partition: Partition, count: int) -> None:
    """The same for results that a compiler may return as views of its own, as of a buffer that it reshapes."""
    tensors = sorted(_tensor_results(partition, count))
    if tensors:
        source.line("results = [*results]", 2)
    for i in tensors:
        source.line(f"if results[{i}]._is_view():", 2)
        source.line(f"results[{i}] = results[{i}].detach()", 3)


def _foreign(hooks: tuple[Any, Any]) -> bool:
    """Whether saved-tensor hooks may give back other values. Those of torch itself do not: checkpoints, offloading.

    With the user's own hooks what is saved is part of the result, so the program saves what it does in eager.
    """
    return not (getattr(hooks[0], "__module__", None) or "").startswith("torch.")


def _foreign_or_checkpoint(hooks: tuple[Any, Any]) -> bool:
    """The same for a piece of a function: a checkpoint around it computes it again, perhaps outside of compiled code."""
    return _foreign(hooks) or hooks[0].__module__ == "torch.utils.checkpoint"


def _autograd_function(forward: Boxed, way: Backwards, whole: JointGraph, guard_autocast: bool, apart: bool) -> Any:
    """The autograd.Function. `apart`: it does not run the forward but is given the results of all."""
    partition, repeated = way.partition, way.repeated
    source = Source()
    source.names |= {
        "Function": torch.autograd.Function,
        "compiled_forward": forward,
        "compiled_backward": way.compiled,
        "traced_backward": lambda arguments: partition.backward(*arguments),
        "has_storage": _torch.has_storage,
        "is_grad_enabled": torch.is_grad_enabled,
        "keeps_graph": _torch.keeps_graph,
        "random_state": torch.get_rng_state,
        "zeros": torch.zeros,
        "relaid": _relaid,
        "without_autocast": _torch.DisableAutocast,
    }
    if isinstance(repeated, Again):
        source.names["again"] = repeated.gradients
    else:
        source.names |= {"once": _refuse_second, "reason": repeated}
    source.line("class Compiled(Function):")
    _write_forward(source, way, whole, guard_autocast, apart)
    _write_backward(source, way, whole, apart)
    function = source.build("Compiled")
    return function


def _write_forward(source: Source, way: Backwards, whole: JointGraph, guard_autocast: bool, apart: bool) -> None:
    partition, signature, repeated = way.partition, way.joint.signature, way.repeated
    count = len(signature.differentiable)
    inputs, cuts = _edges(way.joint, whole)
    source.line("@staticmethod", 1)
    source.line("def forward(ctx, results, args, random, *connected):" if apart else "def forward(ctx, *args):", 1)
    call = "compiled_forward([*args])"
    if isinstance(repeated, Again) and repeated.draws:
        source.line(f"ctx.random = {'random' if apart else 'random_state()'}", 2)
    if apart:
        pass
    elif guard_autocast:
        source.line("with without_autocast():", 2)
        source.line(f"results = {call}", 3)
    else:
        source.line(f"results = {call}", 2)
    if not apart:
        _no_views(source, partition, count)
    if partition.saved:
        # What belongs to other places in autograd is kept without those, which may lead back to this one.
        others = {f"args[{i}]" for i in signature.grad_inputs if i not in inputs}
        others |= {f"results[{i}]" for i, needed in enumerate(whole.signature.differentiable) if needed}
        others -= {f"results[{i}]" for i, needed in enumerate(signature.differentiable) if needed}
        saved = [_saved(value) for value in partition.saved]
        kept = (f"{text}.detach()" if apart and text in others else text for text in saved)
        source.line(f"ctx.save_for_backward({', '.join(kept)})", 2)
    if isinstance(repeated, Again):
        source.line("ctx.args = args", 2)
        asked = [at for at, cut in enumerate(cuts, len(inputs)) if whole.cuts[cut].asked]
        source.line(f"ctx.cuts = ({''.join(f'connected[{at}], ' for at in asked)})", 2)
        versions = ", ".join(f"args[{i}]._version" for i in repeated.checked)
        if versions:
            source.line("try:", 2)
            source.line(f"ctx.versions = [{versions}]", 3)
            source.line("except RuntimeError:  # a tensor made in inference mode counts no writes", 2)
            source.line("ctx.versions = None", 3)
        else:
            source.line("ctx.versions = []", 2)
    if partition.saved_sizes:
        source.line(f"ctx.sizes = ({', '.join(map(_saved, partition.saved_sizes))},)", 2)
    tangents = _tangents(partition, signature)
    for position, (result, value) in enumerate(tangents):
        if not _static(value):
            source.line(f"ctx.size_{position} = results[{result}].shape", 2)
    tensors = _tensor_results(partition, count)
    constant = [i for i, needed in enumerate(signature.differentiable) if not needed and i in tensors]
    if constant and not apart:
        source.line(f"ctx.mark_non_differentiable({', '.join(f'results[{i}]' for i in constant)})", 2)
    source.line("ctx.set_materialize_grads(False)", 2)
    returned = [i for i in range(count) if not apart or signature.differentiable[i]]
    source.line(f"return {', '.join(f'results[{i}]' for i in returned)}", 2)


def _write_backward(source: Source, way: Backwards, whole: JointGraph, apart: bool) -> None:
    partition, joint, repeated = way.partition, way.joint, way.repeated
    signature = joint.signature
    tangents = _tangents(partition, signature)
    by_result = {result: position for position, (result, _) in enumerate(tangents)}
    names = [f"t{by_result[i]}" if i in by_result else f"_{i}" for i in range(len(signature.differentiable))]
    if apart:
        names = [name for name in names if name.startswith("t")]
    source.line("@staticmethod", 1)
    source.line(f"def backward(ctx, {', '.join(names)}):", 1)
    nothing = " and ".join(f"t{position} is None" for position in range(len(tangents)))
    source.line(f"if {nothing}:", 2)
    source.line(f"return {_returned(joint, whole, apart, {})}", 3)
    if isinstance(repeated, Again):
        given = ", ".join(f"t{position}" for position in range(len(tangents)))
        source.line("if is_grad_enabled():", 2)
        if partition.saved:
            source.line("ctx.saved_tensors  # still there, and as they were?", 3)
        random = ", ctx.random" if repeated.draws else ""
        source.line(f"gradients = again(ctx.args, ctx.cuts, ctx.versions, ({given},){random})", 3)
        second = {place: f"gradients[{at}]" for at, place in enumerate(_second(repeated, joint, whole))}
        source.line(f"return {_returned(joint, whole, apart, second)}", 3)
    conditions = _reached(source, joint)
    for position, (_, value) in enumerate(tangents):
        name = f"t{position}"
        dtype, device = source.name(value.dtype, "dtype"), source.name(value.device, "device")
        static = _static(value)
        size = repr(tuple(value.shape)) if static else f"ctx.size_{position}"
        if len(tangents) > 1:
            source.line(f"if {name} is None:", 2)
            source.line(f"{name} = zeros({size}, dtype={dtype}, device={device})", 3)
        if static:
            stride = repr(tuple(value.stride()))
            source.line(f"if {name}.stride() != {stride}:", 2)
            source.line(f"{name} = relaid({name}, {stride})", 3)
        else:
            order = repr(_order(value))
            source.line(f"{name} = relaid({name}, None, {order})", 2)
    inputs = []
    if partition.saved:
        inputs.append("*ctx.saved_tensors")
    if partition.saved_sizes:
        inputs.append("*ctx.sizes")
    inputs += [f"t{position}" for position in range(len(tangents))]
    arguments = f"[{', '.join(inputs)}]"
    memory = " and ".join(f"has_storage(t{position})" for position in range(len(tangents)))
    if isinstance(repeated, Again):
        # Beneath create_graph a backward keeps its graph, and so do those who ask for it.
        source.line("if not keeps_graph():", 2)
        source.line("ctx.args = ctx.cuts = None", 3)
        source.line(f"gradients = (compiled_backward if {memory} else traced_backward)({arguments})", 2)
    else:
        source.line(f"backward = compiled_backward if {memory} else traced_backward", 2)
        source.line("if is_grad_enabled():", 2)
        source.line(f"gradients = once(backward, {arguments}, reason)", 3)
        source.line("else:", 2)
        source.line(f"gradients = backward({arguments})", 3)
    places = range(len(signature.grad_inputs) + len(whole.cuts))
    gradients = {p: f"gradients[{p}]{f' if {conditions[p]} else None' if p in conditions else ''}" for p in places}
    source.line(f"return {_returned(joint, whole, apart, gradients)}", 2)


def _second(repeated: Again, joint: JointGraph, whole: JointGraph) -> list[int]:
    """The places (see `JointGraph.reached`) of the gradients that `repeated` makes."""
    inputs = whole.signature.grad_inputs
    cuts = [len(inputs) + number for number in links(joint, whole)[1]]
    return [*(inputs.index(i) for i in repeated.inputs), *cuts]


def _returned(joint: JointGraph, whole: JointGraph, apart: bool, gradients: dict[int, str]) -> str:
    """A gradient for each argument of `apply`, from those by place (see `JointGraph.reached`)."""
    grad_inputs = joint.signature.grad_inputs
    by_input = {index: gradients.get(place, "None") for place, index in enumerate(grad_inputs)}
    if not apart:
        return f"({', '.join(by_input.get(i, 'None') for i in range(joint.signature.input_count))},)"
    inputs, cuts = _edges(joint, whole)
    returned = ["None", "None", "None", *(by_input[i] for i in inputs)]
    returned += [gradients.get(len(grad_inputs) + cut, "None") for cut in cuts]
    return f"({', '.join(returned)},)"


def _reached(source: Source, joint: JointGraph) -> dict[int, str]:
    """For gradients that not every result has a part in: a variable that says whether one that has was given a tangent.

    The others are None, as in eager: an optimizer leaves such parameters alone.
    """
    conditions: dict[int, str] = {}
    names: dict[tuple[int, ...], str] = {}
    for position in range(len(joint.signature.grad_inputs) + len(joint.cuts)):
        reaching = tuple(at for at, reached in enumerate(joint.reached) if position in reached)
        if 0 < len(reaching) < len(joint.reached):
            if reaching not in names:
                names[reaching] = f"reached_{len(names)}"
                given = " or ".join(f"t{at} is not None" for at in reaching)
                source.line(f"{names[reaching]} = {given}", 2)
            conditions[position] = names[reaching]
    return conditions


def _saved(saved: Saved) -> str:
    return f"args[{saved.input}]" if saved.input is not None else f"results[{saved.result}]"


def _tensor_results(partition: Partition, count: int) -> set[int]:
    outputs = next(node for node in reversed(partition.forward.graph.nodes) if node.op == "output").args[0]
    return {i for i in range(count) if hasattr(outputs[i], "meta") and isinstance(outputs[i].meta["val"], torch.Tensor)}


def _tangents(partition: Partition, signature: Signature) -> list[tuple[int, torch.Tensor]]:
    """For each tangent of the backward: the result it belongs to, and its fake."""
    placeholders = [node for node in partition.backward.graph.nodes if node.op == "placeholder"]
    differentiable = [i for i, needed in enumerate(signature.differentiable) if needed]
    values = [node.meta["val"] for node in placeholders[len(placeholders) - len(differentiable) :]]
    return list(zip(differentiable, values, strict=True))


def _static(value: torch.Tensor) -> bool:
    return all(type(number) is int for number in (*value.shape, *value.stride()))


def _order(value: torch.Tensor) -> tuple[int, ...]:
    """Dimensions from outermost to innermost by the strides of a fake whose sizes are symbolic."""
    from symshapes import hint_of

    return tuple(sorted(range(value.dim()), key=lambda dim: (-hint_of(value.stride(dim)), -hint_of(value.shape[dim]))))


def _relaid(tangent: torch.Tensor, stride: tuple[int, ...] | None, order: tuple[int, ...] = ()) -> torch.Tensor:
    """`tangent` with the given strides, or dense with its dimensions in the given order; itself if it is so already."""
    if stride is None:
        strides = [0] * tangent.dim()
        step = 1
        for dim in reversed(order):
            strides[dim] = step
            step *= max(tangent.shape[dim], 1)
        stride = tuple(strides)
    same = all(
        mine == wanted or size == 1 for mine, wanted, size in zip(tangent.stride(), stride, tangent.shape, strict=True)
    )
    if same:
        # Only dimensions of length 1 differ: other numbers for the same memory.
        return tangent if tangent.stride() == stride else tangent.as_strided(tangent.shape, stride)
    return torch.empty_strided(tangent.shape, stride, dtype=tangent.dtype, device=tangent.device).copy_(tangent)


class _Once(torch.autograd.Function):
    """Passes gradients through and refuses to differentiate them."""

    @staticmethod
    def forward(ctx: Any, reason: str, count: int, *values: Any) -> Any:
        ctx.reason = reason
        return tuple(None if v is None else v.view_as(v) for v in values[:count])

    @staticmethod
    def backward(ctx: Any, *_: Any) -> Any:
        raise RuntimeError(
            f"a compiled graph cannot be differentiated twice (its backward ran under create_graph=True): {ctx.reason}; "
            "run the function eagerly where second derivatives are needed"
        )


def _refuse_second(compiled: Boxed, arguments: list[Any], reason: str) -> Any:
    """Run the backward under create_graph: right gradients, and a clear error if somebody differentiates them."""
    # Whatever the gradients depend on, they are not constants.
    mark = torch.empty(0, requires_grad=True)
    with torch.no_grad():
        gradients = compiled(arguments)
    return _Once.apply(reason, len(gradients), *gradients, mark)
