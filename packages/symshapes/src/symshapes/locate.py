"""Where in the user's program we are. Flows in: the Python stack. Flows out: text like `model.py:12 in forward`."""

from __future__ import annotations

import contextlib
import functools
import importlib
import os
import sys
from os.path import basename

import torch

from symshapes.generated import is_generated, is_own_file

UNKNOWN_LINE = "unknown line"

# What stands between a user's line and ours: torch, and what runs context managers and imports. By place: a user's own
# package may be called as one of them.
_BETWEEN = tuple(os.path.realpath(part.__path__[0]) + os.sep for part in (torch, importlib))
_BETWEEN_FILES = frozenset([os.path.realpath(contextlib.__file__)])


def user_line() -> str:
    """The innermost line of the stack that is neither torch's nor this project's, generated or not."""
    frame = sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        if not is_generated(code) and _is_users(code.co_filename):
            return f"{basename(code.co_filename)}:{frame.f_lineno} in {code.co_name}"
        frame = frame.f_back  # type: ignore[assignment]
    return UNKNOWN_LINE


@functools.lru_cache(maxsize=1 << 12)
def _is_users(file: str) -> bool:
    if file.startswith("<frozen "):
        return False
    real = os.path.realpath(file)
    return not (real.startswith(_BETWEEN) or real in _BETWEEN_FILES or is_own_file(real))
