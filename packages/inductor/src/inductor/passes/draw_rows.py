"""What takes the place of each of ATen's random operators, in numbers drawn within kernels.

Flows in: a `Draw`. Flows out: calls of `inductor.draws`'s operators and of ATen's elementwise ones, or nothing, where the call stays:
dtypes that loops do not hold, and arguments that eager refuses.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable
from typing import Any

import torch
from torch import fx

from inductor.draws import DIGITS, INTEGERS, NORMAL, UNIFORM
from inductor.host import HOST
from inductor.passes.draws import Draw, Rule, replace_draws
from symshapes import opmath_dtype

aten = torch.ops.aten

INTEGER_DTYPES = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)

DRAWS: dict[Any, Rule] = {}
"""By operator."""


def draw_in_kernels(
    graph: fx.Graph, wanted: Callable[[torch.device], bool], told: Callable[[torch.device], bool] = lambda _: False
) -> int:
    """Replace the draws of devices where it is `wanted` (see `replace_draws`); returns how many were replaced."""
    return replace_draws(graph, DRAWS, wanted, told)


def _draws(*targets: Any) -> Callable[[Rule], Rule]:
    def register(rule: Rule) -> Rule:
        DRAWS.update(dict.fromkeys(targets, rule))
        return rule

    return register


def _kept(draw: Draw, p: float) -> fx.Node:
    """True with probability p, which is compared in float32."""
    return draw.call(torch.bool, aten.lt.Scalar, draw.draw(torch.float32, UNIFORM), p)


@_draws(aten.bernoulli.p)
def _bernoulli(draw: Draw) -> bool:
    numbers = draw.numbers("p")
    if numbers is None or not 0 <= numbers[0] <= 1 or draw.value.is_complex():
        return False
    return draw.becomes(draw.cast(_kept(draw, numbers[0])))


def _demand_probabilities(draw: Draw, p: fx.Node) -> None:
    """Refuse values that are no probabilities, when the program runs, as eager's kernels do."""
    within = [draw.call(torch.bool, target, p, bound) for target, bound in ((aten.ge.Scalar, 0), (aten.le.Scalar, 1))]
    for node in within:
        node.meta["val"] = torch.empty_like(p.meta["val"], dtype=torch.bool)
    both = draw.call(torch.bool, aten.logical_and.default, *within)
    both.meta["val"] = within[0].meta["val"]
    every = draw.call(torch.bool, aten.all.default, both)
    every.meta["val"] = p.meta["val"].new_empty((), dtype=torch.bool)
    demand = draw.call(
        torch.bool, aten._assert_async.msg, every, "Expected p_in >= 0 && p_in <= 1 to be true, but got false."
    )
    demand.meta["val"] = None


@_draws(aten.bernoulli.default, aten.bernoulli.Tensor)
def _bernoulli_each(draw: Draw) -> bool:
    p = draw.argument("p" if draw.node.target is aten.bernoulli.Tensor else "self")
    known = p.meta["val"]
    if known.dtype not in DIGITS or known.device != draw.value.device or draw.value.is_complex():
        return False
    _demand_probabilities(draw, p)
    uniform = draw.draw(opmath_dtype(known.dtype), UNIFORM)
    return draw.becomes(draw.cast(draw.call(torch.bool, aten.lt.Tensor, uniform, p)))


@_draws(aten.native_dropout.default)
def _dropout(draw: Draw) -> bool:
    """With eager's rounding: one, of x times the scale."""
    x, numbers, dtype = draw.argument("input"), draw.numbers("p"), draw.value.dtype
    if numbers is None or not 0 <= numbers[0] < 1 or draw.argument("train") is False or dtype not in DIGITS:
        return False
    results = {user: user.args[1] for user in draw.node.users if user.target is operator.getitem}
    if len(results) < len(draw.node.users):
        return False
    mask = _kept(draw, 1 - numbers[0])
    for item, which in results.items():
        made = mask
        if which == 0:
            masked = draw.call(dtype, aten.mul.Tensor, x, mask)
            made = draw.call(dtype, aten.mul.Tensor, masked, 1 / (1 - numbers[0]))
        draw.becomes(made, item)
        draw.node.graph.erase_node(item)
    return True


