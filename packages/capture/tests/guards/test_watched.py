"""What lives on is verified in full only when something of it changed; each change is noticed, also by what hangs below."""

import collections
import functools

import pytest
import torch
from watched_things import Base, Slotted, Thing, X, closing, function, other, program, thing

import capture
from capture import _native
from capture.guards import Guard, GuardKind, TensorMeta
from capture.sources import (
    Attr,
    CellContent,
    ClassEntry,
    Const,
    Default,
    Global,
    Item,
    KwDefault,
    ModuleGlobal,
    TypeOf,
)


def cases():
    """Name, guards on a fixed object, a change that must be noticed, how to undo it."""
    module = torch.nn.Sequential(torch.nn.Linear(2, 2))
    inner = thing(k=1)
    outer = thing(inner=inner, items=[inner, 2], table={"a": inner}, bare={}, hollow=collections.OrderedDict())
    inner_source = Attr(Const(outer), "inner", via_dict=True)
    k = Guard(Attr(inner_source, "k", via_dict=True), GuardKind.EQUALS, 1)
    listed = Attr(Item(Attr(Const(outer), "items", via_dict=True), 0), "k", via_dict=True)
    tabled = Attr(Item(Attr(Const(outer), "table", via_dict=True), "a"), "k", via_dict=True)
    weight = Item(
        Attr(Item(Attr(Const(module), "_modules", via_dict=True), "0"), "_parameters", via_dict=True), "weight"
    )
    space = {"name": 3}
    ordered = collections.OrderedDict(a=1, b=2)
    slotted = Slotted()
    slotted.part = inner
    closed = closing(5)
    partial = functools.partial(function, 1)
    dictionary = thing(k=1).__dict__

    def put(target, key, value):
        target[key] = value

    yield "entry", [k], lambda: setattr(inner, "k", 2), lambda: setattr(inner, "k", 1)
    yield "holder", [k], lambda: setattr(outer, "inner", thing(k=2)), lambda: setattr(outer, "inner", inner)
    yield "gone", [k], lambda: delattr(inner, "k"), lambda: setattr(inner, "k", 1)
    yield (
        "other dictionary",
        [k],
        lambda: setattr(inner, "__dict__", {"k": 2}),
        lambda: setattr(inner, "__dict__", dictionary),
    )
    yield (
        "class",
        [Guard(inner_source, GuardKind.TYPE, Thing)],
        lambda: setattr(inner, "__class__", Base),
        lambda: setattr(inner, "__class__", Thing),
    )
    yield (
        "type of",
        [Guard(TypeOf(inner_source), GuardKind.ID, Thing)],
        lambda: setattr(inner, "__class__", Base),
        lambda: setattr(inner, "__class__", Thing),
    )
    yield (
        "element",
        [Guard(listed, GuardKind.EQUALS, 1)],
        lambda: put(outer.items, 0, thing(k=2)),
        lambda: put(outer.items, 0, inner),
    )
    yield (
        "length",
        [Guard(Attr(Const(outer), "items", via_dict=True), GuardKind.LEN, 2)],
        lambda: outer.items.append(1),
        lambda: outer.items.pop(),
    )
    yield (
        "item",
        [Guard(tabled, GuardKind.EQUALS, 1)],
        lambda: put(outer.table, "a", thing(k=2)),
        lambda: put(outer.table, "a", inner),
    )
    yield (
        "keys",
        [Guard(Attr(Const(outer), "table", via_dict=True), GuardKind.DICT_KEYS, ("a",))],
        lambda: put(outer.table, "b", 1),
        lambda: outer.table.pop("b"),
    )
    yield (
        "no key",
        [Guard(Attr(Const(outer), "__dict__"), GuardKind.NO_KEY, "new")],
        lambda: setattr(outer, "new", 1),
        lambda: delattr(outer, "new"),
    )
    yield (
        "no keys",
        [Guard(Attr(Const(outer), "__dict__"), GuardKind.NO_KEYS, ("new", "newer"))],
        lambda: setattr(outer, "newer", 1),
        lambda: delattr(outer, "newer"),
    )
    empty = Guard(Attr(Const(outer), "__dict__"), GuardKind.EMPTY_AT, ("bare", "hollow"))
    yield "filled", [empty], lambda: put(outer.hollow, "a", 1), lambda: outer.hollow.clear()
    yield "another", [empty], lambda: setattr(outer, "bare", {"a": 1}), lambda: setattr(outer, "bare", {})
    yield "none there", [empty], lambda: delattr(outer, "bare"), lambda: setattr(outer, "bare", {})
    yield (
        "order",
        [Guard(Const(ordered), GuardKind.DICT_KEYS, ("a", "b"))],
        lambda: ordered.move_to_end("a"),
        lambda: ordered.move_to_end("b"),
    )
    yield (
        "global",
        [Guard(ModuleGlobal("space", "name", space), GuardKind.EQUALS, 3)],
        lambda: put(space, "name", 4),
        lambda: put(space, "name", 3),
    )
    yield (
        "class entry below",
        [Guard(Const(Thing), GuardKind.NO_CLASS_ENTRY, "extra")],
        lambda: setattr(Base, "extra", 1),
        lambda: delattr(Base, "extra"),
    )
    yield (
        "code",
        [Guard(Attr(Const(function), "__code__"), GuardKind.ID, function.__code__)],
        lambda: setattr(function, "__code__", other.__code__),
        lambda code=function.__code__: setattr(function, "__code__", code),
    )
    yield (
        "default",
        [Guard(Default(Const(function), 0), GuardKind.EQUALS, 1)],
        lambda: setattr(function, "__defaults__", (2,)),
        lambda: setattr(function, "__defaults__", (1,)),
    )
    yield (
        "keyword default",
        [Guard(KwDefault(Const(function), "c"), GuardKind.EQUALS, 2)],
        lambda: put(function.__kwdefaults__, "c", 3),
        lambda: put(function.__kwdefaults__, "c", 2),
    )
    yield (
        "cell",
        [Guard(CellContent(Const(closed), 0), GuardKind.EQUALS, 5)],
        lambda: setattr(closed.__closure__[0], "cell_contents", 6),
        lambda: setattr(closed.__closure__[0], "cell_contents", 5),
    )
    yield (
        "slot",
        [Guard(Attr(Attr(Const(slotted), "part"), "k", via_dict=True), GuardKind.EQUALS, 1)],
        lambda: setattr(slotted, "part", thing(k=2)),
        lambda: setattr(slotted, "part", inner),
    )
    yield (
        "partial",
        [Guard(Attr(Const(partial), "func"), GuardKind.ID, function)],
        lambda: partial.__setstate__((other, (1,), {}, None)),
        lambda: partial.__setstate__((function, (1,), {}, None)),
    )
    yield (
        "parameter",
        [Guard(weight, GuardKind.TENSOR, TensorMeta.of(module[0].weight))],
        lambda: module[0].weight.requires_grad_(False),
        lambda: module[0].weight.requires_grad_(True),
    )
    yield (
        "parameter's dtype",
        [Guard(weight, GuardKind.TENSOR, TensorMeta.of(module[0].weight))],
        lambda: module.double(),
        lambda: module.float(),
    )


