"""How an operation's handler is registered.

A handler gets (machine, frame, operation), changes the frame, and returns None, or RETURN or YIELD to leave the loop.
Names that differ between versions simply have an entry each.
"""

from __future__ import annotations

from collections.abc import Callable

from capture.evaluator.frame import Frame
from capture.evaluator.machine import Machine
from capture.evaluator.program import ASKS_HANDLER, HANDLERS, MOVES, Op, reset_programs

Handler = Callable[[Machine, Frame, Op], str | None]


def operation(*names: str, moves: int = ASKS_HANDLER) -> Callable[[Handler], Handler]:
    """Register the handler of these operations, from the next evaluation on; ``moves``: what stands for it in the loop of a frame.

    Raises ``ValueError`` if one has a handler already.
    """

    def register(handler: Handler) -> Handler:
        for name in names:
            if name in HANDLERS:
                raise ValueError(f"{name} has a handler already")
        HANDLERS.update(dict.fromkeys(names, handler))
        if moves != ASKS_HANDLER:
            MOVES[handler] = moves
        reset_programs()
        return handler

    return register


def unregister(*names: str) -> None:
    """Take the handlers of these operations away again. Raises ``KeyError`` if one has none."""
    for name in names:
        del HANDLERS[name]
    reset_programs()
