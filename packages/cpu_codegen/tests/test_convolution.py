"""Convolutions by blocks: layouts of weights, sizes around those of blocks, panels and cuts, edges, and what follows the sum."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import capture
import meta
from cpu_codegen.contraction import find_product
from cpu_codegen.convolution import find_convolution
from inductor import Body, Ref, Scalar, Where, ops

F32, I64 = torch.float32, torch.int64
LAST = torch.channels_last


@dataclass(frozen=True)
class Convolved:
    """Sizes of a convolution of square images: `groups` of `channels` and of `results` each."""

    batch: int
    channels: int
    side: int
    results: int
    taps: int
    step: int = 1
    pad: int = 0
    apart: int = 1
    groups: int = 1

    @property
    def name(self) -> str:
        return "c" + "_".join(map(str, vars(self).values()))

    @property
    def points(self) -> int:
        return (self.side + 2 * self.pad - self.apart * (self.taps - 1) - 1) // self.step + 1

    def tensors(self) -> tuple[torch.Tensor, torch.Tensor]:
        image = torch.randn(self.batch, self.groups * self.channels, self.side, self.side).to(memory_format=LAST)
        return image, torch.randn(self.groups * self.results, self.channels, self.taps, self.taps)

    def eager(self, image: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        made = F.conv2d(image.double(), weight.double(), None, self.step, self.pad, self.apart, self.groups)
        return made.float()

    def kernel(self, case: Any, strides: Sequence[int], relu: bool = False) -> Any:
        """out[n, i, j, group, result], channels last; `strides` of the weight: result, channel, down, across."""
        width, all_in, all_out = self.side, self.groups * self.channels, self.groups * self.results

        def body(outer: Any, inner: Any) -> None:
            (n, i, j, group, result), (channel, down, across) = outer, inner
            places = [at * self.step + tap * self.apart - self.pad for at, tap in ((i, down), (j, across))]
            index = ((n * width + places[0]) * width + places[1]) * all_in + group * self.channels + channel

            def load() -> Any:
                return ops.load("x", index.expand())

            x = load()
            if self.pad:
                tests = []
                for place in places:
                    value = ops.index_expr(place, I64)
                    tests += [ops.ge(value, ops.constant(0, I64)), ops.lt(value, ops.constant(width, I64))]
                inside = tests[0]
                for test in tests[1:]:
                    inside = ops.bitwise_and(inside, test)
                x = ops.masked(inside, load, 0.0)
            at = (group * self.results + result) * strides[0] + channel * strides[1]
            y = ops.load("w", (at + down * strides[2] + across * strides[3]).expand())
            total = Scalar(ops.reduce("sum", ops.mul(x, y)))
            if relu:
                total = Scalar(
                    ops.maximum(
                        (total + Scalar(ops.load("b", group * self.results + result))).ref, ops.constant(0.0, F32)
                    )
                )
            to = ((n * self.points + i) * self.points + j) * all_out + group * self.results + result
            ops.store("out", to.expand(), total.ref)

        buffers = {"x": ("in", F32), "w": ("in", F32), "b": ("in", F32), "out": ("out", F32)}
        outer = [self.batch, self.points, self.points, self.groups, self.results]
        made = case(self.name, body, outer, [self.channels, self.taps, self.taps], buffers)
        made = replace(made, kernel=replace(made.kernel, body=straight(made.kernel.body)))
        assert find_convolution(made.kernel, 16) is not None
        return made


def straight(body: Body) -> Body:
    """The body with masked loads, which are zero outside, in place of choices between them and zero, as lowerings have it."""

    def place(ref: Ref) -> Ref:
        made = body.ops[ref.at]
        return made.then if isinstance(made, Where) else ref

    return replace(body, ops=tuple(op.with_operands(place) for op in body.ops))


def check(
    case: Any,
    compiled: Any,
    sizes: Sequence[Convolved],
    order: Callable[[torch.Tensor], torch.Tensor],
    relu: bool = False,
) -> None:
    torch.manual_seed(0)
    tensors = [each.tensors() for each in sizes]
    weights = [order(weight) for _, weight in tensors]
    calls = compiled([each.kernel(case, weight.stride(), relu) for each, weight in zip(sizes, weights, strict=True)])
    for each, (image, _), weight in zip(sizes, tensors, weights, strict=True):
        bias = torch.randn(each.groups * each.results)
        wanted = each.eager(image, weight)
        wanted = torch.relu(wanted + bias[:, None, None]) if relu else wanted
        memory = torch.full((wanted.numel() + 40,), -1.0)
        calls[each.name](image, weight, bias, memory)
        made = memory[: wanted.numel()].view(wanted.permute(0, 2, 3, 1).shape).permute(0, 3, 1, 2)
        torch.testing.assert_close(made, wanted, atol=2e-4, rtol=1e-5)
        assert bool((memory[wanted.numel() :] == -1).all())


SIZES = [
    Convolved(1, 16, 7, 32, 3, pad=1),
    Convolved(2, 5, 9, 33, 3, pad=1),  # a panel and a result more, no whole vectors of channels
    Convolved(1, 70, 6, 48, 3, pad=1),  # cuts of unequal size; a narrow last panel
    Convolved(3, 3, 15, 20, 7, step=2, pad=3),
    Convolved(1, 130, 5, 7, 5, pad=2),
    Convolved(1, 24, 4, 16, 3, pad=5),  # more of nothing than the kernel reaches over
    Convolved(2, 8, 11, 16, 3, step=3, pad=2, apart=2),
    Convolved(1, 20, 8, 17, 1, step=2),
    Convolved(2, 40, 8, 40, 2, step=2),
    Convolved(1, 16, 40, 8, 3),
    Convolved(1, 2, 100, 3, 2, pad=1),  # several times what lies nearby
]


@pytest.mark.parametrize("layout", ["results first", "channels last", "turned"])
def test_sizes_and_layouts_of_weights(isa: str, case: Any, compiled: Any, layout: str) -> None:
    orders: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
        "results first": lambda weight: weight,
        "channels last": lambda weight: weight.to(memory_format=LAST),
        "turned": lambda weight: weight.transpose(2, 3).contiguous().transpose(2, 3),
    }
    check(case, compiled, SIZES, orders[layout])


def test_groups(isa: str, case: Any, compiled: Any) -> None:
    sizes = [Convolved(2, 16, 6, 16, 3, pad=1, groups=3), Convolved(1, 9, 7, 35, 3, step=2, pad=1, groups=2)]
    check(case, compiled, sizes, lambda weight: weight)


def test_what_follows_the_sum(isa: str, case: Any, compiled: Any) -> None:
    check(case, compiled, [Convolved(2, 17, 9, 40, 3, pad=1)], lambda weight: weight, relu=True)


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_any_number_of_threads(isa: str, case: Any, compiled: Any, threads: int) -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        sizes = [Convolved(1, 32, 20, 64, 3, pad=1), Convolved(3, 64, 4, 200, 3, pad=1)]
        check(case, compiled, sizes, lambda weight: weight)
    finally:
        torch.set_num_threads(before)


def test_nothing_outside_of_the_image_is_read(isa: str, case: Any, compiled: Any) -> None:
    """Not what lies behind a row's end in memory, nor before the image."""
    sizes = Convolved(1, 16, 5, 16, 3, pad=1)
    image, weight = sizes.tensors()
    (call,) = compiled([sizes.kernel(case, weight.stride())]).values()
    memory = torch.full((3 * image.numel(),), torch.nan)
    inside = memory[image.numel() : 2 * image.numel()]
    inside.copy_(image.permute(0, 2, 3, 1).reshape(-1))
    inside[7] = torch.inf  # the first point's, which only its neighbours see
    out = torch.empty(1, 5, 5, 16)
    call(inside, weight, torch.empty(16), out)
    seen = ~out.isfinite().all(-1)
    wanted = torch.zeros(1, 5, 5, dtype=torch.bool)
    wanted[:, :2, :2] = True
    assert torch.equal(seen, wanted)


