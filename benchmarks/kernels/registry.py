"""A kernel of the suite: a function of tensors that compiles to one loop nest or a few, its inputs, and what bounds it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import FunctionType
from typing import Any

import torch

Tensors = Sequence[torch.Tensor]


@dataclass(frozen=True)
class KernelCase:
    """`inputs()` gives the arguments of `fn`. `bytes_moved`: of these inputs and the output, for kernels that memory bounds; None for
    others. `random`: results are compared by their mean alone."""

    name: str
    fn: Callable[..., Any]
    inputs: Callable[[], Tensors]
    bytes_moved: Callable[[Tensors, Tensors], int] | None
    random: bool = False

    def own(self) -> Callable[..., Any]:
        """`fn` with a code object of its own: compilers keep variants by code object, and must not look among other kernels'."""
        fn = self.fn
        if not isinstance(fn, FunctionType):
            return fn
        return FunctionType(fn.__code__.replace(), fn.__globals__, fn.__name__, fn.__defaults__, fn.__closure__)


KERNELS: dict[str, KernelCase] = {}


def size(tensor: torch.Tensor) -> int:
    """Bytes of the elements that a tensor shows: one that is broadcast counts once."""
    shown = [n for n, step in zip(tensor.shape, tensor.stride(), strict=True) if step]
    return torch.Size(shown).numel() * tensor.element_size()


def all_bytes(inputs: Tensors, outputs: Tensors) -> int:
    """Every input read once, every output written once."""
    return sum(map(size, inputs)) + sum(map(size, outputs))


def first_twice(inputs: Tensors, outputs: Tensors) -> int:
    """The first input is read twice: each result needs what follows from many elements, more than a processor holds."""
    return all_bytes(inputs, outputs) + size(inputs[0])


def twice_output(inputs: Tensors, outputs: Tensors) -> int:
    """Of a table only some rows are read: as many as are written; indices are read too."""
    return sum(size(t) for t in inputs if not t.is_floating_point()) + 2 * sum(map(size, outputs))


def kernel(
    *shapes: Callable[[], torch.Tensor],
    moved: Callable[[Tensors, Tensors], int] | None = all_bytes,
    random: bool = False,
    name: str = "",
    table: dict[str, KernelCase] = KERNELS,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register a function of tensors that `shapes` make."""

    def register(fn: Callable[..., Any]) -> Callable[..., Any]:
        known = name or fn.__name__
        assert known not in table, known
        table[known] = KernelCase(known, fn, lambda: [make() for make in shapes], moved, random)
        return fn

    return register


# ---- Makers of inputs


def normal(*shape: int, dtype: torch.dtype = torch.float32, channels_last: bool = False) -> Callable[[], torch.Tensor]:
    """Standard normal numbers."""

    def make() -> torch.Tensor:
        x = torch.randn(shape).to(dtype)
        return x.to(memory_format=torch.channels_last) if channels_last else x

    return make


def positive(*shape: int, dtype: torch.dtype = torch.float32) -> Callable[[], torch.Tensor]:
    """Numbers in [0.1, 3.1)."""
    return lambda: (torch.rand(shape) * 3 + 0.1).to(dtype)


def integers(*shape: int, below: int, dtype: torch.dtype = torch.int64) -> Callable[[], torch.Tensor]:
    """Integers in [0, below)."""
    return lambda: torch.randint(below, shape).to(dtype)
