"""Operators over rows that only the run can count, whose own code asks how many there are: written out for any number.

In: calls on fakes. Out: the same by other operators, for no rows and for one as in eager. What is not so goes eager's own way.
"""

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from symshapes.expr.symbols import is_unbacked
from symshapes.facts.layout import same_size
from symshapes.rules.layout import demand

_FULL = (torch.float32, torch.float64)


def _is_uncounted(input: Tensor) -> bool:
    return any(map(is_unbacked, input.shape)) and input.dtype in _FULL


def _needs_grad(input: Tensor) -> bool:
    return input.requires_grad and torch.is_grad_enabled()


class _Cumsum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, input: Tensor, dim: int) -> Tensor:
        ctx.dim = dim
        return torch.cumsum(input, dim)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        (gradient,) = gradients
        return gradient.flip([ctx.dim]).cumsum(ctx.dim).flip([ctx.dim]), None


def cumsum(input: Tensor, dim: Any, **named: Any) -> Tensor:
    """`torch.cumsum`; autograd's own asks whether there is more than one element."""
    if named or type(dim) is not int or not _is_uncounted(input) or not _needs_grad(input):
        return torch.cumsum(input, dim, **named)
    found: Tensor = _Cumsum.apply(input, dim)  # type: ignore[no-untyped-call]
    return found


class _Variance(torch.autograd.Function):
    """Of all elements, or its root."""

    @staticmethod
    def forward(ctx: Any, input: Tensor, correction: int, root: bool) -> Tensor:
        result = (torch.std if root else torch.var)(input, correction=correction)
        ctx.correction, ctx.root = correction, root
        ctx.save_for_backward(input, result)
        return result

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        (gradient,) = gradients
        input, result = ctx.saved_tensors
        if ctx.root:
            gradient = (gradient / (result * 2)).masked_fill(result == 0, 0)
        freedom = torch.full((), input.numel() - ctx.correction, dtype=input.dtype, device=input.device)
        return 2 * gradient * (input - input.mean()) / freedom, None, None


def _of_all(root: bool) -> Any:
    torchs = torch.std if root else torch.var

    def call(input: Tensor, *args: Any, **named: Any) -> Tensor:
        """`torch.var`, `torch.std`; of all elements autograd's own asks how many there are."""
        correction = named.get("correction", 1) if named.keys() <= {"correction"} and not args else None
        if correction not in (0, 1) or not _is_uncounted(input) or not _needs_grad(input):
            return torchs(input, *args, **named)
        found: Tensor = _Variance.apply(input, int(correction), root)  # type: ignore[no-untyped-call]
        return found

    return call


def _with_mean(root: bool) -> Any:
    torchs, of_all = (torch.std_mean, _of_all(True)) if root else (torch.var_mean, _of_all(False))

    def call(input: Tensor, *args: Any, **named: Any) -> Any:
        """`torch.var_mean`, `torch.std_mean`."""
        if args or named.keys() - {"correction"} or not _is_uncounted(input) or not _needs_grad(input):
            return torchs(input, *args, **named)
        return of_all(input, **named), input.mean()

    return call


def batch_norm(
    input: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """`torch.nn.functional.batch_norm`. Raises ValueError for one value a channel in training, when the program runs."""
    vectors = [each for each in (running_mean, running_var, weight, bias) if each is not None]
    like = all(each.dtype is input.dtype and not any(map(is_unbacked, each.shape)) for each in vectors)
    whole = (running_mean is None) == (running_var is None) and (training or running_mean is not None)
    if not _is_uncounted(input) or not like or not whole or input.dim() < 2 or eps <= 0 or is_unbacked(input.shape[1]):
        return F.batch_norm(input, running_mean, running_var, weight, bias, training, momentum, eps)
    column = [1, input.shape[1]] + [1] * (input.dim() - 2)
    if training:
        dims = [dim for dim in range(input.dim()) if dim != 1]
        mean = input.mean(dims)
        centred = input - mean.view(column)
        variance = centred.square().mean(dims)
        _remember(input.detach(), dims, running_mean, running_var, momentum)
    else:
        assert running_mean is not None and running_var is not None
        centred, variance = input - running_mean.view(column), running_var
    result = centred * (variance + eps).rsqrt().view(column)
    if weight is not None:
        result = result * weight.view(column)
    return result if bias is None else result + bias.view(column)


def _remember(input: Tensor, dims: list[int], mean: Tensor | None, variance: Tensor | None, momentum: float) -> None:
    """Count these rows in; no rows change nothing."""
    count = 1
    for dim in dims:
        count = count * input.shape[dim]
    said = f"Expected more than 1 value per channel when training, got input size {input.shape}"
    demand(count != 1, lambda: ValueError(said))
    if mean is None or variance is None:
        return
    some = torch.full((), count, dtype=torch.int64, device=input.device) > 0
    with torch.no_grad():
        for remembered, now in ((mean, input.mean(dims)), (variance, input.var(dims))):
            remembered.copy_(torch.where(some, remembered * (1 - momentum) + now * momentum, remembered))


def dropout(input: Tensor, p: float, train: bool) -> Tensor:
    """`torch.dropout`; of how many elements only the run can tell, no elements are no case of their own."""
    if p == 0 or not train or not any(map(is_unbacked, input.shape)) or input.device.type != "cpu":
        return torch.dropout(input, p, train)
    if p == 1:
        return input.mul(torch.zeros((), dtype=input.dtype))
    return input * torch.empty_like(input).bernoulli_(1 - p).div_(1 - p)


class _MaskedScatter(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, input: Tensor, mask: Tensor, source: Tensor) -> Tensor:
        ctx.save_for_backward(mask)
        ctx.shape, ctx.count = source.shape, source.numel()
        return torch.masked_scatter(input, mask, source)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        (gradient,) = gradients
        (mask,) = ctx.saved_tensors
        taken = mask.expand_as(gradient).reshape(-1)
        count = ctx.count
        places = (taken.cumsum(0) - 1).masked_fill(taken.logical_not(), count)  # what is not taken goes to the end
        found = gradient.new_zeros(count + 1).scatter(0, places, gradient.reshape(-1))
        return gradient.masked_fill(mask, 0), None, found.narrow(0, 0, count).view(ctx.shape)


def masked_scatter(input: Tensor, mask: Tensor, source: Tensor) -> Tensor:
    """`torch.masked_scatter`; autograd's own asks whether some of the source is left."""
    spread = input.dim() == mask.dim() and all(map(same_size, input.shape, mask.shape))
    if not _is_uncounted(source) or not _needs_grad(source) or not spread:
        return torch.masked_scatter(input, mask, source)
    found: Tensor = _MaskedScatter.apply(input, mask, source)  # type: ignore[no-untyped-call]
    return found


UNCOUNTED: dict[Any, Any] = {
    torch.cumsum: cumsum,
    torch.Tensor.cumsum: cumsum,
    torch.var: _of_all(False),
    torch.Tensor.var: _of_all(False),
    torch.std: _of_all(True),
    torch.Tensor.std: _of_all(True),
    torch.var_mean: _with_mean(False),
    torch.std_mean: _with_mean(True),
    F.batch_norm: batch_norm,
    torch.masked_scatter: masked_scatter,
    torch.Tensor.masked_scatter: masked_scatter,
}
"""By function: what runs in its place on fakes with symbolic sizes."""
