"""Classes that reach a frame as another object at each call: told by what they are made of, so that one capture serves all that are alike."""

from __future__ import annotations

import abc
import functools
import time
from collections.abc import Callable
from typing import Any

import pytest
import torch

import capture


class Meta(type):
    def __call__(cls, *args: Any) -> Any:
        made = super().__call__(*args)
        made.called = True
        return made

    @property
    def shout(cls) -> str:
        return cls.__name__.upper()


class Outside:
    scale = 2

    def run(self, x: Any) -> Any:
        return x * self.scale


def same(fn: Callable[..., Any], compiled: Callable[..., Any], *args: Any) -> None:
    assert str(compiled(*args)) == str(fn(*args))


def with_method(x: torch.Tensor) -> Any:
    class C:
        """Documented."""

        a = 3

        def m(self, z: Any) -> Any:
            return z * self.a

    time.perf_counter_ns()
    return C().m(x) + 1, C.__name__, C.__doc__, C.a


def with_instance(x: torch.Tensor) -> Any:
    class C(Outside):
        def __init__(self, k: Any) -> None:
            self.k = k

        def run(self, x: Any) -> Any:
            return super().run(x) + self.k

        @property
        def double(self) -> Any:
            return self.k * 2

        @classmethod
        def make(cls, k: Any) -> Any:
            return cls(k)

        @staticmethod
        def plain(k: Any) -> Any:
            return k + 1

    c = C(x)
    time.perf_counter_ns()
    return c.run(x), c.double, C.make(3).k, c.plain(1), isinstance(c, C), type(c) is C, isinstance(c, Outside)


def with_cells(x: torch.Tensor) -> Any:
    k = x * 2

    class C:
        def m(self) -> Any:
            return k + 1, __class__ is C  # type: ignore[name-defined]

    time.perf_counter_ns()
    return C().m()


def with_base_within(x: torch.Tensor) -> Any:
    class A:
        def m(self, z: Any) -> Any:
            return z + 1

    class B(A):
        def m(self, z: Any) -> Any:
            return super().m(z) * 2

    time.perf_counter_ns()
    return B().m(x), [c.__name__ for c in B.__mro__], issubclass(B, A), A().m(x)


def with_metaclass(x: torch.Tensor) -> Any:
    class C(metaclass=Meta):
        def m(self, z: Any) -> Any:
            return z + self.called  # type: ignore[attr-defined]

    time.perf_counter_ns()
    return C().m(x), C.shout


def with_abstract(x: torch.Tensor) -> Any:
    class A(abc.ABC):
        @abc.abstractmethod
        def m(self) -> Any: ...

    class B(A):
        def m(self) -> Any:
            return x + 1

    time.perf_counter_ns()
    return B().m(), isinstance(B(), A)


def with_mutable_entry(x: torch.Tensor) -> Any:
    class C:
        seen: list[Any] = []
        kept = x

        def m(self, z: Any) -> Any:
            self.seen.append(z)
            return self.kept + len(self.seen)

    time.perf_counter_ns()
    return C().m(1), C().m(2), C.seen


PROGRAMS = [
    with_method, with_instance, with_cells, with_base_within, with_metaclass, with_abstract, with_mutable_entry,
]  # fmt: skip


@pytest.mark.parametrize("fn", PROGRAMS)
def test_one_capture_serves_them_all(fn: Callable[..., Any]) -> None:
    compiled = capture.compile(fn)
    for _ in range(2):
        same(fn, compiled, torch.ones(3))
    before = capture.report(compiled).frames
    for i in range(12):
        same(fn, compiled, torch.ones(3) * i)
    assert capture.report(compiled).frames == before
    assert not capture.report(compiled).skipped


def make(**changes: Any) -> Any:
    class C:
        a = 1

        def m(self, z: Any) -> Any:
            return z * self.a

        @property
        def p(self) -> Any:
            return self.a + 1

    for name, value in changes.items():
        setattr(C, name, value)
    return C


def _other(self: Any, z: Any) -> Any:
    return z - 1


def test_what_is_not_alike_is_told_apart() -> None:
    def fn(cls: Any, x: torch.Tensor) -> Any:
        c = cls()
        return c.m(x), c.a, c.p, cls.a, hasattr(c, "b"), hasattr(cls, "b")

    compiled = capture.compile(fn)
    x = torch.ones(3)
    classes = [
        make(), make(), make(), make(a=2), make(a=2.0), make(a=True), make(m=_other), make(p=property(lambda self: 7)), make(b=1), make(p=5),
        make(m=staticmethod(lambda z: z + 4)), make(__getattr__=lambda self, name: name), make(),
    ]  # fmt: skip
    for cls in classes:
        same(fn, compiled, cls, x)
    changed = make()
    same(fn, compiled, changed, x)
    changed.a = 9
    same(fn, compiled, changed, x)
    del changed.a
    changed.a = 4
    same(fn, compiled, changed, x)


def test_two_of_one_statement() -> None:
    def fn(one: Any, two: Any, x: torch.Tensor) -> Any:
        a = one()
        return one is two, one == two, isinstance(a, two), type(a) is one, issubclass(one, two), x + 1, len({one, two})

    compiled = capture.compile(fn)
    x = torch.ones(3)
    kept = make()
    for pair in ((make(), make()), (make(), make()), (kept, kept), (make(), kept), (kept, make()), (kept, kept)):
        same(fn, compiled, *pair, x)


