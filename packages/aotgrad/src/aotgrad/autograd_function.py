"""A compiled graph's place in autograd: a generated autograd.Function.

In: compiled (boxed) forward and backward graphs and how they were cut. Out: a class, whose `apply` runs the forward or
connects the results of one that ran.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import torch

from aotgrad import _torch
from aotgrad.double_backward import DoubleBackward, links
from aotgrad.joint import JointGraph
from aotgrad.partition import Partition, Saved
from aotgrad.signature import Signature
from aotgrad.source import Source, built, tuple_of
from aotgrad.switched_off import without_autocast
from symshapes import dataclass, memory_order

Boxed = Callable[[list[Any]], Sequence[Any] | None]


@dataclass(frozen=True)
class Backwards:
    """The backward of results that are differentiated together.

    `joint` has only their tangents. `repeated`: how to differentiate twice, or why that is not possible.
    """

    compiled: Boxed
    partition: Partition
    joint: JointGraph
    repeated: DoubleBackward | str


def autograd_function(
    forward: Boxed, way: Backwards, whole: JointGraph, written: frozenset[int], guard_autocast: bool, apart: bool
) -> Any:
    """The autograd.Function. `written`: results that are inputs, which the forward writes to itself. `apart`: it does not run the forward but is given the results of all."""

    class Compiled(torch.autograd.Function):
        forward = staticmethod(
            built(lambda source: _write_forward(source, forward, way, whole, written, guard_autocast, apart), "forward")
        )
        backward = staticmethod(built(lambda source: _write_backward(source, way, whole, apart), "backward"))
        boxed_grads_call = True  # `BOXES_TANGENTS`; before, the flag means nothing

    _torch.let_run(Compiled, Compiled.backward)
    return Compiled


def _write_forward(
    source: Source,
    compiled: Boxed,
    way: Backwards,
    whole: JointGraph,
    written: frozenset[int],
    guard_autocast: bool,
    apart: bool,
) -> None:
    partition, signature, repeated = way.partition, way.joint.signature, way.repeated
    count = len(signature.differentiable)
    inputs, cuts = edges(way.joint, whole)
    with source.block("def forward(ctx, results, args, random, *connected):" if apart else "def forward(ctx, *args):"):
        if isinstance(repeated, DoubleBackward) and repeated.draws:
            source.names["random_state"] = torch.default_generator.get_state
            source.line(f"ctx.random = {'random' if apart else 'random_state()'}")
        kept = "args"
        if not apart:
            kept = keep_inputs(source, [way])
            with source.block(*without_autocast(source, guard_autocast)):
                run_forward(source, compiled, partition, count, written)
        if partition.saved:
            # What belongs to other places in autograd is kept without those, which may lead back to this one.
            others = {f"args[{i}]" for i in signature.grad_inputs if i not in inputs}
            others |= {f"results[{i}]" for i, needed in enumerate(whole.signature.differentiable) if needed}
            others -= {f"results[{i}]" for i, needed in enumerate(signature.differentiable) if needed}
            saved = [_saved(value) for value in partition.saved]
            held = [f"{text}.detach()" if apart and text in others else text for text in saved]
            source.line(f"ctx.{_torch.TO_SAVE} = {tuple_of(held)}")
            _note_layouts(source, way)
        if isinstance(repeated, DoubleBackward):
            asked = [at for at, cut in enumerate(cuts, len(inputs)) if whole.cuts[cut].asked]
            stops = tuple_of([f"connected[{at}]" for at in asked])
            versions = ", ".join(f"args[{i}]._version" for i in repeated.checked)
            if versions:
                source.line("try:")
                source.line(f"versions = [{versions}]", 1)
                source.line("except RuntimeError:  # a tensor made in inference mode counts no writes")
                source.line("versions = None", 1)
            source.line(f"ctx.kept = {kept}, {stops}, {'versions' if versions else '[]'}  # for create_graph")
        if partition.saved_sizes:
            source.line(f"ctx.sizes = {tuple_of([_saved(size) for size in partition.saved_sizes])}")
        for position, (result, value) in enumerate(_tangents(partition, signature)):
            if not _static(value):
                source.line(f"ctx.size_{position} = results[{result}].shape")
        tensors = _tensor_results(partition, count) - written
        constant = [i for i, needed in enumerate(signature.differentiable) if not needed and i in tensors]
        if constant and not apart:
            source.line(f"ctx.{_torch.NON_DIFFERENTIABLE} = {tuple_of([f'results[{i}]' for i in constant])}")
        source.line(f"ctx.{_torch.MATERIALIZES} = False")
        returned = [i for i in range(count) if not apart or signature.differentiable[i]]
        # An input that is a result as well would be given a place in autograd.
        source.line(f"return {tuple_of(['None' if i in written else f'results[{i}]' for i in returned])}")


def keep_inputs(source: Source, ways: Sequence[Backwards]) -> str:
    """The inputs as a second derivative needs them, which the forward is about to write to: what they are called from here on.

    Those that get a gradient by that lead to who keeps them: they are kept without.
    """
    again = [way.repeated for way in ways if isinstance(way.repeated, DoubleBackward)]
    copied = sorted({i for repeated in again for i in repeated.copied})
    led = {mutation.input for mutation in ways[0].joint.signature.mutations if mutation.grad} if again else set()
    if not (copied or led):
        return "args"
    source.line("kept = [*args]")
    for i in copied:
        source.line(f"kept[{i}] = args[{i}].clone()")
    for i in sorted(led.difference(copied)):
        source.line(f"kept[{i}] = args[{i}].detach().requires_grad_(args[{i}].requires_grad)")
    return "kept"


def run_forward(source: Source, compiled: Boxed, partition: Partition, count: int, written: frozenset[int]) -> None:
    """Set `results`; a tensor among them is no view, as a compiler may return of its own, as of a buffer that it reshapes.

    `written`: results that are inputs.
    """
    tensors = sorted(_tensor_results(partition, count) - written)
    source.call("results", "compiled_forward", compiled, "*args", listed=bool(tensors))
    for i in tensors:
        with source.block(f"if results[{i}]._is_view():"):
            source.line(f"results[{i}] = results[{i}].detach()")


def _write_backward(source: Source, way: Backwards, whole: JointGraph, apart: bool) -> None:
    joint, signature = way.joint, way.joint.signature
    tangents = _tangents(way.partition, signature)
    by_result = {result: position for position, (result, _) in enumerate(tangents)}
    names = [f"t{by_result[i]}" if i in by_result else f"_{i}" for i in range(len(signature.differentiable))]
    if apart:
        names = [name for name in names if name.startswith("t")]
    with source.block(f"def backward(ctx, {'tangents' if _torch.BOXES_TANGENTS else ', '.join(names)}):"):
        if _torch.BOXES_TANGENTS:
            source.line(f"{', '.join(names)}, = tangents")
            source.line("tangents.clear()")
        nothing = " and ".join(f"t{position} is None" for position in range(len(tangents)))
        with source.block(f"if {nothing}:"):
            source.line(f"return {_returned(joint, whole, apart, {})}")
        if not apart:
            _write_once(source, joint)
        source.names["is_grad_enabled"] = torch.is_grad_enabled
        if isinstance(way.repeated, DoubleBackward):
            with source.block("if is_grad_enabled():"):
                _write_again(source, way, way.repeated, whole, apart, len(tangents))
        conditions = _reached(source, joint)
        for position, (_, value) in enumerate(tangents if len(tangents) > 1 else ()):
            _fill_in(source, position, value)
        source.names["has_storage"] = _torch.has_storage
        source.line(f"memory = {' and '.join(f'has_storage(t{position})' for position in range(len(tangents)))}")
        with source.block("if memory:"):
            for position, (_, value) in enumerate(tangents):
                _lay_out(source, position, value)
        source.names["in_order"] = _in_order
        with source.block("else:"):
            for position, (_, value) in enumerate(tangents):
                source.line(f"t{position} = in_order(t{position}, {memory_order(value)})")
        _run_backward(source, way, len(tangents), "saved" if _check_data(source, way) else "ctx.saved_tensors")
        places = range(len(signature.grad_inputs) + len(whole.cuts))
        gradients = {p: f"gradients[{p}]{f' if {conditions[p]} else None' if p in conditions else ''}" for p in places}
        source.line(f"return {_returned(joint, whole, apart, gradients)}")


def _write_once(source: Source, joint: JointGraph) -> None:
    """Refuse to run again what the program's own backwards refuse, where this one comes to them."""
    reached = sorted(frozenset[int]().union(*joint.reached))
    for number, once in enumerate(joint.once):
        edges = [reached.index(place) for place in sorted(once.inputs) if place in reached]
        source.names |= {"comes_to": _comes_to, f"refuse_{number}": once.refuse, "Ran": SimpleNamespace}
        given = " or ".join(f"t{position} is not None" for position in sorted(once.results))
        with source.block(f"if ({given}) and comes_to(ctx, {edges}):"):
            source.line(f"refuse_{number}(ctx.__dict__.setdefault('ran_{number}', Ran()))")


