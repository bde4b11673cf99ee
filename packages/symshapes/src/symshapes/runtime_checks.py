"""The check at run time of what a capture relies on: one operator, which raises where a condition does not hold.

In: a condition, and what to raise. Out: nothing, or the exception. On fakes the condition is taken as promised, so that
whoever traces a graph with such a check in it learns what the check says.
"""

import importlib
from typing import Any

import torch

from symshapes.rules.registry import register_rule


class OtherWay(RuntimeError):
    """What is in the data sends a program another way than the one that was compiled: whoever runs the graph starts it again without."""


_ERRORS: dict[str, type[Exception]] = {
    kind.__name__: kind
    for kind in (
        OtherWay,
        RuntimeError,
        ValueError,
        IndexError,
        TypeError,
        NotImplementedError,
        ZeroDivisionError,
        AssertionError,
    )
}

#: Exceptions of packages that need not be installed, by name: where they are.
_ELSEWHERE = {"LinAlgError": "numpy.linalg"}


def _kind(error: str) -> type[Exception]:
    found = _ERRORS.get(error)
    if found is None:
        found = _ERRORS[error] = getattr(importlib.import_module(_ELSEWHERE[error]), error)
    return found


_library = torch.library.Library("symshapes", "DEF")
_library.define("require(Scalar condition, str message, str error, str line) -> ()")


def refused(message: str, error: str, line: str) -> Exception:
    """The exception of a condition that does not hold: a name of `require`'s errors, and the user's line for a note."""
    kind = _kind(error)
    found = kind(message) if message or kind is not AssertionError else kind()
    if line:
        found.add_note(f"checked for {line}")
    return found


def is_checked(error: Exception) -> bool:
    """Whether `require` can raise such an exception."""
    return _ERRORS.get(type(error).__name__) is type(error)


def _check(condition: Any, message: str, error: str, line: str) -> None:
    if not condition:
        raise refused(message, error, line)


_library.impl("require", _check, "CompositeExplicitAutograd")

require = torch.ops.symshapes.require.default
"""Raise the exception called `error` with `message` unless `condition` holds: `require(condition, message, error, line)`."""


@register_rule(require)
def _promise(condition: Any, message: str, error: str, line: str) -> None:
    """What it says is learnt; false for certain it raises at once."""
    if not isinstance(condition, torch.SymBool):
        _check(condition, message, error, line)
    elif not condition.node.env.expect_true(condition.node.expr, condition.node.hint, _kind(error), message, line):
        raise refused(message, error, line)
