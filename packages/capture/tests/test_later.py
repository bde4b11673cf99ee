"""What is made when it is first read."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable

import pytest

from capture.later import Later


class Thing:
    pass


def makes(thing: Thing) -> Callable[[], Thing]:
    return lambda: thing


def test_it_is_made_once() -> None:
    later = Later(Thing)
    made = later.made
    assert type(made) is Thing
    assert later.made is made


def test_it_lets_go_of_what_it_was_made_of() -> None:
    thing = Thing()
    gone = weakref.ref(thing)
    later = Later(lambda thing=thing: type(thing)())  # type: ignore[misc]
    del thing
    assert type(later.made) is Thing
    gc.collect()
    assert gone() is None


def test_who_asks_while_another_thread_makes_it_gets_it_too() -> None:
    """The other thread has made it between the moment in which nothing was found and the one in which it would be made."""
    later = Later(makes(Thing()))

    class Name(str):
        __slots__ = ()

        def __ne__(self, other: object) -> bool:
            assert later.made is not None
            return str.__ne__(self, other)

    assert later.__getattr__(Name("made")) is later.made
    assert type(later.made) is Thing


def test_who_looks_while_another_thread_makes_it_gets_what_that_made() -> None:
    made = object()
    later = Later(lambda: made)
    assert later.made is made
    # As a thread that found nothing there, and was stopped then.
    assert Later.__getattr__(later, "made") is made
    others: list[object] = []

    def make() -> object:
        if not others:
            others.append(None)
            others[0] = second.made
        return object()

    second = Later(make)
    assert second.made is others[0] is second.made


def test_it_has_nothing_else() -> None:
    with pytest.raises(AttributeError, match="other"):
        Later(Thing).other
