"""Where programs are registered, and what they tell of calls that may raise."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

PROGRAMS: list[Callable[..., Any]] = []


def program(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Register a program: a function of a tensor."""
    PROGRAMS.append(fn)
    return fn


def outcome(function: Callable[[], Any]) -> Any:
    """What a call gives, or the name and text of what it raises."""
    try:
        return function()
    except Exception as error:
        return type(error).__name__, str(error)
