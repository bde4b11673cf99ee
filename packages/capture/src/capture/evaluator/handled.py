"""Whether the program may handle what an operation raises by its data, as its frames' code says.

In: the frames that are evaluated. Out: yes or no; where that is not seen, yes.
"""

from __future__ import annotations

import types
from collections.abc import Iterable, Iterator
from typing import Any

import torch

from capture.trace_rules import is_torchs
from capture.variables.base import Variable
from capture.variables.functions import Function, Method
from capture.variables.placeholders import NULL

from .frame import Frame

#: What torch raises by data.
_RAISED = (IndexError, RuntimeError, ValueError, ZeroDivisionError, AssertionError, torch.linalg.LinAlgError)  # type: ignore[attr-defined]
_UNKNOWN = object()


def may_be_handled(frames: Iterable[Frame], *, anything: bool) -> bool:
    """Whether an ``except`` or an ``__exit__`` of the program may end what is raised now; ``anything``: not by torch alone.

    A ``finally`` goes on raising, and so does what leaves a mode of torch's.
    """
    return any(_handles(frame, at, anything) for frame in frames for at in _handlers(frame))


def blocks_that_pass_on(frame: Frame) -> frozenset[int]:
    """Where the handlers begin of the blocks around the current operation whose ``__exit__`` ends no exception."""
    ops = frame.program.ops
    return frozenset(
        at
        for at in _handlers(frame)
        if ops[at + 1].name == "WITH_EXCEPT_START" and not _handles(frame, at, anything=True)
    )


def _handlers(frame: Frame) -> Iterator[int]:
    """The first operations of the handlers around the current one, the innermost first."""
    ops = frame.program.ops
    at = frame.op.catch
    while at >= 0:
        if ops[at].name == "PUSH_EXC_INFO":
            yield at
        at = ops[at].catch


def _handles(frame: Frame, at: int, anything: bool) -> bool:
    ops = frame.program.ops
    if ops[at + 1].name == "WITH_EXCEPT_START":
        # Beneath what the block has on the stack, and what the handler keeps there.
        entered = [op for op in ops if op.catch == at]
        beneath = frame.stack[: entered[0].depth]
        if beneath and beneath[-1] is NULL:  # from 3.14 there is a place for its self
            beneath.pop()
        leave = beneath[-1] if beneath and len(frame.stack) >= entered[0].depth else None
        return leave is None or _is_programs(leave)
    clause = at + 1
    while True:
        test = next((i for i in range(clause, len(ops)) if ops[i].name in _ENDS), len(ops))
        if test == len(ops) or ops[test].name != "CHECK_EXC_MATCH":
            # A clause for all, or none that is left.
            return test < len(ops) and ops[test].name == "POP_EXCEPT"
        wanted = _named(frame, clause, test)
        classes = wanted if isinstance(wanted, tuple) else (wanted,)
        if anything or any(not isinstance(cls, type) or any(issubclass(e, cls) for e in _RAISED) for cls in classes):
            return True
        clause = next(op.target for op in ops[test:] if op.target >= 0)


def _is_programs(leave: Variable) -> bool:
    """Whether an ``__exit__`` may be any function; those of torch's modes end no exception."""
    function = leave.function if isinstance(leave, Method) else leave
    return isinstance(function, Function) and not is_torchs(function.code.co_filename)


_ENDS = frozenset({"CHECK_EXC_MATCH", "CHECK_EG_MATCH", "POP_EXCEPT", "RERAISE"})


def _named(frame: Frame, start: int, end: int) -> Any:
    """The class, or the classes, that operations push."""
    stack: list[Any] = []
    for op in frame.program.ops[start:end]:
        if op.name == "LOAD_GLOBAL":
            stack.append(frame.globals.get(op.value, frame.builtins.get(op.value, _UNKNOWN)))
        elif op.name == "LOAD_ATTR" and stack and isinstance(stack[-1], types.ModuleType):
            stack[-1] = vars(stack[-1]).get(op.value, _UNKNOWN)
        elif op.name == "BUILD_TUPLE":
            stack[-op.arg :] = [tuple(stack[-op.arg :])]
        else:
            return _UNKNOWN
    return stack[-1] if len(stack) == 1 else _UNKNOWN
