"""`torch.cond` and `while_loop`: captured in one graph, compiled, differentiated; where they can't be, eager's own run."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch import Tensor

import capture
import meta

while_loop = importlib.import_module("torch._higher_order_ops.while_loop").while_loop
W = torch.tensor([0.5, -1.5, 2.0])


def scaled(x: Tensor, w: Tensor) -> Tensor:
    return torch.cond(x.sum() > 0, lambda x: x * w, lambda x: x.sin(), (x,))


def several(x: Tensor, w: Tensor) -> Tensor:
    y = x.cos()
    z = torch.cond(y.mean() > 0.5, lambda a, b: (a @ b, a + 1), lambda a, b: ((a * 2) @ b, a.exp()), (y, w))
    return z[0] * 2 + z[1].sum(1)


def nested(x: Tensor, w: Tensor) -> Tensor:
    def inner(a: Tensor) -> Tensor:
        return torch.cond(a.max() > 1, lambda b: b * w, lambda b: b - w, (a,))

    return torch.cond(x.sum() > 0, inner, lambda a: torch.zeros_like(a), (x,)) + 1


def of_a_dict(x: Tensor, w: Tensor) -> Tensor:
    return torch.cond(x.sum() > 0, lambda d: {"a": d["x"] * 2}, lambda d: {"a": d["x"] - 1}, ({"x": x},))["a"]


def of_a_size(x: Tensor, w: Tensor) -> Tensor:
    return torch.cond(x.shape[0] > 4, lambda x: x * w, lambda x: x.sin(), (x,))


def of_closures(x: Tensor, w: Tensor) -> Tensor:
    y = x * 1.0
    y.add_(1)

    def first() -> Tensor:
        parts = []
        for at in range(2):
            parts.append(y * w + at)
        return torch.stack(parts).sum(0)

    return torch.cond(y.sum() > 0, first, lambda: torch.relu(y), ()) * y.shape[0]


class Gated(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = torch.nn.Linear(3, 3), torch.nn.Linear(3, 3)

    def forward(self, x: Tensor) -> Tensor:
        return torch.cond(x.sum() > 0, self.first, self.second, (x,)).relu()


def plain_cond(condition: Any, first: Callable[..., Any], second: Callable[..., Any], operands: Any = ()) -> Any:
    """What eager's comes to, which takes a second to begin."""
    return (first if condition else second)(*operands)


def plain_loop(condition: Callable[..., Any], body: Callable[..., Any], carried: Any) -> Any:
    while condition(*carried):
        carried = body(*carried)
    return carried


@contextmanager
def plainly() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch, "cond", plain_cond)
        patch.setitem(globals(), "while_loop", plain_loop)
        yield


def inputs(rows: int, sign: float, grad: bool) -> list[Tensor]:
    x = torch.rand(rows, 3, generator=torch.Generator().manual_seed(rows)) * sign
    return [x.requires_grad_(grad), W.clone().requires_grad_(grad)]


PROGRAMS = [scaled, several, nested, of_a_dict, of_a_size, of_closures]


@pytest.mark.parametrize(
    ("backend", "grad"), [("eager", True), ("aot_eager", True), ("inductor", True), ("inductor", False)]
)
def test_cond(backend: str, grad: bool) -> None:
    for program in PROGRAMS if grad else (nested, of_closures):
        compiled = meta.compile(program, backend=backend, fullgraph=True, dynamic=True)
        for sign, rows in ((1, 4), (-1, 4), (3, 6)):
            mine, eager = inputs(rows, sign, grad), inputs(rows, sign, grad)
            got = compiled(*mine)
            with plainly():
                wanted = program(*eager)
            torch.testing.assert_close(got, wanted)
            if grad:
                got.sum().backward()
                if wanted.requires_grad:
                    wanted.sum().backward()
                for one, other in zip(mine, eager, strict=True):
                    zeros = torch.zeros_like(other)
                    wanted_grad = zeros if other.grad is None else other.grad
                    torch.testing.assert_close(zeros if one.grad is None else one.grad, wanted_grad)


def test_an_operand_that_did_not_count_has_a_gradient_of_zeros_as_with_eagers() -> None:
    for run in (meta.compile(scaled, fullgraph=True), scaled):
        x, w = inputs(4, -1, True)
        run(x, w).sum().backward()
        torch.testing.assert_close(w.grad, torch.zeros(3))


def test_modules_as_branches() -> None:
    module = Gated()
    compiled = meta.compile(module, fullgraph=True)
    for sign, branch in ((1, module.first), (-1, module.second)):
        module.zero_grad()
        x = torch.ones(2, 3) * sign
        out = compiled(x)
        out.square().sum().backward()
        wanted = branch(x).relu()
        torch.testing.assert_close(out, wanted)
        gradients = torch.autograd.grad(wanted.square().sum(), list(branch.parameters()))
        for parameter, gradient in zip(branch.parameters(), gradients, strict=True):
            torch.testing.assert_close(parameter.grad, gradient)


LIST: list[int] = []


def appending(x: Tensor) -> Tensor:
    return torch.cond(x.sum() > 0, lambda x: (LIST.append(1), x * 2)[1], lambda x: x * 3, (x,))


def aliasing(x: Tensor) -> Tensor:
    return torch.cond(x.sum() > 0, lambda x: x, lambda x: x * 3, (x,))


def writing(x: Tensor) -> Tensor:
    return torch.cond(x.sum() > 0, lambda x: x.add_(1) * 2, lambda x: x * 3, (x,))


def differing(x: Tensor) -> Tensor:
    return torch.cond(x.sum() > 0, lambda x: x.sum(), lambda x: x * 3, (x,))


