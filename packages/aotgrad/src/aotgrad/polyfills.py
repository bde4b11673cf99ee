"""Torch functions that do otherwise for a real tensor or number than for a fake one or a symbol, written so that they do not.

In: a captured call of such a function or method. Out: calls that give the same values and raise where it raises.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from aotgrad.products import of_products, of_running_products
from symshapes import is_unbacked, taking_symbols


def _one_hot(input: Tensor, num_classes: Any = -1) -> Tensor:
    """`one_hot`; a class out of range is refused by the kernel that looks it up in the list of all classes."""
    in_data = isinstance(num_classes, Tensor) or is_unbacked(num_classes)
    if in_data or num_classes == -1 or input.numel() == 0:
        found: Tensor = taking_symbols(torch.nn.functional.one_hot, ())(input, num_classes)
        return found
    classes = torch.arange(num_classes, device=input.device)
    known = torch.gather(classes, 0, input.reshape(-1)).reshape(input.shape)
    return (known.unsqueeze(-1) == classes).to(torch.int64)


class _Power(torch.autograd.Function):
    """A power to a symbol, of which autograd's own derivative would ask for the value."""

    @staticmethod
    def forward(ctx: Any, input: Tensor, exponent: Any) -> Tensor:
        ctx.save_for_backward(input)
        ctx.exponent = exponent
        return torch.pow(input, exponent)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        (input,), exponent = ctx.saved_tensors, ctx.exponent
        if exponent == 0:
            return torch.zeros_like(input), None
        return gradients[0] * (exponent * torch.pow(input, exponent - 1)), None


def _power_by(function: Callable[..., Any]) -> Callable[..., Any]:
    def power(*args: Any, **named: Any) -> Any:
        if not named and len(args) == 2 and isinstance(args[0], Tensor) and isinstance(args[1], torch.SymFloat):
            input = args[0]
            if input.is_floating_point() and input.requires_grad and torch.is_grad_enabled():
                return _Power.apply(input, args[1])  # type: ignore[no-untyped-call]
        return function(*args, **named)

    return power


class _LaidOutAlike(torch.autograd.Function):
    """A view, whose gradient is laid out as the tensor is."""

    @staticmethod
    def forward(ctx: Any, input: Tensor) -> Tensor:
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(input)
        return input.view_as(input)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        (gradient,), (input,) = gradients, ctx.saved_tensors
        return None if gradient is None else torch.empty_like(input).copy_(gradient)


def _of_reflectors(function: Callable[..., Any]) -> Callable[..., Any]:
    """A product with Householder reflectors, whose gradient autograd writes in place, but joins from columns of a fake tensor."""

    def product(input: Tensor, *args: Any, **named: Any) -> Any:
        if isinstance(input, Tensor) and input.requires_grad and torch.is_grad_enabled() and not input.is_contiguous():
            input = _LaidOutAlike.apply(input)  # type: ignore[no-untyped-call]
        return function(input, *args, **named)

    return product


def _attention(
    query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None = None, *args: Any, **named: Any
) -> Any:
    """Attention: to fake scores torch adds the mask anew, to real ones in place, where it may be no larger than they are."""
    attention = taking_symbols(torch.nn.functional.scaled_dot_product_attention, (*args, *named.values()))
    result = attention(query, key, value, attn_mask, *args, **named)
    if attn_mask is None or not all(type(size) is int for each in (query, key, attn_mask) for size in each.shape):
        return result
    mine, batch = list(attn_mask.shape), list(query.shape[:-2])
    if query.dim() == key.dim() and not named.get("enable_gqa", len(args) > 3 and args[3]):
        batch = [two if one == 1 else one for one, two in zip(batch, key.shape, strict=False)]
    scores = [*batch, query.shape[-2], key.shape[-2]]
    wide = mine[: len(mine) - len(scores)] if len(mine) > len(scores) else []
    for at, size in enumerate(scores, len(mine) - len(scores)):
        wide.append(mine[at] if size == 1 and at >= 0 else size)
    if wide != scores:
        raise RuntimeError(f"output with shape {scores} doesn't match the broadcast shape {wide}")
    return result


POLYFILLS: dict[Any, Callable[..., Any]] = {
    torch.nn.functional.one_hot: _one_hot,
    torch.nn.functional.scaled_dot_product_attention: _attention,
    torch.pow: _power_by(torch.pow),
    operator.pow: _power_by(operator.pow),
    "pow": _power_by(torch.Tensor.pow),
    "__pow__": _power_by(torch.Tensor.__pow__),
    torch.cumprod: of_running_products(torch.cumprod),
    "cumprod": of_running_products(torch.Tensor.cumprod),
    torch.prod: of_products(torch.prod),
    "prod": of_products(torch.Tensor.prod),
    torch.linalg.householder_product: _of_reflectors(torch.linalg.householder_product),
    torch.orgqr: _of_reflectors(torch.orgqr),
    "orgqr": _of_reflectors(torch.Tensor.orgqr),
    torch.ormqr: _of_reflectors(torch.ormqr),
    "ormqr": _of_reflectors(torch.Tensor.ormqr),
}
"""Function of torch, or name of a tensor's method, to the function run in its place."""
