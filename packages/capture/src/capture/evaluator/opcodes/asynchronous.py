"""``await``, ``async for`` and ``async with``."""

from __future__ import annotations

from capture.evaluator.frame import Frame
from capture.evaluator.machine import Machine
from capture.evaluator.program import Op
from capture.variables.base import SymbolicRaise
from capture.variables.coroutines import Given, asynchronous_iterator, awaitable, next_awaitable

from .exceptions import special_asynchronous
from .registry import operation

#: What gave what is awaited, by the operation's argument.
_GIVEN_BY = {1: "__aenter__", 2: "__aexit__"}


@operation("GET_AWAITABLE")
def _get_awaitable(m: Machine, frame: Frame, op: Op) -> None:
    frame.push(awaitable(m, frame.pop(m), _GIVEN_BY.get(op.arg or 0, "")))


@operation("GET_AITER")
def _get_aiter(m: Machine, frame: Frame, op: Op) -> None:
    frame.push(asynchronous_iterator(m, frame.pop(m)))


@operation("GET_ANEXT")
def _get_anext(m: Machine, frame: Frame, op: Op) -> None:
    frame.push(next_awaitable(m, frame.stack[-1].realize(m)))


@operation("END_ASYNC_FOR")
def _end_async_for(m: Machine, frame: Frame, op: Op) -> None:
    """Stack: the iterator, and what ended the iteration."""
    exception = frame.pop(m)
    if not issubclass(exception.python_type(), StopAsyncIteration):
        raise SymbolicRaise(exception)
    frame.stack.pop()


@operation("ASYNC_GEN_WRAP")
def _async_gen_wrap(m: Machine, frame: Frame, op: Op) -> None:
    frame.push(Given(frame.pop(m)))


@operation("BEFORE_ASYNC_WITH")
def _before_async_with(m: Machine, frame: Frame, op: Op) -> None:
    enter, leave = special_asynchronous(m, frame.pop(m))
    frame.push(leave)
    frame.push(m.calls.call(enter, [], {}))
