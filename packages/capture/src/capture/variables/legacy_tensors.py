"""Constructors of tensors by their class: ``torch.Tensor(2, 3)``, ``torch.LongTensor([1, 2])``, ``x.new(...)``.

In: sizes, or elements in lists. Out: the calls of `torch.empty` and `torch.tensor` that make the same.
"""

from __future__ import annotations

from typing import Any

import torch

from capture.errors import Unsupported

from .autograd_state import called
from .base import Args, Interpreter, Kwargs, Variable
from .constants import Constant
from .handlers import Handler, handles
from .numbers import is_any_number
from .sequences import List, Sequence, Tuple
from .tensors import Tensor

_BY_CLASS = {
    torch.FloatTensor: torch.float32, torch.DoubleTensor: torch.float64, torch.HalfTensor: torch.float16,
    torch.BFloat16Tensor: torch.bfloat16, torch.LongTensor: torch.int64, torch.IntTensor: torch.int32,
    torch.ShortTensor: torch.int16, torch.CharTensor: torch.int8, torch.ByteTensor: torch.uint8, torch.BoolTensor: torch.bool,
}  # fmt: skip


def made(m: Interpreter, args: Args, kwargs: Kwargs, dtype: torch.dtype, device: torch.device) -> Variable:
    """What such a constructor gives; raises ``Unsupported`` for what it is not certain about."""
    if kwargs:
        raise Unsupported("a tensor made by its class, with arguments by name")
    given = [arg.realize(m) for arg in args]
    options: Kwargs = {"dtype": Constant(dtype), "device": Constant(device)}
    if len(given) == 1 and isinstance(given[0], (List, Tuple)) and given[0].python_type() in (list, tuple):
        _require_elements(m, given[0], dtype)
        return m.calls.call(m.builder.known(torch.tensor), given, options)
    sizes = given
    if len(given) == 1 and isinstance(given[0], Sequence) and given[0].python_type() is torch.Size:
        sizes = [item.realize(m) for item in given[0].items]
    if not all(is_any_number(size) and size.python_type() is int for size in sizes):
        raise Unsupported("a tensor made by its class of other than sizes or elements")
    return m.calls.call(m.builder.known(torch.empty), [Tuple(sizes or [Constant(0)])], options)


def _require_elements(m: Interpreter, elements: Any, dtype: torch.dtype) -> None:
    """The lists hold numbers that the dtype takes as they are."""
    kinds = (bool, int, float) if dtype.is_floating_point else (bool,) if dtype is torch.bool else (int,)
    for item in elements.items:
        item = item.realize(m)
        if isinstance(item, (List, Tuple)):
            _require_elements(m, item, dtype)
        elif not is_any_number(item) or item.python_type() not in kinds:
            raise Unsupported("a tensor made by its class of elements of another kind")


def _of(dtype: torch.dtype) -> Handler:
    return lambda m, args, kwargs: made(m, args, kwargs, dtype, torch.device("cpu"))


for _class, _dtype in _BY_CLASS.items():
    handles(_class)(_of(_dtype))


@handles(torch.Tensor)
def _tensor(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    """Of the default dtype, which is guarded."""
    return made(m, args, kwargs, torch.get_default_dtype(), torch.device("cpu"))


@called("new")
def _new(m: Interpreter, tensor: Tensor, args: Args, kwargs: Kwargs) -> Variable:
    return made(m, args, kwargs, tensor.fake.dtype, tensor.fake.device)
