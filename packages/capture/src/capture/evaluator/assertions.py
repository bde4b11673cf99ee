"""A branch by what only the run can tell, of which one way raises: a check in the graph, in place of a break.

In: a jump, and the condition. Out: the condition's truth where the program goes on. Where the check fails the frame starts again, in the
interpreter (`starting_again`), which takes the other way for real; an `assert` with a known text raises the same in the graph already.
"""

from __future__ import annotations

import torch

from capture.variables.base import Variable
from capture.variables.constants import Constant
from capture.variables.data_checks import record_check
from capture.variables.numbers import Symbolic
from capture.variables.tensors import Tensor
from symshapes import OtherWay, is_unbacked

from .alike_lengths import starts_again
from .frame import Frame
from .machine import Machine
from .program import Op
from .ways import raises

_RAISES = "LOAD_ASSERTION_ERROR"


def promised(m: Machine, frame: Frame, op: Op, condition: Variable, *, jumps_if: bool) -> bool | None:
    """The condition's truth on the one way of a jump that does not raise, where only the run can tell it, and the graph checks it.

    None for any other branch, and where the program may handle what is raised and go on. Where something was changed before, an assertion's error is
    that of the interpreter, too: a graph that raises leaves no changes.
    """
    if not isinstance(condition, (Symbolic, Tensor)):
        return None
    start = _raising_way(frame, op)
    if start is None:
        return None
    message = _message(frame, start)
    in_place = message is not None and not (m.effects.changed or m.globals.written or m.recorder.graph.changes_inputs())
    if not in_place and not starts_again(m):
        return None
    number: Variable = condition if isinstance(condition, Symbolic) else condition.as_number(m, bool)
    if isinstance(number, Symbolic) and number.python_type() is not bool and is_unbacked(number.value):
        number = m.operators.compare("!=", number, Constant(0)).realize(m)
    if not isinstance(number, Symbolic) or number.python_type() is not bool or not is_unbacked(number.value):
        return None
    goes_on = jumps_if is (start == frame.ip)
    with m.modes.silent():
        check = number if goes_on else m.recorder.record("call_function", torch.sym_not, [number], {})
    if not isinstance(check, Symbolic):
        return None
    if in_place:
        assert message is not None
        record_check(m, check, message, AssertionError)
    else:
        record_check(m, check, "", OtherWay)
    return goes_on


def _raising_way(frame: Frame, op: Op) -> int | None:
    """Where the way begins that raises, if the other does not for certain."""
    ops = frame.program.ops
    found = [start for start in (frame.ip, op.target) if raises(ops, start)]
    return found[0] if len(found) == 1 else None


def _message(frame: Frame, start: int) -> str | None:
    """The text of an assertion's error, empty for one without; None where it is none, or its text is computed."""
    if frame.program.ops[start].name != _RAISES:
        return None
    ops = frame.program.ops[start : start + 5]
    if ops[1].name == "RAISE_VARARGS":
        return ""
    text = ops[1].value if ops[1].name == "LOAD_CONST" else None
    calls = [op.name for op in ops[2:] if op.name != "PRECALL"]
    return text if isinstance(text, str) and text and calls[:2] == ["CALL", "RAISE_VARARGS"] else None
