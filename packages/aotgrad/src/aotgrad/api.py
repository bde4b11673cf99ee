"""`compile`: a graph of torch calls in, a function that runs compiled functional ATen graphs out."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import fx

from aotgrad import _torch
from aotgrad.attention import Attention, fused_attentions
from aotgrad.autograd_function import Backwards
from aotgrad.double_backward import double_backward
from aotgrad.errors import Unsupported
from aotgrad.frozen import asks_for_held, constants_of, frozen, renewing
from aotgrad.inference import Plan, Taken, inference_runner
from aotgrad.interpret import attached_tensors
from aotgrad.joint import InferenceGraph, JointGraph, trace_inference, trace_joint
from aotgrad.kernels_of_others import KernelsOfOthers
from aotgrad.partition import Partition, Partitioner, narrow, partition_default
from aotgrad.partition.groups import merged, of_group
from aotgrad.pieces import compile_in_pieces, controls
from aotgrad.runtime import training_runner
from aotgrad.views import view_results
from aotgrad.writes import ask_for_shared, offer_writes, written_by
from symshapes import facts_if_operator, phase

Compiler = Callable[[fx.GraphModule, list[Any]], Callable[[list[Any]], Sequence[Any] | None]]
"""Compiles one functional graph: `(module, fake inputs) -> callable`, which takes one list of inputs that it may clear
and returns a list or tuple of the graph's outputs. Of a graph whose output node names inputs in `meta["apart"]` a callable with a true
attribute `tells_shared` does nothing, and returns None, where one of those shares memory with another."""


def compile(
    graph_module: Callable[..., Any],
    inputs: Sequence[Any],
    *,
    inference_compiler: Compiler,
    forward_compiler: Compiler | None = None,
    backward_compiler: Compiler | None = None,
    decompositions: Mapping[Any, Callable[..., Any]] | None = None,
    partitioner: Partitioner | None = None,
    rewrite: Callable[[fx.Graph], object] | None = None,
    freeze: bool = False,
    attention: Callable[[Attention], bool] | None = None,
    planned: Callable[[Plan], None] | None = None,
) -> Callable[..., Any]:
    """Compile a graph module (or any function of tensors) for inputs like `inputs`.

    Args:
        graph_module: an fx graph of torch calls, or a function of tensors whose control flow does not depend on data.
        inputs: tensors, real or fake; symbolic sizes of fakes stay symbolic, as do symbolic integers. Other values are
            built into the graph: for others than these the returned function runs the program itself.
        inference_compiler: compiles the graph if no result requires grad or grad mode is off.
        forward_compiler, backward_compiler: compile the two graphs of a training step; `inference_compiler` by default.
        decompositions: table of ops to decompose while tracing; `core_decompositions()` by default.
        partitioner: cuts the joint graph; `partition_default` by default.
        rewrite: changes the traced graph, forward and backward together, before it is cut; its results and their strides stay.
        freeze: in inference, tensors that the graph module holds are constants (`get_attr`) of the graph that is compiled, but
            for those that it writes to: the compiler may take their values for granted. It is asked again at the first call after one of
            them was written to, as its version tells.
        attention: asked about each attention that a captured graph writes out (a product, a softmax, a product) and that torch's
            one-kernel attention could compute: whether it shall. By default it never does. Weights that are dropped are others
            than the program's.
        planned: told, if nothing is differentiated or frozen, what `run_planned` has to know to make the same function of the same
            program and compiled graph without tracing it; see `described`.

    Returns:
        A function of the same positional inputs with the program's results: aliases, writes to inputs, strides and
        gradients are eager's. Grad mode is as it was when compiled.

    Raises:
        Unsupported: the program has no functional graph. Errors of the program itself come through as they are.
    """
    if controls(graph_module):
        return compile_in_pieces(
            graph_module,  # type: ignore[arg-type]
            functools.partial(
                compile,
                inference_compiler=inference_compiler,
                forward_compiler=forward_compiler,
                backward_compiler=backward_compiler,
                decompositions=decompositions,
                partitioner=partitioner,
                rewrite=rewrite,
                freeze=freeze,
                attention=attention,
            ),
        )
    shortcuts = None
    if (
        attention is not None
        and isinstance(graph_module, fx.GraphModule)
        and not _transforms(graph_module.graph)
        and not KernelsOfOthers()  # one of them may be of what another operator computes in one
    ):
        with phase("attention"):
            shortcuts = fused_attentions(graph_module.graph, attention)
    enabled = torch.is_grad_enabled()
    held = _held(graph_module)
    differentiates = any(map(_wants_grad, (*inputs, *held))) or _makes_leaves(graph_module)
    if (enabled or _enables_grad(graph_module)) and differentiates:
        traced: InferenceGraph | JointGraph = trace_joint(
            graph_module, inputs, decompositions, enable_grad=enabled, cut=True, shortcuts=shortcuts
        )
    else:
        traced = trace_inference(graph_module, inputs, decompositions, shortcuts=shortcuts)
    autocast = _torch.any_autocast()
    if not isinstance(traced, JointGraph):

        def infer(traced: InferenceGraph, kept: tuple[int, ...] | None = None) -> Callable[..., Any]:
            draws = _draws(traced.graph)
            _rewrite(traced.graph, rewrite)
            module = traced.module
            writes = offer_writes(module, traced.signature, kept)
            asked = kept is None or asks_for_held(traced.signature, kept, len(inputs))
            taken = Taken.of(graph_module, inputs, held if asked else (), traced.signature, draws=draws)
            if kept is None and len(taken.tensors) > 1:
                ask_for_shared(module, taken.written)
            compiled = inference_compiler(module, _example_inputs(module))
            plan = Plan(
                traced.signature,
                kept,
                offered=frozenset(writes),
                views=view_results(module),
                apart="apart" in module.graph.output_node().meta,
                guard_grad=torch.is_grad_enabled() and bool(traced.signature.grad_inputs),
                guard_autocast=autocast,
                enable_grad=not enabled,
                draws=draws,
            )
            if planned is not None and kept is None:
                planned(plan)
            return inference_runner(compiled, plan, taken)

        constants = constants_of(traced, held) if freeze else ()
        if not constants:
            return infer(traced)
        places = traced.graph.find_nodes(op="placeholder")[len(inputs) :]
        unread = [at for at in constants if not places[at].users]
        return renewing(held, constants, unread, lambda places: infer(*frozen(traced, held, places)))
    draws = _draws(traced.graph)
    _rewrite(traced.graph, rewrite)
    taken = Taken.of(graph_module, inputs, held, traced.signature, draws=draws)
    with phase("partition"):
        module, parts = _parts(traced, partitioner or partition_default)
        output = module.graph.output_node()
        output.meta["private"] = range(traced.result_count, len(output.args[0]))  # type: ignore[arg-type]
        for _, partition in parts:
            results = [saved.result for saved in partition.saved]
            private = (at for at, place in enumerate(results) if place is not None and place >= traced.result_count)
            partition.backward.graph.output_node().meta["private_inputs"] = tuple(private)
    writes = offer_writes(module, traced.signature, saved=[part.saved for _, part in parts])
    forward = (forward_compiler or inference_compiler)(module, _example_inputs(module))
    compiler = backward_compiler or inference_compiler
    twice = [double_backward(graph_module, len(inputs), joint, partition, traced) for joint, partition in parts]
    refusal = next((each for each in twice if isinstance(each, str)), None)
    if traced.cuts and refusal is not None:
        twice = [refusal] * len(parts)  # each leaves to the others what it does not hold
    ways = [
        Backwards(compiler(partition.backward, _example_inputs(partition.backward)), partition, joint, repeated)
        for (joint, partition), repeated in zip(parts, twice, strict=True)
    ]
    return training_runner(
        forward,
        ways,
        traced,
        taken,
        written=written_by(forward, writes),
        guard_autocast=autocast,
        enable_grad=not enabled,
    )


def _transforms(graph: fx.Graph) -> bool:
    """Whether function transforms (vmap, grad) run in a graph: what a value of theirs is like does not say what is computed."""
    values = (node.meta.get("val") for node in graph.nodes)
    return any(isinstance(value, torch.Tensor) and _torch.is_wrapped(value) for value in values)


def _draws(graph: fx.Graph) -> bool:
    """Whether random numbers are drawn, before a rewrite draws them otherwise."""
    return any((facts := facts_if_operator(node.target)) is not None and facts.random for node in graph.nodes)


def _rewrite(graph: fx.Graph, rewrite: Callable[[fx.Graph], object] | None) -> None:
    if rewrite is not None:
        with phase("rewrite"):
            rewrite(graph)


def _parts(joint: JointGraph, partitioner: Partitioner) -> tuple[fx.GraphModule, list[tuple[JointGraph, Partition]]]:
    """The forward, and a backward for each group of results that eager differentiates by itself."""
    if len(joint.groups) > 1 or joint.cuts:
        # Once for all of them: what the groups compute alike stays alike.
        narrow(joint)
        narrowed = [part for group in joint.groups if (part := of_group(joint, group)) is not None]
        if len(narrowed) == len(joint.groups):
            forward, partitions = merged(joint, [partitioner(part) for part in narrowed])
            return forward, list(zip(narrowed, partitions, strict=True))
        if joint.cuts:
            raise Unsupported(
                "results that are computed from one another, and a gradient of a symbolic size that is zero"
            )
    partition = partitioner(joint)
    return partition.forward, [(joint, partition)]


def _held(program: Any) -> tuple[torch.Tensor, ...]:
    return tuple(tensor for _, _, tensor in attached_tensors(program))


def _enables_grad(program: Any) -> bool:
    """Whether a graph switches grad mode on somewhere."""
    nodes = program.graph.nodes if isinstance(program, fx.GraphModule) else ()
    return any(node.target is _torch.set_grad_enabled and node.args[0] for node in nodes)


def _makes_leaves(program: Any) -> bool:
    """Whether a graph makes tensors that it differentiates by itself."""
    return isinstance(program, fx.GraphModule) and any(n.target == "requires_grad_" for n in program.graph.nodes)


def _wants_grad(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.requires_grad


def _example_inputs(module: fx.GraphModule) -> list[Any]:
    return [node.meta["val"] for node in module.graph.nodes if node.op == "placeholder"]
