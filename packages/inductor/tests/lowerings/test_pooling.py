"""Gradients of pooling as loops: which are, and that they are eager's."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from inductor_tracing import check

from inductor.ir.program import ExternOp

aten = torch.ops.aten
NEXT = torch.channels_last
ROWS = torch.contiguous_format
WINDOWS = [(2, 2, 0), (3, 3, 1), (3, 1, 1), (3, 2, 1), (2, 3, 0), ((3, 2), (1, 2), (1, 0))]


def pair(value: Any) -> list[int]:
    return [value, value] if isinstance(value, int) else list(value)


def in_aten(program: Any) -> bool:
    return any(isinstance(op, ExternOp) for op in program.operations)


@pytest.mark.parametrize("layout", [ROWS, NEXT], ids=str)
@pytest.mark.parametrize("window", WINDOWS, ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_gradients_of_means(window: Any, layout: torch.memory_format, dtype: torch.dtype) -> None:
    kernel, stride, padding = map(pair, window)
    x = torch.randn(2, 3, 7, 9, dtype=dtype).contiguous(memory_format=layout)
    for divisor in (None, 5):
        options = (kernel, stride, padding, False, True, divisor)
        slope = torch.randn_like(aten.avg_pool2d(x, *options))
        program = check(lambda g, x, options=options: aten.avg_pool2d_backward(g, x, *options), slope, x)
        overlap = any(k > s for k, s in zip(kernel, stride, strict=True))
        assert in_aten(program) is (overlap and stride[1] > 1 and layout is ROWS)


@pytest.mark.parametrize("layout", [ROWS, NEXT], ids=str)
@pytest.mark.parametrize("window", WINDOWS, ids=str)
def test_gradients_of_maxima(window: Any, layout: torch.memory_format) -> None:
    kernel, stride, padding = map(pair, window)
    x = torch.randn(2, 3, 7, 9).contiguous(memory_format=layout)
    for ceil_mode in (False, True):
        options = (kernel, stride, padding, [1, 1], ceil_mode)
        values, places = aten.max_pool2d_with_indices(x, *options)
        slope = torch.randn_like(values)
        program = check(
            lambda g, x, at, options=options: aten.max_pool2d_with_indices_backward(g, x, *options, at),
            slope,
            x,
            places,
        )
        overlap = any(k > s for k, s in zip(kernel, stride, strict=True))
        assert in_aten(program) is (overlap or layout is ROWS)


def test_windows_cut_at_the_edge_are_atens() -> None:
    x = torch.randn(1, 2, 5, 5)
    for options in (([2, 2], [2, 2], [0, 0], True, True, None), ([3, 3], [1, 1], [1, 1], False, False, None)):
        slope = torch.randn_like(aten.avg_pool2d(x, *options))
        assert in_aten(check(lambda g, x, o=options: aten.avg_pool2d_backward(g, x, *o), slope, x))


VOLUMES = [(2, 2, 0), (3, 2, 1), (3, 1, 1), ((1, 3, 3), (1, 2, 2), (0, 1, 1)), ((5, 1, 1), (1, 1, 1), (0, 0, 0))]


@pytest.mark.parametrize("layout", [ROWS, torch.channels_last_3d], ids=str)
@pytest.mark.parametrize("window", VOLUMES, ids=str)
def test_windows_of_volumes(window: Any, layout: torch.memory_format) -> None:
    x = torch.randn(2, 3, 6, 7, 5).contiguous(memory_format=layout)
    x[0, 0, 2, 2, 2], x[1, 1, 0, 0, 0] = torch.nan, -torch.inf
    for given in (x, x[0], x.double()):
        assert not in_aten(check(lambda x: aten.max_pool3d_with_indices(x, *window), given))
        assert not in_aten(check(lambda x: aten.max_pool3d_with_indices(x, *window, ceil_mode=True), given))
        for counts in (False, True):
            assert not in_aten(check(lambda x, c=counts: aten.avg_pool3d(x, *window, False, c), given))
        assert not in_aten(check(lambda x: aten.avg_pool3d(x, *window, False, True, 7), given))


def test_volumes_that_eager_refuses_or_cuts_are_atens() -> None:
    x = torch.randn(1, 2, 5, 5, 5)
    assert in_aten(check(lambda x: aten.avg_pool3d(x, 2, 2, 0, True), x))
    assert in_aten(check(lambda x: aten.max_pool3d_with_indices(x, 4), x))


@pytest.mark.parametrize("layout", [ROWS, torch.channels_last_3d], ids=str)
@pytest.mark.parametrize("window", VOLUMES, ids=str)
def test_gradients_of_volumes(window: Any, layout: torch.memory_format) -> None:
    x = torch.randn(2, 3, 6, 7, 5).contiguous(memory_format=layout)
    kernel, stride, padding = ([v] * 3 if isinstance(v, int) else list(v) for v in window)
    slope = torch.randn_like(aten.avg_pool3d(x, kernel, stride, padding))
    options = (kernel, stride, padding, False, True, None)
    check(lambda g, x: aten.avg_pool3d_backward(g, x, *options), slope, x)
    values, places = aten.max_pool3d_with_indices(x, kernel, stride, padding)
    steps = (kernel, stride, padding, [1, 1, 1], False)
    check(lambda g, x, at: aten.max_pool3d_with_indices_backward(g, x, *steps, at), torch.randn_like(values), x, places)
