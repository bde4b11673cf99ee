"""`assert` of what only the run can tell: a check in the graph, where eager raises the same, in place of a break.

In: a jump past the raising of an `AssertionError`, and the condition. Out: whether the graph checks it, so that the program goes on.
"""

from __future__ import annotations

from capture.variables.base import Variable
from capture.variables.data_checks import record_check
from capture.variables.numbers import Symbolic
from symshapes import is_unbacked

from .frame import Frame
from .machine import Machine

_RAISES = "LOAD_ASSERTION_ERROR"


def promised(m: Machine, frame: Frame, start: int, condition: Variable) -> bool:
    """Whether the operations from `start` on raise for a false condition, and the graph does so in their place.

    Not where something was changed before: a graph that raises leaves no changes.
    """
    message = _message(frame, start)
    if message is None or m.effects.changed or m.globals.written or m.recorder.graph.changes_inputs():
        return False
    number = condition if isinstance(condition, Symbolic) else condition.as_number(m, bool)
    if not isinstance(number, Symbolic) or number.python_type() is not bool or not is_unbacked(number.value):
        return False
    record_check(m, number, message, AssertionError)
    return True


def _message(frame: Frame, start: int) -> str | None:
    """The text of the error, empty for one without; None where no error is raised there, or its text is computed."""
    if frame.program.ops[start].name != _RAISES:
        return None
    ops = frame.program.ops[start : start + 5]
    if ops[1].name == "RAISE_VARARGS":
        return ""
    text = ops[1].value if ops[1].name == "LOAD_CONST" else None
    calls = [op.name for op in ops[2:] if op.name != "PRECALL"]
    return text if isinstance(text, str) and text and calls[:2] == ["CALL", "RAISE_VARARGS"] else None
