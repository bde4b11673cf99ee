"""The lowered graph: buffers and the operations that fill them, in program order.

Flows in: lowerings, one fx node after the other. Flows out: to the scheduler, which fuses the loops and orders all.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import fx

from inductor.ir.body import Body
from inductor.ir.operations import Expr, Symbol


@dataclass(frozen=True)
class Buffer:
    """Memory with a layout. `size` and `stride` in elements."""

    name: str
    device: torch.device
    dtype: torch.dtype
    size: tuple[Expr, ...]
    stride: tuple[Expr, ...]


@dataclass(frozen=True)
class StridedView:
    """A strided window into a buffer: an extern kernel's tensor argument, or an output of the graph."""

    buffer: str
    size: tuple[Expr, ...]
    stride: tuple[Expr, ...]
    offset: Expr


@dataclass(frozen=True)
class LoopOp:
    """A loop nest: `body` for every point of `outer_sizes`, reducing over `inner_sizes`. Fills `writes`."""

    writes: tuple[str, ...]
    device: torch.device
    outer_sizes: tuple[Expr, ...]
    inner_sizes: tuple[Expr, ...]
    body: Body
    origins: tuple[fx.Node, ...]
    initial: tuple[tuple[str, str], ...] = ()
    """Pairs (written buffer, earlier buffer): the written buffer starts as a copy of the earlier one (scatter); the wrapper
    copies, or reuses the memory where the earlier buffer is not read again."""


@dataclass(frozen=True)
class ExternOp:
    """A call of an ATen kernel. Tensor arguments in `args`/`kwargs` are `StridedView`s, sizes sympy expressions.

    `writes`: one buffer per tensor result in the flattened result (pytree order); None where the result at that place is
    no tensor or is not read."""

    writes: tuple[str | None, ...]
    target: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    origins: tuple[fx.Node, ...]
    scalar_writes: tuple[str, ...] = ()
    """Names of Python scalars this defines (sizes read from data)."""


Operation = LoopOp | ExternOp


@dataclass
class Program:
    """A whole lowered graph. Inputs are buffers too: `inputs` names them in call order (an int input is its symbol)."""

    inputs: list[str | Symbol] = field(default_factory=list)
    buffers: dict[str, Buffer] = field(default_factory=dict)
    constants: dict[str, torch.Tensor] = field(default_factory=dict)
    """Buffers whose content is part of the graph (get_attr tensors)."""
    operations: list[Operation] = field(default_factory=list)
    outputs: list[StridedView | Expr | int | float | bool | None] = field(default_factory=list)
    symbols: dict[Symbol, tuple[str, int] | None] = field(default_factory=dict)
    """Where each size symbol is read at run time: (input buffer, dimension); None if it is an int input itself."""
