"""What makes an instance of a subclass of ``property`` one: the functions that it was given.

In: the call of ``property.__init__`` in the frame. Out: the same call, where generated code makes the instance. Nothing in the frame
reads what it holds but in this way.
"""

from __future__ import annotations

from collections.abc import Iterable

from capture.bytecode import build
from capture.errors import Unsupported

from .base import Args, Interpreter, Kwargs, Variable
from .functions import Function
from .reconstruction import Emitter


class PropertyPart(Variable):
    """The built-in part of an instance of a subclass of ``property``; ``functions`` are how it is read, set and deleted."""

    def __init__(self) -> None:
        self.functions: list[Variable] = []
        #: What a class's prototype has in its place.
        self.prototype: property | None = None

    def python_type(self) -> type:
        return property

    def method(self, m: Interpreter, name: str, args: Args, kwargs: Kwargs) -> Variable:
        given = [each.realize(m) for each in args]
        if (
            name != "__init__"
            or kwargs
            or self.functions
            or not 0 < len(given) < 4
            or not isinstance(given[0], Function)
        ):
            raise Unsupported(f"property.{name} of an instance of a subclass of it")
        holder = self.holder
        assert holder is not None
        self.functions = given
        # An instance of a subclass keeps what its getter says of itself among its attributes.
        holder.set_attribute(m, "__doc__", given[0].attribute(m, "__doc__"))
        m.effects.mutated(holder)
        return m.builder.from_python(None)

    def made_of(self) -> Iterable[Variable]:
        return self.functions

    def hand_over(self, e: Emitter, name: str) -> None:
        """Give the instance in the local ``name`` its functions."""
        if self.functions:
            e.emit(build.push_callable(build.load_const(property.__init__)), build.load_fast(name))
            e.load_many(self.functions)
            e.emit(build.call(1 + len(self.functions)), build.pop())
