"""What jumps sees what eager has in memory: bfloat16 and float16 values are rounded before comparisons, argmax, floor, casts..."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from inductor_tracing import trace

from inductor import PRIMITIVES, REDUCTIONS, Round
from inductor.handlers.interpreter import run_program
from inductor.lower import lower

aten = torch.ops.aten

Function = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
CONSUMERS: dict[str, Function] = {
    "greater": lambda v, g: v > 1.5,
    "equal": lambda v, g: v == v.round(decimals=2),
    "equals its maximum": lambda v, g: v == v.amax(-1, keepdim=True),
    "floor": lambda v, g: v.floor(),
    "frac": lambda v, g: v.frac() < 0.5,
    "sign": lambda v, g: (v - v.mean(-1, keepdim=True)).sign(),
    "to an integer": lambda v, g: v.to(torch.int32),
    "to bool": lambda v, g: (v * 1e-6).to(torch.bool),
    "argmax": lambda v, g: v.argmax(-1),
    "max with its place": lambda v, g: v.max(-1).indices,
    "any": lambda v, g: (v * 1e-6).any(-1),
    "remainder": lambda v, g: v % 0.5,
    "floor_divide": lambda v, g: torch.div(v, 0.3, rounding_mode="floor"),
    "trunc_divide": lambda v, g: torch.div(v, 0.3, rounding_mode="trunc"),
    "isinf": lambda v, g: torch.isinf(v * 30000),
    "isfinite": lambda v, g: torch.isfinite(-(v * 30000)),
    "isnan of a difference": lambda v, g: torch.isnan(v.exp().exp() - v.exp().exp()),
    "where": lambda v, g: torch.where(v > v.mean(-1, keepdim=True), 1, 0),
    "bucket": lambda v, g: (v[..., None] >= torch.tensor([0.5, 1.0, 1.5], dtype=v.dtype)).sum(-1),
    "trunc_divide by a tensor": lambda v, g: torch.div(v, g * 0.3, rounding_mode="trunc"),
    "gradient of threshold": lambda v, g: aten.threshold_backward(g, v, 1.5),
    "gradient of hardtanh": lambda v, g: aten.hardtanh_backward(g, v, 0.5, 1.5),
    "gradient of hardsigmoid": lambda v, g: aten.hardsigmoid_backward(g, v * 2),
    "threshold": lambda v, g: F.threshold(v, 1.5, 0.0) == 0,
    "hardshrink": lambda v, g: F.hardshrink(v, 1.5) == 0,
    "of a wider sum": lambda v, g: (v + torch.zeros(1).expand(v.shape)).floor(),
    "joined": lambda v, g: torch.cat([v, v * 1.001]).floor(),
}


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", CONSUMERS)
def test_a_jump_is_where_eager_jumps(name: str, dtype: torch.dtype) -> None:
    torch.manual_seed(1)
    consume = CONSUMERS[name]
    x, y = (torch.rand(40, 64) + 0.5).to(dtype), (torch.rand(40, 64) + 0.5).to(dtype)
    gradient = torch.ones_like(x)

    def function(x: torch.Tensor, y: torch.Tensor, g: torch.Tensor) -> torch.Tensor:
        return consume(x * y, g)

    graph, expected = trace(function, x, y, gradient)
    (found,) = run_program(lower(graph, []), [x, y, gradient])
    assert torch.equal(found, expected[0])


CHAINS: dict[str, Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "greater": lambda x, y, z: x * y + z > 1.5,
    "to an integer": lambda x, y, z: (x * y * z * 8 + x).to(torch.int32),
    "argmax": lambda x, y, z: (x * y + z).argmax(-1),
    "floor": lambda x, y, z: (torch.sigmoid(x * y) * z * 8).floor(),
    "of float32": lambda x, y, z: (x * y + z).float() * 2 > 3.3,
    "joined": lambda x, y, z: (torch.cat([x * y, y * z]) * 3 + 1).floor(),
    "chosen": lambda x, y, z: (torch.where(x > 1, x * y, y * z) * 1.7).floor(),
    "negated": lambda x, y, z: (-(x * y) + z).sign(),
}


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", CHAINS)
def test_a_jump_sees_each_link_rounded(name: str, dtype: torch.dtype) -> None:
    torch.manual_seed(2)
    x, y, z = ((torch.rand(40, 64) + 0.5).to(dtype) for _ in range(3))
    graph, expected = trace(CHAINS[name], x, y, z)
    (found,) = run_program(lower(graph, []), [x, y, z])
    assert torch.equal(found, expected[0])


def test_what_does_not_jump_is_not_rounded_on_the_way() -> None:
    x, y = torch.rand(8).to(torch.bfloat16), torch.rand(8).to(torch.bfloat16)
    graph, _ = trace(lambda x, y: (x * y + x) * y, x, y)
    (loop,) = lower(graph, []).operations
    assert not [op for op in loop.body.ops if isinstance(op, Round)]


NUMBERS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "equal": lambda x: x == 0.3,
    "greater": lambda x: x > 1.2,
    "greater than a tensor": lambda x: x > torch.tensor(1.2),
    "added": lambda x: x + 0.3,
    "subtracted": lambda x: 1.2 - x,
    "scaled and added": lambda x: torch.add(torch.zeros_like(x), x, alpha=1.2),
    "multiplied": lambda x: x * 0.3,
    "multiplied by a tensor": lambda x: x * torch.tensor(0.3),
    "divided": lambda x: x / 0.3,
    "an integer tensor": lambda x: x + torch.tensor([257, 2049]),
    "times an integer tensor": lambda x: x * torch.tensor([257, 2049]),
    "remainder": lambda x: x % 0.3,
    "divided to the floor": lambda x: torch.div(x, 0.3, rounding_mode="floor"),
    "hardshrink": lambda x: F.hardshrink(x, 1.2),
    "threshold": lambda x: F.threshold(x, 1.2, 0.0),
    "clamp": lambda x: x.clamp(0.3, 1.2),
}


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", NUMBERS)
def test_numbers_have_the_precision_that_eager_gives_them(name: str, dtype: torch.dtype) -> None:
    torch.manual_seed(3)
    x = (torch.rand(500, 2) + 0.3).to(dtype)
    x[0], x[1] = 0.3, 1.2
    graph, expected = trace(NUMBERS[name], x)
    (found,) = run_program(lower(graph, []), [x])
    assert torch.equal(found, expected[0])


def test_the_table_says_of_each_primitive_whether_it_jumps() -> None:
    jumping = {name for name, primitive in PRIMITIVES.items() if primitive.discrete}
    assert {"floor", "lt", "sign", "isnan", "remainder", "logical_and"} <= jumping
    assert jumping.isdisjoint({"add", "exp", "maximum", "neg", "pow"})
    assert {name for name, kind in REDUCTIONS.items() if not kind.discrete} == {"sum", "prod"}
