"""Code whose calls are remembered (``functools.lru_cache``): it runs once for each key, and nothing is gained by capturing it.

In: functions whose first call a capture met, and left to the program. Out: whether a frame's code is that of one.
"""

from __future__ import annotations

import functools
from types import CodeType, FunctionType

from . import _native
from .identity_map import IdentityMap

WHY = "it is what a function that remembers does once, which runs in the interpreter with all that it calls"

_CODES: IdentityMap[CodeType, bool] = IdentityMap()


def note_once(function: object) -> None:
    """Leave frames of a function, or of that around which a partial is, to the interpreter from now on."""
    while isinstance(function, functools.partial):
        function = function.func
    if isinstance(function, FunctionType):
        _CODES[_native.function_code(function)] = True


def runs_once(code: CodeType) -> bool:
    """Whether it was noted."""
    return _CODES.get(code) is True


def reset_once() -> None:
    """Forget what was noted."""
    _CODES.clear()
