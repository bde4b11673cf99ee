"""Numbers at a graph's border: placeholders that are symbolic ints and floats, outputs that are ints, floats and bools."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, fx
from torch.utils import _pytree as pytree

from meta import backends
from symshapes import DimPolicy, FakeMode, ShapeEnv

F = torch.nn.functional


def faked(program: Callable[..., Any], arguments: list[Any]) -> tuple[fx.GraphModule, list[Any], ShapeEnv]:
    """The program's graph with fakes: tensors with symbolic sizes, ints and floats as symbols."""
    env = ShapeEnv()
    mode = FakeMode(env)
    fakes: list[Any] = []
    for at, value in enumerate(arguments):
        if isinstance(value, Tensor):
            fakes.append(mode.from_tensor(value, source=f"a{at}", policy=DimPolicy.DYNAMIC))
        else:
            fakes.append(env.create_int(value, f"a{at}") if type(value) is int else env.create_float(value, f"a{at}"))
    graph = fx.symbolic_trace(program)
    for node, fake in zip(graph.graph.find_nodes(op="placeholder"), fakes, strict=True):
        node.meta["val"] = fake
    return graph, fakes, env


def same(got: Any, wanted: Any) -> None:
    """Equal, numbers to the last bit and of the same type."""
    if isinstance(wanted, (tuple, list)):
        assert type(got) is type(wanted) and len(got) == len(wanted)
        for one, other in zip(got, wanted, strict=True):
            same(one, other)
    elif isinstance(wanted, Tensor):
        torch.testing.assert_close(got, wanted, equal_nan=True)
        assert got.stride() == wanted.stride()
    else:
        assert type(got) is type(wanted)
        assert got.hex() == wanted.hex() if isinstance(wanted, float) else got == wanted


def fresh(arguments: list[Any], grad: bool) -> list[Any]:
    return [
        value.clone().requires_grad_(grad and value.is_floating_point()) if isinstance(value, Tensor) else value
        for value in arguments
    ]


def holds(env: ShapeEnv, arguments: list[Any]) -> bool:
    names = {f"a{at}": value for at, value in enumerate(arguments)}
    return bool(eval(env.produce_guard_code().code, {**names, "math": math, "operator": operator}))


def compare(program: Callable[..., Any], calls: list[list[Any]], backend: str, grad: bool) -> int:
    """Compile for the first call and compare all that pass the guards with eager; how many did."""
    graph, fakes, env = faked(program, fresh(calls[0], grad))
    with torch.set_grad_enabled(grad):
        compiled = getattr(backends, backend)(graph, fakes)
        passing = [call for call in calls if holds(env, call)]
        for call in passing:
            mine, eager = fresh(call, grad), fresh(call, grad)
            got, wanted = compiled(*mine), program(*eager)
            same(got, wanted)
            same(mine, eager)
            sums = [
                [t.sum() for t in pytree.tree_leaves(out) if isinstance(t, Tensor) and t.requires_grad]
                for out in (got, wanted)
            ]
            if sums[1]:
                sum(sums[0]).backward()  # type: ignore[union-attr]
                sum(sums[1]).backward()  # type: ignore[union-attr]
                same(*([t.grad for t in given if isinstance(t, Tensor)] for given in (mine, eager)))
    return len(passing)


FLOATS = [0.3, -0.0, 2.0, 1.5, -1.7, math.inf, math.nan, 1e-40]
INTS = [6, 5, 64, 100003]
X = torch.randn(5, 7, generator=torch.Generator().manual_seed(0))


def scaling(x: Any, f: Any) -> Any:
    return x * f, f - x, x / f, f / x, torch.sub(x.sin(), x, alpha=f), torch.addcmul(x, x, x, value=f), x.half() * f


def choosing(x: Any, f: Any) -> Any:
    low = x.clamp(min=f)
    return low, x.clamp(-1, f), torch.where(x > 0, x, f), x.masked_fill(x < 0, f), F.threshold(x, f, 0.5), x > f


def activating(x: Any, f: Any) -> Any:
    return F.leaky_relu(x, f), F.elu(x, f), F.softplus(x, f)


def making(x: Any, f: Any) -> Any:
    return torch.full((3,), f) + x[0, :3], torch.scalar_tensor(f) * x, torch.empty_like(x).fill_(f), x.clone().mul_(f)


def answering(x: Any, f: Any) -> Any:
    return x * f, f, f * 2 + 1, f > 0.5, -f, f / 3 - f, x.size(0) * f


def writing(x: Any, f: Any) -> Any:
    y = x * 1.0
    y.mul_(f)
    return f, y[1:], y, f * f, y.t()


@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("program", [scaling, choosing, activating, making, answering, writing])
def test_floats(program: Any, grad: bool) -> None:
    for backend in ("aot_eager", "inductor"):
        assert compare(program, [[X, f] for f in FLOATS], backend, grad) == len(FLOATS)


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_a_power_is_computed_as_one_even_of_a_float_that_was_two(backend: str) -> None:
    calls = [[X.abs(), f] for f in (2.0, 0.5, 3.7, -1.0, 0.0, 1.0)]
    assert compare(lambda x, f: (x**f, f**x), calls, backend, False) == len(calls)


@pytest.mark.parametrize("program", [lambda x, f: x**f, lambda x, f: torch.pow(x, f), lambda x, f: x.pow(f).sin()])
def test_gradients_of_a_power_are_of_any_float(program: Any) -> None:
    calls = [[X.abs() + 0.1, f] for f in (0.3, 2.0, -1.0, 1.0, 3.5)]
    assert compare(program, calls, "inductor", True) == len(calls)


def counting(x: Any, n: Any) -> Any:
    return x * n, torch.arange(n) + 1, x + n / 4, n, n // 2 - 1, n % 3 == 0, x.new_ones((n, 2)).sum(0) * x[:2, :1]


def viewing(x: Any, n: Any) -> Any:
    y = x.new_ones((n, 4)) * x[0, 0]
    return y.view(2 * n, 2), y[: n - 1], y.reshape(-1)[n:], torch.topk(y[:, 0], n // 2).values, y.size()


@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("program", [counting, viewing])
def test_ints(program: Any, grad: bool) -> None:
    for backend in ("aot_eager", "inductor"):
        assert compare(program, [[X, n] for n in INTS], backend, grad) == len(INTS)


def test_negative_ints() -> None:
    assert (
        compare(lambda x, n: (x * n, n, x.roll(n, 0), abs(n)), [[X, n] for n in (-3, -8, -100)], "inductor", True) == 3
    )


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_no_tensor_at_all(backend: str) -> None:
    assert (
        compare(lambda n, f: (n * 2 + 1, n * f, f < n), [[4, 0.5], [9, -0.0], [10**15, math.inf]], backend, False) == 3
    )
    assert compare(lambda n: n // 3, [[4], [9]], backend, False) == 2


def test_an_int_too_large_for_a_kernel_is_an_error_not_another_number() -> None:
    graph, fakes, _ = faked(lambda x, n: x * (n * n), [X, 4])
    compiled = backends.inductor(graph, fakes)
    with pytest.raises(OverflowError):
        compiled(X, 2**40)
