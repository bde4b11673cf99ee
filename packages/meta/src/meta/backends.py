"""The backends by name. A backend takes `(graph_module, example_inputs)` and returns a callable over the same inputs.

Flows in: a captured fx graph of torch calls and its fake inputs. Flows out: what the transformed bytecode calls.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Protocol

import torch
from torch import fx

import aotgrad
import capture
import inductor as _inductor
from inductor import CompiledGraph, Options
from meta.again import Keeper
from meta.modes import MODES, Mode
from symshapes import UnbackedError

Compiled = Callable[..., Any]


class Backend(Protocol):
    """What `compile(backend=...)` takes besides a name."""

    def __call__(self, graph_module: fx.GraphModule, example_inputs: Sequence[torch.Tensor], /) -> Compiled: ...


def _differentiated(
    graph_module: fx.GraphModule, example_inputs: Sequence[torch.Tensor], mode: Mode, **choices: Any
) -> Compiled:
    """`aotgrad.compile`; what it has no form of becomes a graph break."""
    try:
        return aotgrad.compile(
            graph_module,
            example_inputs,
            decompositions=mode.table(),
            partitioner=mode.partitioner,
            **choices,
        )
    except aotgrad.Unsupported as refusal:
        raise capture.GraphRefused(str(refusal), refusal.call) from refusal
    except UnbackedError as error:
        raise capture.GraphRefused(str(error)) from error


def inductor(
    graph_module: fx.GraphModule,
    example_inputs: Sequence[torch.Tensor],
    *,
    mode: Mode = MODES["default"],
    options: dict[str, Any] | None = None,
    on_compiled: Callable[[CompiledGraph], None] | None = None,
) -> Compiled:
    """Differentiate ahead of time and generate fused kernels.

    Args:
        mode: how; `options` go before the mode's.
        on_compiled: told of every graph compiled: one in inference, a forward and a backward one in training.
    """
    chosen = mode.options_with(options)
    # A backward's positions are its forward's, which waited for their check: it need not hold up the host once more.
    unhurried = replace(chosen, index_checks="async") if chosen.index_checks == "sync" else chosen

    keeper = None
    if mode.table() is None and not mode.replay:
        keeper = Keeper(graph_module, example_inputs, chosen)
        known = keeper.load()
        if known is not None:
            if on_compiled is not None and keeper.graph is not None:
                on_compiled(keeper.graph)
            return known
    memory = _inductor.SavedMemory() if mode.replay else None

    def compiler_with(options: Options, memory: Any) -> aotgrad.Compiler:
        def compiler(graph: fx.GraphModule, inputs: Sequence[Any]) -> Callable[[list[Any]], Sequence[Any] | None]:
            compiled = _inductor.compile_graph(graph, inputs, options)
            if on_compiled is not None:
                on_compiled(compiled)
            if keeper is not None:
                keeper.take_graph(compiled)
            return _inductor.replayed(compiled, graph.graph, inputs, memory=memory) if mode.replay else compiled

        return compiler

    made = _differentiated(
        graph_module,
        example_inputs,
        mode,
        planned=None if keeper is None else keeper.take_plan,
        rewrite=functools.partial(_inductor.prepare_graph, options=chosen, recorded=mode.replay),
        freeze=chosen.freezing,
        attention=lambda found: _inductor.fuses_attention(found.device, found.dtype, found.dropout > 0, chosen),
        inference_compiler=compiler_with(chosen, None),
        forward_compiler=compiler_with(chosen, memory),
        backward_compiler=compiler_with(unhurried, memory),
    )
    if keeper is not None:
        keeper.keep()
    return made


def eager(graph_module: fx.GraphModule, example_inputs: Sequence[torch.Tensor]) -> Compiled:
    """Run the captured graph as it is: tells a fault of capture from one further down."""
    return graph_module.forward


def aot_eager(
    graph_module: fx.GraphModule, example_inputs: Sequence[torch.Tensor], *, mode: Mode = MODES["default"]
) -> Compiled:
    """Differentiate ahead of time and run the ATen graphs with eager's kernels: tells a fault of aotgrad from inductor's."""

    def compiler(graph: fx.GraphModule, inputs: Sequence[Any]) -> Callable[[list[Any]], Any]:
        return lambda args: graph.forward(*args)

    return _differentiated(
        graph_module,
        example_inputs,
        mode,
        inference_compiler=compiler,
        forward_compiler=compiler,
        backward_compiler=compiler,
    )


WITH_MODES: dict[str, Backend] = {"inductor": inductor, "aot_eager": aot_eager}
"""The backends that a mode is for: they have a keyword argument `mode`."""

BACKENDS: dict[str, Backend] = {**WITH_MODES, "eager": eager}
"""What `compile(backend="...")` knows besides what is installed."""


def backend_named(name: str) -> Backend:
    """The backend of that name: of `BACKENDS`, else of an installed distribution or registered with `torch.compile`.

    Raises:
        ValueError: there is none; the message lists those there are.
        TypeError: what is installed under the name is not callable.
    """
    known = BACKENDS.get(name)
    if known is not None:
        return known
    names = list_backends()
    if name not in names:
        raise ValueError(f"unknown backend {name!r}; the backends are {', '.join(names)}")
    found: Backend = capture.backend_named(name)
    return found


def list_backends() -> list[str]:
    """The names that `compile(backend=...)` takes: those of `BACKENDS` first."""
    return list(dict.fromkeys((*BACKENDS, *capture.list_backends())))
