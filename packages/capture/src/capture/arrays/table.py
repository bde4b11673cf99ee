"""Which functions over tensors stand for NumPy's: one entry each, found by the name in NumPy's namespace or the method of arrays.

What an argument becomes is said by the annotation of the function's parameter, what a result becomes by ``gives``.
"""

from __future__ import annotations

import enum
import inspect
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, TypeVar

import torch

from symshapes import dataclass

#: An array, or what NumPy makes one of.
Array = torch.Tensor
#: The same, where a number of Python's counts as one (NEP 50).
Operand = Any
#: A sequence of arrays.
Arrays = Sequence[torch.Tensor]
#: Torch's dtype in place of what NumPy takes for one.
DType = torch.dtype | None


class Kind(enum.Enum):
    """What an argument is."""

    ARRAY = "Array"
    OPERAND = "Operand"
    ARRAYS = "Arrays"
    DTYPE = "DType"
    PLAIN = ""


class Gives(enum.Enum):
    """What a result is. One without dimensions is a scalar of NumPy's if a function computes, an array if it arranges."""

    COMPUTED = "computed"
    ARRAY = "array"
    READ_ONLY = "read-only"  # a view that nobody may write to
    NUMBER = "number"  # Python's own, of the one element


@dataclass(frozen=True)
class Entry:
    """``function`` does to tensors what NumPy's function of this name does to arrays."""

    name: str
    function: Callable[..., Any]
    gives: Gives

    @cached_property
    def parameters(self) -> dict[str, Kind]:
        """The parameters, by name, in the order of NumPy's."""
        kinds = {kind.value: kind for kind in Kind}
        parameters = inspect.signature(self.function).parameters.values()
        return {each.name: kinds.get(str(each.annotation), Kind.PLAIN) for each in parameters}

    @cached_property
    def signature(self) -> inspect.Signature:
        """How it is called."""
        return inspect.signature(self.function)


#: By the name within ``numpy``, as ``"linalg.norm"``.
FUNCTIONS: dict[str, Entry] = {}
#: By the name of the method of ``numpy.ndarray``.
METHODS: dict[str, Entry] = {}

F = TypeVar("F", bound=Callable[..., Any])


def stands_for(*names: str, method: str = "", gives: Gives = Gives.COMPUTED) -> Callable[[F], F]:
    """Register a function for NumPy's functions of these names, and for a method. Raises ``ValueError`` for one that has an entry."""

    def register(function: F) -> F:
        for table, given in ((FUNCTIONS, names), (METHODS, (method,) if method else ())):
            for name in given:
                if name in table:
                    raise ValueError(f"{name} has an entry")
                table[name] = Entry(name, function, gives)
        return function

    return register
