"""Numbers beyond what a dtype of a call holds, or of another kind: some operators refuse them, where compiled code would cut them.

In: a call with `TensorMeta` in its tensors' places. Out: nothing, or what eager raises; a symbolic number is guarded to be in range.
Which operators refuse what is asked of their own kernels, on a few elements of the host's.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from functools import cache, partial
from typing import Any

import torch
from torch.utils._pytree import tree_leaves, tree_map

from symshapes import _torch
from symshapes.expr.symbols import SYMBOLIC, hint_of, is_unbacked
from symshapes.facts import facts_of
from symshapes.rules.layout import TensorMeta

_PLAIN = frozenset({bool, int, float, complex})
_SYMBOLS = frozenset({torch.SymInt, torch.SymFloat})
_LARGEST = sys.float_info.max
#: Beyond what the dtypes hold that not all symbolic numbers fit, and 0 where it is cut to as many bits.
_TOO_MUCH: dict[type, tuple[Any, ...]] = {torch.SymInt: (2**40, -(2**40)), torch.SymFloat: (1e300, -1e300)}
#: Elements along a dimension where only numbers count.
_SMALL = 2
_Call = tuple[Sequence[Any], Mapping[str, Any]]


def require_in_range(op: Any, args: Sequence[Any], kwargs: Mapping[str, Any], result: Any) -> None:
    """Raise what `op` raises because a number is beyond what the dtypes hold that it computes in; of a symbol, leave a guard."""
    if _computes_with_bools(op, args):
        _require_kernel(op, (args, kwargs))
    numbers = [
        (at, value) for at, value in _operands(op, args, kwargs) if type(value) in _PLAIN or type(value) in _SYMBOLS
    ]
    if not numbers:
        return
    given = [*args, *kwargs.values(), result]
    leaves = map(_dtype, tree_leaves(given, is_leaf=_is_meta))
    found = {dtype for dtype in leaves if dtype is not None}
    dtypes = found - {torch.bool} or found  # beside others those are masks
    for at, value in numbers:
        if type(value) in _PLAIN:
            if not all(_fits(value, dtype) for dtype in dtypes):
                _require(op, (args, kwargs), at, value)
        elif at[1] is None and not is_unbacked(value):  # of a list there would be a guard for each parameter of a model
            _require_symbol(op, (args, kwargs), at, value, dtypes)


def _computes_with_bools(op: Any, args: Sequence[Any]) -> bool:
    metas = [
        leaf for value in args for leaf in (value if type(value) is list else [value]) if isinstance(leaf, TensorMeta)
    ]
    if not metas or any(meta.dtype is not torch.bool for meta in metas):
        return False
    facts = facts_of(op)
    return not (facts.aliases or facts.random or facts.composite)


@cache
def _places(op: Any) -> tuple[tuple[int, ...], frozenset[str]]:
    """The arguments that may be numbers to compute with, and no sizes or places: their positions, and their names."""
    found: list[int] = []
    for position, argument in enumerate(op._schema.arguments):
        kind = str(argument.type).removeprefix("Optional[").removeprefix("List[").rstrip("]")
        if kind in ("number", "float", "Tensor"):
            found.append(position)
    return tuple(found), frozenset(op._schema.arguments[at].name for at in found)


def _operands(op: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Iterable[tuple[Any, Any]]:
    """Numbers and what else is in their places, each with where it is: an argument, and which of a list."""
    positions, names = _places(op)
    for position in positions:
        if position >= len(args):
            break
        value = args[position]
        if type(value) is list:
            yield from (((position, number), item) for number, item in enumerate(value))
        else:
            yield (position, None), value
    for name, value in kwargs.items():
        if name in names:
            yield (name, None), value


def _is_meta(value: Any) -> bool:
    return isinstance(value, TensorMeta)


def _dtype(value: Any) -> torch.dtype | None:
    return value if isinstance(value, torch.dtype) else getattr(value, "dtype", None)


@cache
def _limits(dtype: torch.dtype) -> tuple[Any, Any]:
    if dtype is torch.bool:
        return 0, 1
    limits = torch.finfo(dtype) if dtype.is_floating_point or dtype.is_complex else torch.iinfo(dtype)
    return limits.min, limits.max


def _fits(value: Any, dtype: torch.dtype) -> bool:
    """Whether a number is of no higher kind than a dtype's, and between its least and largest or, if it has those, infinite or NaN."""
    if type(value) is complex:
        return dtype.is_complex and _fits(value.real, dtype) and _fits(value.imag, dtype)
    if type(value) is bool:
        return dtype is torch.bool
    if type(value) is float:
        if not (dtype.is_floating_point or dtype.is_complex):
            return False
        if not math.isfinite(value):
            return True
    least, most = _limits(dtype)
    return dtype is not torch.bool and bool(least <= value <= most)


