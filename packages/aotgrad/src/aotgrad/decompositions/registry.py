"""The table of decompositions: one function for each op, registered by decorator.

In: an op overload. Out: a function with the op's arguments that computes its results from simpler ops.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from torch import Tensor

Function = TypeVar("Function", bound=Callable[..., Any])

Maybe = Tensor | None
"""What op schemas write as `Tensor?`."""

TABLE: dict[Any, Callable[..., Any]] = {}


def decomposition(*ops: Any) -> Callable[[Function], Function]:
    """Register a function as the decomposition of `ops` (op overloads).

    It gets the op's arguments and returns what the op returns: same values, sizes, strides and dtypes, with arithmetic
    in the precision of eager's kernels. It may return NotImplemented to leave a call as it is. Raises ValueError if an
    op has one already.
    """

    def register(function: Function) -> Function:
        for op in ops:
            if op in TABLE:
                raise ValueError(f"{op} has a decomposition already")
            TABLE[op] = function
        return function

    return register


def decompositions(*names: Any) -> dict[Any, Callable[..., Any]]:
    """The decompositions of some ops, given as overloads or as names like "gelu" or "gelu.default".

    Raises KeyError for an op that has none.
    """
    chosen: dict[Any, Callable[..., Any]] = {}
    for name in names:
        found = {op: TABLE[op] for op in TABLE if op is name or _called(op, name)}
        if not found:
            raise KeyError(name)
        chosen.update(found)
    return chosen


def core_decompositions() -> dict[Any, Callable[..., Any]]:
    """All decompositions, in a new dict that the caller may change."""
    return dict(TABLE)


def _called(op: Any, name: Any) -> bool:
    text = str(op)
    return isinstance(name, str) and name in (text, text.partition(".")[2], text.split(".")[1])
