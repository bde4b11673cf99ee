"""`package`: a model captured whole, compiled ahead and written to one file with its weights.

Flows in: a model and example arguments. Flows out: the file that `load` takes.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import fx

import aotgrad
import capture
from inductor import Inexpressible, Weight, compile_ahead, prepare_graph
from meta.modes import mode_named
from meta.package_file import write_package
from meta.structure import describe, facts
from symshapes import expr_of


class NotPackageable(RuntimeError):
    """A model can't be packaged; the message says why."""


class _Captured:
    """A backend that keeps the one graph of a call, runs it as it is and notes what went in and came out."""

    def __init__(self) -> None:
        self.graph: fx.GraphModule | None = None
        self.fakes: list[Any] = []
        self.inputs: tuple[Any, ...] = ()
        self.outputs: tuple[Any, ...] = ()

    def __call__(self, graph: fx.GraphModule, fakes: Sequence[Any]) -> Any:
        self.graph, self.fakes = graph, list(fakes)

        def run(*inputs: Any) -> tuple[Any, ...]:
            self.inputs = inputs
            self.outputs = tuple(graph.forward(*inputs))
            return self.outputs

        return run


def package(
    model: Any,
    args: Sequence[Any],
    path: str | os.PathLike[str],
    *,
    kwargs: Mapping[str, Any] | None = None,
    dynamic: bool | None = None,
    options: dict[str, Any] | None = None,
) -> None:
    """Compile a model ahead, for the CPU, and write it with its weights to one file, which `load` and C programs run.

    Args:
        model: a function or `nn.Module` that is captured as one graph. It is run once, without gradients.
        args, kwargs: example arguments: tensors in tuples, lists and dicts, and plain values, which are built in.
        path: the file to write: a shared object for this kind of processor.
        dynamic: True: all sizes may be others in a call. None or False: those that are marked (`mark_dynamic`).
        options: fields of `inductor.Options` by name.

    Raises:
        NotPackageable: the model writes to its buffers or arguments, returns its own parameters, calls operators that torch
            does not have by itself, or is not on the CPU.
        capture.GraphBreakError: it is not one graph.
        BuildError: the compiler failed.
    """
    chosen = mode_named(None)
    given = (tuple(args), dict(kwargs or {}))
    tensors: list[torch.Tensor] = []

    def number(tensor: torch.Tensor, where: str) -> int:
        if any(tensor is other for other in tensors):
            raise NotPackageable(f"{where} is the same tensor as another argument")
        tensors.append(tensor)
        return len(tensors) - 1

    form = describe(given, number, "(args, kwargs)")
    captured = _Captured()
    try:
        with torch.no_grad():
            compiled = capture.compile(model, captured, dynamic=bool(dynamic), fullgraph=True)
            result = compiled(*given[0], **given[1])
            if captured.graph is None:
                raise NotPackageable("there is nothing to compile: no tensor is computed")
            report = capture.report(compiled)
            graph = report.graphs[-1]
            places = _places(captured, tensors, [source.name for source in graph.sources])
            traced = _traced(captured, [source.name for source in graph.sources], chosen.table())
            settings = chosen.options_with(options)
            prepare_graph(traced.graph, settings)
            module = traced.module
            weights = {at: captured.inputs[at] for at, place in enumerate(places) if place is None}
            native = compile_ahead(
                module,
                traced.inputs,
                settings,
                weights=weights,
                names=[source.name for source in graph.sources],
                conditions=_conditions(graph.shape_env, traced.inputs),
            )
    except Inexpressible as refusal:
        raise NotPackageable(f"the model needs {refusal}") from refusal
    used = [place for place in places if place is not None]
    returned, shape = _result(result, captured, tensors)
    manifest = {
        "name": type(model).__name__ if isinstance(model, torch.nn.Module) else getattr(model, "__qualname__", "model"),
        "torch": str(torch.__version__),
        "isa": native.isa,
        "tensors": len(tensors),
        "arguments": form,
        "inputs": used,
        "unused": [[at, facts(tensor)] for at, tensor in enumerate(tensors) if at not in used],
        "result": shape,
        "returned": returned,
        "weights": [[w.name, str(w.tensor.dtype), list(w.tensor.shape), w.at, w.length] for w in native.weights],
    }
    write_package(Path(path), native.library, native.identity, ((w.at, _content(w)) for w in native.weights), manifest)