CASES = list(cases())


@pytest.mark.parametrize(("guards", "change", "undo"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_every_change_is_noticed(guards, change, undo):
    made = program(*guards)
    for _ in range(3):
        assert made.check((0,)) and made.check((0,))
    assert made.verified == 1 and made.points >= 0  # and not once more
    for _ in range(2):
        change()
        try:
            assert not made.check((0,))
        finally:
            undo()
        assert made.check((0,)), made.explain_failure((0,))
    again = made.verified
    assert made.check((0,)) and made.verified == again


def test_what_is_not_asked_about_may_change():
    space = {"name": 3}
    held = thing(k=1)
    made = program(
        Guard(ModuleGlobal("space", "name", space), GuardKind.EQUALS, 3),
        Guard(Attr(Const(held), "k", via_dict=True), GuardKind.EQUALS, 1),
        Guard(ClassEntry(Const(Thing), "__init__"), GuardKind.ID, object.__init__),
    )
    assert made.check((0,))
    for i in range(10):
        space[f"new{i}"] = i
        held.counter = i
        Base.counter = i
        assert made.check((0,))
    del Base.counter
    assert made.check((0,)) and made.verified == 1


class Counted:
    def __init__(self):
        self.started = 1


def test_a_key_that_other_objects_of_the_class_have_had_is_new_to_this_one():
    """To CPython 3.12 it is one that is given another value: the objects' dictionaries have one table of keys."""

    class Model(torch.nn.Module):
        def forward(self, x):
            return x + 1, sorted(vars(self.counted))

    x = torch.ones(2)
    for _ in range(3):
        model = Model()
        counted = model.counted = Counted()
        compiled = capture.compile(model, lambda graph, inputs: graph.forward)
        assert compiled(x)[1] == ["started"]
        counted.count = 1
        assert compiled(x)[1] == ["count", "started"]
        del counted.count
        assert compiled(x)[1] == ["started"]
        vars(counted).update(count=2)
        assert compiled(x)[1] == ["count", "started"]


def test_an_equal_value_in_its_place_is_verified_once():
    held = thing(k=1000)
    made = program(Guard(Attr(Const(held), "k", via_dict=True), GuardKind.EQUALS, 1000))
    assert made.check((0,))
    held.k = int("1000")
    assert made.check((0,)) and made.check((0,)) and made.verified == 2


def test_what_hangs_from_an_argument_of_fixed_identity_is_watched():
    held = thing(k=1)
    source = Attr(X, "k", via_dict=True)
    made = program(Guard(X, GuardKind.ID, held), Guard(source, GuardKind.EQUALS, 1))
    assert made.check((held,)) and made.check((held,)) and made.verified == 1
    assert not made.check((thing(k=1),))
    assert made.check((held,)) and made.verified == 1
    held.k = 2
    assert not made.check((held,))


def test_relations_across():
    held, first = thing(t=torch.ones(2)), torch.ones(2)
    held.same = held.t
    t, same = (Attr(Const(held), name, via_dict=True) for name in ("t", "same"))
    made = program(
        Guard(X, GuardKind.DISTINCT, (t,)),
        Guard(t, GuardKind.SAME_OBJECT, same),
    )
    assert made.check((first,)) and not made.check((held.t,)) and made.check((first,))
    held.t = first
    assert not made.check((first,))
    held.same = first
    assert not made.check((first,)) and made.check((torch.ones(2),))
    matching = program(Guard(X, GuardKind.SAME_OBJECT, t))
    assert matching.check((first,)) and not matching.check((torch.ones(2),))


def test_globals_of_another_function():
    spaces = [{"name": 3}, {"name": 3}, {"name": 4}]
    made = program(Guard(Global("name"), GuardKind.EQUALS, 3))
    for space, holds in zip(spaces, (True, True, False), strict=True):
        for _ in range(2):
            assert made.check((0,), None, space, {}) is holds
    assert made.check((0,), None, spaces[0], {})


def test_pins_are_the_inputs_as_they_are():
    module = torch.nn.Linear(2, 2)
    table = Attr(Const(module), "_parameters", via_dict=True)
    sources = [Item(table, "weight"), Item(table, "bias")]
    guards = [
        Guard(source, GuardKind.TENSOR, TensorMeta.of(p))
        for source, p in zip(sources, module.parameters(), strict=True)
    ]
    made = program(*guards, inputs=sources)
    called = _native.BoundGraph(lambda *inputs: inputs, 4, (1, 3))
    with pytest.raises(TypeError):
        called(1, 2)
    called.bind(made)
    for _ in range(2):  # before the first check too
        got = called("a", "b")
        assert got[0] == "a" and got[2] == "b" and got[1] is module.weight and got[3] is module.bias
        assert made.check((0,))
    module.weight = torch.nn.Parameter(torch.zeros(2, 2))
    assert called("a", "b")[1] is module.weight
    del module.bias
    with pytest.raises(RuntimeError, match="gone"):
        called("a", "b")
    for wrong in ((3, 1), (1, 1), (4,), (-1,)):
        with pytest.raises(ValueError, match="places"):
            _native.BoundGraph(print, 4, wrong)


def test_refused_programs():
    inner = _native.GuardProgram([], [], 0)
    for instruction in (("pinned", 0, -1, 0, None, 0), ("watched", -1, -1, 0, None, 0)):
        with pytest.raises(ValueError, match="cannot be run"):
            _native.GuardProgram([instruction], ["text"], 1)
    with pytest.raises(ValueError, match="cannot be run"):
        _native.GuardProgram([("pinned", 0, -1, 0, None, 0)], ["text"], 1, inner)
    with pytest.raises(TypeError):
        _native.GuardProgram([], [], 0, 1)


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.attend = torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, activation=torch.nn.functional.gelu)
        self.rest = torch.nn.ModuleDict({"a": torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Dropout(0.5))})
        self.options = {"scale": 2.0, "names": ["a"]}
        self.register_buffer("offset", torch.ones(8))

    def forward(self, x):
        for name in self.options["names"]:
            x = self.rest[name](x) * self.options["scale"] + self.offset
        return self.attend(x)


@pytest.mark.parametrize("train", [False, True])
def test_models_are_watched(train):
    """All that a model's capture assumed can be told by versions and pointers: nothing makes it verify in full each time."""
    model = Block().train(train)

    def step(x):
        return model(x)

    compiled = capture.compile(step, lambda graph, inputs: graph.forward)
    for _ in range(4):
        compiled(torch.ones(2, 3, 8))
    (entry,) = _native.entries(step.__code__)
    assert entry.guards.unwatched is None and entry.guards.verified == 1 and entry.hits == 4
    for parameter in model.parameters():
        parameter.requires_grad_(False)
    compiled(torch.ones(2, 3, 8))
    assert len(_native.entries(step.__code__)) == 2
