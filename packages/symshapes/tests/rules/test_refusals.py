"""What eager refuses whatever the data, the rules refuse with the same words."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn import functional as F

from symshapes import DimPolicy, FakeMode, ShapeEnv

REFUSED: list[Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = [
    lambda x, scalar: scalar.roll(1, 0),
    lambda x, scalar: scalar.roll((1, 1), (0, 0)),
    lambda x, scalar: x.roll((1, 2)),
    lambda x, scalar: x.roll(1, (0, 1)),
    lambda x, scalar: x.roll((1, 2), (0,)),
    lambda x, scalar: x.roll(1, 5),
    lambda x, scalar: x.squeeze((0, -2)),
    lambda x, scalar: scalar.squeeze((0, -1)),
    lambda x, scalar: 1 - (x > 0),
    lambda x, scalar: (x > 0) - 2.5,
    lambda x, scalar: x - (scalar > 0),
    lambda x, scalar: x.clone().sub_(x > 0),
    lambda x, scalar: x - True,
    lambda x, scalar: torch.rsub(x > 0, x),
    lambda x, scalar: (x > 0) - (scalar > 0),
    lambda x, scalar: (x > 0) - True,
    lambda x, scalar: True - (x > 0),
    lambda x, scalar: (x > 0).relu(),
    lambda x, scalar: (x > 0) + 2**63,
    lambda x, scalar: (scalar > 0) * 2**63,
    lambda x, scalar: (x > 0) == 2**63,
    lambda x, scalar: (x > 0) <= 2**64 - 1,
    lambda x, scalar: torch.where(x, x, scalar),
    lambda x, scalar: torch.where(x.long(), x, 1),
    lambda x, scalar: torch.where(x.to(torch.int8), 1, 2),
]


@pytest.mark.parametrize("call", REFUSED)
@pytest.mark.parametrize("policy", [DimPolicy.STATIC, DimPolicy.DYNAMIC])
def test_refused_as_in_eager(call: Callable[..., torch.Tensor], policy: DimPolicy) -> None:
    x, scalar = torch.randn(2, 3), torch.tensor(1.0)
    with pytest.raises((RuntimeError, IndexError)) as eager:
        call(x, scalar)
    mode = FakeMode(ShapeEnv())
    fakes = mode.from_tensor(x, source="x", policy=policy), mode.from_tensor(scalar, source="scalar", policy=policy)
    with mode, pytest.raises(eager.type) as found:
        call(*fakes)
    assert str(found.value) == str(eager.value)


def test_operators_of_one_dtype() -> None:
    x, half = torch.randn(3), torch.randn(3).bfloat16()
    for program in (
        lambda one, other: one.lerp(other, 0.5),
        lambda one, other: one.lerp(one, other),
        lambda one, other: one.lerp(one, other[0]),
        lambda one, other: one.heaviside(other),
    ):
        for arguments in ((x, half), (half, x), (x, x)):
            assert _of_both(program, *arguments) == _of_both(program, *arguments, mode=FakeMode()), arguments


def _of_both(
    program: Callable[..., Any], *arguments: torch.Tensor, mode: FakeMode | None = None
) -> type[Exception] | None:
    try:
        if mode is None:
            program(*arguments)
        else:
            with mode:
                program(*(mode.from_tensor(argument) for argument in arguments))
    except RuntimeError as error:
        return type(error)
    return None


# What takes images and volumes without elements in some of the last dimensions, and what does not.
WINDOWS = {
    2: [lambda x: F.max_pool1d(x, 2, 1, 1), lambda x: F.pad(x, (1, 1), "reflect"), lambda x: F.pad(x, (1, 1), "replicate")],
    3: [
        lambda x: F.max_pool2d(x, 2, 1, 1), lambda x: F.avg_pool2d(x, 2, 1, 1), lambda x: F.adaptive_avg_pool2d(x, 2),
        lambda x: F.adaptive_max_pool2d(x, 2), lambda x: F.unfold(x, 1), lambda x: F.pad(x, (1,) * 4, "replicate"),
        lambda x: F.interpolate(x.reshape(-1, *x.shape[-3:]), scale_factor=2), lambda x: F.pad(x, (1,) * 4, "reflect"),
    ],
    4: [lambda x: F.max_pool3d(x, 2, 1, 1), lambda x: F.avg_pool3d(x, 2, 1, 1), lambda x: F.adaptive_avg_pool3d(x, 2)],
}  # fmt: skip


@pytest.mark.parametrize("rank", WINDOWS)
def test_images_without_elements_are_refused_where_eager_refuses(rank: int) -> None:
    for program, more in itertools.product(WINDOWS[rank], (0, 1)):
        for size in itertools.product((0, 3), repeat=rank + more):
            x = torch.zeros(size)
            assert _refuses(program, x) == _refuses(program, x, FakeMode()), (program, size)


def _refuses(program: Callable[..., Any], x: torch.Tensor, mode: FakeMode | None = None) -> bool:
    try:
        if mode is None:
            program(x)
        else:
            fake = mode.from_tensor(x)
            with mode:
                program(fake)
    except (RuntimeError, IndexError):
        return True
    return False


OPTIONS: list[dict[str, Any]] = [
    {"padding": 1}, {"padding": 2}, {"padding": -1}, {"stride": 0}, {"stride": -1}, {"kernel_size": 0}, {"kernel_size": -1},
    {"dilation": 0}, {"dilation": 2, "padding": 2}, {"divisor_override": 0},
]  # fmt: skip


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("kind", ["max", "avg"])
def test_windows_are_refused_where_eager_refuses(kind: str, rank: int) -> None:
    pool = getattr(F, f"{kind}_pool{rank}d")
    for options in OPTIONS:
        if ("dilation" in options and kind == "avg") or (
            "divisor_override" in options and (kind == "max" or rank == 1)
        ):
            continue

        def program(x: torch.Tensor, options: dict[str, Any] = options) -> Any:
            return pool(x, **{"kernel_size": 3, **options})

        x = torch.zeros(1, 2, *(8,) * rank)
        assert _refuses(program, x) == _refuses(program, x, FakeMode()), options


@pytest.mark.parametrize("dtype", [torch.int64, torch.bool, torch.complex32, torch.uint16], ids=str)
@pytest.mark.parametrize("size", [(0,), (0, 2), (2, 0), (2, 3)], ids=str)
def test_dtypes_that_kernels_are_not_asked_for(dtype: torch.dtype, size: tuple[int, ...]) -> None:
    """Of no elements many kernels take any dtype, and of many elements others compute than of few."""
    many = torch.ones(40, dtype=dtype)
    programs: list[Callable[[torch.Tensor], Any]] = [
        lambda x: torch.softmax(x, 0),
        lambda x: torch.log_softmax(x, -1),
        lambda x: x.median(),
        lambda x: x.sum(),
        lambda x: x.prod(),
        lambda x: x.amax(-1),
        lambda x: x.argmax(1),
        lambda x: x.cumsum(-1),
        lambda x: torch.isin(x, many),
        lambda x: x * (1 + 2j),
        lambda x: x == 1j,
    ]
    x = torch.ones(size, dtype=dtype)
    for program in programs:
        try:
            expected = program(x)
        except (RuntimeError, IndexError):
            continue  # another refusal
        mode = FakeMode(ShapeEnv())
        mode.asks_kernels = True
        with mode:
            found = program(mode.from_tensor(x, source="x"))
        assert (found.dtype, found.shape) == (expected.dtype, expected.shape)


def test_a_dtype_that_no_kernel_fills() -> None:
    x = torch.empty(0, dtype=torch.uint8).view(torch.bits8)
    assert torch.softmax(x, 0).dtype is torch.bits8
    mode = FakeMode(ShapeEnv())
    mode.asks_kernels = True
    with mode:
        assert torch.softmax(mode.from_tensor(x, source="x"), 0).dtype is torch.bits8