def _places(captured: _Captured, tensors: list[torch.Tensor], names: Sequence[str]) -> list[int | None]:
    """For each input of the graph the number of the argument that it is; None for a tensor of the model's own."""
    places: list[int | None] = []
    for value, name in zip(captured.inputs, names, strict=True):
        if not isinstance(value, torch.Tensor):
            raise NotPackageable(
                f"{name} is a number that may change from call to call; mark the sizes that change with mark_dynamic, and "
                "leave dynamic=True out"
            )
        places.append(next((at for at, tensor in enumerate(tensors) if tensor is value), None))
    return places


def _traced(captured: _Captured, names: Sequence[str], decompositions: Any) -> aotgrad.InferenceGraph:
    """The functional graph, whose results share no memory with inputs or with each other."""
    graph = captured.graph
    assert graph is not None
    if not all(isinstance(out, torch.Tensor) for out in captured.outputs):
        raise NotPackageable("the model returns a number that it computes from sizes")
    try:
        traced = aotgrad.trace_inference(graph, captured.fakes, decompositions)
        if not traced.signature.plain:
            traced = aotgrad.trace_inference(_copying(graph), captured.fakes, decompositions)
    except aotgrad.Unsupported as refusal:
        raise NotPackageable(str(refusal)) from refusal
    written = [names[mutation.input] for mutation in traced.signature.mutations]
    if written:
        raise NotPackageable(f"the model writes to {', '.join(written)}: a package keeps no state; is it in eval mode?")
    if not traced.signature.plain:
        raise NotPackageable("the model's results are no tensors of their own")
    return traced


def _copying(graph: fx.GraphModule) -> Callable[..., tuple[Any, ...]]:
    """The program with copies of outputs that share memory with inputs or with outputs before them."""

    def program(*inputs: Any) -> tuple[Any, ...]:
        taken = {tensor.storage_key for tensor in inputs}
        results = []
        for result in graph(*inputs):
            results.append(result.clone() if result.storage_key in taken else result)
            taken.add(results[-1].storage_key)
        return tuple(results)

    return program


def _conditions(env: Any, inputs: Iterable[Any]) -> list[tuple[Any, str]]:
    """What was assumed of symbolic sizes, each with its words."""
    if env is None:
        return []
    found: list[tuple[Any, str]] = []
    symbols = {
        symbol.name: symbol
        for value in inputs
        if isinstance(value, torch.Tensor)
        for length in (*value.shape, *value.stride())
        for symbol in expr_of(length).free_symbols
    }
    for guard in env.guards:
        condition = guard.expr.xreplace({symbol: env.simplify(symbol) for symbol in guard.expr.free_symbols})
        if condition not in (True, False):
            found.append((condition, f"the sizes are not what the model was packaged for: {guard}"))
    for one in env.symbols():
        symbol = symbols.get(one.name)
        if symbol is None:
            continue
        for bound, holds in (
            (one.span.lower, symbol >= one.span.lower),
            (one.span.upper, symbol <= one.span.upper),
        ):
            if abs(bound) < 1 << 62 and holds not in (True, False):
                found.append((holds, f"the sizes are not what the model was packaged for: {one}"))
    return found


def _result(result: Any, captured: _Captured, tensors: list[torch.Tensor]) -> tuple[list[int], Any]:
    """Which arguments are part of the result as they are, and the form of the result: tensors numbered as results of the
    compiled graph, then those arguments."""
    returned: list[int] = []

    def place(tensor: torch.Tensor, where: str) -> int:
        for at, argument in enumerate(tensors):
            if tensor is argument:
                if at not in returned:
                    returned.append(at)
                return len(captured.outputs) + returned.index(at)
        for at, output in enumerate(captured.outputs):
            if tensor is output:
                return at
        raise NotPackageable(f"{where or 'the result'} is a tensor of the model's own")

    try:
        return returned, describe(result, place)
    except TypeError as error:
        raise NotPackageable(str(error)) from error


def _content(weight: Weight) -> bytes:
    tensor = weight.tensor.detach()
    return ctypes.string_at(tensor.data_ptr(), weight.length) if weight.length else b""
