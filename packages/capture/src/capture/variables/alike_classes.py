"""Classes from outside: each is one object of fixed identity, or, of a statement that a call runs anew, one of many that are alike.

A class that reaches a frame as another object each time, as it does a piece of a function that makes one and breaks, is told by what it is made of:
a check of its shape, and what is read of it is read from where it was found.
"""

from __future__ import annotations

import functools
import types
import weakref
from collections.abc import Callable, Hashable, Iterator
from typing import Any

from capture import _native
from capture.errors import NotConstant, Unsupported
from capture.guards import GuardKind, Predicate
from capture.sources import Attr, Const, Item, Source

from .base import Interpreter, Variable
from .building import builds
from .classes import METADATA, Class
from .constants import CONSTANT_TYPES
from .lookups import abstract_methods
from .made_annotations import have_annotations

#: Functions in what a class's body makes of them.
_PARTS: dict[type, tuple[str, ...]] = {
    staticmethod: ("__func__",),
    classmethod: ("__func__",),
    property: ("fget", "fset", "fdel"),
    functools.cached_property: ("func",),
}
#: What a class's body makes around its functions, which each class has for itself.
_AROUND = (property, functools.cached_property, functools._lru_cache_wrapper)


class AlikeClass(Class):
    """A class of which another one will do, if it is made of the same."""

    made_here = True

    def __init__(self, value: type) -> None:
        super().__init__(value)
        self.entries: dict[str, Variable] = {}

    def as_python(self, m: Interpreter) -> Any:
        raise NotConstant(self)

    def hash_key(self, m: Interpreter) -> Hashable:
        return m.identity.key(self)

    def attribute(self, m: Interpreter, name: str) -> Variable:
        assert self.source is not None
        if name in METADATA:
            if name == "__annotations__":
                have_annotations(m, self.value)
            return m.builder.wrap(m.builder.fold(getattr, [self.value, name]), Attr(self.source, name))
        return super().attribute(m, name)


def _parts(raw: Any) -> tuple[str, ...]:
    """The attributes of what a class has that functions are in."""
    return next((_PARTS[base] for base in type(raw).__mro__ if base in _PARTS), ())


def functions_of(cls: type) -> Iterator[tuple[types.FunctionType, str, str]]:
    """The functions of a class's own body: each, the name that it is under, and the attribute of what is there, if it is in something."""
    begins = f"{cls.__qualname__}."
    for name, raw in cls.__dict__.items():
        for inner in ("", *_parts(raw)):
            each = getattr(raw, inner, None) if inner else raw
            if isinstance(each, types.FunctionType) and each.__qualname__.startswith(begins):
                yield each, name, inner


def _around_functions(cls: type) -> Iterator[tuple[Any, str, str]]:
    """What a class's own body has made around functions, in the same form."""
    for name, raw in cls.__dict__.items():
        for inner in ("", *_parts(raw)):
            each = getattr(raw, inner, None) if inner else raw
            if isinstance(each, _AROUND):
                yield each, name, inner


class _Shape:
    """What a class is made of, as far as that does not hang from it."""

    def __init__(self, cls: type, may_differ: Callable[[type], bool]) -> None:
        self.metaclass = type(cls)
        self.names = tuple(cls.__dict__)
        self.abstract = abstract_methods(cls)
        self.title = cls.__module__, cls.__qualname__
        self.above = [None if may_differ(base) else weakref.ref(base) for base in cls.__mro__[1:]]
        own = {id(each) for each, _, _ in functions_of(cls)}
        self.checks = [self._check_of(raw, own) for raw in cls.__dict__.values()]

    def _check_of(self, raw: Any, own: set[int]) -> Callable[[Any], bool]:
        cls = type(raw)
        if cls in CONSTANT_TYPES:
            return lambda other: _native.exactly_equal(other, raw)
        if isinstance(raw, types.FunctionType):
            code, only = raw.__code__, None if id(raw) in own else weakref.ref(raw)
            return lambda other: type(other) is cls and other.__code__ is code and (only is None or only() is other)
        if _parts(raw):
            within = [(name, self._check_of(getattr(raw, name), own)) for name in _parts(raw)]
            return lambda other: type(other) is cls and all(check(getattr(other, name)) for name, check in within)
        return lambda other: type(other) is cls

    def fits(self, cls: Any) -> bool:
        """Whether a class is made of the same."""
        return (
            type(cls) is self.metaclass
            and (cls.__module__, cls.__qualname__) == self.title
            and tuple(cls.__dict__) == self.names
            and len(cls.__mro__) == len(self.above) + 1
            and all(base is None or base() is c for base, c in zip(self.above, cls.__mro__[1:], strict=True))
            and abstract_methods(cls) == self.abstract
            and all(check(raw) for check, raw in zip(self.checks, cls.__dict__.values(), strict=True))
        )


@builds(type, subclasses=True)
def _build_class(m: Interpreter, value: Any, source: Source | None) -> Variable:
    if type.__dict__["__mro__"].__get__(value) is None:
        raise Unsupported("a class in the making")
    if source is None or isinstance(source, Const) or not m.classes.made_anew(value):
        m.classes.note_fixed(value)
        return m.builder.identified(Class(value), source)
    return _alike(m, value, source)


def _alike(m: Interpreter, value: type, source: Source) -> Variable:
    made = AlikeClass(value)
    made.source = source
    m.builder.stands_for(value, made)
    m.classes.add_alike(made)
    check = Predicate(_Shape(value, m.classes.made_anew).fits, f"{{}} is a class like {value.__qualname__}")
    m.guards.add(source, GuardKind.CALLABLE, check)
    entries = Attr(source, "__dict__")
    for part, name, inner in (*functions_of(value), *_around_functions(value)):
        place = Item(entries, name)
        m.builder.read_from(part, Attr(place, inner) if inner else place)
    for i, base in enumerate(value.__mro__[1:], 1):
        if m.classes.made_anew(base):
            m.builder.wrap(base, Item(Attr(source, "__mro__"), i))
    return made
