"""Sources: their names, what they read, the code that loads them, the guards that read them natively."""

import builtins
import types

import pytest
import torch

from capture.bytecode import argument_names, assemble, build
from capture.guards import Guard, GuardKind, build_tree, guard_program
from capture.sources import (
    Attr,
    Builtin,
    CellContent,
    Closure,
    Const,
    Default,
    DictKeyAt,
    FrameValues,
    FunctionGlobal,
    Global,
    Item,
    KwDefault,
    Local,
    ModuleGlobal,
    TypeOf,
)

MARKER = object()
FREE = object()


def make():
    free = FREE

    def frame(self, x, *rest, **more):
        return free

    return frame


def make_inlined():
    cell = MARKER

    def inlined(a=1, b=FREE, *, k=MARKER):
        return cell

    return inlined


class Thing:
    shared = "class"

    def __init__(self):
        self.own = MARKER
        self.shared = "instance"
        self.function = make_inlined()
        self.table = {"a": [1, MARKER], MARKER: 2, 3: "three"}

    @property
    def computed(self):
        return "computed"


X, SELF = Local("x"), Local("self")
LAYER = Item(Attr(SELF, "_modules", via_dict=True), "0")

SOURCES = [
    (X, "x"),
    (Local("rest"), "rest"),
    (Item(Local("rest"), -1), "rest[-1]"),
    (Item(Local("more"), "key"), "more['key']"),
    (Closure("free"), "free"),
    (Global("MARKER"), "MARKER"),
    (Builtin("len"), "len"),
    (ModuleGlobal("builtins", "max", vars(builtins)), "builtins.max"),
    (Const(MARKER, "marker"), "marker"),
    (Attr(X, "own"), "x.own"),
    (Attr(X, "own", via_dict=True), "x.own"),
    (Attr(X, "shared", via_dict=True), "x.shared"),
    (Attr(X, "computed"), "x.computed"),
    (Attr(TypeOf(X), "shared"), "type(x).shared"),
    (Item(Item(Attr(X, "table"), "a"), 1), "x.table['a'][1]"),
    (Item(Attr(X, "table"), 3), "x.table[3]"),
    (DictKeyAt(Attr(X, "table"), 1), "list(x.table)[1]"),
    (Default(Attr(X, "function"), 1), "x.function.__defaults__[1]"),
    (KwDefault(Attr(X, "function"), "k"), "x.function.__kwdefaults__['k']"),
    (CellContent(Attr(X, "function"), 0), "x.function.__closure__[0].cell_contents"),
    (FunctionGlobal(Attr(X, "function"), "FREE"), "x.function.__globals__['FREE']"),
    (LAYER, "self[0]"),
    (Item(Attr(LAYER, "_parameters", via_dict=True), "weight"), "self[0].weight"),
]


@pytest.fixture
def values():
    arguments = {
        "self": torch.nn.Sequential(torch.nn.Linear(2, 2)),
        "x": Thing(),
        "rest": (1, MARKER),
        "more": {"key": MARKER},
    }
    return FrameValues(arguments, globals(), vars(builtins), make())


@pytest.mark.parametrize("source, name", SOURCES, ids=lambda value: value if isinstance(value, str) else "")
def test_source(values, source, name):
    assert source.name == str(source) == name
    read = source.read(values)
    # Generated code in the frame's place pushes the same object.
    code = values.func.__code__
    body = [*build.prologue([], code.co_freevars), *source.load(), *build.return_value()]
    made = assemble(body, like=code, argnames=argument_names(code))
    arguments = tuple(values.args[each] for each in argument_names(code))
    function = types.FunctionType(made, globals(), closure=values.func.__closure__)
    assert function(*arguments) is read
    # So does the native checker.
    program = guard_program(build_tree([Guard(source, GuardKind.ID, read)]), code)
    assert program.check(arguments, values.func, globals(), vars(builtins))
    program = guard_program(build_tree([Guard(source, GuardKind.ID, Thing())]), code)
    assert not program.check(arguments, values.func, globals(), vars(builtins))


def test_equality():
    assert Attr(X, "a") == Attr(Local("x"), "a") and hash(Attr(X, "a")) == hash(Attr(Local("x"), "a"))
    assert Attr(X, "a") != Attr(X, "a", via_dict=True)
    assert Const([1]) != Const([1]) and Const(MARKER) == Const(MARKER, "other label")
    assert ModuleGlobal("m", "a", {}) != ModuleGlobal("m", "a", {})
    assert Item(Attr(X, "a"), "b").root == X


@pytest.mark.parametrize(
    "source",
    [
        Attr(X, "nothing"),
        Attr(X, "computed", via_dict=True),
        Item(Attr(X, "table"), "nothing"),
        Item(Local("rest"), 7),
        Item(X, 1),
        DictKeyAt(Attr(X, "table"), 9),
        DictKeyAt(X, 0),
        Default(Attr(X, "function"), 5),
        Default(X, 0),
        KwDefault(Attr(X, "function"), "z"),
        CellContent(Attr(X, "function"), 3),
        FunctionGlobal(Attr(X, "function"), "NOTHING"),
        Global("NOTHING"),
        Builtin("nothing"),
        Attr(Const(1), "own", via_dict=True),
    ],
    ids=str,
)
def test_what_cannot_be_read_fails_its_guard(values, source):
    code = values.func.__code__
    arguments = tuple(values.args[each] for each in argument_names(code))
    program = guard_program(build_tree([Guard(source, GuardKind.ID, None)]), code)
    assert not program.check(arguments, values.func, globals(), vars(builtins))
    with pytest.raises((LookupError, AttributeError, TypeError)):
        source.read(values)


def test_empty_cells(values):
    def outer():
        def frame():
            return later

        program = guard_program(build_tree([Guard(Closure("later"), GuardKind.EQUALS, 1)]), frame.__code__)
        before = program.check((), frame)
        with pytest.raises(LookupError):
            Closure("later").read(FrameValues({}, func=frame))
        later = 1
        return before, program.check((), frame)

    assert outer() == (False, True)


def test_dict_subclasses_are_read_as_dicts():
    class Default(dict):
        def __missing__(self, key):
            return "made up"

    def frame(x):
        pass

    for key in ("a", 1):
        program = guard_program(build_tree([Guard(Item(X, key), GuardKind.EQUALS, "made up")]), frame.__code__)
        assert not program.check((Default(),))
        assert program.check((Default({key: "made up"}),))
