"""Raising, handling and ``with`` blocks."""

from __future__ import annotations

import types

from capture.bytecode.dialect import special_methods
from capture.errors import Unsupported
from capture.evaluator.frame import Frame, HandlerState
from capture.evaluator.machine import Machine
from capture.evaluator.program import Op
from capture.resume import OPERATIONS_OF_WITH
from capture.variables.base import SymbolicRaise, Variable
from capture.variables.constants import Constant, looked_up
from capture.variables.descriptors import descriptor_get
from capture.variables.exception_groups import handled_by, left_over
from capture.variables.exceptions import ExceptionObject
from capture.variables.functions import Method
from capture.variables.lookups import MISSING, class_lookup, full_name, has_entry, is_among, shown_type
from capture.variables.objects import Object
from capture.variables.placeholders import NULL
from capture.variables.sequences import List, Tuple

from .registry import operation

#: Whether a ``with`` looks for the method that ends it first, and has its self on the stack beside it.
_ENTERS_LAST = bool(special_methods())
#: A manager's class as messages have it.
_name_of = full_name if _ENTERS_LAST else shown_type


@operation("PUSH_EXC_INFO")
def _push_exc_info(m: Machine, frame: Frame, op: Op) -> None:
    exception = frame.pop(m)
    frame.push(HandlerState(m.errors.slots[-1], exception))
    frame.push(exception)
    m.errors.slots[-1] = exception


@operation("POP_EXCEPT")
def _pop_except(m: Machine, frame: Frame, op: Op) -> None:
    state = frame.stack.pop()
    if isinstance(state, HandlerState):
        m.errors.slots[-1] = state.previous
        return
    # The frame goes on within a handler, which ends here.
    m.effects.activity += 1
    m.errors.slots[-1], m.errors.restored = None, state


@operation("CHECK_EXC_MATCH")
def _check_exc_match(m: Machine, frame: Frame, op: Op) -> None:
    wanted = frame.pop(m)
    actual = frame.stack[-1].realize(m).python_type()
    classes = (
        tuple(looked_up(m, each) for each in wanted.items) if isinstance(wanted, Tuple) else (looked_up(m, wanted),)
    )
    for cls in classes:
        if not (isinstance(cls, type) and issubclass(cls, BaseException)):
            m.errors.throw(TypeError, "catching classes that do not inherit from BaseException is not allowed")
    m.classes.note_order(actual)
    frame.push(Constant(any(is_among(cls, actual.__mro__) for cls in classes)))


@operation("RAISE_VARARGS")
def _raise(m: Machine, frame: Frame, op: Op) -> None:
    if op.arg == 0:
        handled = m.errors.current(m)
        if handled is None:
            m.errors.throw(RuntimeError, "No active exception to reraise")
        raise SymbolicRaise(handled)
    cause = frame.pop(m) if op.arg == 2 else None
    exception = m.calls.exception_of(frame.pop(m), "exceptions must derive from")
    assert isinstance(exception, ExceptionObject)
    exception.origin = m.state.step
    if cause is not None:
        exception.cause = (
            cause if m.builder.is_none(cause) else m.calls.exception_of(cause, "exception causes must derive from")
        )
        exception.suppressed = True
    raise SymbolicRaise(exception)


@operation("RERAISE")
def _reraise(m: Machine, frame: Frame, op: Op) -> None:
    exception = frame.pop(m)
    raise SymbolicRaise(exception)


@operation("BEFORE_WITH")
def _before_with(m: Machine, frame: Frame, op: Op) -> None:
    manager = frame.pop(m)
    enter = _special(m, manager, "__enter__")
    frame.push(_special(m, manager, "__exit__", " (missed __exit__ method)"))
    frame.push(m.calls.call_from(frame, enter, [], {}))


@operation("LOAD_SPECIAL")
def _load_special(m: Machine, frame: Frame, op: Op) -> None:
    """From 3.14 a ``with`` begins with this, twice, and a call: all of it is one step. The manager lies on the stack twice."""
    frame.ip = op.index + OPERATIONS_OF_WITH
    manager = frame.pop(m)
    frame.stack.pop()
    name = special_methods()[op.arg]
    if name == "__aexit__":
        enter, leave = special_asynchronous(m, manager)
    else:
        leave = _special(m, manager, name, f" (missed {name} method)")
        enter = _special(m, manager, "__enter__", " (missed __enter__ method)")
    frame.stack += (leave, NULL)
    frame.push(m.calls.call_from(frame, enter, [], {}))


