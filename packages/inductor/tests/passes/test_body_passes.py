"""Passes over loop bodies: each row with a match and a near miss, before and after, and the same bits."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import sympy
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from inductor import Body, ops
from inductor.handlers.interpreter import run_loop
from inductor.ir.program import LoopOp
from inductor.ir.recording import LoopRecorder, used
from inductor.ops import install
from inductor.passes import BODY_PASSES, BodyRewriter

I0 = sympy.Symbol("i0", integer=True, nonnegative=True)
MEMORY = {
    "x": torch.tensor([0.0, -0.0, 1.5, float("nan"), float("inf"), -3.25, 1e-40, 7.0]),
    "y": torch.linspace(-1, 1, 8),
    "h": torch.linspace(-2, 2, 8, dtype=torch.bfloat16),
    "d": torch.linspace(-300, 300, 8, dtype=torch.float64),
    "n": torch.arange(8, dtype=torch.int64),
    "b": torch.tensor([-128, 127, 0, 1, 2, 3, 4, 5], dtype=torch.int8),
}
"""What bodies read and what they write has the name and the dtype of one of these."""


def load(name: str) -> object:
    return ops.load(name, I0)


def positive() -> object:
    return ops.gt(load("y"), number(0.5))


def number(value: float, dtype: torch.dtype = torch.float32) -> object:
    return ops.constant(value, dtype)


def store(name: str, value: object) -> None:
    ops.store(f"{name}_out", I0, value)


def truth() -> object:
    return number(True, torch.bool)


def comparison(primitive: str, sure: int) -> Callable[[], None]:
    """Of positions from -1 to 6 with what is never, or always, on the same side, and with what may be on either."""

    def body() -> None:
        place = ops.index_expr(I0 - 1, torch.int64)
        for name, limit in (("x", sure), ("y", 3)):
            compared = getattr(ops, primitive)(place, number(limit, torch.int64))
            store(name, ops.where(compared, load("x"), load("y")))

    body.__name__ = f"known_{primitive}"
    return body


def bitwise_and_true() -> None:
    store("x", ops.where(ops.bitwise_and(truth(), positive()), load("x"), load("y")))
    store("n", ops.bitwise_and(load("n"), number(1, torch.int64)))


def logical_and_true() -> None:
    store("x", ops.where(ops.logical_and(positive(), truth()), load("x"), load("y")))
    store("y", ops.where(ops.logical_and(load("n"), number(1, torch.int64)), load("x"), load("y")))


def load_everywhere() -> None:
    store("x", ops.masked(truth(), lambda: load("x"), 0.0))
    store("y", ops.masked(positive(), lambda: load("x"), 0.0))


def known_condition() -> None:
    store("x", ops.where(truth(), load("x"), load("y")))
    store("y", ops.where(positive(), load("x"), load("y")))


def same_condition_then() -> None:
    other = ops.lt(load("x"), load("y"))
    store("x", ops.where(positive(), ops.where(positive(), load("x"), number(1.0)), number(2.0)))
    store("y", ops.where(positive(), ops.where(other, load("x"), number(1.0)), number(2.0)))


def same_condition_otherwise() -> None:
    other = ops.lt(load("x"), load("y"))
    store("x", ops.where(positive(), number(2.0), ops.where(positive(), number(1.0), load("x"))))
    store("y", ops.where(positive(), number(2.0), ops.where(other, number(1.0), load("x"))))


def masked_load() -> None:
    store("x", ops.masked(positive(), lambda: load("x"), 0.0))
    store("y", ops.masked(positive(), lambda: load("x"), -0.0))


def same_branches() -> None:
    store("x", ops.where(positive(), load("x"), load("x")))
    place = ops.index_expr(ops.indirect(load("n"), 8), torch.int64)
    store("y", ops.where(ops.ge(place, number(0, torch.int64)), load("y"), load("y")))


def rounded_twice() -> None:
    once = ops.round_to(load("x"), torch.bfloat16)
    store("x", ops.round_to(ops.maximum(once, load("h")), torch.bfloat16))
    store("y", ops.round_to(ops.add(once, load("h")), torch.bfloat16))


def cast_by_way_of_wider() -> None:
    store("x", ops.to_dtype(ops.to_dtype(load("x"), torch.float64), torch.float32))
    store("d", ops.to_dtype(ops.to_dtype(load("b"), torch.float32), torch.float64))
    store("y", ops.to_dtype(ops.to_dtype(load("d"), torch.float32), torch.float64))
    store("n", ops.to_dtype(ops.to_dtype(ops.to_dtype(load("y"), torch.float64), torch.int32), torch.int64))


def integer_times_one() -> None:
    store("n", ops.mul(number(1, torch.int64), load("n")))
    store("x", ops.mul(load("x"), number(1.0)))


def integer_plus_zero() -> None:
    store("n", ops.add(load("n"), number(0, torch.int64)))
    store("x", ops.add(load("x"), number(0.0)))


def position_in_range() -> None:
    step = ops.index_expr(I0, torch.int64)
    store("x", ops.load("x", ops.indirect(step, 8)))
    store("y", ops.load("x", ops.indirect(load("n"), 8)))


BODIES: dict[str, Callable[[], None]] = {
    function.__name__: function
    for function in (
        *(comparison(*each) for each in (("lt", 7), ("le", -2), ("gt", 6), ("ge", -1))),
        bitwise_and_true,
        logical_and_true,
        load_everywhere,
        known_condition,
        same_condition_then,
        same_condition_otherwise,
        masked_load,
        same_branches,
        rounded_twice,
        cast_by_way_of_wider,
        integer_times_one,
        integer_plus_zero,
        position_in_range,
    )
}


def recorded(function: Callable[[], None], names: list[str]) -> tuple[Body, LoopRecorder]:
    rewriter = BodyRewriter([each for each in BODY_PASSES if each.name in names])
    with install(LoopRecorder(lambda name: MEMORY[name[0]].dtype, {I0: sympy.Integer(8)}, rewriter)) as recorder:
        function()
    return Body((I0,), (), used(recorder.recorded)), recorder


def test_every_row_has_an_example() -> None:
    assert [each.name for each in BODY_PASSES] == list(BODIES)


@pytest.mark.parametrize("name", BODIES)
def test_before_and_after(name: str, golden: Callable[[str, str], None]) -> None:
    before, _ = recorded(BODIES[name], [])
    after, recorder = recorded(BODIES[name], [name])
    assert recorder.rewrites[name] >= 1 and set(recorder.rewrites) == {name}
    golden(name, f"{before}\n\nbecomes\n\n{after}")
    assert_same_bits(before, after)


def results(body: Body) -> dict[str, torch.Tensor]:
    """The bytes of what the body stores."""
    stored = sorted({each.buffer for each in body.stores()})
    memory = {**MEMORY, **{name: torch.zeros_like(MEMORY[name[0]]) for name in stored}}
    run_loop(LoopOp(tuple(stored), torch.device("cpu"), (sympy.Integer(8),), (), body, ()), memory, {})
    # NaN is NaN whatever its sign and payload.
    return {name: torch.where(memory[name].isnan(), float("nan"), memory[name]).view(torch.uint8) for name in stored}


def assert_same_bits(before: Body, after: Body) -> None:
    expected, found = results(before), results(after)
    assert expected.keys() == found.keys()
    assert all(torch.equal(found[name], expected[name]) for name in expected)


FLOAT, INT = torch.float32, torch.int64
DTYPES = [FLOAT, INT, torch.int8, torch.int32, torch.float64, torch.bool]
Step = st.tuples(st.integers(0, 6), st.integers(0, 99), st.integers(0, 99), st.integers(0, 99))


def a_program(steps: list[tuple[int, int, int, int]]) -> None:
    """Values of all dtypes, made of one another in ways that the rows look for."""
    values = [load(name) for name in "xyhdnb"] + [number(n, t) for t in (FLOAT, INT) for n in (0, 1)] + [number(-0.0)]

    def like(value: object, which: int) -> object:
        alike = [each for each in values if ops.dtype(each) is ops.dtype(value)]
        return alike[which % len(alike)]

    for kind, a, b, c in steps:
        one = values[a % len(values)]
        condition = ops.lt(one, like(one, b))
        match kind:
            case 0:
                made = ops.to_dtype(one, DTYPES[b % len(DTYPES)])
            case 1:
                made = ops.round_to(one, torch.bfloat16)
            case 2:
                made = ops.where(condition, like(one, b), like(one, c))
            case 3:
                made = ops.masked(condition, lambda b=b: load("xyhdnb"[b % 6]), [0, 1, -0.0][c % 3])
            case 4:
                made = ops.maximum(one, like(one, b))
            case _ if ops.dtype(one) is torch.bool:
                made = ops.logical_not(one)
            case 5:
                made = ops.add(one, like(one, b))
            case _:
                made = ops.mul(one, like(one, b))
        values.append(made)
    for at, value in enumerate(values[-3:]):
        name = {torch.float32: "x", torch.float64: "d", INT: "n", torch.int8: "b"}.get(ops.dtype(value))
        if name is not None:
            ops.store(f"{name}{at}", I0, value)


@settings(max_examples=150, deadline=None, derandomize=True)
@given(st.lists(Step, min_size=4, max_size=24))
def test_random_bodies_keep_their_bits(steps: list[tuple[int, int, int, int]]) -> None:
    before, _ = recorded(lambda: a_program(steps), [])
    after, _ = recorded(lambda: a_program(steps), [each.name for each in BODY_PASSES])
    assert_same_bits(before, after)
