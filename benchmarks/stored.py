"""A backend that computes once: what is left of a call is its look-up."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def stored_output(module: Any, _: Any) -> Callable[..., Any]:
    """A backend for either compiler: computes once, and then returns that."""
    stored: list[Any] = []

    def run(*inputs: Any) -> Any:
        if not stored:
            stored.append(module.forward(*inputs))
        return stored[0]

    return run
