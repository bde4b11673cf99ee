"""What fakes hold, as far as it can be known: masks that the same operations made of the same tensors hold the same.

In: each mask that an operation made. Out: one key for all that hold the same, so that what is counted in one is known of the others.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable
from math import inf
from typing import Any

import torch

from symshapes.expr.symbols import is_unbacked
from symshapes.fake.tensor import FakeTensor
from symshapes.rules.by_operator import aten

_SEQUENCES = (list, tuple, torch.Size)
_PLAIN = (int, float, bool, str, type(None), torch.dtype, torch.device, torch.layout, torch.memory_format)


class Content:
    """What a tensor holds: equal for two that hold the same. It keeps the tensors that it is made of."""

    __slots__ = ("_key", "_made_of")

    def __init__(self, key: Any, made_of: Any) -> None:
        self._key = key
        self._made_of = made_of

    @property
    def made_by(self) -> tuple[Any, tuple[Any, ...]]:
        """The operator that made it, and what stands for its arguments; None of what comes from elsewhere."""
        return self._key if isinstance(self._made_of, tuple) else (None, ())

    def __hash__(self) -> int:
        return hash(self._key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Content) and self._key == other._key


#: By operator, how it compares numbers.
_COMPARISONS: dict[Any, Any] = {
    op: compare
    for name, compare in {
        "eq": operator.eq, "ne": operator.ne, "lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge,
    }.items()
    for op in (*aten(f"{name}.Scalar"), *aten(f"{name}.Tensor"))
}  # fmt: skip


def comparison_of(tensor: FakeTensor) -> bool | None:
    """What a comparison certainly is whose answer a tensor holds, of numbers that only the run can tell; None where it is not certain."""
    content = content_of(tensor)
    func, parts = (None, ()) if content is None else content.made_by
    if func not in _COMPARISONS:
        return None
    mode: Any = tensor.fake_mode
    env, given = mode.shape_env, 0
    numbers: list[Any] = []
    for part in parts:
        is_given = not isinstance(part, Content)
        given += is_given
        if is_given:
            numbers.append(env.symint(part[1]) if part[0] is torch.SymInt else None)
        else:
            numbers.append(mode.counts.get((part, "item")))
    if len(numbers) != 2 or not all(map(is_unbacked, numbers)):
        return None
    if given and any(env.range_of(number.node.expr).upper != inf for number in numbers):
        return None  # a number beside a tensor is compared in the tensor's dtype, which has room for less
    told = _COMPARISONS[func](*numbers)
    known: bool | None = told if isinstance(told, bool) else env.statically_known(told.node.expr)
    return known


def state_of(tensor: FakeTensor) -> Any:
    """What is another after each write to a fake."""
    version = None if tensor.is_inference() else tensor._version
    return version, tensor.fake_mode.written.get(tensor.storage_key, 0)


def content_of(tensor: Any) -> Content | None:
    """What a fake holds now; None of what is none."""
    if not isinstance(tensor, FakeTensor):
        return None
    state, made = state_of(tensor), getattr(tensor, "made_by", None)
    if made is not None and made[0] == state:
        content: Content = made[1]
        return content
    return Content((id(tensor), state), tensor)


def note_content(mask: FakeTensor, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """An operation, each of whose elements follows from those of its arguments, has made a mask of these."""
    parts = (*_parts(args), *kwargs, *_parts(kwargs.values()))
    if None not in parts:
        mask.made_by = state_of(mask), Content((func, parts), parts)


def _parts(values: Iterable[Any]) -> tuple[Any, ...]:
    """What stands for each argument; None for one of which it is not known what it holds."""
    return tuple([_part(value) for value in values])


def _part(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return content_of(value)
    if isinstance(value, _PLAIN):
        return type(value), value
    if type(value) is torch.SymInt:
        return torch.SymInt, value.node.expr
    if isinstance(value, _SEQUENCES):
        parts = _parts(value)
        return None if None in parts else parts
    return None
