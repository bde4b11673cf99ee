"""`symshapes.dataclass` against the standard library's: the same class by both."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
import sys
from collections.abc import Callable
from dataclasses import FrozenInstanceError, field, fields, replace
from typing import Any, ClassVar

import pytest

import symshapes
from symshapes import records

WAYS = [
    {},
    {"frozen": True},
    {"slots": True},
    {"frozen": True, "slots": True},
    {"eq": False},
    {"frozen": True, "eq": False},
]
made_at: list[int] = []


def fresh() -> list[int]:
    made_at.append(1)
    return [len(made_at)]


def classes(dataclass: Callable[..., Any], **how: Any) -> tuple[type, type]:
    @dataclass(**how)
    class Base:
        """Words."""

        kind: ClassVar[str] = "base"
        a: int
        b: Any = (1, 2)

    @dataclass(**how)
    class Derived(Base):
        c: list[int] = field(default_factory=fresh, compare=False)
        d: int = field(default=3, init=False, repr=False)
        e: str = field(default="e", kw_only=True, hash=False)

        def __post_init__(self) -> None:
            seen.append(type(self).__name__)

    return Base, Derived


seen: list[str] = []


def outcome(do: Callable[[], Any]) -> Any:
    try:
        return do()
    except (TypeError, ValueError, AttributeError) as error:
        return type(error), str(error).partition("\n")[0]


def behaviour(dataclass: Callable[..., Any], how: dict[str, Any]) -> list[Any]:
    made_at.clear(), seen.clear()
    base, derived = classes(dataclass, **how)
    x, y = base(1), base(1, b=(1, 2))
    u, v = derived(1, e="f"), derived(1, (1, 2), [7], e="g")
    told: list[Any] = [
        repr(x), repr(u), repr(v), x == y, u == v, x == u, x != derived(1), base.__doc__, derived.__match_args__,
        str(inspect.signature(base)), [each.name for each in fields(derived)], seen, u.c, v.c, u.d,
        outcome(base), outcome(lambda: base(1, 2, 3)), outcome(lambda: derived(1, e=2, f=1)), outcome(lambda: derived(1, (), [], "e")),
        outcome(lambda: replace(u, a=2).a), outcome(lambda: replace(u, d=2)), outcome(lambda: setattr(x, "a", 5)),
        outcome(lambda: delattr(x, "a")), outcome(lambda: setattr(u, "c", [5])), outcome(lambda: dataclasses.asdict(v)),
    ]  # fmt: skip
    z = base(float("nan"))
    told += [
        z == z,
        hash(base(2)) == hash(base(2)) if how.get("frozen") or how.get("eq") is False else outcome(lambda: hash(x)),
    ]
    told += [hash(base(2)) == hash((2, (1, 2)))] if how.get("frozen") and how.get("eq") is not False else []
    again = copy.deepcopy(v), copy.copy(v)
    told += [(type(each) is derived, each.a, each.b, each.c, each.d, each.e) for each in again]
    return told


@pytest.mark.parametrize("how", WAYS, ids=str)
def test_behaves_as_the_standard_one(how: dict[str, Any]) -> None:
    assert behaviour(symshapes.dataclass, how) == behaviour(dataclasses.dataclass, how)


@symshapes.dataclass(frozen=True, slots=True)
class Pickled:
    """For pickles, which name a class by its module."""

    a: int
    b: tuple[int, ...] = ()


def test_pickles() -> None:
    assert pickle.loads(pickle.dumps(Pickled(1, (2,)))) == Pickled(1, (2,))


def test_keeps_what_the_class_defines() -> None:
    @symshapes.dataclass(frozen=True)
    class Own:
        a: int

        def __repr__(self) -> str:
            return "own"

        def __hash__(self) -> int:
            return 7

        def __eq__(self, other: object) -> bool:
            return True

    assert (repr(Own(1)), hash(Own(1)), Own(1) == 3) == ("own", 7, True)


@pytest.mark.parametrize("dataclass", [dataclasses.dataclass, symshapes.dataclass])
def test_keeps_how_the_class_begins_and_is_copied(dataclass: Any) -> None:
    @dataclass(frozen=True, slots=True)
    class Own:
        a: int

        def __init__(self) -> None:
            object.__setattr__(self, "a", 5)

        def __getstate__(self) -> int:
            return self.a * 2

        def __setstate__(self, state: int) -> None:
            object.__setattr__(self, "a", state + 1)

    assert Own().a == 5
    assert copy.copy(Own()).a == 11


def test_a_class_that_holds_itself_is_printed() -> None:
    @symshapes.dataclass
    class Node:
        next: Any = None

    node = Node()
    node.next = node
    assert repr(node).endswith("Node(next=...)")


def test_bare_decorator_and_subclass_that_is_not_frozen() -> None:
    @symshapes.dataclass(frozen=True)
    class Frozen:
        a: int

    class Open(Frozen):
        pass

    x = Open(1)
    x.other = 2  # type: ignore[attr-defined]
    del x.other  # type: ignore[attr-defined]
    with pytest.raises(FrozenInstanceError):
        x.a = 3  # type: ignore[misc]
    assert not hasattr(x, "other")


def test_compiles_nothing_before_it_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[str] = []
    records._init_code.cache_clear()

    def hear(event: str, args: Any) -> None:
        if on and event == "compile" and "__init__" in str(args[0]):
            compiled.append(str(args[0]))

    sys.addaudithook(hear)
    on = True
    base, _ = classes(symshapes.dataclass, frozen=True)
    assert not compiled
    base(1), base(2)
    assert len(compiled) == 1
    same_form, _ = classes(symshapes.dataclass, frozen=True)
    assert same_form(3) != same_form(4) and same_form.__init__ is not base.__init__
    on = False
    assert len(compiled) == 1


@pytest.mark.parametrize("first", [dataclasses.dataclass, symshapes.dataclass])
@pytest.mark.parametrize("second", [dataclasses.dataclass, symshapes.dataclass])
def test_inherits_across_both(first: Any, second: Any) -> None:
    @first
    class Base:
        a: int
        b: list[int] = field(default_factory=list, repr=False)

    @second
    class Derived(Base):
        c: int = 3
        a: str = "a"

    made = Derived()
    assert [each.name for each in fields(Derived)] == ["a", "b", "c"] and [each.name for each in fields(Base)] == [
        "a",
        "b",
    ]
    assert (made.a, made.b, made.c) == ("a", [], 3) and repr(made).endswith("Derived(a='a', c=3)")
    assert (
        dataclasses.is_dataclass(Derived)
        and replace(made, c=4).c == 4
        and dataclasses.asdict(made) == {"a": "a", "b": [], "c": 3}
    )


@pytest.mark.parametrize("dataclass", [dataclasses.dataclass, symshapes.dataclass])
def test_slots_of_bases_are_not_made_again(dataclass: Any) -> None:
    @dataclass(slots=True)
    class Base:
        a: int = 1

    @dataclass(slots=True)
    class Derived(Base):
        a: int = 2
        b: int = 3

    assert Derived.__slots__ == ("b",) and (Derived().a, Derived().b) == (2, 3) and not hasattr(Derived(), "__dict__")
    assert Derived.__qualname__.endswith("Derived") and Derived.__module__ == __name__


@pytest.mark.parametrize("dataclass", [dataclasses.dataclass, symshapes.dataclass])
def test_a_default_that_changes_is_refused(dataclass: Any) -> None:
    with pytest.raises(ValueError, match="mutable default"):

        @dataclass
        class Wrong:
            a: list[int] = []


def test_what_only_the_standard_ones_take_is_refused() -> None:
    for kind in (dataclasses.InitVar[int], "InitVar[int]", "dataclasses.KW_ONLY", dataclasses.KW_ONLY):
        with pytest.raises(TypeError, match="only the standard"):
            symshapes.dataclass(type("Wrong", (), {"__annotations__": {"a": kind}}))


@pytest.mark.parametrize("slots", [False, True])
@pytest.mark.parametrize("dataclass", [dataclasses.dataclass, symshapes.dataclass])
def test_a_default_of_a_base_holds_where_the_field_is_named_again(dataclass: Any, slots: bool) -> None:
    @dataclass(slots=slots)
    class Base:
        a: int = 1
        b: int = 2

    @dataclass(slots=slots)
    class Derived(Base):
        a: int

    @dataclass(slots=slots)
    class Required:
        a: int

    @dataclass(slots=slots)
    class Again(Required):
        a: int

    assert (Derived(5).a, Derived(5).b) == (5, 2)
    assert slots or Derived().a == 1
    assert outcome(Again)[0] is TypeError


def test_a_standard_one_inherits_that_it_is_frozen() -> None:
    @symshapes.dataclass(frozen=True)
    class Base:
        a: int

    @dataclasses.dataclass(frozen=True)
    class Derived(Base):
        b: int = 2

    assert (Derived(1).a, Derived(1).b) == (1, 2)
    with pytest.raises(TypeError, match="cannot inherit non-frozen"):
        dataclasses.dataclass(type("Wrong", (Base,), {"__annotations__": {"c": int}}))


@pytest.mark.parametrize("dataclass", [dataclasses.dataclass, symshapes.dataclass])
def test_a_field_without_a_default_after_one_with_is_refused(dataclass: Any) -> None:
    for default in (1, field(default_factory=list)):
        with pytest.raises(TypeError, match="non-default argument 'b' follows default argument"):
            dataclass(type("Wrong", (), {"__annotations__": {"a": Any, "b": Any}, "a": default}))
    dataclass(type("Right", (), {"__annotations__": {"a": Any, "b": Any}, "a": 1, "b": field(kw_only=True)}))


@pytest.mark.parametrize("frozen", [False, True])
def test_fields_of_any_names(frozen: bool) -> None:
    def made(dataclass: Callable[..., Any]) -> Any:
        @dataclass(frozen=frozen)
        class Names:
            _1: int
            _0: int
            _set: int = 3
            make: list[int] = field(default_factory=list)
            _new3: str = field(default="_0", kw_only=True)

        return Names(7, 8), Names(_0=1, _1=2, _set=4, make=[5], _new3="n"), inspect.signature(Names)

    ours, standard = made(symshapes.dataclass), made(dataclasses.dataclass)
    assert [str(each) for each in ours] == [str(each) for each in standard]
