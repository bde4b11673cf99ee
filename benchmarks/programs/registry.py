"""The registry of programs: a function by name, what it needs installed, and what it gives to compare.

A program takes `compile`, which is used as `torch.compile` is (a function of a callable or module, or a decorator with
options), and returns tensors and plain values in any nesting. It sets up everything it uses; the seed is set for it.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Compile = Callable[..., Any]


@dataclass(frozen=True)
class Program:
    """`needs` are names of modules to import besides torch's; `tolerance` is relative, and absolute at magnitude 1."""

    name: str
    family: str
    run: Callable[[Compile], Any]
    needs: tuple[str, ...]
    tolerance: float

    @property
    def missing(self) -> list[str]:
        """Which of the modules that it needs are not installed."""
        return [name for name in self.needs if importlib.util.find_spec(name) is None]


PROGRAMS: dict[str, Program] = {}
"""All programs by name, in the order of their files."""


def program(*needs: str, tolerance: float = 1e-3) -> Callable[[Callable[[Compile], Any]], Callable[[Compile], Any]]:
    """Register a program that needs these modules."""

    def register(run: Callable[[Compile], Any]) -> Callable[[Compile], Any]:
        name, family = run.__name__, run.__module__.rpartition(".")[2]
        if name in PROGRAMS:
            raise ValueError(f"two programs are called {name}")
        PROGRAMS[name] = Program(name, family, run, needs, tolerance)
        return run

    return register
