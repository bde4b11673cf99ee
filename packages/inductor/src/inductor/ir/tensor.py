"""Lazy tensors: a `Source` is one computed tensor, pending or in memory; a `TensorValue` is a source under views.

Flows in: lowerings. Flows out: loads inside bodies being recorded, and buffers once the builder realizes a source.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field, replace

import torch
from torch import fx

from inductor.ir.indexing import Index
from inductor.ir.operations import Expr
from inductor.ir.program import Buffer
from inductor.ir.scalar import Scalar, element_of
from inductor.ir.views import Layout, View
from inductor.ops import ops
from symshapes import dataclass


@dataclass(frozen=True)
class Cost:
    """What computing one element anew takes: decides between computing again and keeping in memory."""

    operations: int = 0
    expensive: int = 0
    """Operations of many instructions: exp, tanh, pow..."""
    reads: frozenset[Source] = frozenset()
    """Sources in memory read."""
    checks: bool = False
    """Whether a position read from data is checked on the way: all elements have to be computed, also unread ones."""

    def __add__(self, other: Cost) -> Cost:
        return Cost(
            self.operations + other.operations,
            self.expensive + other.expensive,
            self.reads | other.reads,
            self.checks or other.checks,
        )


@dataclass(eq=False)
class Source:
    """One computed tensor. Pending while `buffer` is None; then `compute(index)` gives an element."""

    device: torch.device
    dtype: torch.dtype
    size: tuple[Expr, ...]
    compute: Callable[[Index], Scalar] | None = None
    buffer: Buffer | None = None
    cost: Cost = field(default_factory=Cost)
    stride: tuple[Expr, ...] | None = None
    """Strides it gets when realized; None: contiguous."""
    origins: tuple[fx.Node, ...] = ()
    storage_offset: Expr | int = 0
    """Where eager's tensor starts in its storage; the buffer starts there too."""

    def element(self, index: Index) -> Scalar:
        """The value at `index` inside the body being recorded, computed once there."""
        key = (id(self), tuple(index))
        known = ops.inlined.get(key)
        if known is None:
            assert self.compute is not None
            ops.origins.update(dict.fromkeys(self.origins))
            known = ops.inlined[key] = element_of(self.compute(index), self.dtype)
        return known


@dataclass(frozen=True, eq=False)
class TensorValue:
    """A source under a chain of views, the first applied first."""

    source: Source
    views: tuple[View, ...] = ()

    @property
    def size(self) -> tuple[Expr, ...]:
        return self.views[-1].size if self.views else self.source.size

    @property
    def device(self) -> torch.device:
        """Where it is, or will be."""
        return self.source.device

    @property
    def dtype(self) -> torch.dtype:
        """Its dtype in memory."""
        return self.source.dtype

    @property
    def cost(self) -> Cost:
        """Of one element, as things are now."""
        if self.source.buffer is not None:
            return Cost(reads=frozenset({self.source}))
        return self.source.cost

    def view(self, view: View) -> TensorValue:
        """A view of it; nothing is computed."""
        return replace(self, views=(*self.views, view))

    def folded(self) -> tuple[Layout, Sequence[View]]:
        """The layout of as many views as strides can express over the buffer, and the views that are left."""
        buffer = self.source.buffer
        assert buffer is not None
        layout = Layout(buffer.size, buffer.stride)
        # The last as_strided, if any, starts over from the buffer itself.
        for at, view in enumerate(self.views):
            following = view.layout(layout)
            if following is None:
                return layout, self.views[at:]
            layout = following
        return layout, ()

    def layout(self) -> Layout | None:
        """The layout over realized memory; None if pending or not strided."""
        if self.source.buffer is None:
            return None
        layout, rest = self.folded()
        return None if rest else layout

    def load(self, index: Index) -> Scalar:
        """The value at `index` inside the body being recorded, in the compute dtype."""
        if self.source.buffer is None:
            for view in reversed(self.views):
                index = view.reindex(index)
            return self.source.element(index)
        layout, rest = self.folded()
        for view in reversed(rest):
            index = view.reindex(index)
        return Scalar(ops.load(self.source.buffer.name, layout.linear(index)))
