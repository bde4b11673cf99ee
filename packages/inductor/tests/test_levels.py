"""Operations land at the right loop level and pass."""

import sympy
import torch

from inductor.ir.body import Body, record
from inductor.ir.operations import Elementwise
from inductor.levels import split
from inductor.ops import ops

i, j = sympy.symbols("i j", integer=True, nonnegative=True)


def _names(body: Body, positions: tuple[int, ...]) -> list[str]:
    ops = (body.ops[at] for at in positions)
    return [op.primitive if isinstance(op, Elementwise) else op.opcode for op in ops]


def test_pointwise_has_no_pass() -> None:
    def f(outer: object, inner: object) -> None:
        ops.store("y", i, ops.exp(ops.load("x", i)))

    body = record(f, [i], [], lambda _: torch.float32)
    levels = split(body)
    assert levels.passes == ()
    assert _names(body, levels.outer[0]) == ["load", "exp", "store"]


def test_softmax_has_three_passes_and_recomputes() -> None:
    def f(outer: object, inner: object) -> None:
        x = ops.load("x", 8 * i + j)
        e = ops.exp(ops.sub(x, ops.reduce("max", x)))
        ops.store("y", 8 * i + j, ops.truediv(e, ops.reduce("sum", e)))

    body = record(f, [i], [j], lambda _: torch.float32)
    levels = split(body)
    assert [_names(body, p.ops) for p in levels.passes] == [
        ["load"],
        ["load", "sub", "exp"],
        ["load", "sub", "exp", "truediv", "store"],
    ]
    assert [len(p.reductions) for p in levels.passes] == [1, 1, 0]
    assert [len(p.stores) for p in levels.passes] == [0, 0, 1]
    assert levels.outer == ((), (), (), ())


def test_outer_operations_before_between_and_after() -> None:
    def f(outer: object, inner: object) -> None:
        scale = ops.load("s", i)
        mean = ops.truediv(
            ops.reduce("sum", ops.mul(ops.load("x", 8 * i + j), scale)), ops.constant(8.0, torch.float32)
        )
        ops.store("m", i, mean)
        ops.store("y", 8 * i + j, ops.sub(ops.load("x", 8 * i + j), mean))
        ops.exp(mean)  # dead

    body = record(f, [i], [j], lambda _: torch.float32)
    levels = split(body)
    assert [_names(body, part) for part in levels.outer] == [["load", "constant"], ["truediv", "store"], []]
    assert [_names(body, p.ops) for p in levels.passes] == [["load", "mul"], ["load", "sub", "store"]]


def test_indirect_symbol_carries_the_inner_level() -> None:
    def f(outer: object, inner: object) -> None:
        at = ops.indirect(ops.load("idx", j), 10)
        ops.store("y", i, ops.reduce("sum", ops.load("x", at)))

    body = record(f, [i], [j], lambda n: torch.int64 if n == "idx" else torch.float32)
    levels = split(body)
    assert _names(body, levels.passes[0].ops) == ["load", "indirect", "load"]
    assert _names(body, levels.outer[1]) == ["store"]


def test_reduction_of_an_outer_value() -> None:
    def f(outer: object, inner: object) -> None:
        ops.store("y", i, ops.reduce("sum", ops.load("x", i)))

    body = record(f, [i], [j], lambda _: torch.float32)
    levels = split(body)
    assert levels.passes[0].ops == () and levels.passes[0].reductions == (1,)
    assert [_names(body, part) for part in levels.outer] == [["load"], ["store"]]


def test_a_scan_is_inner_whatever_it_combines_and_begins_anew_in_a_later_pass() -> None:
    def f(outer: object, inner: object) -> None:
        count = ops.scan("sum", ops.constant(1.0, torch.float32))
        ops.store("y", 8 * i + j, ops.truediv(count, ops.reduce("max", count)))

    body = record(f, [i], [j], lambda _: torch.float32)
    levels = split(body)
    assert [_names(body, p.ops) for p in levels.passes] == [["scan"], ["scan", "truediv", "store"]]
    assert _names(body, levels.outer[0]) == ["constant"]
