"""What locals hold over graph breaks, and in calls that break, dies when it does in plain Python."""

from __future__ import annotations

import collections
import contextlib
import functools
import gc
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from lifetimes import (  # noqa: F401  (nothing_is_left is a fixture)
    LOG,
    STATE,
    Last,
    Plain,
    Program,
    Programs,
    assert_told_alike,
    closing,
    made,
    nothing_is_left,
    tell,
)

import capture

program = Programs()


@program
def held_over_breaks_to_the_end(x: torch.Tensor) -> Any:
    last: Any = made(Last, "last")  # noqa: F841
    y = x + 1
    tell("a")
    LOG.append("b")
    tell("c")
    return y


@program
def held_by_a_call_to_its_end(x: torch.Tensor) -> Any:
    outer: Any = made(Last, "outer")  # noqa: F841

    def inner() -> Any:
        last: Any = made(Last, "inner")  # noqa: F841
        tell("a")
        LOG.append("b")
        tell("c")
        return x + 1

    y = inner()
    LOG.append("d")
    tell("e")
    return y


@program
def let_go_in_the_order_of_what_holds_them(x: torch.Tensor) -> Any:
    a: Any = [made(Last, "a1"), (made(Last, "a2"), {"z": made(Last, "a3"), "y": made(Last, "a4")})]  # noqa: F841
    b: Any = {"z": [made(Last, "b1"), made(Last, "b2")], "y": made(Last, "b3")}
    c: Any = Plain()
    c.held, c.more = made(Last, "c1"), [made(Last, "c2"), made(Last, "c3")]
    d: Any = collections.deque([made(Last, "d1"), made(Last, "d2")])  # noqa: F841
    e: Any = ValueError(made(Last, "e1"), made(Last, "e2"))  # noqa: F841
    tell("a")
    b = None  # noqa: F841
    tell("b")
    c = x + 1
    tell("c")
    return c


def held_in_order(x: torch.Tensor, z: Any, b: Any = None) -> torch.Tensor:
    y: Any = made(Last, "y")  # noqa: F841
    c: Any = made(Last, "c")  # noqa: F841
    tell("a")
    x = x + 1
    a: Any = made(Last, "a")  # noqa: F841
    return x


@program
def let_go_in_the_order_of_their_places(x: torch.Tensor) -> Any:
    z: Any = made(Last, "z")  # noqa: F841
    m: Any = made(Last, "m")  # noqa: F841
    a: Any = made(Last, "a")  # noqa: F841
    tell("b")
    y = x + 1
    tell("c")
    return y


@program
def let_go_in_the_order_of_their_places_in_a_call(x: torch.Tensor) -> Any:
    return held_in_order(x, made(Last, "z"), made(Last, "b")) * 2


def lets_go(k: int, o: Any) -> int:
    tell("a")
    del o
    tell("b")
    return k


class Taking:
    def __init__(self, o: Any) -> None:
        tell("a")
        del o
        tell("b")

    def method(self, o: Any) -> int:
        return lets_go(1, o)

    def __call__(self, o: Any) -> int:
        tell("c")
        o = 1
        tell("d")
        return o


TAKING = Taking(None)


class Layer(torch.nn.Module):
    def forward(self, o: Any) -> int:
        return lets_go(1, o)


LAYER = Layer()


@program
def let_go_in_a_call(x: torch.Tensor) -> Any:
    return x + lets_go(1, made(Last, "last"))


@program
def let_go_in_a_call_by_keywords(x: torch.Tensor) -> Any:
    return x + lets_go(o=made(Last, "last"), k=1)


@program
def let_go_in_a_call_of_packed_arguments(x: torch.Tensor) -> Any:
    packed = lets_go(*[1, made(Last, "in a list")])
    LOG.append("c")
    return x + packed + lets_go(k=1, o=made(Last, "in a dictionary"))


@program
def let_go_in_a_call_of_one_bound(x: torch.Tensor) -> Any:
    method = TAKING.method
    direct = TAKING.method(made(Last, "first")) + method(made(Last, "second"))
    return x + direct + method(*(made(Last, "third"),))


@program
def let_go_in_a_call_that_python_does_not_make(x: torch.Tensor) -> Any:
    called = TAKING(made(Last, "of __call__")) + functools.partial(lets_go, 1)(made(Last, "of a partial"))
    Taking(made(Last, "of a class"))
    return x + called + LAYER(made(Last, "of a module"))


