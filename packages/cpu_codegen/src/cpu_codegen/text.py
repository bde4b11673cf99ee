"""Indented lines of C++; lists of words."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


def words(text: str) -> tuple[str, ...]:
    """The words of a text, for tables of names."""
    return tuple(text.split())


class Lines:
    """Collects lines; `block` opens a brace and closes it, with `}` a block's, with anything more a lambda's."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._depth = 0
        self._lambdas = 0

    @property
    def in_lambda(self) -> bool:
        """Whether a lambda is open: there `return` leaves the lambda only."""
        return self._lambdas > 0

    def __call__(self, line: str = "") -> None:
        self.lines.append("  " * self._depth + line if line else "")

    @contextmanager
    def block(self, opening: str, closing: str = "}") -> Iterator[None]:
        """Lines written inside stand between `opening` and `closing`, indented; another `closing` than a brace ends a lambda."""
        self(opening)
        is_lambda = closing != "}"
        self._depth += 1
        self._lambdas += is_lambda
        yield
        self._lambdas -= is_lambda
        self._depth -= 1
        self(closing)

    def __str__(self) -> str:
        return "\n".join(self.lines) + "\n"
