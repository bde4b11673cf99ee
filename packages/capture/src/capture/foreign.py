"""What kind of value an operation meets, as far as it decides whether a graph could hold the operation.

In: real values. Out: a ``Kind``. A tensor is foreign that no graph holds: sparse, nested, quantised, or asked below autograd.
"""

from __future__ import annotations

import builtins
import types
from enum import IntEnum
from typing import Any

import torch

from symshapes import dataclass

from . import _native


class Kind(IntEnum):
    """Of a value on the stack, or of a local. Of two ways to one place the greater holds."""

    #: Neither a tensor nor made of any: numbers, texts, functions, modules of Python's.
    PLAIN = 0
    #: One of Python's own built-in functions or classes, whose calls with plain values are plain.
    BUILT_IN = 1
    #: Nothing is known of it.
    UNKNOWN = 2
    #: A tensor that a graph holds.
    TENSOR = 3
    #: A tensor that no graph holds, or what was made with one.
    FOREIGN = 4


@dataclass(frozen=True)
class Foreign:
    """That a frame was broken for the kind of a tensor, or maybe so."""

    #: The addresses of classes that were asked below autograd, of whose tensors operations are captured unless they require gradients.
    followed: tuple[int, ...]
    #: Of how many operations it is worth while to look at what they give: few where the break may be for something else.
    most: int
    #: Whether it was broken for the block that begins there, which is to be made for real to its end.
    block: bool = False


#: Classes of values of which operations are plain.
_PLAIN = (
    int,
    float,
    complex,
    str,
    bytes,
    type(None),
    types.ModuleType,
    types.FunctionType,
    type,
    torch.dtype,
    torch.device,
)


def kind_of(value: Any) -> Kind:
    """The kind of a real value, which is not asked."""
    cls = type(value)
    if issubclass(cls, torch.Tensor):
        return Kind.TENSOR if _native.is_held(value) else Kind.FOREIGN
    if (cls is type or cls is types.BuiltinFunctionType) and value.__module__ == builtins.__name__:
        return Kind.BUILT_IN
    return Kind.PLAIN if issubclass(cls, _PLAIN) else Kind.UNKNOWN
