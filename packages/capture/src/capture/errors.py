"""Exceptions of the package: what users may see, and the signals the evaluator uses inside."""

from __future__ import annotations

from typing import Any

from torch import fx


class CaptureError(Exception):
    """Base of every error that this package raises on its own account."""


class GraphBreakError(CaptureError):
    """With ``fullgraph=True``: the frame cannot be captured whole.

    ``reason`` says why in words, ``user_line`` is ``"file.py:12 in forward"``.
    """

    def __init__(self, reason: str, user_line: str) -> None:
        super().__init__(f"graph break with fullgraph=True: {reason}\n  at {user_line}")
        self.reason = reason
        self.user_line = user_line


class GraphRefused(CaptureError):
    """Raised by a backend that has no compiled form of a graph: the call to blame runs eagerly, between two graphs.

    ``reason`` says why in words; ``call`` is the graph's node, None where the whole frame is to run eagerly.
    """

    def __init__(self, reason: str, call: fx.Node | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.call = call


class RecompileError(CaptureError):
    """Under the stance ``"fail_on_recompile"``: nothing captured fits a call."""


class InternalError(CaptureError):
    """A failure inside the evaluator; carries the cause and the user's line."""


class Unsupported(CaptureError):
    """Signal: the current root instruction cannot be evaluated symbolically, so it becomes a graph break.

    Or the one at the root step `step`, which came before it, if that is not 0. `while_so` are guards that say how long this is so.
    """

    def __init__(self, reason: str, step: int = 0, while_so: tuple[Any, ...] = ()) -> None:
        super().__init__(reason)
        self.reason = reason
        self.step = step
        self.while_so = while_so


class SkipFrame(CaptureError):
    """Signal: leave this frame to the interpreter."""


class SkipCall(SkipFrame):
    """Signal: leave this call's frame to the interpreter; another call may be captured."""


class NotConstant(Exception):
    """A value was asked for as a plain Python object and is not one."""


def undecided(expr: Any) -> str:
    """Why evaluation cannot go on where the program decides by a number that is in data."""
    return f"a decision by {expr}, which only the run can tell"
