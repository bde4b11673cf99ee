"""When objects die is seen as in plain Python: by weak references, finalizers, weak containers and counts of references."""

from __future__ import annotations

import functools
import gc
import sys
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch
from lifetimes import (  # noqa: F401  (nothing_is_left is a fixture)
    HOLDER,
    LOG,
    STATE,
    Last,
    Plain,
    Program,
    Programs,
    assert_told_alike,
    closing,
    nothing_is_left,
)

import capture

program = Programs()


class Narrow:
    __slots__ = ("held",)


class RefusedError(ValueError):
    """Takes weak references, which its base does not."""


@program
def a_finalizer(x: torch.Tensor) -> Any:
    o = Plain()
    weakref.finalize(o, LOG.append, "finalized")
    LOG.append(1)
    del o
    LOG.append(2)
    return x + 1


@program
def weak_containers(x: torch.Tensor) -> Any:
    values: Any = weakref.WeakValueDictionary()
    keys: Any = weakref.WeakKeyDictionary()
    both: Any = weakref.WeakSet()
    o = Plain()
    values["o"] = keys[o] = o
    both.add(o)
    keys[o] = 1
    before = len(values), len(keys), len(both)
    del o
    return x + 1, before, len(values), len(keys), len(both)


@program
def a_proxy(x: torch.Tensor) -> Any:
    o = Plain()
    o.held = 3
    proxy = weakref.proxy(o)
    before = proxy.held
    del o
    try:
        return x, before, proxy.held
    except ReferenceError:
        return x + 1, before


@program
def a_weak_reference_made_within(x: torch.Tensor) -> Any:
    def made() -> weakref.ref[Plain]:
        o = Plain()
        return weakref.ref(o)

    return x + 1, made()() is None


@program
def a_weak_reference_to_what_is_held(x: torch.Tensor) -> Any:
    o = Plain()
    o.held = Plain()
    o.held.held = weakref.ref(o)
    inner = o.held
    found = inner.held() is o
    del o
    return x + 1, found, inner.held() is None


@program
def a_weak_reference_after_a_break(x: torch.Tensor) -> Any:
    o = Plain()
    reference = weakref.ref(o)
    found = x.sum() > -1e9 and reference() is o
    del o
    return x + 1, found, reference()


@program
def a_weak_reference_to_what_a_list_held(x: torch.Tensor) -> Any:
    held = [Plain()]
    reference = weakref.ref(held[0])
    found = reference() is held[0]
    held.clear()
    return x + 1, found, reference() is None


@program
def a_weak_reference_to_what_an_iterator_let_go(x: torch.Tensor) -> Any:
    o = Plain()
    reference, iterator = weakref.ref(o), iter([o])
    del o
    for _ in iterator:
        pass
    del _
    return x + 1, reference() is None


@program
def a_weak_reference_to_what_takes_none(x: torch.Tensor) -> Any:
    found = []
    for make in (Narrow, ValueError, RefusedError, Plain):
        o = make()
        try:
            found.append(weakref.ref(o)() is o)
        except TypeError as error:
            found.append(str(error))
    return x + 1, found


@program
def deleted(x: torch.Tensor) -> Any:
    a = b = Last("both")
    LOG.append(1)
    del a
    LOG.append(2)
    b = Last("second")
    LOG.append(3)
    del b
    return x + len(LOG)


@program
def never_named(x: torch.Tensor) -> Any:
    LOG.append(1)
    Last("temporary")
    LOG.append(2)
    name = Last("used").name
    LOG.append(3)
    return x + 1, name


@program
def in_containers(x: torch.Tensor) -> Any:
    held = [Last("a"), Last("b")]
    LOG.append(1)
    held.pop(0)
    LOG.append(2)
    held.clear()
    LOG.append(3)
    return x + 1


@program
def an_attribute(x: torch.Tensor) -> Any:
    o = Plain()
    o.held = Last("a")
    LOG.append(1)
    del o.held
    LOG.append(2)
    return x + 1


@program
def of_a_tensor(x: torch.Tensor) -> Any:
    y: Any = x * 2
    y.tag = Last("tag")
    LOG.append(1)
    del y
    LOG.append(2)
    return x + 1


@program
def in_a_cache(x: torch.Tensor) -> Any:
    @functools.lru_cache(maxsize=1)
    def named(n: str) -> Last:
        return Last(n)

    named("1")
    LOG.append("a")
    named("2")
    LOG.append("b")
    return x + 1


@program
def from_outside_by_a_key(x: torch.Tensor) -> Any:
    LOG.append(1)
    STATE["last"] = None
    LOG.append(2)
    return x + 1


