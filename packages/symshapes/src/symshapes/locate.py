"""Where in the user's program we are. Flows in: the Python stack. Flows out: text like `model.py:12 in forward`."""

from __future__ import annotations

import sys
from os.path import basename

_NOT_THE_USERS = frozenset(
    {"torch", "symshapes", "capture", "aotgrad", "inductor", "cpu_codegen", "meta", "importlib", "contextlib"}
)
UNKNOWN_LINE = "unknown line"


def user_line() -> str:
    """The innermost line of the stack that is neither torch's nor this project's."""
    frame = sys._getframe(1)
    while frame is not None:
        module = frame.f_globals.get("__name__", "")
        if module.partition(".")[0] not in _NOT_THE_USERS:
            code = frame.f_code
            return f"{basename(code.co_filename)}:{frame.f_lineno} in {code.co_name}"
        frame = frame.f_back  # type: ignore[assignment]
    return UNKNOWN_LINE