def puts_another_into_a_cell(k: int, o: Any, j: int = 0) -> int:
    o = made(Last, "another")
    within = lambda: o  # noqa: E731
    tell("a")
    return k if within() else j


@program
def given_another_value_in_a_call_that_python_does_not_make(x: torch.Tensor) -> Any:
    return x + functools.partial(puts_another_into_a_cell, 1, j=1)(o=made(Last, "given"))


@program
def let_go_in_a_call_that_takes_it_among_others_into_a_cell(x: torch.Tensor) -> Any:
    def of_many(*given: Any) -> Any:
        y, o = given
        given = ()
        LOG.append("a")
        seen = lambda: o  # noqa: E731
        o = None
        tell("b")
        return y, seen

    return of_many(x + 1, made(Last, "last"))[0]


@program
def let_go_in_a_call_of_what_the_caller_holds(x: torch.Tensor) -> Any:
    held = made(Last, "held")
    y = lets_go(1, held)
    LOG.append("c")
    del held
    tell("d")
    return x + y


@program
def let_go_in_a_call_within_another(x: torch.Tensor) -> Any:
    def passing(o: Any) -> int:
        p = o
        del o
        return lets_go(1, p)

    def straight(o: Any) -> int:
        tell("e")
        return passing(o)

    return x + straight(made(Last, "last"))


@program
def tensors_let_go_in_a_call(x: torch.Tensor) -> Any:
    def doubled(h: torch.Tensor, *more: torch.Tensor) -> Any:
        made(weakref.finalize, h, LOG.append, "first gone")
        made(weakref.finalize, more[0], LOG.append, "second gone")
        h = h * 2
        tell("a")
        h = h + more[0]
        more = ()
        tell("b")
        return h, more

    return doubled(x + 1, x + 2)


@program
def let_go_after_a_break(x: torch.Tensor) -> Any:
    one: Any = made(Last, "one")
    two: Any = made(Last, "two")
    tell("a")
    one = x + 1
    LOG.append("b")
    del two
    LOG.append("c")
    tell("d")
    return one


@program
def asked_for_after_a_break(x: torch.Tensor) -> Any:
    o: Any = made(Plain)
    reference = made(weakref.ref, o)
    before = reference() is o
    del o
    return x + 1, before, reference() is None


@program
def replaced_after_a_break(x: torch.Tensor) -> Any:
    o: Any = made(Plain)
    reference = made(weakref.ref, o)
    o = None
    told = made(Plain), made(alive, reference)
    return x + 1, told[1], o


@program
def held_elsewhere_after_a_break(x: torch.Tensor) -> Any:
    o: Any = made(Plain)
    reference = made(weakref.ref, o)
    held = [o]
    o = x
    return o + 1, reference() is held[0], made(alive, reference)


@program
def one_for_another_in_a_loop(x: torch.Tensor) -> Any:
    for k in range(3):
        last: Any = made(Last, str(k))  # noqa: F841
        x = x + 1
        LOG.append("b")
        tell("c")
    return x


def alive(reference: weakref.ref[Plain]) -> bool:
    return reference() is not None


def started() -> Iterator[int]:
    g = closing()
    next(g)
    return g


@program
def a_generator_over_breaks(x: torch.Tensor) -> Any:
    g: Any = made(started)  # noqa: F841
    tell("a")
    LOG.append("b")
    tell("c")
    return x + 1


@program
def a_loop_that_is_left(x: torch.Tensor) -> Any:
    for _ in made(closing):
        tell("a")
        x = x + 1
        break
    LOG.append("b")
    tell("c")
    return x


@program
def a_loop_that_a_tensor_leaves(x: torch.Tensor) -> Any:
    for k in made(closing):
        if x.sum() > 2:
            break
        x = x + k
        tell("a")
    LOG.append("b")
    return x


@program
def a_buffer_that_is_looked_at(x: torch.Tensor) -> Any:
    content = bytearray(10)
    view = memoryview(content)  # noqa: F841
    tell("a")
    try:
        content[1:-1] = bytes(20)
    except BufferError as error:
        LOG.append(str(error))
    return x + 1


class Base:
    """Knows its subclasses."""


@capture.disable
def subclasses() -> None:
    """A graph break that tells what classes of the program's there are."""
    gc.collect()
    LOG.append([each.__name__ for each in Base.__subclasses__()])


