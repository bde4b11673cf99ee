"""Exception objects of the program."""

from __future__ import annotations

import traceback
import types
from collections.abc import Hashable, Iterable
from typing import Any

from capture.bytecode import build
from capture.errors import NotConstant, Unsupported
from capture.sources import Source

from .base import Args, Interpreter, Kwargs, Variable
from .building import builds_where
from .constants import Constant
from .handlers import handles
from .lookups import HEAP_TYPE, Missing
from .objects import Object
from .raising import raised, raiser
from .reconstruction import CannotReconstruct, Emitter


class Traceback(Variable):
    """The traceback that ``__exit__`` is told: there is one, but no frame is real while evaluating."""

    def __init__(self, exception: ExceptionObject) -> None:
        self.exception = exception
        self.entries = len(exception.way or ())

    def made_of(self) -> Iterable[Variable]:
        if len(self.exception.way or ()) != self.entries:
            raise CannotReconstruct(self.exception, "a traceback that an exception had before it was raised again")
        return (self.exception,)

    def reconstruct(self, e: Emitter) -> None:
        e.load(self.exception)
        e.emit(build.load_attr("__traceback__"))

    def python_type(self) -> type:
        return types.TracebackType

    def truth(self, m: Interpreter) -> bool:
        return True


@handles(traceback.clear_frames)
def _clear_frames(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    """No frame of one that was raised in the evaluation is there to be cleared."""
    if not isinstance(args[0].realize(m), Traceback):
        raise Unsupported("traceback.clear_frames of a real traceback")
    return Constant(None)


class ExceptionObject(Object):
    """An exception instance; ``args`` is kept as an attribute."""

    def __init__(self, cls: type, args: list[Variable], value: Any = None) -> None:
        super().__init__(cls, value)
        self.args = args
        self.origin = -1
        #: The operations that it passed since it was raised, innermost first, by code and index; None: its traceback is another.
        self.way: list[tuple[types.CodeType, int]] | None = []
        #: What was being handled where it was raised; None: what was where the captured frame began.
        self.context: Variable | None = None

    def instance_attribute(self, m: Interpreter, name: str) -> Variable | None:
        if name in self.attrs:
            return self.attrs[name]
        if name == "args":
            return m.builder.new_tuple(list(self.args))
        if name == "__context__" and self.origin >= 0:
            raise Unsupported("context of an exception that was raised")
        if name in ("__cause__", "__context__"):
            return Constant(None)
        if name == "value" and issubclass(self.cls, StopIteration):
            return self.args[0] if self.args else Constant(None)
        return super().instance_attribute(m, name)

    def generic_attribute(self, m: Interpreter, name: str) -> Variable | Missing:
        if name in ("args", "__cause__", "__context__", "value") or name in self.attrs:
            found = self.instance_attribute(m, name)
            if found is not None:
                return found
        if name == "__traceback__":
            raise Unsupported("traceback of an exception")
        return super().generic_attribute(m, name)

    def generic_set(self, m: Interpreter, name: str, value: Variable) -> None:
        self.attrs[name] = value
        m.effects.mutated(self)

    def builtin(self, m: Interpreter, owner: type, name: str, args: Args, kwargs: Kwargs) -> Variable:
        if name == "__init__":
            if kwargs:
                raise Unsupported(f"{self.cls.__name__} with keyword arguments")
            self.args = list(args)
            return Constant(None)
        if name == "with_traceback":
            self.way = None
            return self
        if name in ("__str__", "__repr__"):
            return self.text(m, str if name == "__str__" else repr)
        return super().builtin(m, owner, name, args, kwargs)

    @property
    def has_state_in_c(self) -> bool:
        """Whether the built-in class beneath keeps more than arguments, context and notes."""
        built_in = (c for c in self.cls.__mro__ if issubclass(c, BaseException) and not c.__flags__ & HEAP_TYPE)
        return any(c.__basicsize__ != BaseException.__basicsize__ for c in built_in)

    def text(self, m: Interpreter, how: Any) -> Variable:
        """``str`` or ``repr`` (``how``) of it, which its arguments must be known for."""
        base = next(c for c in self.cls.__mro__ if c.__module__ == "builtins")
        if how is repr and base is not self.cls:
            raise Unsupported("repr of a user's exception")
        try:
            return Constant(how(base(*[m.builder.to_python(a) for a in self.args])))
        except NotConstant:
            raise Unsupported("text of an exception with arguments that are not constant") from None

    def hash_key(self, m: Interpreter) -> Hashable:
        return m.identity.key(self)

    def made_of(self) -> Iterable[Variable]:
        if self.origin >= 0 and not self.way:
            raise CannotReconstruct(self, "an exception that was raised and is kept, with its traceback")
        if self.has_state_in_c:
            raise CannotReconstruct(self, f"an instance of {self.cls.__name__}, which keeps state in C")
        context = [] if self.context is None else [self.context]
        return [*self.args, *(x for x in self.attrs.values() if x is not None), *context]

    def reconstruct(self, e: Emitter) -> None:
        e.emit(build.push_callable(build.load_const(self.cls.__new__)), build.load_const(self.cls))
        e.emit(build.call(1 + e.load_many(self.args)))
        if self.attrs:
            self.fill(e)
        if self.way:
            name = e.temp()
            e.emit(build.store_fast(name), build.push_callable(build.load_const(raised)), build.load_fast(name))
            e.emit(build.load_const(raiser(tuple(self.way))))
            e.load_many([] if self.context is None else [self.context])
            e.emit(build.call(2 if self.context is None else 3))

    def reconstruct_empty(self, e: Emitter) -> None:
        raise CannotReconstruct(self, f"{self!r} contains itself")


@builds_where(lambda cls: issubclass(cls, BaseException))
def _build_exception(m: Interpreter, value: Any, source: Source | None) -> Variable:
    raise Unsupported("an exception object as input")
