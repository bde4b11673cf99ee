"""The backends by name. A backend takes `(graph_module, example_inputs)` and returns a callable over the same inputs.

Flows in: a captured fx graph of torch calls and its fake inputs. Flows out: what the transformed bytecode calls.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from typing import Any, Protocol

import torch
from torch import fx

import aotgrad
import capture
from inductor import CompiledGraph, Options, compile_graph

Compiled = Callable[..., Any]


class Backend(Protocol):
    """What `compile(backend=...)` takes besides a name."""

    def __call__(self, graph_module: fx.GraphModule, example_inputs: Sequence[torch.Tensor], /) -> Compiled: ...


def _differentiated(graph_module: fx.GraphModule, example_inputs: Sequence[torch.Tensor], **how: Any) -> Compiled:
    """`aotgrad.compile`; what it has no form of becomes a graph break."""
    try:
        return aotgrad.compile(graph_module, example_inputs, **how)
    except aotgrad.Unsupported as refusal:
        raise capture.GraphRefused(str(refusal), refusal.call) from refusal


def options_from(values: dict[str, Any] | None) -> Options:
    """Inductor's options from a dictionary.

    Raises:
        ValueError: an option has no such name; the message lists those there are.
    """
    valid = [field.name for field in fields(Options)]
    unknown = sorted(set(values or {}) - set(valid))
    if unknown:
        raise ValueError(f"unknown option {unknown[0]!r}; the options are {', '.join(valid)}")
    return Options(**(values or {}))


def inductor(
    graph_module: fx.GraphModule,
    example_inputs: Sequence[torch.Tensor],
    *,
    options: dict[str, Any] | None = None,
    on_compiled: Callable[[CompiledGraph], None] | None = None,
) -> Compiled:
    """Differentiate ahead of time and generate fused kernels.

    Args:
        on_compiled: told of every graph compiled: one in inference, a forward and a backward one in training.
    """
    chosen = options_from(options)
    # A backward's positions are its forward's, which waited for their check: it need not hold up the host once more.
    unhurried = replace(chosen, index_checks="async") if chosen.index_checks == "sync" else chosen

    def compiler_with(
        options: Options,
    ) -> Callable[[fx.GraphModule, Sequence[Any]], CompiledGraph]:
        def compiler(graph: fx.GraphModule, inputs: Sequence[Any]) -> CompiledGraph:
            compiled = compile_graph(graph, inputs, options)
            if on_compiled is not None:
                on_compiled(compiled)
            return compiled

        return compiler

    compiler = compiler_with(chosen)
    return _differentiated(
        graph_module,
        example_inputs,
        inference_compiler=compiler,
        forward_compiler=compiler,
        backward_compiler=compiler_with(unhurried),
        decompositions=aotgrad.core_decompositions(),
    )


def eager(graph_module: fx.GraphModule, example_inputs: Sequence[torch.Tensor]) -> Compiled:
    """Run the captured graph as it is: tells a fault of capture from one further down."""
    return graph_module.forward


def aot_eager(graph_module: fx.GraphModule, example_inputs: Sequence[torch.Tensor]) -> Compiled:
    """Differentiate ahead of time and run the ATen graphs with eager's kernels: tells a fault of aotgrad from inductor's."""

    def compiler(graph: fx.GraphModule, inputs: Sequence[Any]) -> Callable[[list[Any]], Any]:
        return lambda args: graph.forward(*args)

    return _differentiated(
        graph_module,
        example_inputs,
        inference_compiler=compiler,
        forward_compiler=compiler,
        backward_compiler=compiler,
    )


BACKENDS: dict[str, Backend] = {"inductor": inductor, "aot_eager": aot_eager, "eager": eager}
"""What `compile(backend="...")` knows."""


def backend_named(name: str) -> Backend:
    """The backend of that name.

    Raises:
        ValueError: there is none; the message lists those there are.
    """
    try:
        return BACKENDS[name]
    except KeyError:
        raise ValueError(f"unknown backend {name!r}; the backends are {', '.join(BACKENDS)}") from None
