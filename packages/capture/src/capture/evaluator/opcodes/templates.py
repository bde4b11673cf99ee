"""What ``t"..."`` compiles to."""

from __future__ import annotations

from capture.evaluator.frame import Frame
from capture.evaluator.machine import Machine
from capture.evaluator.program import Op
from capture.variables.constants import Constant
from capture.variables.sequences import Tuple
from capture.variables.templates import Interpolation, Template

from .registry import operation

#: What is written after the ``!`` of a replacement field, by number.
_CONVERSIONS = (None, "s", "r", "a")


@operation("BUILD_INTERPOLATION")
def _build_interpolation(m: Machine, frame: Frame, op: Op) -> None:
    spec = frame.pop_raw() if op.arg & 1 else Constant("")
    expression, value = frame.pop_raw(), frame.pop_raw()
    made = Interpolation(value, expression, Constant(_CONVERSIONS[op.arg >> 2]), spec)
    frame.push(m.effects.created(made))


@operation("BUILD_TEMPLATE")
def _build_template(m: Machine, frame: Frame, op: Op) -> None:
    between, texts = frame.pop(m), frame.pop(m)
    assert isinstance(texts, Tuple)
    assert isinstance(between, Tuple)
    frame.push(m.effects.created(Template(texts, between)))