def _comes_to(node: Any, edges: list[int]) -> bool:
    """Whether a backward asks for one of these gradients of a node's, counted without inputs that have none."""
    following = [each for each, _ in node.next_functions if each is not None]
    return any(_torch.is_asked_for(following[at]) for at in edges)


def _write_again(
    source: Source, way: Backwards, repeated: DoubleBackward, whole: JointGraph, apart: bool, tangents: int
) -> None:
    """The backward under create_graph."""
    if way.partition.saved:
        source.line("ctx.saved_tensors  # still there, and as they were?")
    source.names["again"] = repeated.gradients
    given = tuple_of([f"t{position}" for position in range(tangents)])
    source.line(f"gradients = again(*ctx.kept, {given}{', ctx.random' if repeated.draws else ''})")
    second = {place: f"gradients[{at}]" for at, place in enumerate(_second(repeated, way.joint, whole))}
    source.line(f"return {_returned(way.joint, whole, apart, second)}")


def _fill_in(source: Source, position: int, value: torch.Tensor) -> None:
    """Zeros for a tangent that is missing."""
    source.names["zeros"] = torch.zeros
    dtype, device = source.name(value.dtype, "dtype"), source.name(value.device, "device")
    shape = repr(tuple(value.shape)) if _static(value) else f"ctx.size_{position}"
    with source.block(f"if t{position} is None:"):
        source.line(f"t{position} = zeros({shape}, dtype={dtype}, device={device})")