def _scaled(draw: Draw, distribution: Any, factor: float, more: float, most: float | None = None) -> bool:
    """Numbers of a distribution times a factor, and more, but `most` of all; rounded once, as eager's kernels do."""
    dtype = draw.value.dtype
    if dtype not in DIGITS:
        return False
    if (factor, more) == (1, 0):
        return draw.becomes(draw.draw(dtype, distribution))
    wide = opmath_dtype(dtype)
    product = draw.call(wide, aten.mul.Tensor, draw.draw(wide, distribution), factor)
    summed = draw.call(wide, aten.add.Tensor, product, more)
    return draw.becomes(draw.cast(summed if most is None else draw.call(wide, aten.clamp.default, summed, None, most)))


@_draws(aten.uniform.default)
def _uniform_between(draw: Draw) -> bool:
    numbers, dtype = draw.numbers("from", "to"), draw.value.dtype
    if numbers is None or dtype not in DIGITS:
        return False
    (low, high), most = numbers, torch.finfo(dtype).max
    if not 0 <= high - low <= most or max(-low, high) > most:
        return False
    return _scaled(draw, UNIFORM, high - low, low, _below(high, dtype) if low < high else None)


def _below(bound: float, dtype: torch.dtype) -> float:
    """The greatest number of a dtype below the bound, to which what is less may round."""
    nearest = torch.tensor(bound, dtype=dtype, device=HOST)
    return float(nearest if nearest.item() < bound else nearest.nextafter(nearest.new_tensor(-math.inf)))


@_draws(aten.normal_functional.default, aten.normal.float_float)
def _normal_of(draw: Draw) -> bool:
    numbers = draw.numbers("std", "mean")
    return numbers is not None and numbers[0] >= 0 and _scaled(draw, NORMAL, *numbers)


_draws(aten.rand.default, aten.rand.generator, aten.rand_like.default)(
    functools.partial(_scaled, distribution=UNIFORM, factor=1, more=0)
)
_draws(aten.randn.default, aten.randn.generator, aten.randn_like.default)(
    functools.partial(_scaled, distribution=NORMAL, factor=1, more=0)
)


@_draws(aten.exponential.default)
def _exponential(draw: Draw) -> bool:
    """The inverse distribution of a uniform number; never 0, by which programs divide, and whose logarithm they take."""
    numbers, dtype = draw.numbers("lambd"), draw.value.dtype
    if numbers is None or not 0 < numbers[0] < math.inf or dtype not in DIGITS:
        return False
    wide = opmath_dtype(dtype)
    opposite = draw.call(wide, aten.neg.default, draw.draw(wide, UNIFORM))
    logarithm = draw.call(wide, aten.log1p.default, opposite)
    scaled = draw.call(wide, aten.mul.Tensor, logarithm, -1 / numbers[0])
    narrow = torch.finfo(dtype)
    least = max(2.0 ** -(DIGITS[wide] + 1) / numbers[0], torch.finfo(wide).tiny, narrow.tiny * narrow.eps)
    return draw.becomes(draw.cast(draw.call(wide, aten.clamp.default, scaled, least)))


@_draws(
    aten.randint.default,
    aten.randint.generator,
    aten.randint.low,
    aten.randint.low_generator,
    aten.randint_like.default,
    aten.randint_like.low_dtype,
    aten.random.to,
    getattr(aten.random, "from"),
)
def _integers(draw: Draw) -> bool:
    low, high = (
        next((found for name in names if (found := draw.argument(name)) is not None), None)
        for names in (("low", "from"), ("high", "to"))
    )
    low, dtype = low or 0, draw.value.dtype
    if type(low) is not int or type(high) is not int or not 0 < high - low <= 1 << 63:
        return False
    if dtype in INTEGER_DTYPES:
        least, most = torch.iinfo(dtype).min, torch.iinfo(dtype).max
    elif (
        dtype in DIGITS
    ):  # further out not all are numbers of the dtype: eager warns or refuses, and does not round to `high`
        least, most = -(1 << DIGITS[dtype]), 1 << DIGITS[dtype]
    else:
        return False
    if low < least or high - 1 > most:
        return False
    return draw.becomes(draw.draw(dtype, INTEGERS, low, high))
