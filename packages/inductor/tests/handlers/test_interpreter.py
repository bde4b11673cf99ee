"""The interpreter on bodies written by hand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import sympy
import torch

from inductor.handlers.interpreter import evaluate, flat_view, run_loop
from inductor.ir.body import record
from inductor.ir.program import LoopOp
from inductor.ops import ops


def run(
    function: Callable[[Any, Any], None], outer: Sequence[int], inner: Sequence[int], **memory: torch.Tensor
) -> None:
    i = [sympy.Symbol(f"i{d}", integer=True, nonnegative=True) for d in range(len(outer))]
    r = [sympy.Symbol(f"r{d}", integer=True, nonnegative=True) for d in range(len(inner))]
    body = record(function, i, r, lambda name: memory[name].dtype)
    sizes = [tuple(map(sympy.Integer, s)) for s in (outer, inner)]
    run_loop(LoopOp(("y",), torch.device("cpu"), *sizes, body, ()), memory, {})


def test_a_reduction_and_what_follows_it_in_the_inner_space() -> None:
    x, y = torch.randn(12), torch.empty(12)

    def softmax(i: Any, r: Any) -> None:
        value = ops.load("x", 4 * i[0] + r[0])
        power = ops.exp(ops.sub(value, ops.reduce("max", value)))
        ops.store("y", 4 * i[0] + r[0], ops.truediv(power, ops.reduce("sum", power)))

    run(softmax, [3], [4], x=x, y=y)
    torch.testing.assert_close(y.view(3, 4), x.view(3, 4).softmax(1))


def test_a_reduction_of_nothing_has_a_result() -> None:
    x, y = torch.empty(0), torch.full((3,), 7.0)
    run(lambda i, r: ops.store("y", i[0], ops.reduce("sum", ops.load("x", i[0] + r[0]))), [3], [0], x=x, y=y)
    assert y.tolist() == [0, 0, 0]


def test_masked_loads_read_nothing_outside() -> None:
    x, y = torch.ones(2), torch.empty(4)

    def body(i: Any, r: Any) -> None:
        mask = ops.lt(ops.index_expr(i[0], torch.int64), ops.constant(2, torch.int64))
        ops.store("y", i[0], ops.masked(mask, lambda: ops.load("x", i[0]), 7.0))

    run(body, [4], [], x=x, y=y)
    assert y.tolist() == [1, 1, 7, 7]


def test_a_load_outside_its_buffer_is_an_error() -> None:
    with pytest.raises(AssertionError, match=r"index 0\.\.3 in memory of 2"):
        run(lambda i, r: ops.store("y", i[0], ops.load("x", i[0])), [4], [], x=torch.ones(2), y=torch.empty(4))


def test_accumulating_stores_add_at_equal_places() -> None:
    y = torch.zeros(2)
    index = torch.tensor([0, 1, -1, 0])

    def body(i: Any, r: Any) -> None:
        place = ops.indirect(ops.load("index", i[0]), 2)
        ops.store("y", place, ops.constant(1.0, torch.float32), "add")

    run(body, [4], [], index=index, y=y)
    assert y.tolist() == [2, 2]


def test_indirect_positions_are_checked_where_the_mask_holds() -> None:
    index, x, y = torch.tensor([0, 9]), torch.ones(2), torch.empty(2)

    def body(i: Any, r: Any, mask: bool) -> None:
        def element() -> Any:
            return ops.load("x", ops.indirect(ops.load("index", i[0]), 2))

        inside = ops.lt(ops.index_expr(i[0], torch.int64), ops.constant(1, torch.int64))
        ops.store("y", i[0], ops.masked(inside, element, 0.0) if mask else element())

    run(lambda i, r: body(i, r, True), [2], [], index=index, x=x, y=y)
    assert y.tolist() == [1, 0]
    with pytest.raises(IndexError):
        run(lambda i, r: body(i, r, False), [2], [], index=index, x=x, y=y)


def test_low_precision_rounds_at_the_store_only() -> None:
    x = torch.tensor([1.0], dtype=torch.bfloat16)
    y = torch.empty(1, dtype=torch.bfloat16)
    small = 2.0**-10

    def body(i: Any, r: Any) -> None:
        value = ops.add(ops.load("x", 0), ops.constant(small, torch.float32))
        ops.store("y", 0, ops.sub(value, ops.load("x", 0)))

    run(body, [], [], x=x, y=y)
    assert y.item() == small


def test_evaluate_and_flat_view() -> None:
    a = sympy.Symbol("a", integer=True)
    assert evaluate(3 * a**2 + 1, {a: 4}) == 49
    t = torch.arange(12).view(3, 4)[1:, ::2]
    assert flat_view(t).tolist() == list(range(4, 11))
