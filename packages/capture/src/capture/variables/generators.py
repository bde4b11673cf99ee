"""Generators, coroutines and asynchronous generators made in the frame: nested frames that are resumed where they yielded."""

from __future__ import annotations

import inspect
import types
from collections.abc import Iterable
from typing import Any

from capture.bytecode import build
from capture.errors import Unsupported

from .base import Args, Interpreter, Kwargs, SymbolicRaise, Variable
from .constants import BoundBuiltin, Constant
from .functions import Function
from .iterators import Iterator, StopIter
from .reconstruction import CannotReconstruct, Emitter
from .suspended_frames import Rest


def _told_at_close() -> Any:
    def returns() -> Any:
        try:
            yield
        except GeneratorExit:
            return True
        return False

    made = returns()
    next(made)
    return made.close()  # type: ignore[func-returns-value,unused-ignore]


#: Whether ``close`` gives what the generator returns then, as from CPython 3.13 on.
_TELLS_AT_CLOSE = _told_at_close() is True


class Suspended(Iterator):
    """What a call of a function makes that yields or awaits: a frame of the interpreter's, and how far it is."""

    runs_later = True
    #: In the interpreter's messages.
    word: str
    #: Whether the interpreter complains of one that never began.
    warns_unused = False

    def __init__(self, frame: Any, function: Function, bound: tuple[Args, Kwargs]) -> None:
        self.frame = frame
        self.function = function
        self.bound = bound
        self.started = False
        self.finished = False
        self.running = False
        #: How often it was gone on with.
        self.steps = 0
        #: Whether a tracer sees what it runs: no other frame is to stand for its own then.
        self.watched = False

    def ended(self, m: Interpreter) -> None:
        """What sending into one means that has ended."""

    def next(self, m: Interpreter) -> Variable:
        return self.send(m, Constant(None))

    def begin(self, m: Interpreter) -> None:
        """It runs from here on; raises in the program where it does already."""
        if self.running:
            m.errors.throw(ValueError, f"{self.word} already executing")
        self.steps += 1

    def send(self, m: Interpreter, value: Variable) -> Variable:
        """Run until the next yield; raises ``StopIter`` with the returned value at the end."""
        self.begin(m)
        if self.finished:
            self.ended(m)
            raise StopIter
        if not self.started and not m.builder.is_none(value):
            m.errors.throw(TypeError, f"can't send non-None value to a just-started {self.word}")
        first, self.started = not self.started, True
        return self.resume(m, None if first else value, None)

    def resume(self, m: Interpreter, value: Variable | None, error: SymbolicRaise | None) -> Variable:
        """Go on with its frame, and keep what becomes of it."""
        self.running = True
        try:
            yielded, result = m.calls.resume_generator(self.frame, value, error)
        except SymbolicRaise as raised:
            self.finished = True
            told = escaped(m, self.function.code, raised.exception)  # where the code does not say so itself
            if told is not raised.exception:
                raise SymbolicRaise(told) from None
            raise
        finally:
            self.running = False
        if not yielded:
            self.finished = True
            raise StopIter(result)
        return result

    def throw(self, m: Interpreter, raised: SymbolicRaise) -> Variable:
        """Go on as if the yield raised: what it waits for is told first."""
        self.begin(m)
        if self.finished:
            self.ended(m)
            raise raised
        if not self.started:
            self.started = self.finished = True
            raise raised
        inner = m.calls.delegate_of(self.frame)
        if inner is not None:
            self.running = True
            try:
                if issubclass(raised.exception.python_type(), GeneratorExit):
                    close(m, inner)
                else:
                    taken = throw_into(m, inner, raised)
                    if taken is not None:
                        return taken
            except StopIter as stop:
                m.calls.end_delegation(self.frame, stop.value or Constant(None))
                return self.resume(m, None, None)
            except SymbolicRaise as other:
                raised = other
            finally:
                self.running = False
        return self.resume(m, None, raised)

    def close(self, m: Interpreter) -> Variable:
        """End it, and give what ``close`` gives; raises ``RuntimeError`` in the program if it yields once more."""
        if not self.started or self.finished:
            self.started = self.finished = True
            return Constant(None)
        try:
            self.throw(m, SymbolicRaise(m.errors.make_exception(GeneratorExit, [])))
        except StopIter as stop:
            return stop.value if _TELLS_AT_CLOSE and stop.value is not None else Constant(None)
        except SymbolicRaise as raised:
            if issubclass(raised.exception.python_type(), (GeneratorExit, StopIteration)):
                return Constant(None)
            raise
        m.errors.throw(RuntimeError, f"{self.word} ignored GeneratorExit")

    #: By attribute, without the two letters that the kinds have in front.
    _FACTS = frozenset({"running", "suspended", "yieldfrom", "await", "code"})

    def fact(self, m: Interpreter, name: str) -> Variable:
        """How far it is."""
        if name == "code":
            return Constant(self.function.code)
        if name == "running":
            return Constant(self.running)
        if name == "suspended":
            return Constant(self.started and not self.finished and not self.running)
        inner = None if self.finished or self.running or not self.started else m.calls.delegate_of(self.frame)
        return inner or Constant(None)

    def attribute(self, m: Interpreter, name: str) -> Variable:
        if not hasattr(self.cls, name):
            m.errors.throw(AttributeError, f"{self.cls.__name__!r} object has no attribute {name!r}")
        if name in ("__name__", "__qualname__"):
            return self.function.attribute(m, name)
        if name[2:3] == "_" and name[3:] in self._FACTS:
            return self.fact(m, name[3:])
        if name != "__class__" and callable(getattr(self.cls, name)):
            return BoundBuiltin(self, name)
        return super().attribute(m, name)

    def method(self, m: Interpreter, name: str, args: Args, kwargs: Kwargs) -> Variable:
        if name == "send":
            return m.iteration.stop_as_exception(lambda: self.send(m, args[0]))
        if name == "close":
            m.effects.activity += 1
            return self.close(m)
        if name == "throw":
            error = m.calls.thrown(args)
            m.effects.activity += 1
            return m.iteration.stop_as_exception(lambda: self.throw(m, SymbolicRaise(error)))
        return super().method(m, name, args, kwargs)

    def made_of(self) -> Iterable[Variable]:
        if self.started:
            return self._rest().values()
        args, kwargs = self.bound
        return (self.function, *args, *kwargs.values())

    def _rest(self) -> Rest:
        if self.running or self.finished or self.watched or not Rest.is_known(self.frame):
            raise CannotReconstruct(self, f"a {self.word} that has started")
        return Rest(self.frame)

    def reconstruct(self, e: Emitter) -> None:
        if self.started:
            self._rest().load(e)
            return
        args, kwargs = self.bound
        name = e.temp()
        e.load(self.function)
        e.emit(build.store_fast(name), build.push_callable(build.load_fast(name)))
        count = e.load_many(args) + e.load_many(kwargs.values())
        e.emit(build.call(count, tuple(kwargs)))


