"""Tensors that are combined element by element, of which only the run can tell how long one is: it is held to be as long as the other.

In: what an operation asked, and its arguments. Out: a check in the graph. Where it fails, since the one has a single element or the
operation raises, the frame starts again, in the interpreter.
"""

from __future__ import annotations

from typing import Any

import torch

from capture.variables.base import Args, Variable
from capture.variables.constants import Constant
from capture.variables.data_checks import record_check
from capture.variables.numbers import Symbolic
from capture.variables.tensors import Tensor
from symshapes import OtherWay, UnbackedError, expr_of

from .ways import STAYS, may_go_on


def starts_again(m: Any) -> bool:
    """Whether a check may stand here that has the frame start again: nothing was found that forbids it, and no handler goes on."""
    return STAYS not in m.effects.ran_ahead and not may_go_on(m.state.frames)


def held_alike(m: Any, problem: BaseException | None, args: Args) -> bool:
    """Whether the graph checks now that the two lengths are equal that an operation asked about."""
    if not isinstance(problem, UnbackedError) or problem.lengths is None or m.levels.inside:
        return False
    if m.errors.handled is not None or not starts_again(m):
        return False
    found = [_length(m, each, args) for each in problem.lengths]
    if None in found:
        return False
    check = m.operators.compare("==", *found).realize(m)
    if not isinstance(check, Symbolic):
        return False
    record_check(m, check, "", OtherWay)
    return True


def _length(m: Any, length: Any, args: Args) -> Variable | None:
    """A variable for a size of one of the arguments."""
    if isinstance(length, int):
        return Constant(length)
    wanted = expr_of(length)
    for arg in args:
        value = arg.realize(m)
        if not isinstance(value, Tensor):
            continue
        for dim, size in enumerate(value.fake.shape):
            if isinstance(size, torch.SymInt) and expr_of(size) == wanted:
                made: Variable = m.recorder.record("call_method", "size", [value, Constant(dim)], {})
                return made
    return None
