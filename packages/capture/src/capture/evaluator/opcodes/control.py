"""Jumps, loops, returns and generators."""

from __future__ import annotations

import inspect
import types

from capture.bytecode.dialect import current
from capture.errors import Unsupported
from capture.evaluator.arms import joined
from capture.evaluator.assertions import promised
from capture.evaluator.frame import RETURN, YIELD, Frame
from capture.evaluator.machine import Machine
from capture.evaluator.program import Op
from capture.variables.base import Variable
from capture.variables.constants import Constant
from capture.variables.generators import Suspended
from capture.variables.iterators import Iterator, StopIter
from symshapes import UnbackedError

from .registry import operation
from .steps import same_step

_PASSED = len(current().end_for())
_SEND_POPS = current().send_pops


@operation("JUMP_FORWARD", "JUMP_BACKWARD", "JUMP_BACKWARD_NO_INTERRUPT")
def _jump(m: Machine, frame: Frame, op: Op) -> None:
    frame.ip = op.target
    if not frame.is_root:
        m.state.count_instructions(20)


@operation("TO_BOOL")
def _to_bool(m: Machine, frame: Frame, op: Op) -> str | None:
    """What tests the bool comes next and is of the same step, as if it tested the value: one break, not two."""
    return same_step(m, frame)


@operation("POP_JUMP_IF_TRUE", "POP_JUMP_FORWARD_IF_TRUE", "POP_JUMP_BACKWARD_IF_TRUE")
def _jump_if_true(m: Machine, frame: Frame, op: Op) -> str | None:
    condition = frame.stack.pop()
    if type(condition) is not Constant:
        condition = condition.realize(m)
    if type(condition) is Constant:
        if condition.truth(m):
            frame.ip = op.target
        return None
    return _jump_by(m, frame, op, condition, jumps_if=True)


@operation("POP_JUMP_IF_FALSE", "POP_JUMP_FORWARD_IF_FALSE", "POP_JUMP_BACKWARD_IF_FALSE")
def _jump_if_false(m: Machine, frame: Frame, op: Op) -> str | None:
    condition = frame.stack.pop()
    if type(condition) is not Constant:
        condition = condition.realize(m)
    if type(condition) is Constant:
        if not condition.truth(m):
            frame.ip = op.target
        return None
    return _jump_by(m, frame, op, condition, jumps_if=False)


def _jump_by(m: Machine, frame: Frame, op: Op, condition: Variable, *, jumps_if: bool) -> str | None:
    """Jump or not, by what is no literal; where only the run can tell, both ways may be gone."""
    goes_on = promised(m, frame, op, condition, jumps_if=jumps_if)
    if goes_on is None:
        try:
            goes_on = m.operators.truth(condition)
        except (Unsupported, UnbackedError):
            if not joined(m, frame, op, condition, jumps_if=jumps_if):
                raise
            return RETURN if frame.ip == len(frame.program.ops) else None
    if goes_on is jumps_if:
        frame.ip = op.target
    return None


@operation("POP_JUMP_IF_NONE", "POP_JUMP_FORWARD_IF_NONE", "POP_JUMP_BACKWARD_IF_NONE")
def _jump_if_none(m: Machine, frame: Frame, op: Op) -> None:
    if m.builder.is_none(frame.stack.pop()):
        frame.ip = op.target


@operation("POP_JUMP_IF_NOT_NONE", "POP_JUMP_FORWARD_IF_NOT_NONE", "POP_JUMP_BACKWARD_IF_NOT_NONE")
def _jump_if_not_none(m: Machine, frame: Frame, op: Op) -> None:
    if not m.builder.is_none(frame.stack.pop()):
        frame.ip = op.target


@operation("JUMP_IF_TRUE_OR_POP")
def _jump_if_true_or_pop(m: Machine, frame: Frame, op: Op) -> str | None:
    return _jump_or_pop(m, frame, op, jumps_if=True)


@operation("JUMP_IF_FALSE_OR_POP")
def _jump_if_false_or_pop(m: Machine, frame: Frame, op: Op) -> str | None:
    return _jump_or_pop(m, frame, op, jumps_if=False)


def _jump_or_pop(m: Machine, frame: Frame, op: Op, *, jumps_if: bool) -> str | None:
    condition = frame.pop(m)
    try:
        jumps = m.operators.truth(condition) is jumps_if
    except Unsupported:
        if not joined(m, frame, op, condition, jumps_if=jumps_if, keeps=True):
            raise
        return RETURN if frame.ip == len(frame.program.ops) else None
    if jumps:
        frame.push(condition)
        frame.ip = op.target
    return None


@operation("GET_ITER")
def _get_iter(m: Machine, frame: Frame, op: Op) -> None:
    frame.push(m.iteration.iterate(frame.pop(m)))


@operation("FOR_ITER")
def _for_iter(m: Machine, frame: Frame, op: Op) -> None:
    iterator = frame.stack[-1].realize(m)
    frame.stack[-1] = iterator
    m.effects.activity += isinstance(iterator, Iterator)
    try:
        frame.push(iterator.next(m))
    except StopIter:
        frame.stack.pop()
        # What the target starts with is for the interpreter's fast paths; exhaustion goes past it.
        frame.ip = op.target + _PASSED


@operation("RETURN_VALUE")
def _return_value(m: Machine, frame: Frame, op: Op) -> str:
    frame.result = frame.stack.pop()
    return RETURN


@operation("RETURN_CONST")
def _return_const(m: Machine, frame: Frame, op: Op) -> str:
    frame.result = m.builder.from_python(op.value)
    return RETURN


# Generators


@operation("RETURN_GENERATOR")
def _return_generator(m: Machine, frame: Frame, op: Op) -> None:
    # The generator object was made by the call; its body starts after the POP_TOP of what is pushed here.
    frame.push(Constant(None))


@operation("YIELD_VALUE")
def _yield_value(m: Machine, frame: Frame, op: Op) -> str:
    frame.result = frame.stack.pop()
    return YIELD


@operation("GET_YIELD_FROM_ITER")
def _get_yield_from_iter(m: Machine, frame: Frame, op: Op) -> None:
    value = frame.pop(m)
    takes_coroutines = frame.code.co_flags & (inspect.CO_COROUTINE | inspect.CO_ITERABLE_COROUTINE)
    if isinstance(value, Suspended) and value.python_type() is types.CoroutineType and not takes_coroutines:
        m.errors.throw(TypeError, "cannot 'yield from' a coroutine object in a non-coroutine generator")
    frame.push(value if isinstance(value, Suspended) else m.iteration.iterate(value))


@operation("SEND")
def _send(m: Machine, frame: Frame, op: Op) -> None:
    """One turn of ``yield from``: stack holds the inner iterator and the value to send."""
    value = frame.pop(m)
    inner = frame.stack[-1].realize(m)
    try:
        result = _turn(m, inner, value)
    except StopIter as stop:
        if _SEND_POPS:
            frame.stack.pop()
        frame.push(stop.value or Constant(None))
        frame.ip = op.target
        return
    frame.push(result)


def _turn(m: Machine, inner: Variable, value: Variable) -> Variable:
    if isinstance(inner, Suspended):
        return inner.send(m, value)
    if not m.builder.is_none(value):
        return m.iteration.exception_as_stop(lambda: inner.method(m, "send", [value], {}))
    return inner.next(m) if isinstance(inner, Iterator) else m.iteration.next_of_object(inner)


@operation("END_SEND")
def _end_send(m: Machine, frame: Frame, op: Op) -> None:
    del frame.stack[-2]
