"""`compile`: a graph of torch calls in, a function that runs compiled functional ATen graphs out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import fx

from aotgrad import _torch
from aotgrad.again import again
from aotgrad.alias import Signature
from aotgrad.errors import Unsupported
from aotgrad.interpret import attached_tensors
from aotgrad.joint import InferenceGraph, JointGraph, trace_inference, trace_joint
from aotgrad.partition import Partition, Partitioner, partition_default
from aotgrad.partition.groups import merged, of_group
from aotgrad.runtime import Backwards, inference_runner, training_runner

Compiler = Callable[[fx.GraphModule, list[Any]], Callable[[list[Any]], Sequence[Any]]]
"""Compiles one functional graph: `(module, fake inputs) -> callable`, which takes one list of inputs that it may clear
and returns a list or tuple of the graph's outputs."""


def compile(
    graph_module: Callable[..., Any],
    inputs: Sequence[Any],
    *,
    inference_compiler: Compiler,
    forward_compiler: Compiler | None = None,
    backward_compiler: Compiler | None = None,
    decompositions: Mapping[Any, Callable[..., Any]] | None = None,
    partitioner: Partitioner | None = None,
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

    Returns:
        A function of the same positional inputs with the program's results: aliases, writes to inputs, strides and
        gradients are eager's. Grad mode is as it was when compiled.

    Raises:
        Unsupported: the program has no functional graph. Errors of the program itself come through as they are.
    """
    enabled = torch.is_grad_enabled()
    held = _held(graph_module)
    if (enabled or _enables_grad(graph_module)) and any(_wants_grad(t) for t in (*inputs, *held)):
        traced: InferenceGraph | JointGraph = trace_joint(
            graph_module, inputs, decompositions, enable_grad=enabled, cut=True
        )
    else:
        traced = trace_inference(graph_module, inputs, decompositions)
    autocast = _torch.any_autocast()
    if isinstance(traced, JointGraph):
        given = len(inputs)
        module, parts = _parts(traced, partitioner or partition_default)
        forward = (forward_compiler or inference_compiler)(module, _example_inputs(module))
        compiler = backward_compiler or inference_compiler
        twice = [again(graph_module, given, joint, partition, traced) for joint, partition in parts]
        refusal = next((each for each in twice if isinstance(each, str)), None)
        if traced.cuts and refusal is not None:
            twice = [refusal] * len(parts)  # each leaves to the others what it does not hold
        ways = [
            Backwards(compiler(partition.backward, _example_inputs(partition.backward)), partition, joint, repeated)
            for (joint, partition), repeated in zip(parts, twice, strict=True)
        ]
        run = training_runner(
            forward,
            ways,
            traced,
            (lambda *args: graph_module(*args[:given])) if held else graph_module,
            guard_autocast=autocast,
            enable_grad=not enabled,
            beneath=bool(getattr(graph_module, "meta", {}).get("beneath")),
        )
    else:
        module = traced.module
        compiled = inference_compiler(module, _example_inputs(module))
        guard_grad = torch.is_grad_enabled() and bool(traced.signature.grad_inputs)
        run = inference_runner(compiled, module, traced.signature, guard_grad=guard_grad, guard_autocast=autocast)
    run = _checked(run, graph_module, traced.signature, len(inputs))
    if held:
        inner = run
        run = lambda *args: inner(*args, *held)  # noqa: E731
    return _for_constants(run, graph_module, inputs)


def _parts(joint: JointGraph, partitioner: Partitioner) -> tuple[fx.GraphModule, list[tuple[JointGraph, Partition]]]:
    """The forward, and a backward for each group of results that eager differentiates by itself."""
    if len(joint.groups) > 1 or joint.cuts:
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


def _for_constants(run: Callable[..., Any], program: Callable[..., Any], inputs: Sequence[Any]) -> Callable[..., Any]:
    """Where inputs are plain numbers, which the graph has built in: run the program itself for other numbers."""
    known = {
        position: value
        for position, value in enumerate(inputs)
        if not isinstance(value, (torch.Tensor, torch.SymInt, torch.SymFloat))
    }
    if not known:
        return run

    def checked(*args: Any) -> Any:
        for position, value in known.items():
            if type(args[position]) is not type(value) or args[position] != value:
                return program(*args)
        return run(*args)

    return checked


def _checked(
    run: Callable[..., Any], program: Callable[..., Any], signature: Signature, given: int
) -> Callable[..., Any]:
    """Where inputs are written to: run the program itself if inputs overlap in a call, which the graph did not foresee."""
    if not signature.mutations:
        return run
    written = {mutation.input for mutation in signature.mutations}

    def checked(*args: Any) -> Any:
        storages = [t.untyped_storage()._cdata for t in args if isinstance(t, torch.Tensor)]
        if len(set(storages)) < len(storages) and _overlap(args, written):
            return program(*args[:given])
        return run(*args)

    return checked


def _overlap(args: Sequence[Any], written: set[int]) -> bool:
    """Whether an input that is written to shares its storage with another."""
    storages = [t.untyped_storage()._cdata if isinstance(t, torch.Tensor) else None for t in args]
    return any(storages.count(storages[index]) > 1 for index in written)


def _held(program: Any) -> tuple[torch.Tensor, ...]:
    return tuple(tensor for _, _, tensor in attached_tensors(program))


def _enables_grad(program: Any) -> bool:
    """Whether a graph switches grad mode on somewhere."""
    nodes = program.graph.nodes if isinstance(program, fx.GraphModule) else ()
    return any(node.target is _torch.set_grad_enabled and node.args[0] for node in nodes)


def _wants_grad(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.requires_grad


def _example_inputs(module: fx.GraphModule) -> list[Any]:
    return [node.meta["val"] for node in module.graph.nodes if node.op == "placeholder"]