class Generator(Suspended):
    """A generator."""

    cls = types.GeneratorType
    word = "generator"


def throw_into(m: Interpreter, inner: Variable, raised: SymbolicRaise) -> Variable | None:
    """``inner.throw(...)`` of what a generator delegates to: what that yields; ``StopIter`` as it ends; None if it has no such method."""
    if isinstance(inner, Suspended):
        return inner.throw(m, raised)
    method = _method_of(m, inner, "throw")
    if method is None:
        return None
    try:
        return m.calls.call(method, [raised.exception], {})
    except SymbolicRaise as error:
        stop = stopped(error)
        raise error if stop is None else stop from None


def close(m: Interpreter, inner: Variable) -> None:
    """``inner.close()`` of what a generator delegates to, if it has such a method."""
    if isinstance(inner, Suspended):
        inner.close(m)
        return
    method = _method_of(m, inner, "close")
    if method is not None:
        m.calls.call(method, [], {})


def _method_of(m: Interpreter, inner: Variable, name: str) -> Variable | None:
    if isinstance(inner, Iterator) and not hasattr(inner.python_type(), name):
        return None
    try:
        return inner.attribute(m, name)
    except SymbolicRaise as raised:
        if issubclass(raised.exception.python_type(), AttributeError):
            return None
        raise


def stopped(raised: SymbolicRaise) -> StopIter | None:
    """The end of an iteration that an exception of the program says; None for any other."""
    exception: Any = raised.exception
    if not issubclass(exception.python_type(), StopIteration):
        return None
    return StopIter(exception.args[0] if exception.args else None)


def escaped(m: Interpreter, code: types.CodeType, exception: Variable) -> Variable:
    """What leaves code that suspends, where an exception leaves it: what means the end of an iteration becomes an error."""
    cls = exception.python_type()
    asynchronous = code.co_flags & inspect.CO_ASYNC_GENERATOR
    if issubclass(cls, StopIteration):
        kind = (
            "async generator" if asynchronous else "coroutine" if code.co_flags & inspect.CO_COROUTINE else "generator"
        )
        words = f"{kind} raised StopIteration"
    elif asynchronous and issubclass(cls, StopAsyncIteration):
        words = "async generator raised StopAsyncIteration"
    else:
        return exception
    return caused(m, RuntimeError, words, exception)


def caused(m: Interpreter, cls: type, words: str, exception: Variable) -> Variable:
    """The error that takes an exception's place, and has it for its cause."""
    try:
        m.errors.throw(cls, words)
    except SymbolicRaise as raised:
        error: Any = raised.exception
    error.cause = error.context = exception
    error.suppressed = error.took_place = True
    return error


def suspended(frame: Any, function: Function, bound: tuple[Args, Kwargs]) -> Suspended:
    """What a call of a function makes whose code suspends; raises ``Unsupported`` for kinds that are not evaluated."""
    kind = _KINDS.get(function.code.co_flags & SUSPENDS)
    if kind is None:
        raise Unsupported(f"asynchronous code ({function.code.co_qualname})")
    return kind(frame, function, bound)


_KINDS: dict[int, type[Suspended]] = {inspect.CO_GENERATOR: Generator}
#: The flags of code whose frames are left and entered again.
SUSPENDS = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR | inspect.CO_ITERABLE_COROUTINE


def makes(flag: int, kind: type[Suspended]) -> None:
    """Register what calls of functions make whose code has this flag."""
    _KINDS[flag] = kind