@capture.disable
def note(value: Any) -> None:
    """A graph break after which it can be told whether a value lives."""
    STATE.setdefault("noted", []).append(weakref.ref(value))


@capture.disable
def look() -> None:
    """A graph break that tells it."""
    LOG.append([each() is not None for each in STATE["noted"]])


@program
def a_class_that_is_not_read(x: torch.Tensor) -> Any:
    class Sub(Base):
        pass

    subclasses()
    y = x + 1
    subclasses()
    return y


@program
def a_class_of_an_instance_that_is_not_read(x: torch.Tensor) -> Any:
    class Sub(Base):
        pass

    held = [1, {"o": Sub()}]  # noqa: F841
    del Sub
    subclasses()
    y = x + 1
    subclasses()
    return y


@program
def a_class_that_a_call_does_not_read(x: torch.Tensor) -> Any:
    def inner() -> Any:
        class Sub(Base):
            pass

        subclasses()
        return x + 1

    y = inner()
    subclasses()
    return y


@program
def a_tensor_that_is_not_read(x: torch.Tensor) -> Any:
    y = x + 1
    note(y)
    look()
    y = x * 2
    look()
    tell("a")
    return y


@program
def a_tensor_that_a_call_does_not_read(x: torch.Tensor) -> Any:
    def inner(t: torch.Tensor) -> torch.Tensor:
        u = t * 2
        look()
        return u + 1

    y = x + 1
    note(y)
    z = inner(y)
    look()
    return z


@program
def what_is_not_read_nor_elsewhere(x: torch.Tensor) -> Any:
    STATE["o"] = made(Plain)
    note(STATE["o"])
    o = STATE["o"]  # noqa: F841
    tell("a")
    STATE["o"] = None
    look()
    return x + 1


@program
def an_own_object_that_is_not_read(x: torch.Tensor) -> Any:
    o, held = Plain(), [Plain()]
    note(o)
    note(held[0])
    look()
    y = x + 1
    look()
    return y


@program
def in_an_own_object_that_is_not_read(x: torch.Tensor) -> Any:
    o = made(Last, "last")
    h = Plain()
    h.held = o, x + 1
    del o
    tell("a")
    y = x + 1
    tell("b")
    return y


@program
def on_a_tensor_that_is_not_read(x: torch.Tensor) -> Any:
    y: Any = x * 2
    y.tag = made(Last, "tag")
    tell("a")
    z = x + 1
    tell("b")
    return z


@program
def in_a_generator_that_is_not_read(x: torch.Tensor) -> Any:
    def numbers(o: Any) -> Iterator[int]:
        held = o  # noqa: F841
        o = None
        yield 1
        yield 2

    it = numbers(made(Last, "given"))
    n = next(it)
    tell("a")
    y = x + n
    tell("b")
    return y


class Block:
    def __enter__(self) -> None: ...

    def __exit__(self, *given: object) -> None:
        LOG.append(type(given[1]).__name__)


def raises_with_it_in_a_block(x: torch.Tensor, o: Any) -> torch.Tensor:
    with Block():
        tell("a")
        raise KeyError(x.shape, o)


@program
def not_read_where_it_raises(x: torch.Tensor) -> Any:
    o: Any = made(Last, "o")
    try:
        tell("a")
        made(int, "q")
    except ValueError:
        tell("b")
        o = None
        tell("c")
    return x + 1, o


def left_early(x: torch.Tensor, k: int) -> torch.Tensor:
    """Nobody but this frame holds the generator, whoever called it."""
    for n in closing():
        tell("a")
        if n > k:
            break
        x = x + n
    LOG.append("b")
    tell("c")
    LOG.append("d")
    return x + 1


class LeavingEarly(torch.nn.Module):
    """The same in what the interpreter calls by way of C, with its arguments on the caller's stack."""

    def __init__(self, x: torch.Tensor | None = None) -> None:
        super().__init__()
        self.made = None if x is None else left_here(x)

    def forward(self, x: torch.Tensor, k: int) -> torch.Tensor:
        for _ in closing():
            tell("a")
            break
        LOG.append("b")
        return left_early(x, k)

    def __enter__(self) -> None:
        left_early(torch.ones(2), 1)

    def __exit__(self, *error: object) -> None:
        left_early(torch.ones(2), 1)


def left_here(x: torch.Tensor) -> torch.Tensor:
    for _ in closing():
        tell("a")
        break
    LOG.append("b")
    return x + 1


