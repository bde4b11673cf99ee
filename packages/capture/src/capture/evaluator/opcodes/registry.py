"""The table of operation handlers.

A handler gets (machine, frame, operation), changes the frame, and returns None, or RETURN or YIELD to leave the loop.
Names that differ between versions simply have an entry each.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from capture.errors import Unsupported

if TYPE_CHECKING:
    from capture.evaluator.frame import Frame
    from capture.evaluator.machine import Machine
    from capture.evaluator.program import Op

Handler = Callable[["Machine", "Frame", "Op"], str | None]
_HANDLERS: dict[str, Handler] = {}


def operation(*names: str) -> Callable[[Handler], Handler]:
    """Register the handler of these operations."""

    def register(handler: Handler) -> Handler:
        for name in names:
            _HANDLERS[name] = handler
        return handler

    return register


def _unknown(m: Machine, frame: Frame, op: Op) -> str | None:
    raise Unsupported(f"operation {op.name}")


def handler_of(name: str) -> Handler:
    """The handler, or one that breaks the graph."""
    return _HANDLERS.get(name, _unknown)
