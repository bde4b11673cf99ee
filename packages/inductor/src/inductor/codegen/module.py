"""Generated text as a running module, and what it calls.

Flows in: wrapper text with a namespace. Flows out: its `call`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

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
