"""Runs an example with plain calls and with compiled ones, and says where they differ first."""

from __future__ import annotations

import itertools
import linecache
from collections.abc import Callable, Sequence
from typing import Any

import torch

import capture
import meta
from benchmarks.dynamic.cell import difference, picture

from .programs import NAMES, Call, Example

_COUNT = itertools.count()


def program_of(example: Example) -> Callable[..., Any]:
    """The function of the text, with lines that tracebacks find."""
    name, text = f"<random shapes {next(_COUNT)}>", example.text()
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    space = dict(NAMES)
    exec(compile(text, name, "exec"), space)
    return space["program"]


def outcomes(example: Example, compiled: Callable[[Any], Any]) -> list[Any]:
    """What every call gives and leaves behind, or the type of exception."""
    function, state = compiled(program_of(example)), {"steps": 0, "scale": 1.0}
    return [_outcome(function, call, at, state, example.needs_gradients) for at, call in enumerate(example.calls)]


def _outcome(function: Callable[..., Any], call: Call, at: int, state: dict[str, Any], needs_gradients: bool) -> Any:
    torch.manual_seed(at)
    x, y = torch.randn(call.n, call.m), torch.randn(call.p)
    more, options = list(call.more), {"rate": call.rate, "width": call.width}
    if needs_gradients:
        x.requires_grad_()
    slope = None
    try:
        result = function(x, y, call.k, call.s, more, options, state)
        slopes = [(t * t).sum() for t in result[:3] if t.requires_grad]
        if slopes:
            sum(slopes).backward()
            slope = x.grad
    except (capture.InternalError, capture.GraphBreakError):
        raise
    except Exception as error:
        # What only the kernels refuse is raised when the graph runs, before what the program did to its state until then.
        state.update(steps=0, scale=1.0)
        return ("raised", type(error).__name__)
    before = picture([list(result), slope, x, y, more, options, dict(state)])
    return before, *_shared([x, y, *result])


def _shared(values: Sequence[Any]) -> tuple[Any, ...]:
    """How tensors lie in memory, where a length tells; which is the first of those that each shares memory with; what a write to
    one does to all."""
    tensors = [value.detach() for value in values if isinstance(value, torch.Tensor)]
    strides = [
        [step for step, length in zip(t.stride(), t.shape, strict=True) if length > 1] for t in tensors if t.numel()
    ]
    keys = [t.untyped_storage().data_ptr() if t.numel() else at for at, t in enumerate(tensors)]
    firsts = [keys.index(key) for key in keys]
    for at, tensor in enumerate(tensors):
        repeated = any(step == 0 and n > 1 for step, n in zip(tensor.stride(), tensor.shape, strict=True))
        if tensor.numel() and not repeated:
            tensor.add_(at)
    return strides, firsts, [picture(t) for t in tensors]


def failure(example: Example) -> str | None:
    """How the compiled calls differ from the plain ones, or what the compiler raised; None where all is well."""
    meta.reset()
    expected = outcomes(example, lambda fn: fn)
    try:
        found = outcomes(example, lambda fn: meta.compile(fn, backend=example.backend, dynamic=example.dynamic))
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    # Differentiated ahead of time, sums may run in another order.
    tolerance = 1e-5 if example.backend != "eager" else None
    return difference(expected, found, tolerance, "calls")
