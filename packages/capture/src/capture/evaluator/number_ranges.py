"""Numbers beyond what a dtype holds: some operators refuse them, where compiled code would make them infinite.

In: calls about to be recorded. Out: a guard on the number of such a call, or a break where eager raises. Which operators do is asked of them.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from capture.errors import Unsupported
from symshapes import is_unbacked

from .trials import range_refusal

#: As large as a double may be: too much for any dtype but that.
_TOO_MUCH = 1e300
_LARGEST = sys.float_info.max
_LARGE = torch.finfo(torch.float16).max
_FLOATS = frozenset({float, torch.SymFloat})


class NumberRanges:
    """What one attempt has asked the operators."""

    def __init__(self) -> None:
        self._refused: dict[Any, str | None] = {}

    def require(self, function: Callable[..., Any], args: list[Any], kwargs: dict[str, Any], result: Any) -> None:
        """Raise ``Unsupported`` where the call would refuse a float of its arguments; a symbolic one is guarded to be in range."""
        if _FLOATS.isdisjoint(map(type, args)) and _FLOATS.isdisjoint(map(type, kwargs.values())):
            return  # of most
        if not any(map(_may_be_large, (*args, *kwargs.values()))):
            return  # of nearly all
        given: dict[Any, Any] = dict(enumerate(args)) | kwargs
        floats = {at: value for at, value in given.items() if _may_be_large(value)}
        tensors = [leaf for leaf in tree_leaves([args, kwargs, result]) if isinstance(leaf, torch.Tensor)]
        most = min((torch.finfo(t.dtype).max for t in tensors if t.is_floating_point()), default=math.inf)
        for at, value in floats.items():
            symbolic = isinstance(value, torch.SymFloat)
            if most >= _TOO_MUCH or (not symbolic and abs(value) <= most):
                continue
            tried = dict(given) | {at: _TOO_MUCH if symbolic else value}
            key = function, at, None if symbolic else value, tuple(_kinds(tensors))
            if key not in self._refused:
                self._refused[key] = range_refusal(
                    function, [tried[i] for i in range(len(args))], {name: tried[name] for name in kwargs}
                )
            refused = self._refused[key]
            # Infinity is in every range, and of what is no number nothing holds that is asked here.
            if refused is not None and (not symbolic or bool((abs(value) > most) & (abs(value) <= _LARGEST))):
                raise Unsupported(f"{getattr(function, '__name__', function)} raises {refused}")


def _may_be_large(value: Any) -> bool:
    """Whether a number may be beyond some dtype's range; infinity is in all. Of what only the run can tell nothing is said."""
    kind = type(value)
    if kind is float:
        return abs(value) > _LARGE and math.isfinite(value)
    return kind is torch.SymFloat and not is_unbacked(value)


def _kinds(tensors: list[torch.Tensor]) -> Iterable[tuple[torch.dtype, int]]:
    return ((tensor.dtype, tensor.dim()) for tensor in tensors)
