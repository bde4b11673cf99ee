"""What is found with fewer steps than the program takes is what the program finds, and does nothing that it does not do."""

import collections
import dataclasses
import enum
import random
import sys

import pytest
import torch
from torch.fx.graph import _Namespace

import capture
from capture import _torch


def compiled(function):
    return capture.compile(function, lambda module, _: module.forward, fullgraph=True)


class Reads:
    """Says itself how its attributes are read."""

    def __init__(self):
        self.scale = 2.0

    def __getattribute__(self, name):
        return object.__getattribute__(self, name)

    def scaled(self, x):
        return x * self.scale


def test_guards_do_not_run_what_reads_attributes():
    value, ran = Reads(), []

    def watch(frame, event, _):
        if event == "call" and frame.f_code is Reads.__getattribute__.__code__:
            ran.append(frame.f_back.f_code.co_qualname)

    run, x = compiled(lambda x: value.scaled(x)), torch.ones(3)
    sys.setprofile(watch)
    try:
        found = run(x), run(x)
    finally:
        sys.setprofile(None)
    assert not ran
    assert torch.equal(found[0], x * 2)
    assert torch.equal(found[1], x * 2)


@dataclasses.dataclass
class Pair:
    first: object = 1
    second: object = 2


class ReadsItself(Pair):
    def __getattribute__(self, name):
        return super().__getattribute__(name)


@dataclasses.dataclass
class Ordered(collections.OrderedDict):
    x: object = None
    y: object = None


class Hides(Pair):
    def __init__(self):
        super().__init__()
        self.__dict__["__dataclass_fields__"] = {}


@pytest.mark.parametrize("value", [Pair(), ReadsItself(), Ordered(1), Hides(), Pair, 3])
def test_fields_are_those_that_dataclasses_finds(value):
    def names(x, value):
        try:
            found = dataclasses.fields(value)
        except TypeError as error:
            return x + 1, str(error)
        made = [field.name for field in dataclasses.fields(Ordered(x))]
        again = dataclasses.fields(class_or_instance=value)
        return x + 1, [field.name for field in found], made, found == again

    x = torch.ones(2)
    assert compiled(names)(x, value)[1:] == names(x, value)[1:]


def test_fields_that_become_others():
    value = Pair()

    def count(x):
        return x + len(dataclasses.fields(value))

    run, x = compiled(count), torch.ones(2)
    assert torch.equal(run(x), x + 2)
    value.__dict__["__dataclass_fields__"] = {}
    assert torch.equal(run(x), x)
    del value.__dict__["__dataclass_fields__"]
    kept = Pair.__dataclass_fields__.pop("second")
    try:
        assert torch.equal(run(x), x + 1)
    finally:
        Pair.__dataclass_fields__["second"] = kept


class Short(torch.nn.ModuleList):
    def __len__(self):
        return 1


@pytest.mark.parametrize("kind", [torch.nn.ModuleList, Short])
@pytest.mark.parametrize("index", [0, 1, -1, -2, True, 5])
def test_modules_of_lists_by_their_places(kind, index):
    modules = kind([torch.nn.Linear(2, 2), torch.nn.Linear(2, 2)])

    def call(x):
        try:
            return modules[index](x)
        except (IndexError, KeyError) as error:
            return x, str(error)

    x = torch.ones(2, 2)
    found, expected = compiled(call)(x), call(x)
    assert found[1] == expected[1] if isinstance(expected, tuple) else torch.equal(found, expected)


class Slotted:
    __slots__ = ("empty", "full")

    def __init__(self):
        self.full = 3.0

    def __getattr__(self, name):
        return 5.0


def test_slots_are_read_and_empty_ones_asked_for():
    slotted = Slotted()

    def call(x):
        return x * slotted.full + slotted.empty + slotted.full - slotted.empty + slotted.empty

    run, x = compiled(call), torch.ones(2)
    assert torch.equal(run(x), call(x))
    slotted.empty, slotted.full = 1.0, 4.0
    assert torch.equal(run(x), call(x))


class Color(enum.Enum):
    RED = 1
    BLUE = 2


def test_members_met_again_are_the_same():
    def call(x, color):
        known = {Color.RED: 2, Color.BLUE: 3}
        return x * known[color] * known[Color.RED], color is Color.RED, Color.RED is Color.RED

    run, x = compiled(call), torch.ones(2)
    for color in Color:
        assert run(x, color)[1:] == call(x, color)[1:]
        assert torch.equal(run(x, color)[0], call(x, color)[0])


def test_numbers_are_those_of_the_settings_that_they_were_made_under():
    def call(x):
        steps = torch.arange(4) / 3
        before = torch.get_default_dtype()
        torch.set_default_dtype(torch.float64)
        try:
            return x.narrow(0, 0, int(steps.sum().item())) + steps.dtype.itemsize
        finally:
            torch.set_default_dtype(before)

    x = torch.ones(5)
    assert torch.equal(capture.compile(call, lambda module, _: module.forward)(x), call(x))


def test_nodes_are_named_as_any_graph_names_them():
    draw = random.Random(1)
    asked = "add add_1 add_2 relu x x_1 float float_1 _x a_ a__1 add_1_2 3x a.b x_01 add_10 print self _ _1".split()
    for _ in range(300):
        theirs, ours = _Namespace(), _torch._NodeNames()
        for _ in range(60):
            name = draw.choice(asked)
            assert ours.create_name(name, None) == theirs.create_name(name, None)


class Opened:
    __slots__ = ("__dict__", "held")


class OpenedFurther(Opened):
    pass


@pytest.mark.parametrize("cls", [Opened, OpenedFurther])
def test_a_slot_hides_what_the_dictionary_has_under_its_name(cls):
    """It was read from the dictionary; and `vars()` was said to hold what is in slots."""

    def fn(x, thing):
        table = vars(thing)
        had = "held" in table, table.get("held"), getattr(thing, "held", None), sorted(table)
        table["held"] = 70
        return x * thing.held if hasattr(thing, "held") else x, had

    for held, entry in ((None, None), (2, None), (2, 50), (None, 50), (3, 50)):
        results = []
        for call in (fn, capture.compile(fn)):
            thing = cls()
            if held is not None:
                thing.held = held
            if entry is not None:
                vars(thing)["held"] = entry
            found, had = call(torch.ones(2), thing)
            results.append((found.tolist(), had, vars(thing), getattr(thing, "held", None)))
        assert results[0] == results[1]
