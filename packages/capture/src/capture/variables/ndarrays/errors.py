"""NumPy's floating point errors: graphs give no warnings of them, and none is captured where they raise, are printed or call."""

from __future__ import annotations

from typing import Any

import numpy as np

from capture.errors import NotConstant, Unsupported
from capture.guards import GuardKind
from capture.variables.base import Args, Interpreter, Kwargs, Variable
from capture.variables.constants import BoundBuiltin, Constant
from capture.variables.handlers import handles

_QUIET = ("ignore", "warn")


def errors_are_quiet() -> bool:
    """Whether nothing but a warning comes of a division by zero and its kin."""
    return all(how in _QUIET for how in np.geterr().values())


def check_errors(m: Interpreter) -> None:
    """Raise ``Unsupported`` where errors count; guard that they do not."""
    if not errors_are_quiet():
        raise Unsupported("NumPy's floating point errors, which are to be raised")
    m.guards.add(None, GuardKind.ANSWER, (errors_are_quiet, (), True))


class QuietErrors(Variable):
    """``np.errstate`` with which there are warnings or none. A break within the block is one before it, which is then entered for real."""

    manages_context = True

    def __init__(self, kwargs: dict[str, Any]) -> None:
        self.kwargs = kwargs

    def python_type(self) -> type:
        return np.errstate

    def attribute(self, m: Interpreter, name: str) -> Variable:
        if name in ("__enter__", "__exit__"):
            return BoundBuiltin(self, name)
        return super().attribute(m, name)

    def method(self, m: Interpreter, name: str, args: Args, kwargs: Kwargs) -> Variable:
        if name in ("__enter__", "__exit__"):
            return Constant(None)
        return super().method(m, name, args, kwargs)


@handles(np.errstate)
def _errstate(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    try:
        given = {name: m.builder.to_python(value) for name, value in kwargs.items()}
    except NotConstant:
        raise Unsupported("np.errstate of what is not known") from None
    if args or any(how is not None and how not in _QUIET for how in given.values()):
        raise Unsupported("np.errstate with which errors are raised, printed or call")
    made: Variable = m.effects.created(QuietErrors(given))
    return made