def _lay_out(source: Source, position: int, value: torch.Tensor) -> None:
    """Give a tangent the strides that the backward was compiled for.

    Where sizes are symbolic it is dense.
    """
    source.names |= {"empty_strided": torch.empty_strided, "as_strided": torch.as_strided}
    name, size, stride = f"t{position}", f"size{position}", f"stride{position}"
    static = _static(value)
    dims = range(value.dim())
    if static:
        wanted = repr(tuple(value.stride()))
        shape = repr(tuple(value.shape))
        # Where a dimension's length is 1 other strides are other numbers for the same memory.
        differ = [f"{stride}[{dim}] != {value.stride(dim)}" for dim in dims if value.shape[dim] != 1]
    else:
        source.line(f"{size} = {name}.shape")
        steps, step = [""] * value.dim(), "1"
        for dim in reversed(memory_order(value)):
            steps[dim] = step
            step = f"{step} * max({size}[{dim}], 1)".removeprefix("1 * ")
        wanted, shape = f"wanted{position}", size
        source.line(f"{wanted} = {tuple_of(steps)}")
        differ = [f"({stride}[{dim}] != {wanted}[{dim}] and {size}[{dim}] != 1)" for dim in dims]
    same_memory = f"{name} = as_strided({name}, {shape}, {wanted})"
    with source.block(f"if ({stride} := {name}.stride()) != {wanted}:"):
        if not differ:
            source.line(same_memory)
            return
        with source.block(f"if {' or '.join(differ)}:"):
            made = f"empty_strided({shape}, {wanted}, dtype={name}.dtype, device={name}.device)"
            source.line(f"{name} = {made}.copy_({name})")
        with source.block("else:"):
            source.line(same_memory)


def _saved_inputs(way: Backwards) -> tuple[dict[int, torch.Tensor], dict[int, torch.Tensor]]:
    """The fakes of inputs, by their places among what is saved: those whose sizes and strides are known, and the others."""
    given = way.joint.graph.find_nodes(op="placeholder")
    inputs = {place: saved.input for place, saved in enumerate(way.partition.saved) if saved.input is not None}
    values = {place: given[at].meta["val"] for place, at in inputs.items()}
    known = {place: value for place, value in values.items() if _static(value)}
    return known, {place: value for place, value in values.items() if place not in known}


