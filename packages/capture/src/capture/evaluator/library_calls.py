"""A graph break within code of torch's or of the standard library that has nothing to do with tensors: the whole call is made for real.

So is a profiler's own code, or that of a lock, a path or a clock: its pieces between breaks would be captured one by one, with nothing in
them to compile. In: the frames where evaluation stopped. Out: the step of the program's frame that made the call.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

import torch

from capture.errors import Unsupported
from capture.variables.base import Variable
from capture.variables.modules import Module
from capture.variables.placeholders import real_of, resolved
from capture.variables.reachable import may_reach
from capture.variables.reconstruction import CannotReconstruct
from capture.variables.tensors import Tensor

from .frame import Frame

#: Values of the call's arguments that are looked at.
_MOST = 1_000


def whole_call(frames: Sequence[Frame], extent: tuple[int, int]) -> int:
    """The step of the innermost of the program's frames, if the graph has the same ``extent`` as when that called a library, and the call is
    given no tensors; 0 if not so."""
    inner = next((at for at in range(len(frames) - 1, -1, -1) if not frames[at].program.is_library), -1)
    if inner < 0 or inner + 1 == len(frames):
        return 0
    caller, called = frames[inner], frames[inner + 1]
    if called.extent != extent or _have_tensors(list(called.local.values())):
        return 0
    return caller.step


def _have_tensors(waiting: list[Variable]) -> bool:
    """Whether there may be tensors among some values, or in what they are made of."""
    seen: set[int] = set()
    real: list[Any] = []
    while waiting:
        value = resolved(waiting.pop())
        if id(value) in seen:
            continue
        seen.add(id(value))
        if isinstance(value, (Tensor, Module)) or len(seen) > _MOST:
            return True
        real.append(real_of(value))
        with contextlib.suppress(CannotReconstruct, Unsupported):
            waiting += [part for part in value.made_of() if part is not None]
    return may_reach(real, _has_tensors, _MOST)


def _has_tensors(value: Any) -> bool:
    return issubclass(type(value), (torch.Tensor, torch.nn.Module, torch.optim.Optimizer))
