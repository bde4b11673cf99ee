"""Scales and shifts of channels that follow a convolution or a linear layer go into its weight and bias: batch norm in inference,
a layer's own scale, and whatever else adds to or multiplies each channel by a constant.

In: an ATen graph and its `Constants`. Out: the same graph, whose convolutions and products have other weights, with nothing behind
them. Results are those of eager but for rounding: weights are computed in float64 and rounded once to their dtype.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import field
from typing import Any

import torch
from torch import fx

from inductor.host import HOST
from inductor.passes.freezing import Constants, eagerly
from inductor.passes.graphs import same_tensor_metadata
from inductor.passes.patterns import argument_of
from symshapes import dataclass, result_dtype

aten = torch.ops.aten


@dataclass
class _Affine:
    """What becomes of each channel: `scale * value + shift`, float64 numbers of one a channel."""

    scale: torch.Tensor
    shift: torch.Tensor
    shifts: bool = False
    calls: list[tuple[fx.Node, fx.Node]] = field(default_factory=list)
    """Those that do it, each with the argument that takes its place."""


def fold_affine(graph: fx.Graph, constants: Constants) -> int:
    """Put scales and shifts into weights; how many convolutions and products have others now."""
    changed = 0
    for node in list(graph.nodes):
        layer = _LAYERS.get(node.target)
        if layer is None or node.op != "call_function":
            continue
        read = layer(node, constants)
        if read is None:
            continue
        channels = read.weight.shape[0]
        found = _Affine(torch.ones(channels, dtype=torch.float64), torch.zeros(channels, dtype=torch.float64))
        with eagerly():
            _follow(node, found, constants)
            changed += bool(found.calls) and _apply(node, read, found, constants)
    return changed


@dataclass(frozen=True)
class _Layer:
    """The constants of a convolution or product, and how it is called with others."""

    weight: torch.Tensor
    """Its first dimension is the results' channel."""
    bias: torch.Tensor | None
    change: Callable[[torch.Tensor, torch.Tensor | None], None]


def _apply(node: fx.Node, layer: _Layer, found: _Affine, constants: Constants) -> bool:
    old = layer.weight
    weight = old.double() * found.scale.to(old.device).view(-1, *[1] * (old.dim() - 1))
    bias = found.shift.to(old.device)
    if layer.bias is not None:
        bias = bias + layer.bias.double() * found.scale.to(old.device)
    made = weight.to(old.dtype), bias.to(old.dtype)
    if not all(bool(each.isfinite().all()) for each in made):
        return False
    layer.change(made[0], made[1] if found.shifts else None if layer.bias is None else made[1])
    for call, argument in reversed(found.calls):
        call.replace_all_uses_with(argument)
        node.graph.erase_node(call)
    return True


# Convolutions and products


def _convolution(node: fx.Node, constants: Constants) -> _Layer | None:
    image, weight, bias = (argument_of(node, name) for name in ("input", "weight", "bias"))
    transposed, groups = argument_of(node, "transposed"), argument_of(node, "groups")
    if weight not in constants or (bias is not None and bias not in constants):
        return None
    if image.meta["val"].dim() != weight.meta["val"].dim() or (transposed and groups != 1):
        return None
    held = constants.value(weight)

    def change(new: torch.Tensor, shift: torch.Tensor | None) -> None:
        new = new.transpose(0, 1) if transposed else new
        made = _like(weight, new)
        arguments = list(node.args)
        arguments[1] = constants.hold(made, weight, node)
        if shift is not None:
            arguments[2] = _vector(shift, bias or weight, node, constants)
        node.args = tuple(arguments)

    return _Layer(held.transpose(0, 1) if transposed else held, None if bias is None else constants.value(bias), change)


def _product(node: fx.Node, constants: Constants) -> _Layer | None:
    matrix = argument_of(node, "mat2")
    bias = argument_of(node, "self") if node.target is aten.addmm.default else None
    if matrix not in constants or (bias is not None and bias not in constants):
        return None
    held = constants.value(matrix)
    vector = None
    if bias is not None:
        if argument_of(node, "beta") != 1 or argument_of(node, "alpha") != 1 or bias.meta["val"].dim() != 1:
            return None
        vector = constants.value(bias).expand(held.shape[1])

    def change(new: torch.Tensor, shift: torch.Tensor | None) -> None:
        weight = constants.hold(_like(matrix, new.t()), matrix, node)
        if bias is None and shift is None:
            node.args = (node.args[0], weight)
            return
        first = _vector(shift, bias or matrix, node, constants) if shift is not None else bias
        image = argument_of(node, "mat1" if bias is not None else "self")
        node.target, node.args, node.kwargs = aten.addmm.default, (first, image, weight), {}

    return _Layer(held.t(), vector, change)


def _like(node: fx.Node, value: torch.Tensor) -> torch.Tensor:
    """The value with the strides that a node has."""
    fake = node.meta["val"]
    return torch.empty_strided(fake.shape, fake.stride(), dtype=value.dtype, device=value.device).copy_(value)


def _vector(values: torch.Tensor, like: fx.Node, before: fx.Node, constants: Constants) -> fx.Node:
    made = constants.hold(values, like, before)
    fake = like.meta["val"]
    with fake.fake_mode:
        made.meta["val"] = torch.empty(values.shape, dtype=values.dtype, device=values.device)
    return made


_LAYERS: dict[Any, Callable[[fx.Node, Constants], _Layer | None]] = {
    aten.convolution.default: _convolution,
    aten.addmm.default: _product,
    aten.mm.default: _product,
}


# What follows them


