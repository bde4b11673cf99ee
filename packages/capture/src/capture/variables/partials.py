"""``functools.partial``."""

from __future__ import annotations

import functools
from collections.abc import Hashable, Iterable
from typing import Any

from capture.bytecode import build
from capture.errors import Unsupported
from capture.guards import GuardKind
from capture.sources import Attr, Item, Source

from .base import Args, Interpreter, Kwargs, Variable
from .building import builds
from .constants import BoundBuiltin, Constant
from .handlers import handles
from .lookups import is_callable
from .mappings import Dict
from .placeholders import Lazy, real_of, resolved
from .reconstruction import CannotReconstruct, Emitter

#: What stands from 3.14 for an argument that a call gives; None before.
_GAP: Any = getattr(functools, "Placeholder", None)


def _is_gap(m: Interpreter, value: Variable) -> bool:
    """Whether a value is that, which is guarded to be there then."""
    if _GAP is None:
        return False
    if real_of(value) is _GAP:
        value.realize(m)
        return True
    return resolved(value) is m.builder.met(_GAP)


def _filled(m: Interpreter, args: Args, given: Args) -> list[Variable]:
    """The arguments, with those that are given in the places that were left for them, then the others."""
    rest = list(given)
    gaps = [_is_gap(m, each) for each in args]
    if sum(gaps) > len(rest):
        raise Unsupported("a partial application with fewer arguments than places for them")
    return [rest.pop(0) if gap else each for each, gap in zip(args, gaps, strict=True)] + rest


def _own_attributes(partial: functools.partial[Any]) -> dict[str, Any] | None:
    """The attributes that it was given, if any; asking for ``__dict__`` would give it a dictionary."""
    state: Any = partial.__reduce__()[2]
    found: dict[str, Any] | None = state[3]
    return found


class Partial(Variable):
    """``functools.partial``; ``real`` if it exists outside the frame."""

    def __init__(
        self, function: Variable, args: Args, kwargs: Kwargs, real: functools.partial[Any] | None = None
    ) -> None:
        self.function = function
        self.args = args
        self.kwargs = kwargs
        self.real = real
        #: Its keywords, once the program has asked for them: it may change them.
        self.shown: Dict | None = None
        #: The attributes that the program gave one that it made.
        self.attrs: dict[str, Variable] = {}

    @property
    def own(self) -> dict[str, Any] | None:
        """Its attributes, if it was given any."""
        return None if self.real is None else _own_attributes(self.real)

    def python_type(self) -> type:
        return functools.partial

    def truth(self, m: Interpreter) -> bool:
        return True

    def hash_key(self, m: Interpreter) -> Hashable:
        return m.identity.key(self)

    def call(self, m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
        return m.calls.call(*self.calls_through(m, args, kwargs))

    def calls_through(self, m: Interpreter, args: Args, kwargs: Kwargs) -> tuple[Variable, Args, Kwargs]:
        return self.function, _filled(m, self.args, args), {**self.keywords(m), **kwargs}

    def keywords(self, m: Interpreter) -> Kwargs:
        """Its keyword arguments, as they are now."""
        if self.shown is None:
            return self.kwargs
        return {m.builder.to_python(key): value for key, value in self.shown.in_order(m).values()}

    def _shown(self, m: Interpreter) -> Dict:
        if self.source is None or self.real is None:
            made: Dict = m.builder.new_dict(dict(self.kwargs))
            return made
        found = m.builder.wrap(self.real.keywords, Attr(self.source, "keywords"))
        if not isinstance(found, Dict):
            raise Unsupported("keywords of a partial application")
        return found

    def attribute(self, m: Interpreter, name: str) -> Variable:
        if name == "func":
            return self.function
        if name == "args":
            return m.builder.new_tuple(list(self.args))
        if name == "keywords":
            if self.shown is None:
                self.shown = self._shown(m)
            return self.shown
        if name in self.attrs:
            return self.attrs[name]
        if name == "__call__":
            return BoundBuiltin(self, name)
        if name in ("__doc__", "__module__") and self.own is None:
            if self.source is not None:
                m.guards.predicate(self, lambda real: _own_attributes(real) is None, "{} was given no attributes")
            return Constant(getattr(functools.partial, name))
        if hasattr(functools.partial, name) and name not in (
            "__name__",
            "__qualname__",
        ):  # these are of the class alone
            raise Unsupported(f"partial.{name}")
        if self.source is not None:
            own = self.own or {}
            if name in own:
                return m.builder.wrap(own[name], Attr(self.source, name))
            m.guards.add(self.source, GuardKind.NO_ATTR, name)
        m.errors.throw(AttributeError, f"'functools.partial' object has no attribute {name!r}")

    def set_attribute(self, m: Interpreter, name: str, value: Variable) -> None:
        if self.real is not None or hasattr(functools.partial, name):
            raise Unsupported(f"setting attribute {name!r} of a partial application")
        m.effects.activity += 1
        self.attrs[name] = value

    def method(self, m: Interpreter, name: str, args: Args, kwargs: Kwargs) -> Variable:
        return self.call(m, args, kwargs) if name == "__call__" else super().method(m, name, args, kwargs)

    def made_of(self) -> Iterable[Variable]:
        return (self.function, *self.args, *self.kwargs.values(), *self.attrs.values())

    def reconstruct(self, e: Emitter) -> None:
        if self.shown is not None:
            raise CannotReconstruct(self, "a partial application whose keywords the program has in hand")
        e.emit(build.push_callable(build.load_const(functools.partial)))
        e.load(self.function)
        count = 1 + e.load_many(self.args) + e.load_many(self.kwargs.values())
        e.emit(build.call(count, tuple(self.kwargs)))
        for name, value in self.attrs.items():
            e.emit(build.copy(1))
            e.load(value)
            e.emit(build.swap(2), build.store_attr(name))


@builds(functools.partial)
def _build_partial(m: Interpreter, value: Any, source: Source | None) -> Variable:
    m.guards.of_type(source, functools.partial)
    assert source is not None
    function = m.builder.wrap(value.func, Attr(source, "func"))
    args = Attr(source, "args")
    m.guards.add(args, GuardKind.LEN, len(value.args))
    keywords = Attr(source, "keywords")
    m.guards.add(keywords, GuardKind.DICT_KEYS, tuple(value.keywords))
    return Partial(
        function,
        [Lazy(a, Item(args, i)) for i, a in enumerate(value.args)],
        {k: Lazy(v, Item(keywords, k)) for k, v in value.keywords.items()},
        value,
    )


@handles(functools.partial)
def _partial(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    inner = args[0].realize(m)
    if not is_callable(m, inner):
        m.errors.throw(TypeError, "the first argument must be callable")
    if any(_is_gap(m, each) for each in (*args[-1:], *kwargs.values())):
        raise Unsupported("a place for an argument where none may be")
    if isinstance(inner, Partial) and any(_is_gap(m, each) for each in inner.args):
        raise Unsupported("a partial application of one with places for arguments")
    if isinstance(inner, Partial) and inner.own is None and not inner.attrs:  # one with attributes stays what it is
        if inner.real is not None:
            m.guards.predicate(inner, lambda real: _own_attributes(real) is None, "{} was given no attributes")
        keywords = {**inner.keywords(m), **kwargs}
        return m.effects.created(Partial(inner.function, [*inner.args, *args[1:]], keywords))
    return m.effects.created(Partial(inner, list(args[1:]), dict(kwargs)))
