"""Where programs are registered."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

PROGRAMS: list[Callable[..., Any]] = []


def program(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Register a program: a function of a tensor."""
    PROGRAMS.append(fn)
    return fn
