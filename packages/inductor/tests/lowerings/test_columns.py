"""Windows as columns and columns as images are loops, with eager's results."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from inductor_dynamic import check_dynamic
from inductor_tracing import check

from inductor.ir.program import ExternOp

# kernel, dilation, padding, stride
WINDOWS = [
    (3, 1, 1, 1),
    (2, 1, 0, 2),
    (3, 1, 1, 2),
    (3, 2, 2, 1),
    (3, 2, 3, 2),
    (2, 3, 1, 3),
    (2, 1, 0, 3),
    (1, 1, 2, 1),
    ((2, 3), (2, 1), (0, 2), (1, 3)),
]
FLOATS = [torch.float32, torch.float64, torch.bfloat16, torch.float16]


def in_aten(program: Any) -> bool:
    return any(isinstance(op, ExternOp) for op in program.operations)


def exactly(function: Any, *inputs: Any) -> bool:
    return in_aten(check(function, *inputs, rtol=0, atol=0))


@pytest.mark.parametrize("window", WINDOWS, ids=str)
@pytest.mark.parametrize("dtype", [*FLOATS, torch.bool], ids=str)
def test_windows_as_columns(window: Any, dtype: torch.dtype) -> None:
    x = torch.randn(2, 3, 8, 9).to(dtype)
    for image in (x, x[1], x.contiguous(memory_format=torch.channels_last), x.mT):
        assert not exactly(lambda x: F.unfold(x, *window), image)


@pytest.mark.parametrize("window", WINDOWS, ids=str)
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_columns_as_images(window: Any, dtype: torch.dtype) -> None:
    columns = F.unfold(torch.randn(2, 3, 8, 9), *window)
    columns = torch.randn_like(columns).to(dtype)
    for given in (columns, columns[1], columns.mT.contiguous().mT):
        assert not exactly(lambda c: F.fold(c, (8, 9), *window), given)


@pytest.mark.parametrize("window", WINDOWS, ids=str)
def test_among_other_operations(window: Any) -> None:
    x = torch.randn(2, 3, 8, 9)
    program = check(lambda x: F.fold(F.unfold(x.sin(), *window) * 2, (8, 9), *window).relu(), x)
    assert not in_aten(program)


def test_zeros_keep_eagers_sign() -> None:
    assert not exactly(lambda c: 1 / F.fold(c, (4, 4), 2, stride=2), torch.full((1, 4, 4), -0.0))


def test_what_is_atens() -> None:
    assert exactly(lambda x: F.unfold(x, 2), torch.randn(0, 3, 4, 4))
    assert exactly(lambda c: F.fold(c, (4, 4), 2), torch.randn(0, 8, 9))
    assert exactly(lambda x: F.unfold(x, 2), torch.randn(1, 3, 4, 4, dtype=torch.complex64))
    assert exactly(lambda c: F.fold(c, (4, 4), 2), torch.ones(1, 8, 9, dtype=torch.bool))
    assert in_aten(check(lambda c: F.fold(c, (16, 16), 9), torch.randn(1, 81, 64)))


# The text of a program multiplies 2 by a sum of sizes otherwise than the program: such windows wait for `parse_program`.
@pytest.mark.parametrize("window", [w for w in WINDOWS if w not in (WINDOWS[4], WINDOWS[8])], ids=str)
def test_symbolic_sizes(window: Any) -> None:
    def there_and_back(x: Any) -> Any:
        columns = F.unfold(x, *window)
        return columns + 1, F.fold(columns * 2, x.shape[-2:], *window)

    check_dynamic(there_and_back, (torch.randn(2, 3, 8, 9),), (torch.randn(4, 2, 11, 7),))
