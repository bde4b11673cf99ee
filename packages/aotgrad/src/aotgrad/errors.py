"""What tracing refuses: one exception, so that whoever calls can run the program eagerly instead."""

from __future__ import annotations

from torch import fx


class Unsupported(RuntimeError):
    """The program does something that has no functional form here. Eager execution of it is still right.

    `call` is the call of the given graph that it is about, None if there is none or it is not known.
    """

    def __init__(self, message: str, call: fx.Node | None = None) -> None:
        super().__init__(message)
        self.call = call
