"""Lists of tensors sorted by device and dtype, as optimizers and clipping ask torch to.

In: lists of lists of tensors. Out: for each device and dtype the same lists of those tensors, and their places.
"""

from __future__ import annotations

from typing import Any

import torch

from capture._torch import group_tensors
from capture.errors import Unsupported

from .base import Args, Interpreter, Kwargs, Variable
from .constants import Constant
from .handlers import handles
from .mappings import Dict
from .sequences import List, Sequence, Tuple
from .tensors import Tensor


@handles(group_tensors)
def _group(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    """Torch itself sorts stand-ins of the same devices and dtypes, so that the order of groups is its own, and what it refuses."""
    if kwargs or not args:
        raise Unsupported("grouping of tensors by keyword")
    lists = [_items(m, each) for each in _items(m, args[0])]
    with_places = len(args) > 1 and m.operators.truth(args[1].realize(m))
    stand_ins = [[_stand_in(m, each) for each in items] for items in lists]
    found: dict[Any, Any] = m.builder.fold(group_tensors, [stand_ins, True])
    entries: dict[Any, tuple[Variable, Variable]] = {}
    for (device, dtype), (_, places) in found.items():
        groups: list[Variable] = [
            m.effects.created(List([items[at] for at in places] if items else [])) for items in lists
        ]
        numbers: list[Variable] = [Constant(at) for at in places] if with_places else []
        parts: list[Variable] = [m.effects.created(List(groups)), m.effects.created(List(numbers))]
        key = m.builder.new_tuple([Constant(device), Constant(dtype)])
        entries[key.hash_key(m)] = (key, m.effects.created(Tuple(parts)))
    made: Variable = m.effects.created(Dict(entries))
    return made


def _items(m: Interpreter, value: Variable) -> list[Variable]:
    real = value.realize(m)
    if not isinstance(real, Sequence):
        raise Unsupported("grouping of what is no list of tensors")
    return [item.realize(m) for item in real.items]


def _stand_in(m: Interpreter, value: Variable) -> torch.Tensor | None:
    if m.builder.is_none(value):
        return None
    if not isinstance(value, Tensor):
        raise Unsupported("grouping of what is no list of tensors")
    size = () if value.fake.dim() == 0 else (0,)
    return torch.empty(size, dtype=value.fake.dtype, device=value.fake.device)
