"""Loss functions and their backward formulas."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from aotgrad.decompositions.activations import log_sigmoid_forward
from aotgrad.decompositions.layout import contiguous
from aotgrad.decompositions.precision import cast, in_opmath, widen
from aotgrad.decompositions.registry import Maybe, decomposition

aten = torch.ops.aten

NONE, MEAN, SUM = 0, 1, 2
"""The `reduction` argument of loss ops."""


def _reduced(loss: Tensor, reduction: int) -> Tensor:
    if reduction == MEAN:
        return aten.mean.default(loss)
    return aten.sum.default(loss) if reduction == SUM else loss


def _share(x: Tensor, reduction: int) -> Any:
    """What each element's loss weighs in the result, as a divisor."""
    return x.numel() if reduction == MEAN else 1


def _difference(x: Tensor, target: Tensor) -> Tensor:
    """x - target, of bools too, which are numbers in a loss and may not be subtracted."""
    if torch.bool not in (x.dtype, target.dtype):
        return x - target
    common = target.dtype if x.dtype is torch.bool else x.dtype  # the other's
    return x.to(common) - target.to(common)


@decomposition(aten.mse_loss.default)
@in_opmath
def mse_loss(x: Tensor, target: Tensor, reduction: int = MEAN) -> Tensor:
    """(x - target)², reduced."""
    difference = _difference(x, target)
    return _reduced(difference * difference, reduction)


@decomposition(aten.mse_loss_backward.default)
@in_opmath
def mse_loss_backward(grad: Tensor, x: Tensor, target: Tensor, reduction: int) -> Tensor:
    """The gradient of `mse_loss`, row-major."""
    return contiguous(_difference(x, target) * (2.0 / _share(x, reduction)) * grad)


@decomposition(aten.smooth_l1_loss.default)
@in_opmath
def smooth_l1_loss(x: Tensor, target: Tensor, reduction: int = MEAN, beta: float = 1.0) -> Tensor:
    """d² / (2 beta) for distances d below beta, d - beta / 2 beyond; reduced."""
    distance = aten.abs.default(_difference(x, target))
    if beta == 0:
        return _reduced(distance, reduction)
    loss = aten.where.self(distance < beta, 0.5 * distance * distance / beta, distance - 0.5 * beta)
    return _reduced(loss, reduction)


@decomposition(aten.smooth_l1_loss_backward.default)
@in_opmath
def smooth_l1_loss_backward(grad: Tensor, x: Tensor, target: Tensor, reduction: int, beta: float) -> Tensor:
    """The gradient of `smooth_l1_loss`, row-major."""
    difference = _difference(x, target)
    scaled = grad / _share(x, reduction)
    far = scaled * aten.sign.default(difference)
    if beta == 0:
        return contiguous(far)
    return contiguous(aten.where.self(aten.abs.default(difference) < beta, scaled * difference / beta, far))


@decomposition(aten.huber_loss.default)
@in_opmath
def huber_loss(x: Tensor, target: Tensor, reduction: int = MEAN, delta: float = 1.0) -> Tensor:
    """d² / 2 for distances d up to delta, delta (d - delta / 2) beyond; reduced."""
    distance = aten.abs.default(_difference(x, target))
    loss = aten.where.self(distance <= delta, 0.5 * distance * distance, delta * (distance - 0.5 * delta))
    return _reduced(loss, reduction)


@decomposition(aten.huber_loss_backward.default)
@in_opmath
def huber_loss_backward(grad: Tensor, x: Tensor, target: Tensor, reduction: int, delta: float) -> Tensor:
    """The gradient of `huber_loss`, row-major."""
    difference = _difference(x, target)
    slope = aten.clamp.default(difference, -delta, delta)
    return contiguous(slope * (grad / _share(x, reduction)))


@decomposition(aten.soft_margin_loss.default)
@in_opmath
def soft_margin_loss(x: Tensor, target: Tensor, reduction: int = MEAN) -> Tensor:
    """log(1 + exp(-target x)), reduced."""
    return _reduced(aten.log1p.default(aten.exp.default(-target * x)), reduction)


@decomposition(aten.soft_margin_loss_backward.default)
@in_opmath
def soft_margin_loss_backward(grad: Tensor, x: Tensor, target: Tensor, reduction: int) -> Tensor:
    """The gradient of `soft_margin_loss`."""
    power = aten.exp.default(-target * x)
    return -target * (power / (power + 1)) * (grad / _share(x, reduction))


def _demand_probabilities(values: Tensor, what: str) -> None:
    """Refuse what is no probability, when the program runs, as eager's kernels do."""
    within = aten.logical_and.default(aten.ge.Scalar(values, 0), aten.le.Scalar(values, 1))
    aten._assert_async.msg(aten.all.default(within), f"all elements of {what} should be between 0 and 1")


@decomposition(aten.binary_cross_entropy.default)
@in_opmath
def binary_cross_entropy(x: Tensor, target: Tensor, weight: Maybe = None, reduction: int = MEAN) -> Tensor:
    """-(target log x + (1 - target) log(1 - x)), weighted and reduced."""
    _demand_probabilities(x, "input")
    _demand_probabilities(target, "target")
    # Logarithms are held at -100, so that a wrong certainty costs a finite amount.
    right = aten.clamp.default(aten.log.default(x), -100)
    wrong = aten.clamp.default(aten.log1p.default(-x), -100)
    loss = (target - 1) * wrong - target * right
    return _reduced(loss if weight is None else loss * weight, reduction)


