"""Products and running products, whose gradients autograd computes by the data: of fake numbers otherwise than of real ones.

In: a captured call of such a function or method. Out: the same values, with eager's gradients, in a few operations.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from aotgrad import _torch
from symshapes import is_unbacked


class _Products(torch.autograd.Function):
    """Running products. Autograd's own derivative asks whether there are zeros; of fake numbers it takes three calls for each element of the dimension."""

    @staticmethod
    def forward(ctx: Any, input: Tensor, dim: int) -> Tensor:
        products = torch.cumprod(input, dim)
        ctx.save_for_backward(input, products)
        ctx.dim = dim
        return products

    @staticmethod
    @torch.autograd.function.once_differentiable  # where an element is zero, what `where` leaves out has derivatives
    def backward(ctx: Any, *gradients: Any) -> Any:
        (gradient,), (input, products), dim = gradients, ctx.saved_tensors, ctx.dim
        zero = input == 0
        zeros = zero.cumsum(dim)
        # Before the first zero: what each product owes to an element is itself by the element.
        shares = torch.where(zeros == 0, gradient * products, 0)
        owed = shares.flip(dim).cumsum(dim).flip(dim) / torch.where(zero, 1, input)
        # The first zero: the products up to the second one, had it been 1. Behind it nothing counts.
        first = zero & (zeros == 1)
        without = torch.where(first, 1, input).cumprod(dim)
        at_first = torch.where(zeros == 1, gradient * without, 0).sum(dim, keepdim=True)
        return torch.where(first, at_first, torch.where(zeros == 0, owed, 0)), None


def of_running_products(function: Callable[..., Any]) -> Callable[..., Any]:
    """`cumprod`, a function or a method, with the gradient of `_Products`."""

    def cumprod(input: Tensor, dim: Any, *, dtype: torch.dtype | None = None, **named: Any) -> Any:
        wanted = dtype or (input.dtype if isinstance(input, Tensor) else None)
        if named or not isinstance(dim, int) or wanted is None or not (wanted.is_floating_point and input.dim()):
            return function(input, dim, dtype=dtype, **named)
        if not (input.requires_grad and torch.is_grad_enabled()) or _torch.in_transform():
            return function(input, dim, dtype=dtype)  # within a transform eager, too, does not ask
        return _Products.apply(input.to(wanted), dim)  # type: ignore[no-untyped-call]

    return cumprod


class _Product(torch.autograd.Function):
    """A product. Autograd's own derivative asks whether there are zeros, and takes fake numbers to have some: then NaN spreads otherwise."""

    @staticmethod
    def forward(ctx: Any, input: Tensor, dim: int, among_all: bool) -> Tensor:
        product = torch.prod(input, dim, keepdim=True)
        # Counted here, where the elements are read anyway, and as they are; whether there are two is exact.
        ctx.save_for_backward(input, product, (input == 0).to(input.dtype).sum(dim, keepdim=True))
        ctx.dim, ctx.among_all = dim, among_all
        return product

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        (gradient,), (input, product, zeros), dim = gradients, ctx.saved_tensors, ctx.dim
        are_zeros = zeros.sum() > 0  # one among all slices and none is divided by
        quotients = gradient * product / torch.where(are_zeros, 1, input)
        # The elements before each times those behind it.
        others = input.shape[dim] - 1
        one = torch.ones_like(input.narrow(dim, 0, 1))
        before = torch.cat([one, input.narrow(dim, 0, others)], dim).cumprod(dim)
        behind = torch.cat([one, input.narrow(dim, 1, others).flip(dim)], dim).cumprod(dim).flip(dim)
        owed = torch.where(are_zeros, gradient * (before * behind), quotients)
        if ctx.among_all and not torch.is_grad_enabled():  # a gradient that has one itself comes of the products
            owed = torch.where(zeros > 1, 0, owed)
        return owed, None, None


def of_products(function: Callable[..., Any]) -> Callable[..., Any]:
    """`prod`, a function or a method, with the gradient of `_Product`."""

    def prod(input: Tensor, *args: Any, **named: Any) -> Any:
        options = dict(zip(("dim", "keepdim"), args, strict=False)) | named
        if len(args) > 2 or not options.keys() <= {"dim", "keepdim", "dtype"} or not isinstance(input, Tensor):
            return function(input, *args, **named)
        dim, wanted = options.get("dim"), options.get("dtype") or input.dtype
        if not (input.requires_grad and torch.is_grad_enabled() and wanted.is_floating_point and input.dim()):
            return function(input, *args, **named)
        if _torch.in_transform():  # within which eager, too, does not ask
            return function(input, *args, **named)
        if not (dim is None or type(dim) is int) or any(is_unbacked(size) or size == 0 for size in input.shape):
            return function(input, *args, **named)
        found = input.to(wanted)
        if dim is None:
            whole: Tensor = _Product.apply(found.reshape(-1), 0, True)  # type: ignore[no-untyped-call]
            return whole.reshape(())
        product: Tensor = _Product.apply(found, dim, False)  # type: ignore[no-untyped-call]
        return product if options.get("keepdim") else product.squeeze(dim)

    return prod