def _require_symbol(op: Any, call: _Call, at: Any, value: Any, dtypes: Iterable[torch.dtype]) -> None:
    kind = type(value)
    limits = [_limits(dtype) for dtype in dtypes if not all(_fits(number, dtype) for number in _TOO_MUCH[kind])]
    if not limits or not any(_refusal(op, call, at, number) for number in _TOO_MUCH[kind]):
        return
    least, most = max(low for low, _ in limits), min(high for _, high in limits)
    if kind is torch.SymFloat and all(isinstance(high, float) for _, high in limits):
        beyond = bool((abs(value) > most) & (abs(value) <= _LARGEST))
    else:
        beyond = not (value >= least) & (value <= most)
    if beyond:
        _require(op, call, at, int(value) if kind is torch.SymInt else float(value))


def _require(op: Any, call: _Call, at: Any, value: Any) -> None:
    error = _refusal(op, call, at, value)
    if error is not None:
        raise error


def _require_kernel(op: Any, call: _Call) -> None:
    """Raise what a call raises on tensors of bools where the operator has no kernel for them, as a loop would have."""
    with _torch.NoDispatchModes(), _torch.no_torch_function(), torch.device("cpu"):
        error = _error(op, call, None, None, 1)
    if isinstance(error, NotImplementedError):
        raise error


def _refusal(op: Any, call: _Call, at: Any, value: Any) -> Exception | None:
    """What a call raises for this number at a place, where it does not for 1."""
    draws = torch.random.fork_rng(devices=()) if facts_of(op).random else nullcontext()
    with _torch.NoDispatchModes(), _torch.no_torch_function(), draws, torch.device("cpu"):
        for fill in (0, 1):  # places are 0, and 0 divides nothing
            error = _error(op, call, at, value, fill)
            if error is not None and _error(op, call, at, 1, fill) is None:
                return error
    return None


def _error(op: Any, call: _Call, at: Any, value: Any, fill: int) -> Exception | None:
    args = [_real(given, fill) for given in call[0]]
    kwargs = {name: _real(given, fill) for name, given in call[1].items()}
    if at is not None:
        place, number = at
        given: Any = args if isinstance(place, int) else kwargs
        if number is None:
            given[place] = value
        else:
            given[place][number] = value
    try:
        op(*args, **kwargs)
    except Exception as error:
        return error
    return None


def _real(value: Any, fill: int) -> Any:
    return tree_map(partial(_small, fill=fill), value, is_leaf=_is_meta)


def _small(value: Any, fill: int) -> Any:
    if isinstance(value, TensorMeta):
        return torch.full([_length(size) for size in value.size], fill, dtype=value.dtype)
    if isinstance(value, torch.device):
        return torch.device("cpu")
    real = (1 if is_unbacked(value) else hint_of(value)) if isinstance(value, SYMBOLIC) else value
    return max(-_SMALL, min(real, _SMALL)) if type(real) is int else real


def _length(size: Any) -> int:
    return 1 if is_unbacked(size) else min(hint_of(size), _SMALL)
