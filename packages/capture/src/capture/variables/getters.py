"""``operator.itemgetter``, ``attrgetter`` and ``methodcaller`` objects."""

from __future__ import annotations

import operator
from collections.abc import Iterable
from typing import Any

from capture.bytecode import build

from .base import Args, Interpreter, Kwargs, Variable
from .handlers import handles
from .reconstruction import Emitter


class Getter(Variable):
    """``operator.itemgetter``, ``attrgetter`` and ``methodcaller`` objects."""

    def __init__(self, cls: type, args: Args, kwargs: Kwargs) -> None:
        self.cls = cls
        self.args = args
        self.kwargs = kwargs

    def python_type(self) -> type:
        return self.cls

    def truth(self, m: Interpreter) -> bool:
        return True

    def call(self, m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
        if self.cls is operator.methodcaller:
            return m.calls.call(
                args[0].realize(m).attribute(m, m.builder.to_python(self.args[0])), self.args[1:], self.kwargs
            )
        found = [self.one(m, args[0].realize(m), key) for key in self.args]
        return found[0] if len(found) == 1 else m.builder.new_tuple(found)

    def one(self, m: Interpreter, value: Variable, key: Variable) -> Variable:
        """What one key or dotted name gives."""
        if self.cls is operator.itemgetter:
            return value.item(m, key.realize(m))
        for part in m.builder.to_python(key).split("."):
            value = value.realize(m).attribute(m, part).realize(m)
        return value

    def made_of(self) -> Iterable[Variable]:
        return (*self.args, *self.kwargs.values())

    def reconstruct(self, e: Emitter) -> None:
        e.emit(build.push_callable(build.load_const(self.cls)))
        count = e.load_many(self.args) + e.load_many(self.kwargs.values())
        e.emit(build.call(count, tuple(self.kwargs)))


for _cls in (operator.itemgetter, operator.attrgetter, operator.methodcaller):

    @handles(_cls)
    def _getter(m: Interpreter, args: Args, kwargs: Kwargs, cls: Any = _cls) -> Variable:
        given = [a.realize(m) for a in args]
        names = {operator.attrgetter: given, operator.methodcaller: given[:1]}.get(cls, ())
        if not all(issubclass(name.python_type(), str) for name in names):
            m.builder.fold(cls, [None])  # raises, in this version's words
        return m.effects.created(Getter(cls, given, kwargs))
