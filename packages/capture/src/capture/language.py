"""The built-ins of the language: evaluation computes with them as they were when this was imported."""

from __future__ import annotations

import builtins

#: What reaches out of the program, or into it, which libraries put their own in the place of: no evaluation calls these.
_REACHING_OUT = frozenset(
    {"__import__", "breakpoint", "compile", "copyright", "credits", "eval", "exec", "exit", "help", "input", "license", "open",
     "print", "quit"}
)  # fmt: skip
_NAMESPACE = vars(builtins)
_OURS = tuple(
    (name, value) for name, value in _NAMESPACE.items() if callable(value) and name not in _REACHING_OUT and name != "_"
)
_MISSING = object()


def replaced_builtin() -> str | None:
    """The name of a class or function of the language that the program has put something else in the place of, or taken away."""
    for name, value in _OURS:
        if _NAMESPACE.get(name, _MISSING) is not value:
            return name
    return None