MODULE = LeavingEarly()
PARTIAL = functools.partial(left_early, k=0)


class MadeOfLeft:
    def __init__(self, x: torch.Tensor) -> None:
        for _ in closing():
            tell("a")
            break
        LOG.append("b")
        self.x = x + 1


@program
def left_in_a_module(x: torch.Tensor) -> Any:
    return MODULE(x, 0) * 2


@program
def left_in_a_partial(x: torch.Tensor) -> Any:
    return PARTIAL(x) * 2


@program
def left_in_the_making_of_an_object(x: torch.Tensor) -> Any:
    tell("first")
    return MadeOfLeft(x).x * 2, LeavingEarly(x).made


@program
def left_on_the_way_into_a_block_and_out_of_it(x: torch.Tensor) -> Any:
    with MODULE:
        y = x + 1
    return y


@pytest.mark.parametrize("fn", program, ids=lambda fn: fn.__name__)
def test_when_objects_die(fn: Program) -> None:
    assert_told_alike(fn)


def test_what_nobody_holds_but_a_local_that_is_not_read_is_not_made() -> None:
    graphs: list[Any] = []

    def backend(module: Any, fakes: Any) -> Any:
        graphs.append(module)
        return module.forward

    def fn(x: torch.Tensor) -> torch.Tensor:
        for _ in range(3):
            a = x + 1
            held = Plain()
            held.held = [a, a * 2]
            tell("a")
            x = x * 2
        return x

    compiled, x = capture.compile(fn, backend), torch.ones(2)
    for _ in range(2):
        assert torch.equal(compiled(x), fn(x))
    outputs = [node.args[0] for g in graphs for node in g.graph.nodes if node.op == "output"]
    assert max(len(each) for each in outputs) == 1
    assert len(graphs) == 2  # what goes on where nothing is bound yet is what goes on later


@pytest.mark.parametrize("many", [False, True])
def test_what_goes_on_after_a_break_alone_holds_what_it_was_given(many: bool) -> None:
    references: list[weakref.ref[torch.Tensor]] = []
    living: list[list[bool]] = []

    @capture.disable
    def noted(value: torch.Tensor) -> None:
        references.append(weakref.ref(value))

    @capture.disable
    def look() -> None:
        living.append([each() is not None for each in references])

    def few(x: torch.Tensor) -> torch.Tensor:
        h = x + 1
        noted(h)
        h = h * 2
        look()
        noted(h)
        h = h - 1
        look()
        return h

    def of_many(x: torch.Tensor) -> torch.Tensor:
        a, b, c, d, e, f, g, h, i, j, k, l, m = x.repeat(13).split(len(x))  # noqa: E741
        n, o, p, q, r, s, t, u, v, w, y, z = (a + b).repeat(12).split(len(x))
        noted(n)
        n = n * 2
        look()
        return a + b + c + d + e + f + g + h + i + j + k + l + m + n + o + p + q + r + s + t + u + v + w + y + z

    def outcome(call: Callable[[torch.Tensor], torch.Tensor]) -> Any:
        references.clear()
        living.clear()
        return call(torch.ones(2)).tolist(), list(living)

    fn = of_many if many else few
    compiled = capture.compile(fn)
    for _ in range(3):
        assert outcome(compiled) == outcome(fn)


def test_an_exception_that_is_kept_is_not_kept_by_itself() -> None:
    kept: list[BaseException] = []

    def fn(x: torch.Tensor) -> torch.Tensor:
        try:
            raise KeyError("here")
        except KeyError as error:
            kept.append(error)
        return x + 1

    compiled, x = capture.compile(fn), torch.ones(2)
    for _ in range(2):
        assert torch.equal(compiled(x), x + 1)
        gc.disable()
        try:
            gone = Last("kept")
            kept.pop().last = gone  # type: ignore[attr-defined]
            LOG.clear()
            del gone
            assert LOG, "it lives until the garbage collector comes"
        finally:
            gc.enable()


def test_a_capture_does_not_hold_what_it_was_given_in_an_exception() -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        return raises_with_it_in_a_block(x, made(Last, "last"))

    compiled, x = capture.compile(fn), torch.ones(2)
    for _ in range(2):
        LOG.clear()
        gc.collect()
        gc.disable()
        try:
            with contextlib.suppress(KeyError):
                compiled(x)
            assert len(LOG) == 3, "it lives until the garbage collector comes"
        finally:
            gc.enable()
