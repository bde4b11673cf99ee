"""Between which numbers a scalar tensor lies that a generator drew, and what a comparison comes to that is the same for all of these.

In: calls as they are recorded. Out: the answer to a comparison with a known number (a layer that is dropped with a probability of 0); none where
it is drawn. ``variables.drawn_numbers`` has the same of Python's own generators.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import torch

from capture._native import address
from symshapes import FakeTensor, ValueRange

#: What a call draws lies within these, both included.
_DRAWS: dict[Any, ValueRange] = dict.fromkeys((torch.rand, torch.rand_like), ValueRange(0.0, 1.0))

#: Of larger numbers, and of what is none, nothing is told.
_LARGEST = 2**53

#: Calls that compare, and what tells from a bound of each side that it holds; turned: the sides are the other way round.
_ORDERS: dict[Any, tuple[Any, bool]] = {
    call: (below, turned)
    for below, turned, names in (
        (operator.lt, False, ("lt", "less")),
        (operator.le, False, ("le", "less_equal")),
        (operator.lt, True, ("gt", "greater")),
        (operator.le, True, ("ge", "greater_equal")),
    )
    for name in names
    for call in (name, getattr(torch, name), getattr(operator, name, name))
}


class DrawnScalars:
    """The scalars that one attempt drew."""

    def __init__(self) -> None:
        #: By identity, which each keeps: its bounds, and how often it was written to.
        self._spans: dict[int, tuple[FakeTensor, ValueRange, int]] = {}

    def note(self, target: Any, result: FakeTensor) -> None:
        """A call drew a scalar."""
        span = _DRAWS.get(target)
        if span is not None:
            self._spans[address(result)] = result, span, _writes(result)

    def comparison(self, target: Any, args: Sequence[Any]) -> bool | None:
        """The truth of a comparison whatever was drawn; None of what is none, or depends on it."""
        if not self._spans or target not in _ORDERS or len(args) != 2:
            return None
        below, turned = _ORDERS[target]
        drawn = next((arg for arg in args if isinstance(arg, FakeTensor)), None)
        if drawn is None:
            return None
        # A number is rounded to the tensor's before it is compared, or is not.
        answers = {_told(below, *self._sides(args, turned, rounds_to=dtype)) for dtype in (drawn.dtype, None)}
        return answers.pop() if len(answers) == 1 else None

    def _sides(
        self, args: Sequence[Any], turned: bool, rounds_to: torch.dtype | None
    ) -> tuple[ValueRange | None, ValueRange | None]:
        left, right = [self._span(arg, rounds_to) for arg in args]
        return (right, left) if turned else (left, right)

    def _span(self, value: Any, rounds_to: torch.dtype | None) -> ValueRange | None:
        if isinstance(value, FakeTensor):
            found = self._spans.get(address(value))
            return found[1] if found is not None and found[2] == _writes(value) else None
        if type(value) not in (int, float) or not abs(value) <= _LARGEST:
            return None
        if rounds_to is not None:
            value = torch.tensor(float(value), dtype=torch.float64, device="cpu").to(rounds_to).item()
        return ValueRange(value, value)


def _told(below: Any, left: ValueRange | None, right: ValueRange | None) -> bool | None:
    if left is None or right is None:
        return None
    if below(left.upper, right.lower):
        return True
    return None if below(left.lower, right.upper) else False


def _writes(fake: FakeTensor) -> int:
    return fake.fake_mode.written.get(fake.storage_key, 0)