def _note_layouts(source: Source, way: Backwards) -> None:
    """Have the context know how inputs lie of which the graph does not say it."""
    _, varying = _saved_inputs(way)
    names = [_saved(way.partition.saved[place]) for place in varying]
    if names:
        source.line(f"ctx.layouts = {', '.join(f'{name}.size(), {name}.stride()' for name in names)}")


def _check_data(source: Source, way: Backwards) -> bool:
    """Set `saved`, if inputs are among it: kernels know how it lies, and nothing else tells of other memory (`x.data = y`)."""
    known, varying = _saved_inputs(way)
    if known or varying:
        source.line("saved = [*ctx.saved_tensors]")
    if known:
        _check_layouts(source, known, [repr(part) for v in known.values() for part in (tuple(v.shape), v.stride())])
    if varying:
        source.line("layouts = ctx.layouts")
        _check_layouts(source, varying, [f"layouts[{at}]" for at in range(2 * len(varying))])
    return bool(known or varying)


def _check_layouts(source: Source, values: dict[int, torch.Tensor], layouts: list[str]) -> None:
    """Have these of `saved` lie so. `layouts`: of each how its size, and its strides, are written."""
    source.names["lay_out"] = _lay_out_saved
    dtypes = [source.name(value.dtype, "dtype") for value in values.values()]
    differs = [
        f"saved[{place}].size() != {size} or saved[{place}].stride() != {stride} or saved[{place}].dtype is not {dtype}"
        for place, size, stride, dtype in zip(values, layouts[::2], layouts[1::2], dtypes, strict=True)
    ]
    with source.block(f"if {' or '.join(differs)}:"):
        source.line(f"lay_out(saved, {tuple(values)}, {tuple_of(dtypes)}, {tuple_of(layouts)})")


def _lay_out_saved(
    saved: list[Any], places: Sequence[int], dtypes: Sequence[torch.dtype], layouts: Sequence[Sequence[int]]
) -> None:
    """Have what was saved lie as it did when the graph ran, by sizes and strides in turn; RuntimeError for what can't."""
    for place, dtype, size, stride in zip(places, dtypes, layouts[::2], layouts[1::2], strict=True):
        value = saved[place]
        # Of one element in a dimension its stride is no matter.
        beside = [each for each in zip(size, stride, value.stride(), strict=False) if each[0] != 1]
        lies_so = all(wanted == has for _, wanted, has in beside)
        if (
            tuple(value.shape) != tuple(size)
            or value.dtype != dtype
            or (not lies_so and 0 in [each[1] for each in beside])
        ):
            raise RuntimeError(
                f"a tensor that a compiled graph saved for its backward has sizes {tuple(value.shape)}, strides {value.stride()} and "
                f"{value.dtype} by now in place of {tuple(size)}, {tuple(stride)} and {dtype}: its data was set after the graph ran"
            )
        if not lies_so:
            saved[place] = torch.empty_strided(size, stride, dtype=dtype, device=value.device).copy_(value)