FIXED = make()


def test_one_that_is_known_as_the_object_that_it_is() -> None:
    def fn(cls: Any, x: torch.Tensor) -> Any:
        c = cls()
        return cls is FIXED, isinstance(c, FIXED), type(c) is FIXED, x + 1

    compiled = capture.compile(fn)
    x = torch.ones(3)
    for cls in (make(), make(), FIXED, make(), FIXED, FIXED):
        same(fn, compiled, cls, x)


def test_bases_count() -> None:
    def derived(base: Any) -> Any:
        class D(base):  # type: ignore[misc]
            def m(self, z: Any) -> Any:
                return super().m(z) + 1

        return D

    class P:
        def m(self, z: Any) -> Any:
            return z * 10

    class Q:
        def m(self, z: Any) -> Any:
            return z * 20

    def fn(cls: Any, x: torch.Tensor) -> Any:
        return cls().m(x), cls.__bases__[0].__name__

    compiled = capture.compile(fn)
    x = torch.ones(3)
    for base in (P, P, Q, P, make(), make(), make(a=3), Q):
        same(fn, compiled, derived(base), x)


def test_instances_alone() -> None:
    def fn(obj: Any, x: torch.Tensor) -> Any:
        obj.seen = x + 1
        return obj.m(x), obj.p

    compiled = capture.compile(fn)
    x = torch.ones(3)
    for changes in ({}, {}, {"a": 2}, {}, {"m": _other}, {}):
        same(fn, compiled, make(**changes)(), x)
    assert capture.report(compiled).frames <= 4


def test_a_class_goes_with_its_last_reference() -> None:
    import gc
    import weakref

    def fn(cls: Any, x: torch.Tensor) -> Any:
        return cls().m(x)

    compiled = capture.compile(fn)
    classes = [make() for _ in range(4)]
    for cls in classes:
        compiled(cls, torch.ones(3))
    refs = [weakref.ref(cls) for cls in classes]
    del cls
    classes.clear()
    gc.collect()
    assert [ref() for ref in refs[1:]] == [None] * 3  # the first was captured as the object that it is


FOUND = make(a=5)()


def test_an_instance_of_one_that_is_global() -> None:
    def fn(cls: Any, x: torch.Tensor) -> Any:
        return cls().m(x), FOUND.m(x), FOUND.__dict__.get("k"), type(FOUND) is cls

    compiled = capture.compile(fn)
    x = torch.ones(3)
    same(fn, compiled, make(), x)
    same(fn, compiled, make(), x)
    FOUND.k = 3
    same(fn, compiled, make(), x)
    type(FOUND).a = 6
    same(fn, compiled, make(), x)
    same(fn, compiled, type(FOUND), x)
    FOUND.__class__ = make(a=8)
    same(fn, compiled, make(), x)


class Told(property):
    """A class of properties."""


class Kept(functools.cached_property[Any]):
    """A class of properties that are kept."""


def around_functions(value: Any) -> Any:
    class C:
        @property
        def read(self) -> Any:
            return value

        @Told
        def told(self) -> Any:
            return value

        @functools.cached_property
        def kept(self) -> Any:
            return value

        @Kept
        def kept_too(self) -> Any:
            return value

        @functools.cache
        def remembers(self) -> Any:
            return value

        @staticmethod
        @functools.cache
        def remembers_too() -> Any:
            return value

        @classmethod
        @functools.cache
        def of_class(cls) -> Any:
            return value

    C.read.fget.__isabstractmethod__ = value  # type: ignore[attr-defined]
    return C


LOOKS: list[Callable[[Any], Any]] = [
    lambda cls: cls.read.__isabstractmethod__, lambda cls: cls.read.fget(None), lambda cls: cls().read, lambda cls: cls().told,
    lambda cls: cls.told.fget(None), lambda cls: cls().kept, lambda cls: cls.kept.func(None), lambda cls: cls().kept_too,
    lambda cls: cls().remembers(), lambda cls: cls.remembers(1), lambda cls: cls.remembers_too(), lambda cls: cls().remembers_too(),
    lambda cls: cls.of_class(), lambda cls: cls.remembers is cls.__dict__["remembers"], lambda cls: cls.read is cls.__dict__["read"],
]  # fmt: skip


@pytest.mark.parametrize("look", LOOKS)
def test_what_is_made_around_functions_is_of_each_class(look: Callable[[Any], Any]) -> None:
    def fn(cls: Any, x: torch.Tensor) -> Any:
        return look(cls), x + 1

    compiled = capture.compile(fn)
    for value in (True, False, 3.5, True, "text"):
        same(fn, compiled, around_functions(value), torch.ones(3))


def test_what_is_kept_ends_no_graph() -> None:
    def fn(cls: Any, x: torch.Tensor) -> Any:
        made = cls()
        return made.kept * x, made.kept_too + made.read

    compiled = capture.compile(fn)
    for value in (1.5, 2.5, 3.5, 4.5, 5.5):
        same(fn, compiled, around_functions(value), torch.ones(3))
    assert not capture.report(compiled).breaks
