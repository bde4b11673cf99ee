"""``super()`` after a break finds the function's first argument as it is by then: unbound, or another one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

import capture


@capture.disable
def pause() -> None:
    """A graph break."""


class Base:
    def told(self) -> str:
        return type(self).__name__


class Method(Base):
    def dropped(self, x: torch.Tensor) -> Any:
        del self
        pause()
        y = x + 1
        return y, super()

    def dropped_before_two_breaks(self, x: torch.Tensor) -> Any:
        del self
        pause()
        y = x + 1
        pause()
        return y, super()

    def dropped_for_a_while(self, x: torch.Tensor) -> Any:
        kept = self
        del self
        pause()
        y = x + 1
        self = kept  # noqa: F841  (super() looks at it)
        pause()
        return y, super().told()

    def replaced(self, x: torch.Tensor) -> Any:
        self = Other()  # noqa: F841
        pause()
        return x + 1, super().told()

    def replaced_for_what_asks_by_hand(self, x: torch.Tensor) -> Any:
        self = Other()  # noqa: F841
        pause()
        y = x + 1
        found = super()
        return y, found.told()

    def dropped_within(self, x: torch.Tensor) -> Any:
        return self.dropped(x)

    def caught_within(self, x: torch.Tensor) -> Any:
        try:
            self.dropped(x)
        except RuntimeError as error:
            pause()
            return x + 1, str(error), super().told()
        return x

    def in_a_cell(self, x: torch.Tensor) -> Any:
        get = lambda: self  # noqa: E731
        kept = self
        self = Other()
        pause()
        y = x + 1, super().told(), get().told()
        self = kept
        return y, super().told(), get().told()

    def dropped_from_a_cell(self, x: torch.Tensor) -> Any:
        get = lambda: self  # noqa: E731, F821
        del self
        pause()
        return x + 1, get is None, super()

    def replaced_by_a_function(self, x: torch.Tensor) -> Any:
        def replace() -> None:
            nonlocal self
            self = Other()

        pause()
        replace()
        y = x + 1
        return y, super().told()

    def a_variable_of_a_comprehension(self, x: torch.Tensor) -> Any:
        found = [pause() for self in range(2)]
        return x + 1, found, super().told()

    def in_a_generator(self, x: torch.Tensor) -> Any:
        kept = self

        def parts(self: Any) -> Iterator[Any]:
            del self
            yield x + 1
            yield super(Method, kept).told()

        made = parts(self)
        first = next(made)
        pause()
        return first, list(made)


class Other(Method):
    pass


PROGRAMS = [name for name in vars(Method) if not name.startswith("_")]


def outcome(call: Callable[[torch.Tensor], Any]) -> str:
    try:
        return str(call(torch.ones(2)))
    except (RuntimeError, UnboundLocalError, NameError) as error:
        return repr(error)


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_first_argument_is_what_it_is_by_then(name: str) -> None:
    plain = getattr(Method(), name)
    compiled = capture.compile(plain)
    expected = outcome(plain)
    assert [outcome(compiled) for _ in range(2)] == [expected, expected]
