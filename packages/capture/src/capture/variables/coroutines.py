"""Coroutines and asynchronous generators made in the frame, and what ``await`` and ``async for`` ask of them."""

from __future__ import annotations

import inspect
import sys
import types
from typing import Any

from capture.errors import Unsupported

from .base import Args, Interpreter, Kwargs, SymbolicRaise, Variable
from .constants import BoundBuiltin, Constant
from .generators import Generator, Suspended, caused, makes
from .iterators import Iterator, StopIter
from .lookups import shown_type
from .objects import Object

#: Whether the interpreter says of what is no awaitable that it cannot be awaited, and not where.
_AWAITED = sys.version_info >= (3, 14)


async def _coroutine() -> None:
    """For the type of what its ``__await__`` gives."""


async def _generator() -> Any:
    """For the types of what its methods give."""
    yield


class Coroutine(Suspended):
    """What calling an ``async def`` function makes."""

    cls = types.CoroutineType
    word = "coroutine"

    @property
    def warns_unused(self) -> bool:  # type: ignore[override]
        """Until it began."""
        return not self.started

    def ended(self, m: Interpreter) -> None:
        m.errors.throw(RuntimeError, "cannot reuse already awaited coroutine")

    def iterate(self, m: Interpreter) -> Variable:
        m.errors.throw(TypeError, "'coroutine' object is not iterable")

    def method(self, m: Interpreter, name: str, args: Args, kwargs: Kwargs) -> Variable:
        if name == "__await__":
            return m.effects.created(Awaiting(self))
        return super().method(m, name, args, kwargs)


class Step(Iterator):
    """An iterator that hands on what is sent and thrown."""

    def send(self, m: Interpreter, value: Variable) -> Variable:
        """Go on; raises ``StopIter`` with what it comes to."""
        raise NotImplementedError

    def throw(self, m: Interpreter, raised: SymbolicRaise) -> Variable:
        """Go on with an exception."""
        raise NotImplementedError

    def next(self, m: Interpreter) -> Variable:
        return self.send(m, Constant(None))

    def attribute(self, m: Interpreter, name: str) -> Variable:
        if name != "__class__" and hasattr(self.cls, name):
            return BoundBuiltin(self, name)
        return super().attribute(m, name)

    def method(self, m: Interpreter, name: str, args: Args, kwargs: Kwargs) -> Variable:
        m.effects.activity += 1
        if name == "send":
            return m.iteration.stop_as_exception(lambda: self.send(m, args[0].realize(m)))
        if name == "throw":
            error = m.calls.thrown(args)
            return m.iteration.stop_as_exception(lambda: self.throw(m, SymbolicRaise(error)))
        return super().method(m, name, args, kwargs)


class Awaiting(Step):
    """``coroutine.__await__()``: the coroutine as an iterator."""

    _made = _coroutine()
    cls = type(_made.__await__())
    _made.close()

    def __init__(self, inner: Coroutine) -> None:
        self.inner = inner

    def send(self, m: Interpreter, value: Variable) -> Variable:
        return self.inner.send(m, value)

    def throw(self, m: Interpreter, raised: SymbolicRaise) -> Variable:
        return self.inner.throw(m, raised)

    def method(self, m: Interpreter, name: str, args: Args, kwargs: Kwargs) -> Variable:
        if name == "close":
            return self.inner.method(m, name, args, kwargs)
        return super().method(m, name, args, kwargs)


class Given(Variable):
    """A value that an asynchronous generator yields, told apart from what it passes on from what it awaits."""

    def __init__(self, value: Variable) -> None:
        self.value = value


class AsyncGenerator(Suspended):
    """What calling an ``async def`` function with a ``yield`` makes."""

    cls = types.AsyncGeneratorType
    word = "async generator"

    def iterate(self, m: Interpreter) -> Variable:
        m.errors.throw(TypeError, "'async_generator' object is not iterable")

    def method(self, m: Interpreter, name: str, args: Args, kwargs: Kwargs) -> Variable:
        if name == "__aiter__":
            return self
        frame = m.state.frame
        if frame.program.ops[frame.ip].name == "POP_TOP":  # 3.13 complains, as of a coroutine
            raise Unsupported(f"{name} of an asynchronous generator, which is never awaited")
        if name in ("__anext__", "asend"):
            return m.effects.created(Sending(self, args[0] if args else Constant(None)))
        if name == "athrow":
            error = m.calls.thrown(args)
            return m.effects.created(Throwing(self, SymbolicRaise(error), closes=False))
        if name == "aclose":
            error = m.errors.make_exception(GeneratorExit, [])
            return m.effects.created(Throwing(self, SymbolicRaise(error), closes=True))
        raise Unsupported(f"{name} of an asynchronous generator")


class _Turn(Step):
    """One turn of an asynchronous generator, which is awaited."""

    def __init__(self, owner: AsyncGenerator) -> None:
        self.owner = owner
        self.begun = False
        self.done = False

    def begin(self, m: Interpreter, word: str) -> bool:
        """Whether this is the first time; raises in the program if it has ended."""
        if self.done:
            m.errors.throw(RuntimeError, f"cannot reuse already awaited {word}")
        first, self.begun = not self.begun, True
        return first

    def throw(self, m: Interpreter, raised: SymbolicRaise) -> Variable:
        self.begun = True
        return self.outcome(m, lambda: self.owner.throw(m, raised))

    def outcome(self, m: Interpreter, action: Any) -> Variable:
        """What the generator passes on; a value that it yields, and its end, end the turn."""
        try:
            got: Variable = action()
        except StopIter:
            self.done = True
            m.errors.throw_value(StopAsyncIteration, [])
        except SymbolicRaise:
            self.done = True
            raise
        if isinstance(got, Given):
            self.done = True
            raise StopIter(got.value)
        return got


