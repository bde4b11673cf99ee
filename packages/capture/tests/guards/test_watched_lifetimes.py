"""Watches keep nothing alive, and notice what dies, comes back elsewhere or changes while it is looked at."""

import gc
import types
import weakref

import pytest
import torch
from watched_things import X, program, thing

import capture
from capture.guards import Guard, GuardKind
from capture.sources import (
    Attr,
    Const,
    Item,
    ModuleGlobal,
)


def test_nothing_is_kept_alive():
    held = thing(inner=thing(k=1))
    made = program(Guard(Attr(Attr(Const(held), "inner", via_dict=True), "k", via_dict=True), GuardKind.EQUALS, 1))
    assert made.check((0,))
    gone = weakref.ref(held.inner)
    del held.inner
    gc.collect()
    assert gone() is None and not made.check((0,))
    gone = weakref.ref(held)
    del held
    gc.collect()
    assert gone() is None and not made.check((0,)) and not made.check((0,))


def test_a_property_is_asked_each_time_and_may_drop_what_is_watched():
    class Asked:
        def __init__(self):
            self.parts = [thing(k=1)]
            self.asked = 0

        @property
        def value(self):
            self.asked += 1
            if self.asked > 3:
                self.parts.clear()
            return 7

    held = Asked()
    first = Item(Attr(Const(held), "parts", via_dict=True), 0)
    made = program(
        Guard(Attr(Const(held), "value"), GuardKind.EQUALS, 7),
        Guard(Attr(first, "k", via_dict=True), GuardKind.EQUALS, 1),
    )
    answers = [made.check((0,)) for _ in range(6)]
    assert answers[0] and not answers[-1] and held.asked >= 4


def test_dictionaries_that_die_or_are_cleared_or_shared():
    for end in ("del", "clear", "update", "shared"):
        held = thing(inner=thing(k=1), other=1)
        source = Attr(Attr(Const(held), "inner", via_dict=True), "k", via_dict=True)
        first, second = (program(Guard(source, GuardKind.EQUALS, 1)) for _ in range(2))
        assert first.check((0,)) and second.check((0,))
        if end == "del":
            del held.__dict__
        elif end == "clear":
            held.__dict__.clear()
        elif end == "update":
            held.__dict__.update(inner=thing(k=2))
        else:
            kept = held.inner.__dict__
            held.inner.__dict__ = {"k": 2}
            kept["k"] = 1
        assert not first.check((0,)) and not second.check((0,))
        del first
        gc.collect()
        held.inner = thing(k=1)
        assert second.check((0,))
        del second, held
        gc.collect()


def test_many_programs_over_one_dictionary():
    space = {f"name{i}": i for i in range(50)}
    made = [
        program(Guard(ModuleGlobal("space", f"name{i}", space), GuardKind.EQUALS, i), Guard(X, GuardKind.EQUALS, 0))
        for i in range(50)
    ]
    assert all(each.check((0,)) for each in made)
    for i in range(0, 50, 7):
        space[f"name{i}"] = -1
        assert [each.check((0,)) for each in made] == [each != i for each in range(50)]
        space[f"name{i}"] = i
        assert all(each.check((0,)) for each in made)
        del made[-1]
        made.append(program(Guard(ModuleGlobal("space", "name49", space), GuardKind.EQUALS, 49)))
    del made
    gc.collect()
    space["name1"] = 7


def test_a_namespace_object():
    space = types.SimpleNamespace(k=1)
    made = program(Guard(Attr(Const(space), "k", via_dict=True), GuardKind.EQUALS, 1))
    assert made.check((0,)) and made.check((0,)) and made.verified == 1
    space.k = 2
    assert not made.check((0,))


@pytest.mark.parametrize("ask_within", [False, True])
def test_a_finalizer_that_asks_while_a_value_is_replaced(ask_within):
    """The old value goes before the dictionary's version does; who asks then must not be told that nothing changed."""
    answers = []

    class Dying:
        def __del__(self):
            answers.append(made.check((0,)) if ask_within else None)

    def store(target, value):
        target.k = value

    held = thing(before=0, k=None)
    for _ in range(20):  # so that the interpreter specialises the storing
        store(held, 1)
    store(held, Dying())
    made = program(Guard(Attr(Const(held), "k", via_dict=True), GuardKind.TYPE, Dying))
    assert made.check((0,)) and made.check((0,))
    store(held, 7)
    assert answers == [False if ask_within else None]
    assert not made.check((0,)) and not made.check((0,))


def test_a_property_that_fails_when_it_is_looked_at_again():
    class Failing:
        asked = 0

        @property
        def value(self):
            self.asked += 1
            if self.asked == 2:
                raise ValueError("not twice")
            return 1

    thing = Failing()
    made = program(Guard(Attr(Const(thing), "value"), GuardKind.EQUALS, 1))
    assert [made.check(()) for _ in range(3)] == [False, True, True]


def _with_default(number):
    def scaled(x, by=(float(number),)):
        return x * by[0]

    return scaled


def _with_cell(number):
    by = float(number)
    return lambda x: x * by


@pytest.mark.parametrize("make", [_with_default, _with_cell])
def test_what_lies_where_something_else_lay(make):
    class Calls(torch.nn.Module):
        def forward(self, x):
            return self.function(x)

    x, reused = torch.ones(1), 0
    for i in range(200):
        module = Calls()
        module.function = make(i)
        compiled = capture.compile(module)
        compiled(x)
        before = id(module.function)
        module.function = None
        module.function = make(i + 1000)
        reused += id(module.function) == before
        assert compiled(x).item() == i + 1000
    assert reused