def _run_backward(source: Source, way: Backwards, tangents: int, saved: str) -> None:
    """Set `gradients`. Kernels read memory, which tangents need not have; then the graph runs as it was traced."""
    partition = way.partition
    source.names["traced_backward"] = lambda arguments: partition.backward(*arguments)
    # Behind what it saved stands what has the context let go of that, and adds nothing (None): each is given back once its last
    # reader ran, where autograd would hold all of them until the whole backward has.
    given = [f"*{saved}"] if partition.saved else []
    given += ["*(saved.clear() or ())"] if saved == "saved" else []
    given += [f"*(ctx.{_torch.LET_GO}() or ())"] if partition.saved else []
    given += ["*ctx.sizes"] if partition.saved_sizes else []
    named = [f"t{position}" for position in range(tangents)]
    if _torch.BOXES_TANGENTS:  # they are given back so, too: one of a model's output may be its largest tensor
        source.line(f"tangents += {tuple_of(named)}")
        source.line(f"del {', '.join(named)}")
        named = ["*tangents", "*(tangents.clear() or ())"]
    arguments = ", ".join(given + named)
    if isinstance(way.repeated, DoubleBackward):
        # Beneath create_graph a backward keeps its graph, and so do those who ask for it.
        source.names["keeps_graph"] = _torch.keeps_graph
        with source.block("if not keeps_graph():"):
            source.line("ctx.kept = None, (), ()")
        with source.block("if memory:"):
            source.call("gradients", "compiled_backward", way.compiled, arguments)
    else:
        source.names |= {"once": _refuse_second, "leaves_of": _leaves, "reason": way.repeated}
        with source.block("if is_grad_enabled():"):
            backward = "compiled_backward if memory else traced_backward"
            source.line(f"gradients = once({backward}, [{arguments}], reason, leaves_of(ctx))")
        with source.block("elif memory:"):
            source.call("gradients", "compiled_backward", way.compiled, arguments)
    with source.block("else:"):
        source.line(f"gradients = traced_backward([{arguments}])")


def _second(repeated: DoubleBackward, joint: JointGraph, whole: JointGraph) -> list[int]:
    """The places (see `JointGraph.reached`) of the gradients that `repeated` makes."""
    inputs = whole.signature.grad_inputs
    cuts = [len(inputs) + number for number in links(joint, whole)[1]]
    return [*(inputs.index(i) for i in repeated.inputs), *cuts]


def _returned(joint: JointGraph, whole: JointGraph, apart: bool, gradients: dict[int, str]) -> str:
    """A gradient for each argument of `apply`, from those by place (see `JointGraph.reached`)."""
    grad_inputs = joint.signature.grad_inputs
    by_input = {index: gradients.get(place, "None") for place, index in enumerate(grad_inputs)}
    if not apart:
        return tuple_of([by_input.get(i, "None") for i in range(joint.signature.input_count)])
    inputs, cuts = edges(joint, whole)
    returned = ["None", "None", "None", *(by_input[i] for i in inputs)]
    returned += [gradients.get(len(grad_inputs) + cut, "None") for cut in cuts]
    return tuple_of(returned)


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
                source.line(f"{names[reaching]} = {given}")
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


def _in_order(tangent: torch.Tensor, order: list[int]) -> torch.Tensor:
    """A tangent without memory of its own, dense in the given order to those who ask: writes would not do."""
    return tangent.permute(order).contiguous().permute([order.index(dim) for dim in range(len(order))])


class _Once(torch.autograd.Function):
    """Passes gradients through and refuses to differentiate them, by any of the values."""

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


def _refuse_second(compiled: Boxed, arguments: list[Any], reason: str, leaves: list[torch.Tensor]) -> Any:
    """Run the backward under create_graph: right gradients, and a clear error if somebody differentiates them.

    Autograd asks only what leads to where gradients are wanted: to `leaves`, or to what was saved.
    """
    # Whatever the gradients depend on, they are not constants.
    mark = torch.empty(0, requires_grad=True)
    sources = [*leaves, *(value for value in arguments if isinstance(value, torch.Tensor))]
    with torch.no_grad():
        gradients = compiled(arguments)
    assert gradients is not None
    return _Once.apply(reason, len(gradients), *gradients, mark, *sources)  # type: ignore[no-untyped-call]


def _leaves(node: Any) -> list[torch.Tensor]:
    """The tensors that autograd's graph behind a node ends at."""
    found: list[torch.Tensor] = []
    waiting, seen = [node], {node}
    while waiting:
        at = waiting.pop()
        if isinstance(leaf := getattr(at, "variable", None), torch.Tensor):
            found.append(leaf)
        fresh = {parent for parent, _ in at.next_functions if parent is not None} - seen
        seen |= fresh
        waiting.extend(fresh)
    return found


def edges(part: JointGraph, whole: JointGraph) -> tuple[list[int], list[int]]:
    """The inputs and cuts that a part of `whole` is connected to: those that gradients flow to, first or second."""
    inputs, cuts = links(part, whole)
    count = len(whole.signature.grad_inputs)
    first = {place - count for place in frozenset[int]().union(*part.reached) if place >= count}
    return inputs, sorted(first.union(cuts))
