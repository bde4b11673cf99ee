"""The refusal of a question that only the run can answer. In: what was asked. Out: an exception that says it."""

from __future__ import annotations

from typing import Any


class UnbackedError(RuntimeError):
    """The program decides by a value that is known only when it runs; `.expr` is the condition or the value.

    `.lengths` are the two that broadcasting asked whether they are equal, if that was it: else one is 1, or the call raises.
    """

    lengths: tuple[Any, Any] | None = None

    def __init__(self, expr: Any) -> None:
        super().__init__(f"the value of {expr} is known only when the program runs")
        self.expr = expr
