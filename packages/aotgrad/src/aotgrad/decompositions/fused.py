"""Steps of optimizers that eager has as one kernel over all parameters (`_fused_*`): the arithmetic of each parameter, which fuses.

In: lists of parameters, gradients and states. Out: the same lists afterwards. Steps with a scaler of gradients, and those on GPUs, stay as they are.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from aotgrad.decompositions.precision import cast, widen
from aotgrad.decompositions.registry import decomposition

aten = torch.ops.aten

#: A number: a float, a symbolic one, or a tensor of one.
Number = Any


def _overloads(name: str) -> tuple[Any, ...]:
    packet = getattr(aten, f"_fused_{name}")
    return packet.default, packet.tensor_lr


def _has_one_kernel(parameters: list[Tensor]) -> bool:
    """Whether eager's step is a single launch, as on GPUs: nothing was faster there yet (an H100's 20 parameters: 0.18 ms for 0.78)."""
    return any(parameter.device.type != "cpu" for parameter in parameters)


def _number(lr: Number) -> Number:
    """A rate, which as a tensor takes part in arithmetic on the host."""
    return cast(lr, torch.float64) if isinstance(lr, Tensor) else lr


def _narrow(computed: list[list[Tensor]], before: list[list[Tensor]]) -> list[list[Tensor]]:
    """What was computed, in the dtypes of what was there."""
    return [
        [cast(value, old.dtype) for value, old in zip(values, olds, strict=True)]
        for values, olds in zip(computed, before, strict=True)
    ]


@decomposition(*_overloads("sgd"))
def fused_sgd(
    self: list[Tensor],
    grads: list[Tensor],
    momentum_buffer_list: list[Tensor],
    *,
    weight_decay: Number,
    momentum: Number,
    lr: Number,
    dampening: Number,
    nesterov: bool,
    maximize: bool,
    is_first_step: bool,
    grad_scale: Tensor | None = None,
    found_inf: Tensor | None = None,
) -> Any:
    """Stochastic gradient descent, with momentum where there are buffers for it."""
    if grad_scale is not None or found_inf is not None or _has_one_kernel(self):
        return NotImplemented
    rate = _number(lr)
    moved, buffers = [], []
    for place, (parameter, grad) in enumerate(zip(map(widen, self), map(widen, grads), strict=True)):
        step = -grad if maximize else grad
        if weight_decay != 0:
            step = step + parameter * weight_decay
        if momentum_buffer_list:
            buffer = step if is_first_step else widen(momentum_buffer_list[place]) * momentum + step * (1 - dampening)
            buffers.append(buffer)
            step = step + buffer * momentum if nesterov else buffer
        moved.append(parameter - step * rate)
    new, kept = _narrow([moved, buffers], [self, momentum_buffer_list])
    return new, grads, kept


def _adam(decoupled: bool) -> Any:
    def fused(
        self: list[Tensor],
        grads: list[Tensor],
        exp_avgs: list[Tensor],
        exp_avg_sqs: list[Tensor],
        max_exp_avg_sqs: list[Tensor],
        state_steps: list[Tensor],
        *,
        lr: Number,
        beta1: Number,
        beta2: Number,
        weight_decay: Number,
        eps: Number,
        amsgrad: bool,
        maximize: bool,
        grad_scale: Tensor | None = None,
        found_inf: Tensor | None = None,
    ) -> Any:
        """Adam, or with decoupled decay AdamW."""
        if grad_scale is not None or found_inf is not None or _has_one_kernel(self):
            return NotImplemented
        rate = _number(lr)
        moved: list[Tensor] = []
        means: list[Tensor] = []
        squares: list[Tensor] = []
        largest: list[Tensor] = []
        for place, count in enumerate(state_steps):
            parameter, grad = widen(self[place]), widen(grads[place])
            if maximize:
                grad = -grad
            if weight_decay != 0 and decoupled:
                parameter = parameter * (1 - rate * weight_decay)
            elif weight_decay != 0:
                grad = grad + parameter * weight_decay
            mean = aten.lerp.Scalar(widen(exp_avgs[place]), grad, 1 - beta1)
            square = widen(exp_avg_sqs[place]) * beta2 + grad * grad * (1 - beta2)
            means.append(mean)
            squares.append(square)
            if amsgrad:
                square = aten.maximum.default(widen(max_exp_avg_sqs[place]), square)
                largest.append(square)
            step = cast(count, torch.float64)
            root = aten.sqrt.default(1 - aten.pow.Scalar(beta2, step))
            size = rate / (1 - aten.pow.Scalar(beta1, step))
            moved.append(parameter - mean * size / (aten.sqrt.default(square) / root + eps))
        before = [self, exp_avgs, exp_avg_sqs, max_exp_avg_sqs if amsgrad else []]
        new, first, second, most = _narrow([moved, means, squares, largest], before)
        return new, grads, first, second, most if amsgrad else max_exp_avg_sqs

    return fused


decomposition(*_overloads("adam"))(_adam(False))
decomposition(*_overloads("adamw"))(_adam(True))


@decomposition(*_overloads("adagrad"))
def fused_adagrad(
    self: list[Tensor],
    grads: list[Tensor],
    state_sums: list[Tensor],
    state_steps: list[Tensor],
    *,
    lr: Number,
    lr_decay: Number,
    weight_decay: Number,
    eps: Number,
    maximize: bool,
    grad_scale: Tensor | None = None,
    found_inf: Tensor | None = None,
) -> Any:
    """Adagrad."""
    if grad_scale is not None or found_inf is not None or _has_one_kernel(self):
        return NotImplemented
    moved, sums = [], []
    for place, count in enumerate(state_steps):
        parameter, grad = widen(self[place]), widen(grads[place])
        if maximize:
            grad = -grad
        if weight_decay != 0:
            grad = grad + parameter * weight_decay
        total = widen(state_sums[place]) + grad * grad
        rate = _number(lr) / (1 + (cast(count, torch.float64) - 1) * lr_decay)
        sums.append(total)
        moved.append(parameter - grad * rate / (aten.sqrt.default(total) + eps))
    new, kept = _narrow([moved, sums], [self, state_sums])
    return (new, grads, kept) if isinstance(lr, Tensor) else (new, grads, kept, state_steps)
