"""Attributes of a fixed object, wherever the interpreter keeps them: in the object itself, shared with its dictionary, or in that alone."""

from __future__ import annotations

from typing import Any

import pytest
from watched_things import program

from capture.guards import Guard, GuardKind
from capture.sources import Attr, Const, DictKeyAt


class Held:
    def __init__(self) -> None:
        self.a = 1
        self.b = 2


def _by_attribute(held: Held, name: str, value: Any) -> None:
    setattr(held, name, value)


def _by_statement(held: Held, name: str, value: Any) -> None:
    exec(f"held.{name} = value", {"held": held, "value": value})


def _by_dictionary(held: Held, name: str, value: Any) -> None:
    held.__dict__[name] = value


def _by_object(held: Held, name: str, value: Any) -> None:
    object.__setattr__(held, name, value)


WAYS = [_by_attribute, _by_statement, _by_dictionary, _by_object]


def _keys_of_its_own(held: Held) -> None:
    held.__dict__ = dict(held.__dict__)


def _more_than_the_class_shares(held: Held) -> None:
    for i in range(60):
        setattr(held, f"more{i}", i)


def _nothing(held: Held) -> None:
    pass


def _a_key_that_is_no_name(held: Held) -> None:
    held.__dict__[1] = 1  # type: ignore[index]
    del held.__dict__[1]  # type: ignore[arg-type]


BEFORE = [_nothing, _keys_of_its_own, _more_than_the_class_shares, _a_key_that_is_no_name]


@pytest.mark.parametrize("store", WAYS)
@pytest.mark.parametrize("before", BEFORE)
def test_a_value_is_compared(store: Any, before: Any) -> None:
    held = Held()
    before(held)
    made = program(Guard(Attr(Const(held), "a", via_dict=True), GuardKind.EQUALS, 1))
    for _ in range(2):
        assert made.check((0,))
        store(held, "a", 3)
        assert not made.check((0,))
        store(held, "a", 1)
        assert made.check((0,)), made.explain_failure((0,))
        del held.a
        assert not made.check((0,))
        held.a = 1


@pytest.mark.parametrize("store", WAYS)
@pytest.mark.parametrize("before", BEFORE)
def test_what_is_not_there_is_noticed_when_it_comes(store: Any, before: Any) -> None:
    held = Held()
    before(held)
    made = program(Guard(Attr(Const(held), "__dict__"), GuardKind.NO_KEY, "c"))
    for _ in range(2):
        assert made.check((0,)) and made.check((0,))
        del held.b
        store(held, "c", 1)  # as many as before
        assert not made.check((0,))
        del held.c
        held.b = 2
    assert made.check((0,))


@pytest.mark.parametrize("store", WAYS)
@pytest.mark.parametrize("before", BEFORE)
def test_the_order_of_attributes_is_compared(store: Any, before: Any) -> None:
    held = Held()
    before(held)
    dictionary = Attr(Const(held), "__dict__")
    keys = program(Guard(dictionary, GuardKind.DICT_KEYS, tuple(held.__dict__)))
    first = program(Guard(DictKeyAt(dictionary, 0), GuardKind.EQUALS, "a"))
    assert keys.check((0,)) and keys.check((0,)) and first.check((0,))
    store(held, "a", 5)
    assert keys.check((0,)) and first.check((0,))
    del held.a
    store(held, "a", 1)  # now the last
    assert not keys.check((0,)) and not first.check((0,))


def test_others_come_and_go_without_verifying() -> None:
    held = Held()
    held.c = held.__dict__ and 1  # type: ignore[attr-defined]
    made = program(
        Guard(Attr(Const(held), "a", via_dict=True), GuardKind.EQUALS, 1),
        Guard(Attr(Const(held), "__dict__"), GuardKind.NO_KEY, "new"),
    )
    for i in range(40):
        assert made.check((0,))
        setattr(held, f"other{i}", i)
        assert made.check((0,))
        held.b = i
    assert made.verified == 1


def test_the_dictionary_outlives_its_object() -> None:
    held = Held()
    held.inner = Held()  # type: ignore[attr-defined]
    kept = held.inner.__dict__  # type: ignore[attr-defined]
    inner = Attr(Const(held), "inner", via_dict=True)
    made = program(Guard(Attr(inner, "a", via_dict=True), GuardKind.EQUALS, 1))
    assert made.check((0,)) and made.check((0,))
    held.inner = Held()  # type: ignore[attr-defined]
    held.inner.a = 2  # type: ignore[attr-defined]
    assert not made.check((0,)) and kept == {"a": 1, "b": 2}
    del kept
    assert not made.check((0,))
