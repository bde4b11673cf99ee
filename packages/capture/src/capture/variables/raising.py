"""Exceptions that were raised and caught while evaluating, made again with the traceback that they have by then.

In: the operations that such an exception passed. Out: functions at their places, for generated code to raise it in.
"""

from __future__ import annotations

import builtins
import inspect
from collections.abc import Callable
from types import CodeType, FunctionType

from capture import _native
from capture.bytecode import Instruction, assemble, build, decode
from capture.names import Names
from capture.tracebacks import note_raiser

#: Whatever kind of function the operation is in.
_PLAIN = inspect.CO_OPTIMIZED | inspect.CO_NEWLOCALS

Passed = tuple[tuple[CodeType, int], ...]


def raiser(passed: Passed) -> FunctionType:
    """A function of an exception that raises it at the first of these operations, called at the next one, and so on."""
    inner: FunctionType | None = None
    for code, index in passed:
        argument = Names.beside(code).own("exception")
        taken = [*build.load_fast(argument), *build.delete_fast(argument)]
        if inner is None:
            body = [*taken, Instruction("RAISE_VARARGS", 1)]
        else:
            body = [*build.push_callable(build.load_const(inner)), *taken, *build.call(1), *build.return_value()]
        body = [*build.prologue((), ()), *body]
        positions = decode(code)[index].positions
        for each in body:
            each.positions = positions
        names = (argument,)
        made = assemble(body, like=code, argnames=names, varnames=names, cellvars=(), freevars=(), flags=_PLAIN)
        _native.mark_skip(made)
        note_raiser(made, code)
        inner = FunctionType(made, {"__builtins__": builtins}, code.co_name)
    assert inner is not None
    return inner


def raised(
    exception: BaseException, at: Callable[[BaseException], None], *context: BaseException | None
) -> BaseException:
    """The exception, raised and caught; called from generated code. ``context``, if given, is what was being handled then."""
    try:
        at(exception)
    except BaseException as caught:
        assert caught.__traceback__ is not None
        exception.__traceback__ = caught.__traceback__.tb_next  # without this function
    if context:
        exception.__context__ = context[0]
    try:
        return exception
    finally:  # the frames in the traceback know this one for the one before them: what it holds lives as long as they do
        del exception, context