def _follow(node: fx.Node, found: _Affine, constants: Constants) -> None:
    """Go from the only reader of a layer's result to its only reader, and so on, while channels stay apart."""
    channel, own = 1, node.meta["val"].dtype
    while len(node.users) == 1:
        (call,) = node.users
        if call.op != "call_function" or not isinstance(call.meta.get("val"), torch.Tensor):
            return
        if call.target in _ARITHMETIC:
            if not _take(call, node, channel, found, constants):
                return
        else:
            moved = _moved(call, node, channel, own)
            if moved is None:
                return
            channel = moved
        node = call


def _take(call: fx.Node, node: fx.Node, channel: int, found: _Affine, constants: Constants) -> bool:
    """Take a call's arithmetic into `found`; False if it is none of the kind."""
    value, result = node.meta["val"], call.meta["val"]
    if not same_tensor_metadata(result, value, strict=False) or not value.dtype.is_floating_point:
        return False
    first, second = call.args[0], call.args[1]
    if first is node and second is not node:
        other, reverse = second, False
    elif second is node:
        other, reverse = first, True
    else:
        return False
    numbers = _numbers_of(other, value, channel, constants)
    if numbers is None or not bool(numbers.isfinite().all()):
        return False
    alpha = argument_of(call, "alpha")
    alpha = 1 if alpha is None else alpha
    if not isinstance(alpha, int | float):
        return False
    step = _ARITHMETIC[call.target](numbers, alpha, reverse)
    if step is None:
        return False
    scale, shift = step
    found.scale = found.scale * scale
    found.shift = found.shift * scale + shift
    found.shifts = found.shifts or call.target in _SHIFTS
    found.calls.append((call, node))
    return True


def _numbers_of(other: Any, value: torch.Tensor, channel: int, constants: Constants) -> torch.Tensor | None:
    """The numbers of an argument, one a channel; None if it has others."""
    count = value.shape[channel]
    if isinstance(other, int | float) and not isinstance(other, bool):
        return torch.full((count,), other, dtype=torch.float64)
    if other not in constants or not isinstance(other.meta["val"], torch.Tensor):
        return None
    fake = other.meta["val"]
    if fake.is_complex() or fake.dim() > value.dim():
        return None
    shape = [1] * (value.dim() - fake.dim()) + list(fake.shape)
    if any(size != 1 for dim, size in enumerate(shape) if dim != channel) or shape[channel] not in (1, count):
        return None
    numbers: torch.Tensor = constants.value(other).to(HOST, torch.float64).reshape(-1).expand(count)
    return numbers


Step = tuple[Any, Any] | None


def _add(numbers: torch.Tensor, alpha: float, reverse: bool) -> Step:
    return (alpha, numbers) if reverse else (1, numbers * alpha)


def _sub(numbers: torch.Tensor, alpha: float, reverse: bool) -> Step:
    return (-alpha, numbers) if reverse else (1, -numbers * alpha)


def _mul(numbers: torch.Tensor, alpha: float, reverse: bool) -> Step:
    return numbers, 0


def _div(numbers: torch.Tensor, alpha: float, reverse: bool) -> Step:
    return None if reverse or not bool(numbers.all()) else (1 / numbers, 0)


_ARITHMETIC: dict[Any, Callable[[torch.Tensor, float, bool], Step]] = {
    aten.add.Tensor: _add,
    aten.sub.Tensor: _sub,
    aten.mul.Tensor: _mul,
    aten.div.Tensor: _div,
    aten.add.Scalar: _add,
    aten.sub.Scalar: _sub,
    aten.mul.Scalar: _mul,
    aten.div.Scalar: _div,
}
"""Scale and shift that a call with one number a channel comes to. `reverse`: the channels are the second argument."""
_SHIFTS = (aten.add.Tensor, aten.sub.Tensor, aten.add.Scalar, aten.sub.Scalar)
"""Those that a bias is needed for, whatever the numbers."""


def _moved(call: fx.Node, node: fx.Node, channel: int, own: torch.dtype) -> int | None:
    """Where the channels are in what a call makes of the same elements; None if they are not one dimension, or it is no such call."""
    if call.args[0] is not node:
        return None
    if call.target is aten.permute.default:
        rank = node.meta["val"].dim()
        return [dim % rank for dim in call.args[1]].index(channel)  # type: ignore[union-attr]
    if call.target in (aten.view.default, aten._unsafe_view.default, aten.reshape.default):
        return _viewed(list(node.meta["val"].shape), list(call.meta["val"].shape), channel)
    if call.target is aten.clone.default:
        return channel
    if call.target is aten._to_copy.default:
        # Elements that a narrower dtype than the layer's has not are no matter of weights.
        before, after = node.meta["val"], call.meta["val"]
        return channel if after.dtype is own or result_dtype((before, after)) is after.dtype else None
    return None


def _viewed(before: list[Any], after: list[Any], channel: int) -> int | None:
    """The dimension of a view that has the same channels: of the same size, with as many elements to a channel's row."""
    if not all(type(size) is int for size in before[channel:]):
        return None
    places = [dim for dim in _with_rows_of(after, _product_of(before[channel + 1 :])) if after[dim] == before[channel]]
    return places[0] if places and before[channel] != 1 else None


def _with_rows_of(shape: list[Any], count: int) -> Iterator[int]:
    """The dimensions behind which so many elements lie."""
    behind = 1
    for dim in reversed(range(len(shape))):
        if behind == count:
            yield dim
        if type(shape[dim]) is not int:
            return
        behind *= shape[dim]


def _product_of(sizes: list[int]) -> int:
    found = 1
    for size in sizes:
        found *= size
    return found
