"""Guards and what is told of them keep no class, function or key of the program's alive, and fit nothing that lies where one lay."""

from __future__ import annotations

import _testcapi
import collections
import gc
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch
from watched_things import holder, program, thing

import capture
from capture.guards import Guard, GuardKind, LettingGo, build_tree, guard_program
from capture.sources import Attr, ClassEntry, Const, FrameValues, Item, Local

LIVING: list[Callable[[], Any]] = []
TABLE: dict[Any, Any] = {}
HOLDER: Any = thing()
PROGRAMS: list[Callable[[torch.Tensor], torch.Tensor]] = []


def captured(fn: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[torch.Tensor], torch.Tensor]:
    PROGRAMS.append(fn)
    return fn


@capture.disable
def met(value: Any) -> Any:
    """A graph break; what comes after it is guarded by what it is."""
    LIVING.append(weakref.ref(value))
    return value


@captured
def a_class(x: torch.Tensor) -> torch.Tensor:
    class Base:
        pass

    class Derived(Base):
        pass

    met(Derived)
    y = x + len(Base.__subclasses__())
    del Derived
    return y


@captured
def a_method(x: torch.Tensor) -> torch.Tensor:
    class Scaled:
        def by(self) -> int:
            return 2

    made = Scaled()
    met(Scaled)
    y = x * made.by()
    met(made)
    return y


@captured
def an_entry_of_a_class(x: torch.Tensor) -> torch.Tensor:
    class Circle:
        entries: Any = collections.OrderedDict()

    met(Circle)
    Circle.entries[Circle] = None
    met(Circle.entries)
    y = x + len(Circle.entries)
    del Circle
    return y


@captured
def a_function_in_c(x: torch.Tensor) -> torch.Tensor:
    function = met(_testcapi.create_cfunction())
    y = x + 1 if function is not None and function is not len else x
    del function
    return y


@captured
def a_key(x: torch.Tensor) -> torch.Tensor:
    class Key:
        pass

    met(Key)
    TABLE[Key] = 3
    met(Key)
    y = x * TABLE[Key] if Key in TABLE else x
    met(Key)
    z = y + len([k for k in TABLE if k is Key])
    met(Key)
    TABLE.clear()
    met(Key)
    return z if Key not in TABLE else x


@captured
def a_class_asked_for(x: torch.Tensor) -> torch.Tensor:
    class Kind:
        pass

    HOLDER.held = met(Kind())
    y = x + 1 if isinstance(HOLDER.held, Kind) and type(HOLDER.held) is Kind else x
    met(Kind)
    HOLDER.held = None
    return y


@pytest.mark.parametrize("fn", PROGRAMS, ids=lambda fn: fn.__name__)
def test_nothing_of_the_programs_is_kept(fn: Callable[[torch.Tensor], torch.Tensor]) -> None:
    compiled, x = capture.compile(fn), torch.ones(2)
    for _ in range(3):
        LIVING.clear()
        expected = fn(x)
        LIVING.clear()
        assert torch.equal(compiled(x), expected)
        gc.collect()
        assert LIVING
        assert [each() for each in LIVING] == [None] * len(LIVING)
    assert compiled.session.report.guards
    assert str(compiled.session.report)


def test_the_words_are_those_of_before() -> None:
    class Kind:
        entry = 1

    class Other(Kind):
        pass

    x = Local("x")
    guards = [
        Guard(x, GuardKind.TYPE, Kind, "line"),
        Guard(Const(Other, "Other"), GuardKind.ID, Other),
        Guard(ClassEntry(Const(Other, "Other"), "entry"), GuardKind.EQUALS, 1),
        Guard(Attr(Const(Kind), "entry"), GuardKind.EQUALS, Kind),
        Guard(Item(x, Kind), GuardKind.DICT_KEYS, (Kind, "name", 1)),
        Guard(Item(Item(x, Other), 1), GuardKind.HAS_KEY, Kind),
        Guard(Item(Const(TABLE, "TABLE"), (Kind, 2)), GuardKind.NO_KEY, "name"),
        Guard(Attr(Const(Kind, "Kind"), "a"), GuardKind.SAME_OBJECT, Attr(Const(Kind, "Kind"), "b")),
        Guard(Attr(Const(Kind, "Kind"), "a"), GuardKind.DISTINCT, (x, Attr(Const(Kind, "Kind"), "b"))),
    ]
    texts = list(map(str, guards))
    LettingGo(keyed=True).guards(guards)
    gone = weakref.ref(Kind), weakref.ref(Other)
    assert list(map(str, guards)) == texts
    del Kind, Other
    gc.collect()
    assert [each() for each in gone] == [None, None]
    assert list(map(str, guards)) == texts


