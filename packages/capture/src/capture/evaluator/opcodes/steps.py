"""Operations that are one step with the next: a break must not fall between the two. ``resume.goes_with_next`` has the same of code."""

from __future__ import annotations

from capture.evaluator.frame import Frame
from capture.evaluator.machine import Machine


def same_step(m: Machine, frame: Frame, only: str | None = None) -> str | None:
    """Evaluate the next operation in the step of this one; or only one of a name."""
    following = frame.program.ops[frame.ip]
    if only is not None and following.name != only:
        return None
    frame.ip += 1
    return following.handler(m, frame, following)
