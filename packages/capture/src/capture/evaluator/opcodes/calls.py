"""Calls, and functions made in the frame."""

from __future__ import annotations

import opcode
import sys

from capture.errors import Unsupported
from capture.evaluator.frame import Frame
from capture.evaluator.machine import Machine
from capture.evaluator.program import Op
from capture.evaluator.unevaluated import why_no_intrinsic, why_unevaluated
from capture.variables.base import Kwargs, SymbolicRaise, Variable
from capture.variables.coroutines import Given
from capture.variables.functions import Cell, Function, Method
from capture.variables.generators import escaped
from capture.variables.lookups import can_iterate
from capture.variables.placeholders import NULL
from capture.variables.sequences import List, Tuple

from .exceptions import prepare_reraise
from .registry import operation
from .steps import same_step

#: What the interpreter calls by moving the arguments into the new frame, from its stack, and from a tuple that it then lets go of.
_TAKING = (Function, Method)
_TAKING_PACKED = (Function,) if sys.version_info >= (3, 12) else ()
#: Whether a call with packed arguments has a place for those by name in any case: a NULL where there are none.
_NAMED_ALWAYS = opcode.opmap["CALL_FUNCTION_EX"] < opcode.HAVE_ARGUMENT


@operation("KW_NAMES")
def _kw_names(m: Machine, frame: Frame, op: Op) -> str | None:
    frame.kw_names = op.value
    return same_step(m, frame)


@operation("PRECALL")
def _precall(m: Machine, frame: Frame, op: Op) -> str | None:
    return same_step(m, frame)


@operation("CALL")
def _call(m: Machine, frame: Frame, op: Op) -> None:
    """Call with so many arguments on the stack, the last of them under the names that were told."""
    names, frame.kw_names = frame.kw_names, ()
    stack, count = frame.stack, op.arg
    args: list[Variable] = []
    if count:
        args = stack[-count:]
        del stack[-count:]
    above, below = stack.pop(), stack.pop()
    function, first = (below, above) if below is not NULL else (above, NULL)
    if first is not NULL:
        args.insert(0, first)
    kwargs: Kwargs = {}
    if names:
        kwargs = dict(zip(names, args[len(args) - len(names) :], strict=True))
        del args[len(args) - len(names) :]
    frame.push(m.calls.call_from(frame, function, args, kwargs, handing=_TAKING))


@operation("CALL_KW")
def _call_kw(m: Machine, frame: Frame, op: Op) -> None:
    frame.kw_names = m.builder.to_python(frame.pop(m))
    _call(m, frame, op)


@operation("CALL_FUNCTION_EX")
def _call_function_ex(m: Machine, frame: Frame, op: Op) -> None:
    kwargs: Kwargs = {}
    named = frame.pop_raw() if _NAMED_ALWAYS or op.arg & 1 else NULL
    if named is not NULL:
        for key, value in m.iteration.pairs(named.realize(m)):
            name = m.builder.to_python(key)
            if not isinstance(name, str):
                m.errors.throw(TypeError, "keywords must be strings")
            kwargs[name] = value
    unpacked = frame.pop(m)
    try:
        args = m.iteration.tupled(unpacked)
    except SymbolicRaise:
        if can_iterate(unpacked.python_type()):
            raise
        raise Unsupported(f"arguments of {unpacked!r}") from None  # the interpreter's error names the function
    above, below = frame.stack.pop(), frame.stack.pop()
    frame.push(m.calls.call_from(frame, above if below is NULL else below, args, kwargs, handing=_TAKING_PACKED))


def _annotations(m: Machine, value: Variable) -> Variable:
    """The dictionary of annotations; the compiler pushes a flat tuple of names and values."""
    if not isinstance(value, Tuple):
        return value
    names = [m.builder.to_python(name) for name in value.items[::2]]
    return m.builder.new_dict(dict(zip(names, value.items[1::2], strict=True)))


def _cells(m: Machine, closure: Variable) -> list[Cell]:
    """Those of a function that is made: the frame's, or real ones where the graph broke since they were taken."""
    found: list[Cell] = []
    for each in m.iteration.elements(closure):
        cell = each.realize(m)
        assert isinstance(cell, Cell)
        found.append(cell)
    return found


@operation("MAKE_FUNCTION")
def _make_function(m: Machine, frame: Frame, op: Op) -> str | None:
    code = m.builder.to_python(frame.pop(m))
    closure: list[Cell] = []
    if op.arg & 8:
        closure = _cells(m, frame.pop(m))
    annotations = _annotations(m, frame.pop(m)) if op.arg & 4 else None
    kwdefaults: dict[str, Variable] = {}
    if op.arg & 2:
        kwdefaults = {m.builder.to_python(k): v for k, v in m.iteration.pairs(frame.pop(m))}
    defaults = m.iteration.elements(frame.pop(m)) if op.arg & 1 else []
    made = Function(code, frame.globals, code.co_qualname, defaults, kwdefaults, closure)
    made.annotations = annotations
    frame.push(m.effects.created(made))
    return same_step(m, frame, "SET_FUNCTION_ATTRIBUTE")


@operation("SET_FUNCTION_ATTRIBUTE")
def _set_function_attribute(m: Machine, frame: Frame, op: Op) -> str | None:
    made, value = frame.pop(m), frame.pop(m)
    assert isinstance(made, Function)
    if op.arg == 8:
        made.closure = _cells(m, value)
    elif op.arg == 16:  # from 3.14: what makes the annotations once they are asked for
        made.annotate = value
    elif op.arg == 4:
        made.annotations = _annotations(m, value)
    elif op.arg == 2:
        made.kwdefaults = {m.builder.to_python(k): v for k, v in m.iteration.pairs(value)}
    else:
        made.defaults = m.iteration.elements(value)
    frame.push(made)
    return same_step(m, frame, "SET_FUNCTION_ATTRIBUTE")


@operation("CALL_INTRINSIC_2")
def _call_intrinsic_2(m: Machine, frame: Frame, op: Op) -> None:
    if op.arg != 1:
        raise Unsupported(why_unevaluated(op.name, op.arg))
    prepare_reraise(m, frame, op)


@operation("CALL_INTRINSIC_1")
def _call_intrinsic_1(m: Machine, frame: Frame, op: Op) -> None:
    value = frame.pop(m)
    if op.arg == 3:  # STOPITERATION_ERROR: the wrapper around a generator's body
        frame.push(escaped(m, frame.code, value))
    elif op.arg == 4:  # ASYNC_GEN_WRAP
        frame.push(Given(value))
    elif op.arg == 5:  # UNARY_POSITIVE
        frame.push(m.operators.unary("+", value))
    elif op.arg == 6:  # LIST_TO_TUPLE
        assert isinstance(value, List)
        frame.push(m.builder.new_tuple(list(value.items)))
    else:
        raise Unsupported(why_no_intrinsic(op.arg))
