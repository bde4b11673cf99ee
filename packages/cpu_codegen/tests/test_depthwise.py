"""Convolutions of channels, each by itself: windows at and beyond borders, steps, holes, and what follows the sum."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from cpu_codegen.depthwise import find_windows
from inductor import Scalar, ops, prim

F32 = torch.float32
Pair = tuple[int, int]


@dataclass(frozen=True)
class Shape:
    """A convolution of images of `size`."""

    channels: int
    size: Pair
    taps: Pair
    stride: Pair = (1, 1)
    padding: Pair = (0, 0)
    dilation: Pair = (1, 1)

    @property
    def out(self) -> Pair:
        """The size of its result."""
        return tuple(  # type: ignore[return-value]
            (n + 2 * p - d * (k - 1) - 1) // s + 1
            for n, k, s, p, d in zip(self.size, self.taps, self.stride, self.padding, self.dilation, strict=True)
        )


SHAPES = [
    Shape(24, (9, 10), (3, 3), (1, 1), (1, 1)),
    Shape(24, (9, 10), (3, 3), (2, 2), (1, 1)),
    Shape(17, (14, 14), (5, 5), (1, 1), (2, 2)),
    Shape(40, (7, 7), (7, 7), (1, 1), (3, 3)),
    Shape(33, (20, 33), (7, 7), (1, 1), (3, 3)),
    Shape(33, (15, 28), (5, 5), (2, 2), (2, 2)),
    Shape(8, (9, 30), (3, 3)),
    Shape(16, (9, 30), (3, 3), (1, 1), (2, 2), (2, 2)),
    Shape(16, (9, 31), (3, 3), (2, 2), (2, 2), (2, 2)),
    Shape(16, (9, 31), (4, 2), (1, 1), (2, 1)),
    Shape(130, (5, 31), (3, 5), (1, 2), (1, 3), (2, 1)),
    Shape(16, (9, 31), (5, 5), (3, 3), (7, 9)),
    Shape(300, (8, 6), (3, 3), (1, 1), (1, 1)),
    Shape(2, (3, 2), (3, 3), (1, 1), (2, 2)),
]


def made(case: Any, at: int, shape: Shape, batch: int = 2) -> Any:
    """out = max(the convolution + shift, 0), of images with channels last and taps as [row, column, channel]."""
    (height, width), channels, (rows, columns) = shape.size, shape.channels, shape.out

    def body(outer: Any, inner: Any) -> None:
        image, *place, channel = outer
        reads = [
            p * s + k * d - pad
            for p, s, k, d, pad in zip(place, shape.stride, inner, shape.dilation, shape.padding, strict=True)
        ]
        tests = [Scalar(ops.index_expr(read, torch.int64)) for read in reads]
        inside = (tests[0] >= 0) & (tests[0] < height) & (tests[1] >= 0) & (tests[1] < width)

        def term() -> Any:
            x = ops.load("image", ((image * height + reads[0]) * width + reads[1]) * channels + channel)
            taps = ops.load("taps", (inner[0] * shape.taps[1] + inner[1]) * channels + channel)
            return (Scalar(x) * Scalar(taps)).ref

        total = Scalar(ops.reduce("sum", ops.masked(inside.ref, term, 0.0)))
        result = prim.maximum(total + Scalar(ops.load("shift", channel)), 0.0)
        ops.store("out", ((image * rows + place[0]) * columns + place[1]) * channels + channel, result.ref)

    buffers = {"image": ("in", F32), "taps": ("in", F32), "shift": ("in", F32), "out": ("out", F32)}
    kernel = case(f"depthwise{at}", body, [batch, rows, columns, channels], list(shape.taps), buffers)
    assert find_windows(kernel.kernel, 8) is not None
    return kernel


@pytest.mark.parametrize("threads", [1, 2])
def test_values(isa: str, case: Any, compiled: Any, threads: int) -> None:
    """Nothing beyond the images counts: not what lies there in memory, not times weights that are infinite."""
    torch.manual_seed(0)
    calls = compiled([made(case, at, shape) for at, shape in enumerate(SHAPES)])
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        for at, shape in enumerate(SHAPES):
            height, width = shape.size
            memory = torch.full((6, height, width, shape.channels), torch.nan)
            memory[2:4] = torch.randn(2, *memory.shape[1:])
            taps, shift = torch.randn(*shape.taps, shape.channels), torch.randn(shape.channels)
            out = torch.full((3, *shape.out, shape.channels), -1.0)
            calls[f"depthwise{at}"](memory[2:4], taps, shift, out)
            image, weight = memory[2:4].permute(0, 3, 1, 2), taps.permute(2, 0, 1)[:, None]
            wanted = F.conv2d(
                image.double(),
                weight.double(),
                shift.double(),
                shape.stride,
                shape.padding,
                shape.dilation,
                shape.channels,
            )
            torch.testing.assert_close(out[:2].permute(0, 3, 1, 2), wanted.float().relu(), atol=1e-5, rtol=1e-5)
            assert bool((out[2] == -1).all())
    finally:
        torch.set_num_threads(before)


def test_a_tap_beyond_the_border_adds_nothing(isa: str, case: Any, compiled: Any) -> None:
    shape = SHAPES[0]
    (call,) = compiled([made(case, 0, shape)]).values()
    taps = torch.ones(3, 3, shape.channels)
    taps[:, 0] = torch.inf  # at the left border, nothing is multiplied by it
    out = torch.empty(2, *shape.out, shape.channels)
    call(torch.ones(2, *shape.size, shape.channels), taps, torch.zeros(shape.channels), out)
    assert bool((out[:, 1:-1, 0] == 6).all())
    assert bool((out[:, :, 1:] == torch.inf).all())


def test_windows_that_do_not_overlap_are_none(case: Any) -> None:
    """They share nothing."""

    def body(outer: Any, inner: Any) -> None:
        row, column, channel = outer
        x = ops.load("image", ((row * 3 + inner[0]) * 30 + column * 3 + inner[1]) * 16 + channel)
        taps = ops.load("taps", (inner[0] * 3 + inner[1]) * 16 + channel)
        total = ops.reduce("sum", (Scalar(x) * Scalar(taps)).ref)
        ops.store("out", (row * 10 + column) * 16 + channel, total)

    buffers = {"image": ("in", F32), "taps": ("in", F32), "out": ("out", F32)}
    assert find_windows(case("apart", body, [4, 10, 16], [3, 3], buffers).kernel, 8) is None
