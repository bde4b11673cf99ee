"""Bodies print as the functions they were recorded from, and are read back as they were."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import sympy
import torch
import torch.nn.functional as F
from inductor_schedules import scheduled

from inductor import PRIMITIVES, Body, Constant, IndexExpr, Options, parse_body, record
from inductor.ir.operations import OPERATIONS
from inductor.ops import ops
from symshapes import FloorDiv, Mod, index_symbol, size_symbol

I0, R0 = index_symbol("i0"), index_symbol("r0")
S = size_symbol("s0")
DTYPES = {"index": torch.int64, "half": torch.bfloat16, "flag": torch.bool}


def recorded(function: Callable[[Any, Any], None], inner: Sequence[sympy.Symbol] = ()) -> Body:
    return record(function, (I0,), tuple(inner), lambda name: DTYPES.get(name, torch.float32))


def log2(i: Any, r: Any) -> None:
    ops.store("buf0", i[0], ops.mul(ops.log(ops.load("arg0_1", i[0])), ops.constant(1.4426950408889634, torch.float32)))


def softmax(i: Any, r: Any) -> None:
    x = ops.load("x", i[0] * S + r[0])
    e = ops.exp(ops.sub(x, ops.reduce("max", x)))
    ops.store("y", i[0] * S + r[0], ops.truediv(e, ops.reduce("sum", e)))


def padded_embedding(i: Any, r: Any) -> None:
    def row() -> Any:
        return ops.load("weight", 4 * ops.indirect(ops.load("index", FloorDiv(i[0], 4)), 10, "index") + Mod(i[0], 4))

    mask = ops.lt(ops.index_expr(i[0], torch.int64), ops.constant(8, torch.int64))
    ops.store("half", i[0], ops.masked(mask, row, -0.0))


def scattered(i: Any, r: Any) -> None:
    bits = ops.bitcast(ops.load("x", i[0]), torch.int32)
    value = ops.where(
        ops.load("flag", i[0]), ops.to_dtype(bits, torch.float16), ops.constant(float("inf"), torch.float32)
    )
    ops.store("y", ops.indirect(ops.load("index", i[0]), S), value, "add")


def running(i: Any, r: Any) -> None:
    x = ops.load("x", 8 * i[0] + r[0])
    ops.store("y", 8 * i[0] + r[0], ops.add(ops.scan("sum", x), ops.scan("max", x, backward=True)))


BODIES = {
    "log2": recorded(log2),
    "softmax": recorded(softmax, (R0,)),
    "padded_embedding": recorded(padded_embedding),
    "scattered": recorded(scattered),
    "running": recorded(running, (R0,)),
}


@pytest.mark.parametrize("name", BODIES)
def test_printed(name: str, golden: Callable[[str, str], None]) -> None:
    golden(name, str(BODIES[name]))
    assert parse_body(str(BODIES[name])) == BODIES[name]


def test_every_kind_of_operation_is_among_them() -> None:
    assert {op.opcode for body in BODIES.values() for op in body.ops} == OPERATIONS.keys()


@pytest.mark.parametrize("name", PRIMITIVES)
def test_every_primitive(name: str) -> None:
    def function(i: Any, r: Any) -> None:
        operands = [ops.load(f"x{at}", i[0]) for at in range(PRIMITIVES[name].arity)]
        ops.store("y", i[0], getattr(ops, name)(*operands))

    body = recorded(function)
    assert parse_body(str(body)) == body


@pytest.mark.parametrize("number", [0.0, -0.0, 1e-45, -3.5e38, float("inf"), -float("inf"), float("nan"), 0.1])
def test_numbers_are_the_same_to_the_last_bit(number: float) -> None:
    body = Body((), (), (Constant(number, torch.float64),))
    assert parse_body(str(body)) == body


def test_symbols_are_made_as_they_were() -> None:
    made = [
        sympy.Symbol("a", integer=True),
        sympy.Symbol("b", integer=True, positive=True, even=False),
        sympy.Symbol("c"),
        index_symbol("d"),
    ]
    body = Body((I0,), (), (IndexExpr(sympy.Add(*made), torch.int64),))
    assert parse_body(str(body)) == body
    assert "b: ~even & integer & positive" in str(body)


def block(x: torch.Tensor, w: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    scores = (x @ x.transpose(1, 2)).masked_fill(torch.ones(6, 6, dtype=torch.bool).triu(1), float("-inf"))
    return F.layer_norm(x + F.gelu(scores.softmax(-1) @ x @ w) @ v, (8,))


def images(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    y = F.batch_norm(F.conv2d(x, w, padding=1), None, None, training=True)
    return F.interpolate(F.max_pool2d(F.relu(y), 2), scale_factor=2).flatten(1).half().log_softmax(1)


def differentiated(function: Callable[..., torch.Tensor], *inputs: torch.Tensor) -> Sequence[torch.Tensor]:
    with torch.enable_grad():
        inputs = tuple(x.detach().requires_grad_() for x in inputs)
        result = function(*inputs)
        return result.detach(), *torch.autograd.grad(result.float().square().sum(), inputs)


MODELS: dict[str, tuple[Callable[..., Any], tuple[torch.Tensor, ...]]] = {
    "transformer block": (block, (torch.ones(2, 6, 8), torch.ones(8, 16), torch.ones(16, 8))),
    "images": (images, (torch.ones(2, 3, 8, 8), torch.ones(4, 3, 3, 3))),
    "embedding": (
        lambda w, i: F.embedding(i.argmax(-1), w).cumsum(0) * i.sum(),
        (torch.ones(8, 4), torch.ones(2, 3, 8)),
    ),
}


@pytest.mark.parametrize("split", [False, True])
@pytest.mark.parametrize("name", MODELS)
def test_kernels_of_models_forward_and_backward(name: str, split: bool) -> None:
    function, inputs = MODELS[name]
    plan = scheduled(lambda *given: differentiated(function, *given), *inputs, options=Options(split_reductions=split))
    assert plan.kernels
    for kernel in plan.kernels:
        assert parse_body(str(kernel.body)) == kernel.body


WRONG = (
    ("tmp0: float32 = exp(tmp1)", "no value: tmp1"),
    ('tmp0: float32 = load("x", i0, to=2)', "no arguments but mask="),
    ('tmp0: float31 = load("x", i0)', "no dtype: float31"),
    ('tmp0: float32 = load("x", i0 if i0 else 2)', "is no expression"),
    ("tmp0: float32 = constant(2)", "no torch.float32: 2"),
    ("tmp0: float32 = cube_root(i0)", "no value: i0"),
    ("tmp0: float32 = fetch()", "no primitive: fetch"),
    ('tmp0: int64 = load("x", i0)\n    tmp1: float32 = exp(tmp0)', "exp of torch.int64 gives no torch.float32"),
    ('tmp0: float32 = load("x", i0)\n    tmp1: float32 = add(tmp0)', "add takes 2 values, not 1"),
    ('tmp0: float32 = load("x", i0)\n    tmp1: float32 = reduce("mean", tmp0)', "no reduction: mean"),
    ('tmp0: float32 = load("x", i0)\n    tmp1: float32 = scan("mean", tmp0)', "no scan: mean"),
    ('tmp0: float32 = load("x", i0)\n    tmp1: float32 = scan("sum", tmp0, tmp0)', "scan takes a kind and a value"),
    ('tmp0: float32 = load("x", i0)\n    tmp1: float32 = scan("sum", tmp0, mask=tmp0)', "no arguments but backward="),
    ('tmp0: float32 = load("x", i0)\n    store("y", i0, tmp0, mode="sub")', "no mode of a store: sub"),
    ('tmp0: float32 = load("x", i0)\n    tmp1: float32 = exp(tmp0, mask=tmp0)', "exp takes no mask"),
    ("import os", "no operation"),
)


@pytest.mark.parametrize(("line", "words"), WRONG)
def test_what_is_no_body_is_refused_with_its_line(line: str, words: str) -> None:
    with pytest.raises(ValueError, match=r"^line \d+, .*: .*") as caught:
        parse_body(f"def body(i0):\n    {line}")
    assert words in str(caught.value)


@pytest.mark.parametrize(
    "text",
    ["", "x = 2", "def body(i0):", "def body(i0):\n    pass\ndef more():\n    pass", "def body(i0=2):\n    pass"],
)
def test_what_is_no_function_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="no text of a body"):
        parse_body(text)