def special_asynchronous(m: Machine, manager: Variable) -> tuple[Variable, Variable]:
    """The methods with which an ``async with`` begins and ends."""
    enter, leave = (
        manager.special(m, name) if isinstance(manager, Object) else None for name in ("__aenter__", "__aexit__")
    )
    if enter is None or leave is None:
        words = "object does not support the asynchronous context manager protocol"
        missing = ""
        if leave is None and (enter is not None or _ENTERS_LAST):
            missing = " (missed __aexit__ method)"
        elif _ENTERS_LAST:
            missing = " (missed __aenter__ method)"
        hint = _other_kind(
            m, manager, ("__enter__", "__exit__"), " but it supports the context manager protocol", "with"
        )
        m.errors.throw(TypeError, f"{_name_of(manager.python_type())!r} {words}{missing}{hint}")
    return enter, leave


def _other_kind(m: Machine, manager: Variable, names: tuple[str, str], words: str, statement: str) -> str:
    """What 3.14 says of a manager that another statement takes."""
    has = _ENTERS_LAST and all(class_lookup(m, manager.python_type(), name)[0] is not MISSING for name in names)
    return f"{words}. Did you mean to use '{statement}'?" if has else ""


def _special(m: Machine, manager: Variable, name: str, missed: str = "") -> Variable:
    if manager.manages_context:
        return manager.attribute(m, name)
    if not isinstance(manager, Object):
        if not has_entry(manager.python_type(), "__enter__"):
            raise Unsupported(f"with statement over {manager!r}")
        return manager.attribute(m, name)
    raw, owner = class_lookup(m, manager.cls, name)
    if raw is MISSING:
        words = f"object does not support the context manager protocol{missed}"
        but = " but it supports the asynchronous context manager protocol"
        words += _other_kind(m, manager, ("__aenter__", "__aexit__"), but, "async with")
        m.errors.throw(TypeError, f"{_name_of(manager.cls)!r} {words}")
    if not isinstance(raw, (types.FunctionType, staticmethod, classmethod)):
        raise Unsupported(f"context manager {manager.cls.__name__}, which is written in C")
    found = descriptor_get(m, raw, owner, manager, manager.cls, name)
    assert isinstance(found, Method) or found is not None
    return found


@operation("WITH_EXCEPT_START")
def _with_except_start(m: Machine, frame: Frame, op: Op) -> None:
    """Stack: exit, from 3.14 its self or a NULL, lasti, previous handler state, exception."""
    exception = frame.stack[-1].realize(m)
    leave = frame.stack[-5 if _ENTERS_LAST else -4]
    if not isinstance(exception, ExceptionObject):
        raise Unsupported("leaving a with statement by an exception from outside")
    args = [m.builder.known(exception.python_type()), exception, exception.traceback()]
    frame.push(m.calls.call_from(frame, leave, args, {}))


@operation("CLEANUP_THROW")
def _cleanup_throw(m: Machine, frame: Frame, op: Op) -> None:
    exception = frame.pop(m)
    if issubclass(exception.python_type(), StopIteration):
        del frame.stack[-2:]
        args = exception.args  # type: ignore[attr-defined]
        frame.push(Constant(None))
        frame.push(args[0] if args else Constant(None))
        return
    raise SymbolicRaise(exception)


@operation("CHECK_EG_MATCH")
def _check_eg_match(m: Machine, frame: Frame, op: Op) -> None:
    what, exception = frame.pop(m), frame.pop(m)
    match, rest = handled_by(m, exception, what)
    frame.push(rest or Constant(None))
    frame.push(match or Constant(None))
    if match is not None:
        m.effects.activity += 1
        m.errors.slots[-1] = match
        for place, state in reversed(list(enumerate(frame.stack))):
            if isinstance(state, HandlerState):
                frame.stack[place] = HandlerState(state.previous, match)
                break
        else:  # the frame goes on within the handler
            m.errors.restored = match


@operation("PREP_RERAISE_STAR")
def prepare_reraise(m: Machine, frame: Frame, op: Op) -> None:
    """What is left of an exception after the clauses of an ``except*``."""
    found, exception = frame.pop(m), frame.pop(m)
    assert isinstance(found, List)
    frame.push(left_over(m, exception, list(found.items)))