@decomposition(aten.binary_cross_entropy_backward.default)
@in_opmath
def binary_cross_entropy_backward(
    grad: Tensor, x: Tensor, target: Tensor, weight: Maybe = None, reduction: int = MEAN
) -> Tensor:
    """The gradient of `binary_cross_entropy`; (1 - x) x counts as 1e-12 at least."""
    slope = grad * (x - target) / aten.clamp.default((1 - x) * x, 1e-12)
    if weight is not None:
        slope = slope * weight
    return slope / _share(x, reduction)


# Eager composes this one of rounded steps, so precision is left as it is.
@decomposition(aten.binary_cross_entropy_with_logits.default)
def binary_cross_entropy_with_logits(
    x: Tensor, target: Tensor, weight: Maybe = None, pos_weight: Maybe = None, reduction: int = MEAN
) -> Tensor:
    """`binary_cross_entropy` of sigmoid(x), without ever computing sigmoid(x); `pos_weight` weighs the positive class."""
    likelihood = log_sigmoid_forward(x)[0]
    if pos_weight is not None:
        likelihood = ((pos_weight - 1) * target + 1) * likelihood
    loss = (1 - target) * x - likelihood
    return _reduced(loss if weight is None else loss * weight, reduction)


def _class_dim(x: Tensor) -> int:
    return 0 if x.dim() == 1 else 1


_BEYOND = 2**63 - 1


def _refusing(index: Tensor) -> Tensor:
    """Classes for `aten.index`, which takes negative positions where eager's loss raises IndexError for a class out of range:
    they become one that is too large."""
    return aten.where.ScalarSelf(index < 0, _BEYOND, index)


def _picked(x: Tensor, index: Tensor) -> Tensor:
    """The elements of `x` at `index` along its class dimension."""
    dim, rank = _class_dim(x), x.dim()
    places: list[Maybe] = []
    for at in range(rank):
        if at == dim:
            places.append(_refusing(index))
            continue
        shape = [1] * (rank - 1)
        shape[at if at < dim else at - 1] = x.shape[at]
        places.append(aten.view.default(aten.arange.start_step(0, x.shape[at], 1, device=x.device), shape))
    return aten.index.Tensor(x, places)


def _class_weights(x: Tensor, target: Tensor, weight: Maybe, ignore_index: int) -> tuple[Tensor, Tensor]:
    """Targets with ignored ones replaced by class 0; their weights."""
    counted = target != ignore_index
    index = aten.where.ScalarOther(counted, target, 0)
    if weight is None:
        weights = cast(counted, widen(x).dtype if x.is_floating_point() else x.dtype)
    else:
        picked = aten.index.Tensor(widen(weight), [_refusing(index)])
        weights = aten.where.ScalarOther(counted, picked, 0.0)
    return index, weights


@decomposition(aten.nll_loss_forward.default, aten.nll_loss2d_forward.default)
def nll_loss_forward(
    x: Tensor, target: Tensor, weight: Maybe, reduction: int, ignore_index: int
) -> tuple[Tensor, Tensor]:
    """-x at the target class, weighted and reduced, and the sum of the weights. x is (C), (N, C) or (N, C, ...)."""
    if target.dim() != x.dim() - 1 or target.dtype != torch.int64:
        return NotImplemented
    index, weights = _class_weights(x, target, weight, ignore_index)
    picked = _picked(x, index)
    counted = target != ignore_index
    # Where a target is ignored, even an infinite input contributes nothing.
    loss = aten.where.ScalarOther(counted, -widen(picked) * weights, 0.0)
    if reduction == NONE and x.dim() > 1:
        return cast(loss, x.dtype), aten.full.default([], 0.0, dtype=x.dtype, device=x.device)
    total = aten.sum.default(weights)
    loss = aten.sum.default(loss)
    if reduction == MEAN:
        loss = loss / total
    return cast(loss, x.dtype), cast(total, x.dtype)


@decomposition(aten.nll_loss_backward.default, aten.nll_loss2d_backward.default)
def nll_loss_backward(
    grad: Tensor, x: Tensor, target: Tensor, weight: Maybe, reduction: int, ignore_index: int, total_weight: Tensor
) -> Tensor:
    """The gradient of `nll_loss_forward`: not 0 at the target classes alone."""
    if target.dim() != x.dim() - 1 or target.dtype != torch.int64:
        return NotImplemented
    dim = _class_dim(x)
    index, weights = _class_weights(x, target, weight, ignore_index)
    grad = widen(grad)
    if reduction == MEAN:
        grad = grad / widen(total_weight)
    slope = aten.unsqueeze.default(aten.where.ScalarOther(target != ignore_index, -grad * weights, 0.0), dim)
    shape = [1] * x.dim()
    shape[dim] = x.shape[dim]
    classes = aten.view.default(aten.arange.start_step(0, x.shape[dim], 1, device=x.device), shape)
    return cast(aten.where.ScalarOther(classes == aten.unsqueeze.default(index, dim), slope, 0.0), x.dtype)
