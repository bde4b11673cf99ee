"""Modes and transforms of the program's that see each operation: what runs under them is not captured, and not seen twice."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

import capture


class Dispatched(TorchDispatchMode):
    """Notes each operation, and keeps its result."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []
        self.kept: list[torch.Tensor] = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        self.seen.append(str(func))
        self.kept.append(out)
        return out


class Called(TorchFunctionMode):
    """Notes each function, and scales what `sin` gives."""

    def __init__(self, scale: float = 1.0) -> None:
        super().__init__()
        self.scale = scale
        self.seen: list[str] = []

    def __torch_function__(self, func, types, args=(), kwargs=None):
        self.seen.append(getattr(func, "__name__", str(func)))
        out = func(*args, **(kwargs or {}))
        return out * self.scale if func is torch.sin else out


def program(x: torch.Tensor) -> torch.Tensor:
    return torch.sin(x) + 1


@pytest.mark.parametrize("make", [Dispatched, Called])
@pytest.mark.parametrize("compiled_before", [False, True])
def test_a_mode_sees_each_operation_once(make: Callable[[], Dispatched | Called], compiled_before: bool) -> None:
    f = capture.compile(program)
    x = torch.randn(3)
    if compiled_before:
        f(x)
    for size in (3, 3, 4):
        x = torch.randn(size)
        with make() as plain:
            wanted = program(x)
        with make() as mode:
            got = f(x)
        assert mode.seen == plain.seen
        assert torch.equal(got, wanted)
        if isinstance(mode, Dispatched):
            assert {type(kept) for kept in mode.kept} == {torch.Tensor}
    f(x)
    if make is Dispatched:
        assert f.session.report.graph_count == 1 + compiled_before


def test_two_modes_of_one_class_are_two() -> None:
    x = torch.randn(3)
    f = capture.compile(program)
    for scale in (2.0, 3.0, 2.0):
        with Called(scale):
            got = f(x)
        torch.testing.assert_close(got, torch.sin(x) * scale + 1)


def test_a_mode_entered_within_the_function() -> None:
    modes = []

    def inside(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        with Dispatched() as mode:
            z = y.sin() + 1
        modes.append(mode.seen)
        return z.cos()

    x = torch.randn(3)
    f = capture.compile(inside)
    for _ in range(2):
        torch.testing.assert_close(f(x), inside(x))
    assert modes[0] == modes[1] == ["aten.sin.default", "aten.add.Tensor"]


def test_a_transform_leaves_later_calls_to_be_captured() -> None:
    x = torch.randn(3)
    f = capture.compile(lambda x: x.sin() * 2)
    torch.testing.assert_close(torch.func.vmap(f)(x), 2 * x.sin())
    torch.testing.assert_close(torch.func.grad(lambda x: f(x).sum())(x), 2 * x.cos())
    f(x)
    assert f.session.report.graph_count == 1


def test_fullgraph_says_what_is_in_the_way() -> None:
    f = capture.compile(program, fullgraph=True)
    with Dispatched(), pytest.raises(capture.GraphBreakError, match="a dispatch mode of the program's is in force"):
        f(torch.randn(3))
