"""Entries of dictionaries: what moves, goes, or is another's is never taken for them."""

import gc
import types

import pytest

from capture.guards import Guard, GuardKind, build_tree, guard_program
from capture.sources import Attr, Item, Local, ModuleGlobal

X = Local("x")


def holder(x):
    pass


def program(*guards):
    return guard_program(build_tree(guards), holder.__code__)


class Plain:
    pass


class Liar:
    """Equal to every string, and drops a dictionary when asked."""

    def __init__(self, victims):
        self.victims = victims

    def __hash__(self):
        return hash("a")

    def __eq__(self, other):
        self.victims.clear()
        gc.collect()
        return False


@pytest.mark.parametrize("made", [dict, lambda **entries: vars(types.SimpleNamespace(**entries))])
def test_an_entry_that_moves(made):
    values = made(a=1, b=2)
    check = program(Guard(Item(X, "b"), GuardKind.EQUALS, 2)).check
    assert check((values,)) and check((values,))
    values["b"] = 3
    assert not check((values,))
    values["b"] = 2
    assert check((values,))
    del values["b"]
    assert not check((values,))
    values.update(c=3, b=2)
    assert check((values,)) and check((values,))
    values["c"] = 2
    values["b"] = 3
    assert not check((values,))
    values.clear()
    assert not check((values,))
    values[1] = 1  # no longer a dictionary of names
    values["b"] = 2
    assert check((values,)) and check((values,))


def test_many_dictionaries():
    check = program(Guard(Item(X, "b"), GuardKind.EQUALS, 2)).check
    for before in range(12):
        values = {f"name{i}": 2 for i in range(before)}
        assert not check((values,))
        assert check(({**values, "b": 2, "c": 3},))
        assert not check(({**values, "c": 2, "b": 3},))
        assert check(({**values, "".join(["b"]): 2},))  # an equal name, perhaps not the same


def test_instances_whose_names_share_their_keys():
    first, second = Plain(), Plain()
    first.a, first.b = 1, 2
    second.a, second.b = 1, 3
    check = program(Guard(Attr(X, "b", via_dict=True), GuardKind.EQUALS, 2)).check
    for _ in range(3):
        assert check((first,)) and not check((second,))
        assert vars(first) and vars(second)  # made for good
    second.b, first.b = 2, 3
    assert check((second,)) and not check((first,))
    del second.b
    assert not check((second,))
    first.__dict__ = {"z": 0, "b": 2}
    assert check((first,))


def test_a_key_that_drops_the_dictionary():
    victims = []
    values = {Liar(victims): 1, "a": 2}
    victims.append(values)
    assert program(Guard(Item(Item(X, 0), "a"), GuardKind.EQUALS, 2)).check((victims,)) in (True, False)


@pytest.mark.parametrize("value", [-1, True, None, "text", 0.5])
def test_a_constant_of_a_module(value):
    space = {"before": 0, "level": value}
    made = program(Guard(ModuleGlobal("module", "level", space), GuardKind.EQUALS, value))
    assert made.check((0,)) and made.check((0,))
    space["level"] = 7
    assert not made.check((0,))
    assert "module.level" in made.explain_failure((0,))
    del space["level"]
    assert not made.check((0,))
    space["level"] = value
    assert made.check((0,))
    space["level"] = {-1: -1.0, True: 1, None: 0, "text": b"text", 0.5: "0.5"}[value]
    assert not made.check((0,))