def raising(x: Tensor) -> Tensor:
    def refuse(x: Tensor) -> Tensor:
        raise ValueError("no")

    return torch.cond(x.sum() > 0, lambda x: x * 2, refuse, (x,))


def stepping(x: Tensor) -> Tensor:
    """Each branch would take a number, and only one runs."""
    numbers = iter([1.0, 2.0, 3.0])
    y = torch.cond(x.sum() > 0, lambda x: x * next(numbers), lambda x: x + next(numbers), (x,))
    return y * next(numbers)


def generating(x: Tensor) -> Tensor:
    numbers = (float(n) for n in range(3))
    y = torch.cond(x.sum() > 0, lambda x: x * next(numbers), lambda x: x + next(numbers), (x,))
    return y * next(numbers)


@pytest.mark.parametrize("program", [stepping, generating, appending, aliasing, writing, differing, raising])
def test_what_is_no_control_flow_of_a_graph_breaks_it(program: Callable[[Tensor], Tensor]) -> None:
    with pytest.raises(capture.GraphBreakError, match=r"control flow (over a function that|beside)|differ in metadata"):
        meta.compile(program, fullgraph=True)(torch.ones(3))


def halved(x: Tensor, w: Tensor) -> Any:
    return while_loop(
        lambda i, y: (i < 5) & (y.sum().abs() > 0.1), lambda i, y: (i + 1, y * 0.5 + w.sin()), (torch.tensor(0), x)
    )


def closed_over(x: Tensor, w: Tensor) -> Tensor:
    """The first value carried is one that the body knows under another name, too."""
    (y,) = while_loop(lambda y: y.sum() < 50, lambda y: (y + x.abs() + 1,), (x,))
    return y * w


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
def test_while_loop(backend: str) -> None:
    with torch.no_grad():
        for program in (halved, closed_over):
            compiled = meta.compile(program, backend=backend, fullgraph=True, dynamic=True)
            for rows, sign in ((4, 1.0), (4, 0.0), (5, 100.0)):
                given = inputs(rows, sign, False)
                got = compiled(*given)
                with plainly():
                    torch.testing.assert_close(got, program(*given))


def from_nothing(x: Tensor, w: Tensor) -> Any:
    """What is carried begins without a gradient."""
    i, y = while_loop(lambda i, y: i < x.sum(), lambda i, y: (i + 1, y * w + 1), (torch.tensor(0), torch.zeros(3)))
    return y * (i + x.sum())


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
def test_gradients_of_loops_are_those_of_plain_ones(backend: str) -> None:
    for program in (closed_over, from_nothing):
        compiled = meta.compile(program, backend=backend, fullgraph=True, dynamic=True)
        for rows, sign in ((4, 1.0), (5, 2.0), (3, -1.0)):  # of one, no step at all
            mine, eager = inputs(rows, sign, True), inputs(rows, sign, True)
            compiled(*mine).sum().backward()
            with plainly():
                program(*eager).sum().backward()
            for one, other in zip(mine, eager, strict=True):
                torch.testing.assert_close(one.grad, torch.zeros_like(other) if other.grad is None else other.grad)


def test_no_step_of_a_loop_gives_copies_as_eagers() -> None:
    def program(x: Tensor) -> Tensor:
        (y,) = while_loop(lambda y: y.sum() < 0, lambda y: (y + 1,), (x,))
        return y.add_(1)

    x = torch.ones(3)
    torch.testing.assert_close(meta.compile(program, fullgraph=True)(x), torch.full((3,), 2.0))
    torch.testing.assert_close(x, torch.ones(3))


def test_random_numbers_of_a_branch_are_eagers() -> None:
    def program(x: Tensor) -> Tensor:
        return torch.cond(x.sum() > 0, lambda x: torch.nn.functional.dropout(x, 0.5), lambda x: x + torch.rand(3), (x,))

    compiled = meta.compile(program, fullgraph=True)
    for x in (torch.ones(3), -torch.ones(3)):
        torch.manual_seed(0)
        got = compiled(x)
        torch.manual_seed(0)
        with plainly():
            torch.testing.assert_close(got, program(x))


def test_beside_calls_that_give_nothing() -> None:
    def program(x: Tensor, w: Tensor) -> Tensor:
        rows = x[x.sum(1) != 0] * 1
        torch._check(rows.shape[0] > 1)
        rows[0] = w
        return torch.cond(rows.sum() > 0, lambda: rows * 2, lambda: rows.sin()) + rows.shape[0]

    compiled = meta.compile(program, fullgraph=True)
    for rows, sign in ((4, 1.0), (3, -5.0)):
        with plainly():
            wanted = program(*inputs(rows, sign, False))
        torch.testing.assert_close(compiled(*inputs(rows, sign, False)), wanted)
    with pytest.raises(RuntimeError):
        compiled(torch.zeros(4, 3), W)


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
def test_where_gradients_are_switched_off(backend: str) -> None:
    def program(x: Tensor, w: Tensor) -> Tensor:
        with torch.no_grad():
            y = torch.cond(x.sum() > 0, lambda x: x * w, lambda x: x.sin(), (x * 2,)) + w
        return y * x.cos()

    compiled = meta.compile(program, backend=backend, fullgraph=True)
    for sign in (1.0, -1.0):
        mine, eager = inputs(4, sign, True), inputs(4, sign, True)
        got = compiled(*mine)
        with plainly():
            wanted = program(*eager)
        torch.testing.assert_close(got, wanted)
        got.sum().backward()
        wanted.sum().backward()
        torch.testing.assert_close(mine[0].grad, eager[0].grad)
        assert mine[1].grad is None and eager[1].grad is None
