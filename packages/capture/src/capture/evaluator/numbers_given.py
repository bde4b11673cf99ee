"""Tensors that torch itself makes of the numbers in a call's arguments, as in ``x[0] = 1.0`` and ``x[[0, 2]]``, before it asks about operators.

In: the arguments of a call, and such a tensor. Out: the variable of one that the graph makes of the same number, or sequence of them.
"""

from __future__ import annotations

from typing import Any

import torch

from capture.errors import Unsupported
from capture.variables.base import Interpreter, Variable
from capture.variables.constants import Constant
from capture.variables.numbers import Symbolic
from capture.variables.sequences import List, Tuple
from symshapes import facts_of

_NUMBERS = (bool, int, float)


class NumbersGiven:
    """The numbers, and sequences of numbers, in the arguments of one call."""

    def __init__(self) -> None:
        self._given: list[Any] = []
        self._symbols = False

    def note(self, m: Interpreter, argument: Variable) -> Any:
        """Note those in an argument. Gives it as plain values; None where it is not of numbers alone."""
        value = argument.realize(m)
        found: Any = None
        if isinstance(value, Constant) and type(value.value) in _NUMBERS:
            found = value.value
        elif isinstance(value, (Tuple, List)):
            parts = [self.note(m, item) for item in value.items]
            found = None if any(part is None for part in parts) else parts
        self._symbols |= isinstance(value, Symbolic)
        if found is not None:
            self._given.append(found)
        return found

    def variable(self, m: Interpreter, tensor: torch.Tensor) -> Variable:
        """One made of the same; raises ``Unsupported`` where the tensor is of none of the numbers."""
        if not self._is_known(tensor):
            if self._symbols:  # the number varied
                m.recorder.takes_no_symbols()
            raise Unsupported("a tensor subclass beside a tensor that torch makes itself")
        options: dict[str, Variable] = {"dtype": Constant(tensor.dtype), "device": Constant(tensor.device)}
        with m.modes.silent():
            data = m.builder.from_python(tensor.tolist())
            made: Variable = m.calls.call(m.builder.known(torch.tensor), [data], options).realize(m)
        return made

    def _is_known(self, tensor: torch.Tensor) -> bool:
        if tensor.device.type != "cpu" or tensor.is_complex() or tensor.requires_grad or _is_wrapped_number(tensor):
            return False
        return any(_makes(given, tensor) for given in self._given)


def _makes(given: Any, tensor: torch.Tensor) -> bool:
    try:
        made = torch.tensor(given, dtype=tensor.dtype)
    except (RuntimeError, TypeError, ValueError):  # too large, or of another kind
        return False
    return made.shape == tensor.shape and bool(((made == tensor) | (made.isnan() & tensor.isnan())).all())


def _is_wrapped_number(tensor: torch.Tensor) -> bool:
    """Whether types are promoted with it as with the number that it holds, and not as with a tensor of no dimensions: that of the graph is one."""
    if tensor.dim() or tensor.dtype is torch.bool:
        return False
    narrow = torch.float16 if tensor.is_floating_point() else torch.int8
    return tensor.dtype is not narrow and torch.result_type(tensor, torch.empty((), dtype=narrow)) is narrow


def require_unwritten(function: Any, args: Any, known: type) -> None:
    """Raise ``Unsupported`` where an operator writes to a tensor that torch made itself: it would be made anew each time."""
    made = {place for place, arg in enumerate(args) if isinstance(arg, torch.Tensor) and not isinstance(arg, known)}
    if made and any(written.position in made for written in facts_of(function).written):
        raise Unsupported("a write to a tensor that torch makes itself, beside a tensor subclass")
