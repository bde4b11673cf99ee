"""Symbolic sizes: one program serves every size."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import sympy
import torch
from inductor_tracing import trace
from torch import fx

from inductor.handlers.interpreter import run_program
from inductor.ir.program import LoopOp
from inductor.lower import lower
from inductor.lowerings.views import clamped, from_front
from symshapes import DimPolicy, FakeMode, ShapeEnv

F = torch.nn.functional


def heads(x: Any, w: Any) -> Any:
    b, s, d = x.shape
    y = F.gelu(x.reshape(b * s, d) @ w).view(b, s, 2, 4)
    z = torch.cat([y.transpose(1, 2), y.transpose(1, 2) * 2], 0)
    return torch.softmax(z, -1).reshape(2 * b, -1).sum(0), y.mean((0, 1)), z[:, :, 1:], F.pad(y, (1, 2))


def positions(x: Any, w: Any) -> Any:
    b, s, _ = x.shape
    at = torch.arange(s)
    mask = at[None, :] <= at[:, None]
    return (x.sum(-1)[:, None, :] * mask).amax(-1), x.flatten().view(s, b, -1) + 1, x.var(0), x.argmax(1)


def scaled(x: Any, w: Any) -> Any:
    whole = x.int()
    return whole * (x.shape[0] / 4), whole + x.shape[1] ** 0.5, whole > x.shape[1] / 2, whole * (x.shape[1] // 2)


def parts(x: Any, w: Any) -> Any:
    s = x.shape[1]
    half = torch.slice_scatter(x + 1, x[:, : s // 2] * 2, 1, 0, s // 2)
    behind = torch.slice_scatter(x, x[:, s // 2 :] * 2, 1, s // 2)
    return half, behind, torch.slice_scatter(x, x[1::2] * 2, 0, 1, None, 2), torch.slice_scatter(x, w.sum() + x, 0)


def test_parts_of_symbolic_sizes_are_put_in_by_loops() -> None:
    mode = FakeMode(ShapeEnv())
    fakes = [mode.from_tensor(torch.randn(3, 5, 16), source="x", policy=[DimPolicy.DYNAMIC] * 2 + [DimPolicy.STATIC])]
    fakes.append(mode.from_tensor(torch.randn(16, 8), source="w"))
    with mode:
        graph, _ = trace(parts, *fakes)
    assert all(isinstance(op, LoopOp) for op in lower(graph, fakes).operations)


@pytest.mark.parametrize("function", [heads, positions, scaled, parts])
def test_one_program_serves_every_size(function: Any) -> None:
    mode = FakeMode(ShapeEnv())
    w = torch.randn(16, 8)
    policy = [DimPolicy.DYNAMIC, DimPolicy.DYNAMIC, DimPolicy.STATIC]
    fakes = [mode.from_tensor(torch.randn(3, 5, 16), source="x", policy=policy), mode.from_tensor(w, source="w")]
    with warnings.catch_warnings(), mode:
        warnings.simplefilter("ignore")
        graph, _ = trace(function, *fakes)
    program = lower(graph, fakes)
    assert len(program.symbols) == 2
    for b, s in ((3, 5), (4, 7), (2, 9)):
        inputs = [torch.randn(b, s, 16), w]
        for got, want in zip(run_program(program, inputs), function(*inputs), strict=True):
            torch.testing.assert_close(got, want)
            assert got.stride() == want.stride()


def test_a_size_read_from_data() -> None:
    env = ShapeEnv()
    size = env.create_size(5, "n", DimPolicy.UNBACKED)
    graph = fx.Graph()
    n = graph.placeholder("n")
    n.meta["val"] = torch.tensor(3)
    item = graph.call_function(torch.ops.aten._local_scalar_dense.default, (n,))
    item.meta["val"] = size
    places = graph.call_function(torch.ops.aten.arange.default, (item,))
    with FakeMode(env):
        places.meta["val"] = torch.arange(size)
    graph.output((places, item))
    program = lower(fx.GraphModule({}, graph), [])
    got, number = run_program(program, [torch.tensor(4)])
    assert got.tolist() == [0, 1, 2, 3] and number == 4


def test_a_position_of_unknown_sign_is_never_guessed() -> None:
    size, place = sympy.Symbol("s0", integer=True, positive=True), sympy.Symbol("u0", integer=True)
    assert from_front(place, size) is None and clamped(place, size) is None
    assert from_front(-1, size) == size - 1
    assert clamped(size - 1, size) == size - 1 and clamped(-7, sympy.Integer(3)) == 0
    assert clamped(9, sympy.Integer(3)) == 3
    assert clamped(2, size) == 2  # behind the end nothing is read
