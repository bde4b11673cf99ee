"""Generators made in the frame."""

from __future__ import annotations

import types
from collections.abc import Iterable
from typing import Any

from capture.bytecode import build

from .base import Args, Interpreter, Kwargs, SymbolicRaise, Variable
from .constants import BoundBuiltin, Constant
from .functions import Function
from .iterators import Iterator, StopIter
from .reconstruction import CannotReconstruct, Emitter


class Generator(Iterator):
    """A generator made in the frame: a nested frame, the interpreter's, that is resumed where it yielded."""

    cls = types.GeneratorType
    runs_later = True

    def __init__(self, frame: Any, function: Function, bound: tuple[Args, Kwargs]) -> None:
        self.frame = frame
        self.function = function
        self.bound = bound
        self.started = False
        self.finished = False
        self.running = False

    def next(self, m: Interpreter) -> Variable:
        return self.send(m, Constant(None))

    def send(self, m: Interpreter, value: Variable, error: SymbolicRaise | None = None) -> Variable:
        """Run until the next yield; raises ``StopIter`` with the returned value at the end."""
        if self.finished:
            if error is not None:
                raise error
            raise StopIter
        if self.running:
            m.errors.throw(ValueError, "generator already executing")
        if not self.started and error is None and not m.builder.is_none(value):
            m.errors.throw(TypeError, "can't send non-None value to a just-started generator")
        if not self.started and error is not None:
            self.finished = True
            raise error
        self.running = True
        first, self.started = not self.started, True
        try:
            yielded, result = m.calls.resume_generator(self.frame, None if first else value, error)
        except SymbolicRaise as raised:
            self.finished = True
            if raised.exception.python_type() is StopIteration:
                m.errors.throw(RuntimeError, "generator raised StopIteration")
            raise
        finally:
            self.running = False
        if not yielded:
            self.finished = True
            raise StopIter(result)
        return result

    def attribute(self, m: Interpreter, name: str) -> Variable:
        if name in ("send", "throw", "close", "__next__", "__iter__"):
            return BoundBuiltin(self, name)
        return super().attribute(m, name)

    def method(self, m: Interpreter, name: str, args: Args, kwargs: Kwargs) -> Variable:
        if name == "send":
            return m.iteration.stop_as_exception(lambda: self.send(m, args[0]))
        if name == "close":
            return self.close(m)
        if name == "throw":
            error = m.calls.exception_of([a.realize(m) for a in args])
            return m.iteration.stop_as_exception(lambda: self.send(m, Constant(None), SymbolicRaise(error)))
        return super().method(m, name, args, kwargs)

    def close(self, m: Interpreter) -> Variable:
        """``generator.close()``; raises ``RuntimeError`` in the program if it yields once more."""
        if not self.started or self.finished:
            self.finished = True
            return Constant(None)
        try:
            self.send(m, Constant(None), SymbolicRaise(m.errors.make_exception(GeneratorExit, [])))
        except StopIter:
            return Constant(None)
        except SymbolicRaise as raised:
            if raised.exception.python_type() in (GeneratorExit, StopIteration):
                return Constant(None)
            raise
        m.errors.throw(RuntimeError, "generator ignored GeneratorExit")

    def made_of(self) -> Iterable[Variable]:
        if self.started:
            raise CannotReconstruct(self, "a generator that has started")
        args, kwargs = self.bound
        return (self.function, *args, *kwargs.values())

    def reconstruct(self, e: Emitter) -> None:
        args, kwargs = self.bound
        name = e.temp()
        e.load(self.function)
        e.emit(build.store_fast(name), build.push_callable(build.load_fast(name)))
        count = e.load_many(args) + e.load_many(kwargs.values())
        e.emit(build.call(count, tuple(kwargs)))