def test_a_program_tells_later_what_it_tells_at_once() -> None:
    class Kind:
        entry: Any = None

    Kind.entry = {"a": {}}

    def made(kind: type) -> list[Guard]:
        entry = Attr(Const(kind, "Kind"), "entry")
        return [
            Guard(Local("x"), GuardKind.TYPE, kind, "line"),
            Guard(Const(kind), GuardKind.NO_CLASS_ENTRY, "other"),
            Guard(Item(entry, "a"), GuardKind.LEN, 0, "line"),
            Guard(entry, GuardKind.HAS_KEY, "a"),
            Guard(entry, GuardKind.NO_KEYS, ("b", "c")),
            Guard(entry, GuardKind.EMPTY_AT, ("a",)),
            Guard(Attr(Local("x"), "a"), GuardKind.SAME_OBJECT, Item(entry, "a")),
        ]

    at_once = program(*made(Kind))
    guards = made(Kind)
    tree = build_tree(guards)
    later = guard_program(tree, holder.__code__, told_later=True)
    for told in (guards, tree.readings):
        LettingGo(keyed=tree.keyed).guards(told)
    gone, texts = weakref.ref(Kind), at_once.texts
    assert later.texts == texts
    failed = later.explain_failure((3,))
    assert failed and failed == at_once.explain_failure((3,))
    del Kind, at_once, guards, tree
    gc.collect()
    assert gone() is None
    assert later.texts == texts


def test_what_was_let_go_of_is_read_while_it_lives() -> None:
    class Kind:
        entry = 1

    guard = Guard(Attr(Const(Kind, "Kind"), "entry"), GuardKind.EQUALS, 1)
    keyed = Guard(Item(Local("x"), Kind), GuardKind.EQUALS, 1)
    LettingGo(keyed=True).guards([guard, keyed])
    Kind.entry = 2
    values = FrameValues({"x": {Kind: 5}})
    assert guard.failure(values) == "Kind.entry == 1, now 2"
    assert keyed.now(values) == "5"
    del Kind
    values.args["x"].clear()  # type: ignore[attr-defined]
    gc.collect()
    assert guard.failure(values) == "Kind.entry == 1, now LookupError on reading it"


@pytest.mark.parametrize("watched", [False, True])
def test_a_class_where_another_lay_is_not_taken_for_it(watched: bool) -> None:
    held = thing()

    def made() -> type:
        return type("Kind", (), {})

    for _ in range(50):
        held.value = made()()
        source = Attr(Const(held), "value", via_dict=True) if watched else Local("x")
        check = program(Guard(source, GuardKind.TYPE, type(held.value)))
        assert check.check((held.value,)) and check.check((held.value,))
        places = {id(type(held.value))}
        if watched:
            held.value.__class__ = made()
        else:
            held.value = None
        gc.collect(1)  # the class was made a moment ago
        others = [made() for _ in range(30)]
        same_place = [each for each in others if id(each) in places]
        for each in same_place or others[:1]:
            if watched:
                held.value.__class__ = each
            else:
                held.value = each()
            assert not check.check((held.value,))


@pytest.mark.parametrize("kind", [GuardKind.HAS_KEY, GuardKind.NO_KEY])
def test_of_a_key_that_is_gone_nothing_is_known(kind: GuardKind) -> None:
    key = type("Key", (), {})
    table: dict[Any, int] = {key: 1} if kind is GuardKind.HAS_KEY else {}
    check = program(Guard(Local("x"), kind, key))
    assert check.check((table,))
    assert not check.check(({key: 1} if kind is GuardKind.NO_KEY else {},))
    table.clear()
    del key
    gc.collect()
    assert not check.check((table,))


def test_keys_by_which_is_read() -> None:
    first, second = (type("Key", (), {}) for _ in range(2))
    check = program(
        Guard(Local("x"), GuardKind.DICT_KEYS, (first, "name", second)),
        Guard(Item(Local("x"), second), GuardKind.EQUALS, 3),
    )
    assert check.check(({first: 1, "name": 2, second: 3},))
    assert not check.check(({first: 1, "name": 2, second: 4},))
    assert not check.check(({second: 3, "name": 2, first: 3},))
    assert not check.check(({first: 1, "name": 2, weakref.ref(second): 3},))
    reference = weakref.ref(first)
    own = program(Guard(Local("x"), GuardKind.DICT_KEYS, (reference,)))
    assert own.check(({reference: 1},))
    assert not own.check(({first: 1},))
    del first
    gc.collect()
    assert not check.check(({int: 1, "name": 2, second: 3},))