@program
def from_outside_by_a_method(x: torch.Tensor) -> Any:
    LOG.append(1)
    STATE.pop("last")
    LOG.append(2)
    return x + 1


@program
def from_outside_by_an_attribute(x: torch.Tensor) -> Any:
    def within() -> None:
        LOG.append(1)
        HOLDER.held = None
        LOG.append(2)

    within()
    LOG.append(3)
    return x + 1


@program
def a_weak_reference_from_outside(x: torch.Tensor) -> Any:
    reference = STATE["reference"]
    before = reference() is None
    STATE.pop("last")
    return x + 1, before, reference() is None


@program
def a_finalizer_from_outside(x: torch.Tensor) -> Any:
    weakref.finalize(HOLDER.held, LOG.append, "finalized")
    LOG.append(1)
    HOLDER.held = None
    LOG.append(2)
    return x + 1


@program
def kept(x: torch.Tensor) -> Any:
    STATE["kept"] = Last("kept")
    LOG.append(1)
    return x + 1


@program
def references_counted(x: torch.Tensor) -> Any:
    before = sys.getrefcount(HOLDER)
    held = [HOLDER, HOLDER]
    return x + len(held), sys.getrefcount(HOLDER) - before


@program
def collected(x: torch.Tensor) -> Any:
    o: Any = Last("in a circle")
    o.itself = o
    del o
    LOG.append(1)
    gc.collect()
    LOG.append(2)
    return x + 1


@program
def generators(x: torch.Tensor) -> Any:
    g: Any = closing()
    next(g)
    LOG.append(1)
    del g
    LOG.append(2)
    g = closing()
    other = g
    next(g)
    g = None
    LOG.append(3)
    other = 0
    LOG.append(4)
    return x + other


@pytest.mark.parametrize("fn", program, ids=lambda fn: fn.__name__)
def test_when_objects_die(fn: Program) -> None:
    assert_told_alike(fn)


def test_weak_references_to_what_stays_are_of_the_graph() -> None:
    owner = Plain()
    owner.held = torch.ones(2)
    reference = weakref.ref(owner)

    def fn(x: torch.Tensor, log: list[int]) -> Any:
        log.append(1)
        owner.other = x  # type: ignore[attr-defined]
        found = reference()
        assert found is not None
        return x + found.held

    compiled = capture.compile(fn, fullgraph=True)
    assert compiled(torch.ones(2), []).tolist() == [2.0, 2.0]


def test_weak_references_to_what_is_seen_to_be_held_are_of_the_graph() -> None:
    def inverses(x: torch.Tensor) -> Any:
        transform = torch.distributions.ExpTransform()
        inverse = transform.inv  # each knows the other, one of them weakly
        return inverse(x), inverse.inv is transform and transform.inv is inverse

    compiled, x = capture.compile(inverses, fullgraph=True), torch.ones(2)
    assert torch.equal(compiled(x)[0], inverses(x)[0])
    assert compiled(x)[1]


def test_keys_of_the_programs_are_asked_no_more_than_it_asks() -> None:
    asked: list[object] = []

    class Key:
        def __hash__(self) -> int:
            return 1

        def __eq__(self, other: object) -> bool:
            asked.append(other)
            return False

    def fn(x: torch.Tensor, d: dict[object, object]) -> torch.Tensor:
        d[1] = x + 1
        return x * 2

    capture.compile(fn)(torch.ones(2), {Key(): 1})
    assert asked == [1]


def test_an_iterator_that_ended_holds_nothing() -> None:
    def fn(x: torch.Tensor) -> Any:
        told = []
        for make in (lambda o: iter([o]), lambda o: reversed([o]), lambda o: iter({1: o}.values())):
            own = Plain()
            reference, it = weakref.ref(own), make(own)
            del own
            told.append(reference() is None)
            list(it)
            told.append(reference() is None)
        return x + 1, told

    compiled, x = capture.compile(fn), torch.ones(2)
    for _ in range(2):
        assert compiled(x)[1] == fn(x)[1]  # 3.13 keeps what a reversed list was gone through for


def test_a_variable_that_hands_on_what_it_had_lets_go_of_it() -> None:
    def fn(x: torch.Tensor, held: list[Any]) -> Any:
        first = held.pop()
        second = first
        first = None
        print(end="")
        second = None  # noqa: F841
        LOG.append("after")
        print(end="")
        return x + 1

    def seen(call: Callable[..., Any]) -> Any:
        LOG.clear()
        call(torch.ones(2), [Last("own")])
        return list(LOG)

    compiled = capture.compile(fn)
    for _ in range(2):
        assert seen(compiled) == seen(fn)