def test_images_of_other_layouts_and_plain_products_are_none(case: Any) -> None:
    def by_columns(outer: Any, inner: Any) -> None:
        (row, point, column), (step, tap) = outer, inner
        x = ops.load("a", row * 1000 + step * 100 + (point + tap) * 2)
        ops.store(
            "out",
            (row * 8 + point) * 9 + column,
            ops.reduce("sum", ops.mul(x, ops.load("b", step * 18 + tap * 9 + column))),
        )

    def plain(outer: Any, inner: Any) -> None:
        (row, column), (step,) = outer, inner
        total = ops.reduce("sum", ops.mul(ops.load("a", row * 8 + step), ops.load("b", step * 9 + column)))
        ops.store("out", row * 9 + column, total)

    buffers = {"a": ("in", F32), "b": ("in", F32), "out": ("out", F32)}
    other = case("other", by_columns, [4, 8, 9], [10, 2], buffers)
    assert find_convolution(other.kernel, 16) is None and find_product(other.kernel, 16) is None
    product = case("plain", plain, [7, 9], [8], buffers)
    assert find_convolution(product.kernel, 16) is None and find_product(product.kernel, 16) is not None


def eager_and_compiled(module: Any, image: torch.Tensor, train: bool) -> None:
    """Results, and gradients of all, are within rounding of what float64 gives; sizes and strides are eager's."""
    exact, made = copy.deepcopy(module).double(), meta.compile(module)
    parameters = list(module.parameters())
    with torch.set_grad_enabled(train):
        ours, theirs, wanted = made(image), module(image), exact(image.double())
        assert ours.dtype == theirs.dtype and ours.stride() == theirs.stride()
        torch.testing.assert_close(ours.double(), wanted, atol=1e-4, rtol=1e-4)
    if train:
        direction = torch.randn(ours.shape)
        found = torch.autograd.grad(ours, parameters, direction)
        true = torch.autograd.grad(wanted, list(exact.parameters()), direction.double())
        for one, other in zip(found, true, strict=True):
            torch.testing.assert_close(one.double(), other, atol=1e-3, rtol=1e-4)


TRANSPOSED: dict[str, dict[str, Any]] = {
    "product": {"kernel_size": 2, "stride": 2},
    "two taps": {"kernel_size": 4, "stride": 2, "padding": 1},
    "cells of four": {"kernel_size": 8, "stride": 4, "padding": 3, "output_padding": 2},
    "uneven": {"kernel_size": 3, "stride": 2, "padding": 1, "output_padding": 1},
    "one step": {"kernel_size": 3, "padding": 2, "dilation": 2},
    "groups": {"kernel_size": 4, "stride": 2, "padding": 1, "groups": 2},
}


@pytest.mark.parametrize("train", [False, True])
@pytest.mark.parametrize("options", TRANSPOSED.values(), ids=list(TRANSPOSED))
def test_transposed(options: dict[str, Any], train: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capture.config, "on_error", "raise")
    torch.manual_seed(0)
    for layout in (torch.contiguous_format, LAST):
        meta.reset()
        module = nn.Sequential(nn.ConvTranspose2d(32, 40, **options), nn.BatchNorm2d(40), nn.Softplus()).eval()
        for batch in (2, 3, 5):  # from the second on of any size
            eager_and_compiled(module, torch.randn(batch, 32, 9, 6).to(memory_format=layout), train)
