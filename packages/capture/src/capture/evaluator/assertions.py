"""A branch by what only the run can tell, of which one way raises: a check in the graph, in place of a break.

In: a jump, and the condition. Out: the condition's truth where the program goes on. Where the check fails the frame starts again, in the
interpreter (`starting_again`), which takes the other way for real; an `assert` with a known text raises the same in the graph already.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from capture.variables.base import Variable
from capture.variables.constants import Constant
from capture.variables.data_checks import record_check
from capture.variables.numbers import Symbolic
from capture.variables.tensors import Tensor
from symshapes import OtherWay, is_unbacked

from .frame import Frame
from .machine import Machine
from .program import Op

_RAISES = "LOAD_ASSERTION_ERROR"
_LEAVES = frozenset({"RETURN_VALUE", "RETURN_CONST", "RETURN_GENERATOR", "YIELD_VALUE", "SEND"})
_RAISING = frozenset({"RAISE_VARARGS", "RERAISE"})
#: By these names operations go to their target and nowhere else.
_ONWARD = frozenset({"JUMP_FORWARD", "JUMP_BACKWARD", "JUMP_BACKWARD_NO_INTERRUPT"})
#: Operations of a way that are looked at.
_MOST = 200
#: Among what an evaluation has found out: that its graph leaves behind what cannot be taken back, so that nothing can start again.
STAYS = "a graph that cannot start again"


def promised(m: Machine, frame: Frame, op: Op, condition: Variable, *, jumps_if: bool) -> bool | None:
    """The condition's truth on the one way of a jump that does not raise, where only the run can tell it, and the graph checks it.

    None for any other branch, and where the program may handle what is raised. Where something was changed before, an assertion's error is
    that of the interpreter, too: a graph that raises leaves no changes.
    """
    if not isinstance(condition, Symbolic | Tensor):
        return None
    start = _raising_way(frame, op)
    if start is None:
        return None
    message = _message(frame, start)
    in_place = message is not None and not (m.effects.changed or m.globals.written or m.recorder.graph.changes_inputs())
    if not in_place and (STAYS in m.effects.ran_ahead or m.state.may_catch()):
        return None
    number: Variable = condition if isinstance(condition, Symbolic) else condition.as_number(m, bool)
    if isinstance(number, Symbolic) and number.python_type() is not bool and is_unbacked(number.value):
        number = m.operators.compare("!=", number, Constant(0)).realize(m)
    if not isinstance(number, Symbolic) or number.python_type() is not bool or not is_unbacked(number.value):
        return None
    goes_on = jumps_if is (start == frame.ip)
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
    found = [start for start in (frame.ip, op.target) if _raises(ops, start)]
    return found[0] if len(found) == 1 else None


def _raises(ops: Sequence[Op], start: int) -> bool:
    """Whether all ways from an operation on end in an exception that leaves the frame."""
    waiting, seen = [start], {start}
    while waiting:
        op = ops[waiting.pop()]
        if op.name in _LEAVES or len(seen) > _MOST:
            return False
        following: list[int] = []
        if op.name in _RAISING:
            following += [op.catch] if op.catch >= 0 else []
        elif op.name not in _ONWARD:
            following.append(op.index + 1)
        if op.target >= 0:
            following.append(op.target)
        waiting += [each for each in following if each not in seen]
        seen.update(following)
    return True


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
