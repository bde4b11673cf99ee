"""Random in-place ops, and functional ops that draw the same stream.

In: a random in-place op and its arguments. Out: the tensor it would have filled in. A traced graph keeps every random
op, in program order and even if unused, so that seeds give eager's numbers and leave the generator where eager does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from aotgrad.errors import Unsupported
from symshapes import inverse_permutation, is_dense, memory_order

aten = torch.ops.aten


def _blank(self: torch.Tensor) -> torch.Tensor:
    """A dense tensor with the dimensions of `self` in the same order in memory, the order that kernels draw in."""
    order = memory_order(self)
    size = [self.shape[dim] for dim in order]
    blank = aten.empty.memory_format(size, dtype=self.dtype, device=self.device)
    return blank if order == sorted(order) else aten.permute.default(blank, inverse_permutation(order))


def bernoulli(self: torch.Tensor, p: float = 0.5, *, generator: Any = None) -> torch.Tensor:
    """What `self.bernoulli_(p)` leaves in `self`."""
    # The functional op draws for a contiguous tensor whatever the strides of its argument.
    order = memory_order(self)
    size = [self.shape[dim] for dim in order]
    drawn = aten.bernoulli.p(
        aten.empty.memory_format(size, dtype=self.dtype, device=self.device), p, generator=generator
    )
    return drawn if order == sorted(order) else aten.permute.default(drawn, inverse_permutation(order))


def normal(self: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
    """What `self.normal_(...)` leaves in `self`."""
    if not is_dense(self):
        raise Unsupported("normal_ on a tensor with gaps, whose kernel draws in an order of its own")
    return aten.normal_functional.default(_blank(self), *args, **kwargs)


def _functional(op: Any) -> Callable[..., torch.Tensor]:
    def draw(self: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
        return op(_blank(self), *args, **kwargs)

    return draw


WRITES: dict[Any, Callable[..., torch.Tensor]] = {
    aten.bernoulli_.float: bernoulli,
    aten.bernoulli_.Tensor: _functional(aten.bernoulli.Tensor),
    aten.normal_.default: normal,
    aten.uniform_.default: _functional(aten.uniform.default),
    aten.exponential_.default: _functional(aten.exponential.default),
    aten.cauchy_.default: _functional(aten.cauchy.default),
    aten.log_normal_.default: _functional(aten.log_normal.default),
    aten.geometric_.default: _functional(aten.geometric.default),
    aten.random_.default: _functional(aten.random.default),
    getattr(aten.random_, "from"): _functional(getattr(aten.random, "from")),
    aten.random_.to: _functional(aten.random.to),
}
"""Random in-place ops and the functions of their arguments that draw the same."""
