"""Generated text as a running module, and what generated modules call.

Flows in: wrapper text with a namespace. Flows out: its `call`.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from inductor.backends import traits_of
from symshapes import build_python

Call = Callable[[list[Any]], tuple[Any, ...]]


class LayoutMismatch(RuntimeError):
    """A real kernel's result has another size or dtype than its shape rule said."""


def load_call(text: str, path: str, namespace: Mapping[str, Any]) -> Call:
    """Execute wrapper text and return its `call`.

    Args:
        path: where the text is stored; tracebacks and debuggers show its lines.
        namespace: kernels, constants and objects by name.
    """
    names = {"__name__": "inductor_generated", "__file__": path, **namespace}
    call: Call = build_python(text, names, entry="call", title="inductor", path=path)
    return call


class LayoutFitter:
    """Compares ATen kernels' results with what the kernels that read them were made for, and makes them fit.

    `misfits` names the calls whose results had other strides.
    """

    def __init__(self) -> None:
        self.misfits: set[str] = set()

    def __call__(
        self, result: torch.Tensor | None, size: Sequence[int], stride: Sequence[int], dtype: torch.dtype, what: str
    ) -> torch.Tensor | None:
        """`result`, or a copy of it with these strides. A workspace, whose size only its library knows, passes as it is.

        Raises:
            LayoutMismatch: if sizes or dtype differ.
        """
        if tuple(size) == (0,) and dtype is torch.uint8:
            return result  # a workspace; None where the library needs none
        if result is None and tuple(size) == (0,):
            return None  # what was not asked for: shape rules give an empty tensor for a result that may be left out
        if result is None:
            raise LayoutMismatch(f"{what} returned no tensor, but its shape rule said {dtype} of size {tuple(size)}")
        if tuple(result.shape) != tuple(size) or result.dtype is not dtype:
            raise LayoutMismatch(
                f"{what} returned {result.dtype} of size {tuple(result.shape)}, but its shape rule said {dtype} of size "
                f"{tuple(size)}"
            )
        if all(n == 1 or a == b for n, a, b in zip(size, result.stride(), stride, strict=True)) or result.numel() == 0:
            return result
        self.misfits.add(f"{what} (strides {result.stride()}, not {tuple(stride)})")
        return torch.empty_strided(size, stride, dtype=dtype, device=result.device).copy_(result)


Metadata = tuple[tuple[int, ...], tuple[int, ...], torch.dtype, str]


def random_input(meta: Metadata | int) -> Any:
    """A tensor of this size, stride, dtype and device: normal floats, small integers."""
    if isinstance(meta, int):
        return meta
    size, stride, dtype, device = meta
    tensor = torch.empty_strided(size, stride, dtype=dtype, device=device)
    if tensor.numel() == 0:
        return tensor
    extent = 1 + sum((n - 1) * s for n, s in zip(size, stride, strict=True))
    flat = tensor.as_strided((extent,), (1,))
    if dtype.is_floating_point or dtype.is_complex:
        flat.normal_()
    else:
        flat.random_(0, 2)
    return tensor


def benchmark(path: str, inputs: Sequence[Metadata | int], seconds: float = 1.0) -> float:
    """Time the stored graph whose wrapper is `path` on random inputs; prints and returns microseconds a call."""
    from inductor.artefact import load_stored  # noqa: PLC0415  (a stored wrapper that is run by itself asks for its own graph)

    call = load_stored(Path(path).parent)
    values = [random_input(meta) for meta in inputs]
    modules = {traits_of(value.device).module for value in values if isinstance(value, torch.Tensor)}
    waits = [functools.reduce(getattr, module.split(".")[1:], torch).synchronize for module in modules if module]

    def timed(count: int) -> float:
        start = time.perf_counter()
        for _ in range(count):
            call(list(values))
        for wait in waits:
            wait()
        return (time.perf_counter() - start) / count

    with torch.no_grad():
        timed(3)
        count = max(1, int(seconds / 5 / max(timed(3), 1e-7)))
        best = min(timed(count) for _ in range(5)) * 1e6
    print(f"{best:.2f} us a call (best of 5 runs of {count})")
    return best