def _class_of(turn: Any) -> type:
    turn.close()  # 3.13 warns of one that nobody awaited
    return type(turn)


class Sending(_Turn):
    """``__anext__()`` and ``asend(value)``."""

    _made = _generator()
    cls = _class_of(_made.asend(None))

    def __init__(self, owner: AsyncGenerator, value: Variable) -> None:
        super().__init__(owner)
        self.value = value

    def send(self, m: Interpreter, value: Variable) -> Variable:
        if self.begin(m, "__anext__()/asend()") and m.builder.is_none(value):
            value = self.value.realize(m)
        return self.outcome(m, lambda: self.owner.send(m, value))


class Throwing(_Turn):
    """``athrow(...)`` and ``aclose()``."""

    _made = _generator()
    cls = _class_of(_made.aclose())

    def __init__(self, owner: AsyncGenerator, raised: SymbolicRaise, *, closes: bool) -> None:
        super().__init__(owner)
        self.raised = raised
        self.closes = closes

    def send(self, m: Interpreter, value: Variable) -> Variable:
        first = self.begin(m, "aclose()/athrow()")
        if not self.closes:
            return self.outcome(
                m, (lambda: self.owner.throw(m, self.raised)) if first else (lambda: self.owner.send(m, value))
            )
        if first and (self.owner.finished or not self.owner.started):
            self.done = self.owner.started = self.owner.finished = True
            raise StopIter
        try:
            got = self.owner.throw(m, self.raised) if first else self.owner.send(m, value)
        except StopIter:
            self.done = True
            raise StopIter from None
        except SymbolicRaise as raised:
            self.done = True
            if issubclass(raised.exception.python_type(), (StopAsyncIteration, GeneratorExit)):
                raise StopIter from None
            raise
        if isinstance(got, Given):
            m.errors.throw(RuntimeError, "async generator ignored GeneratorExit")
        return got


def awaitable(m: Interpreter, value: Variable, given_by: str = "") -> Variable:
    """What ``await value`` runs; of ``async with``, what a method gave."""
    if isinstance(value, Coroutine):
        if value.started and not value.finished and m.calls.delegate_of(value.frame) is not None:
            m.errors.throw(RuntimeError, "coroutine is being awaited already")
        return value
    if _is_coroutine(m, value):
        if value.python_type() is types.CoroutineType:
            raise Unsupported("await of a coroutine from outside")  # which may be awaited already
        return value
    if isinstance(value, _Turn):
        return value
    method = value.special(m, "__await__") if isinstance(value, Object) else None
    if method is None:
        kind = shown_type(value.python_type())
        if given_by:
            words = f"'async with' received an object from {given_by} that does not implement __await__: {kind}"
            m.errors.throw(TypeError, words)
        words = (
            f"{kind!r} object can't be awaited" if _AWAITED else f"object {kind} can't be used in 'await' expression"
        )
        m.errors.throw(TypeError, words)
    found = m.calls.call(method, [], {}).realize(m)
    if _is_coroutine(m, found):
        m.errors.throw(TypeError, "__await__() returned a coroutine")
    return m.iteration.checked(found, "__await__()")


def _is_coroutine(m: Interpreter, value: Variable) -> bool:
    """Whether it is a coroutine, or a generator of a function that `types.coroutine` marked; guarded of one from outside."""
    if isinstance(value, Suspended):
        return bool(value.function.code.co_flags & _COROUTINES)
    if value.python_type() is not types.GeneratorType:
        return value.python_type() is types.CoroutineType
    marked = _is_marked(m.builder.outside(value))
    words = f"what made {{}} is {'' if marked else 'not '}marked as a coroutine"
    m.guards.predicate(value, _is_marked if marked else _is_plain, words)
    return marked


_COROUTINES = inspect.CO_COROUTINE | inspect.CO_ITERABLE_COROUTINE


def _is_marked(generator: Any) -> bool:
    return bool(generator.gi_code.co_flags & inspect.CO_ITERABLE_COROUTINE)


def _is_plain(generator: Any) -> bool:
    return not _is_marked(generator)


def asynchronous_iterator(m: Interpreter, value: Variable) -> Variable:
    """What ``async for`` asks for each item."""
    if isinstance(value, AsyncGenerator):
        return value
    method = value.special(m, "__aiter__") if isinstance(value, Object) else None
    if method is None:
        words = f"'async for' requires an object with __aiter__ method, got {shown_type(value.python_type())}"
        m.errors.throw(TypeError, words)
    found = m.calls.call(method, [], {}).realize(m)
    if not isinstance(found, AsyncGenerator) and (
        not isinstance(found, Object) or found.special(m, "__anext__") is None
    ):
        words = "'async for' received an object from __aiter__ that does not implement __anext__: "
        m.errors.throw(TypeError, words + shown_type(found.python_type()))
    return found


def next_awaitable(m: Interpreter, iterator: Variable) -> Variable:
    """What is awaited for the next item of an ``async for``."""
    if isinstance(iterator, AsyncGenerator):
        return iterator.method(m, "__anext__", [], {})
    assert isinstance(iterator, Object)
    method = iterator.special(m, "__anext__")
    assert method is not None
    given = m.calls.call(method, [], {}).realize(m)
    try:
        return awaitable(m, given)
    except SymbolicRaise as raised:
        kind = shown_type(given.python_type())
        words = f"'async for' received an invalid object from __anext__: {kind}"
        raise SymbolicRaise(caused(m, TypeError, words, raised.exception)) from None


makes(inspect.CO_COROUTINE, Coroutine)
makes(inspect.CO_ASYNC_GENERATOR, AsyncGenerator)
makes(inspect.CO_GENERATOR | inspect.CO_ITERABLE_COROUTINE, Generator)
