"""How an operation's handler is registered.

A handler gets (machine, frame, operation), changes the frame, and returns None, or RETURN or YIELD to leave the loop.
Names that differ between versions simply have an entry each.
"""

from __future__ import annotations

from collections.abc import Callable

from capture.evaluator.frame import Frame
from capture.evaluator.machine import Machine
from capture.evaluator.program import HANDLERS, Op

Handler = Callable[[Machine, Frame, Op], str | None]


def operation(*names: str) -> Callable[[Handler], Handler]:
    """Register the handler of these operations."""

    def register(handler: Handler) -> Handler:
        for name in names:
            HANDLERS[name] = handler
        return handler

    return register
