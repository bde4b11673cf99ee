"""Symbolic numbers where torch's own Python layer takes plain ones: a position in a tensor, the elements of a new tensor, sizes that broadcast.

In: keys and data with symbolic numbers in them. Out: the same as operations that take such numbers, or None where none is needed.
"""

from __future__ import annotations

from typing import Any

import torch

from capture._torch import default_devices, infer_size
from capture.errors import Unsupported
from symshapes import counted_factories

from .base import Args, Interpreter, Kwargs, Variable
from .constants import Constant
from .handlers import handles
from .numbers import Symbolic, is_any_number, is_number
from .sequences import Sequence, Tuple
from .slices import Slice


def selected(m: Interpreter, tensor: Any, key: Variable) -> tuple[Any, Variable | None]:
    """The tensor with the symbolic positions of a key selected, and what is left of the key; None of what is the whole.

    As in torch, integers select before all else in a key is looked at.
    """
    parts = [p.realize(m) for p in key.items] if isinstance(key, Tuple) else [key]
    counts = [_dimensions(p) for p in parts]
    if not any(map(_is_position, parts)) or None in counts:
        return tensor, key
    known = [count for count in counts if count is not None]
    skipped = tensor.fake.dim() - sum(known)  # by an ellipsis
    dim, rest = 0, []
    for part, count in zip(parts, known, strict=True):
        if _is_position(part):
            tensor = m.recorder.record("call_function", torch.select, [tensor, Constant(dim), part], {})
        else:
            rest.append(part)
            dim += skipped if _is(part, Ellipsis) else count
    if all(_is_whole(m, part) for part in rest):
        return tensor, None
    return tensor, m.builder.new_tuple(rest)


def _is_position(part: Variable) -> bool:
    return isinstance(part, Symbolic) and part.python_type() is int


def _dimensions(part: Variable) -> int | None:
    """How many dimensions a part of a key is about; None where that is not known here."""
    if _is_position(part) or isinstance(part, Slice) or (is_number(part) and part.python_type() is int):
        return 1
    if _is(part, None) or _is(part, Ellipsis):
        return 0
    fake = getattr(part, "fake", None)
    if fake is None:
        return None
    return fake.dim() if fake.dtype in (torch.bool, torch.uint8) else 1


def _is(part: Variable, value: Any) -> bool:
    return isinstance(part, Constant) and part.value is value


def _is_whole(m: Interpreter, part: Variable) -> bool:
    return _is(part, Ellipsis) or (isinstance(part, Slice) and all(map(m.builder.is_none, part.parts)))


#: A kernel computes in these what it is given in them, so that a number is rounded to a tensor's dtype.
_ROUNDED_ALIKE = (torch.float32, torch.float64)
#: Of these all ints and floats that a program has are made as `torch.tensor` makes them.
_EXACT = (torch.int64, torch.float32, torch.float64)


def _making(function: Any, most: int = 3) -> None:
    """``most``: how many arguments it takes by position."""

    @handles(function)
    def make(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
        dtype, device = [*args[1:], Constant(None), Constant(None)][:2]
        if 1 <= len(args) <= most and not kwargs.keys() - {"dtype", "device"}:
            found = tensor_of(m, args[0], kwargs.get("dtype", dtype), kwargs.get("device", device))
            if found is not None:
                return found
            memory = args[0].realize(m).data_as_tensor(m)
            if memory is not None:
                return _converted(m, memory, kwargs.get("dtype", dtype), kwargs.get("device", device), function)
        return m.recorder.record("call_function", function, args, kwargs)


_making(torch.tensor)
_making(torch.as_tensor)
_making(torch.asarray, most=1)


def _converted(m: Interpreter, memory: Variable, dtype: Variable, device: Variable, function: Any) -> Variable:
    """The tensor made of other data in memory: over that memory where it need not be another, unless a copy is asked for."""
    named = {"dtype": dtype, "device": device, "copy": Constant(function is torch.tensor)}
    if m.builder.is_none(device) and default_devices():
        named["device"] = Constant(default_devices()[-1])
    given = {name: value for name, value in named.items() if not m.builder.is_none(value)}
    if len(given) == 1:
        return m.recorder.record("call_method", "clone" if function is torch.tensor else "detach", [memory], {})
    made = m.recorder.record("call_method", "detach", [memory], {})
    return m.recorder.record("call_method", "to", [made], given)


def tensor_of(m: Interpreter, data: Variable, dtype: Variable, device: Variable) -> Variable | None:
    """The new tensor of numbers, of which some are symbolic, in lists or alone; None where none is, or not all are numbers."""
    numbers = _numbers(m, data)
    if numbers is None or not any(isinstance(x, Symbolic) for x in numbers):
        return None
    kinds = {x.python_type() for x in numbers}
    if kinds - {int, float} or not (m.builder.is_constant(dtype) and m.builder.is_constant(device)):
        return None
    wanted = m.builder.to_python(dtype)
    if wanted is None:
        wanted = torch.get_default_dtype() if float in kinds else torch.int64
    if wanted not in _EXACT or (wanted is torch.int64 and float in kinds):
        return None
    return _made(m, data, {"dtype": Constant(wanted), "device": device})


def _numbers(m: Interpreter, data: Variable) -> list[Variable] | None:
    """All the numbers in lists, or one alone; None where there is something else, or an empty list."""
    data = data.realize(m)
    if is_any_number(data):
        return [data]
    if not isinstance(data, Sequence) or not data.items:
        return None
    parts = [_numbers(m, item) for item in data.items]
    return None if None in parts else [number for part in parts if part is not None for number in part]


def _made(m: Interpreter, data: Variable, kwargs: Kwargs) -> Variable:
    data = data.realize(m)
    if isinstance(data, Sequence):
        parts = m.builder.new_tuple([_made(m, item, kwargs) for item in data.items])
        return m.recorder.record("call_function", torch.stack, [parts], {})
    dtype = kwargs["dtype"].as_python(m)
    if dtype.is_floating_point:
        # Rounded once to a double, as Python does it; what overflows then is infinite, and no error.
        number = m.calls.call(m.builder.known(float), [data], {})
        kwargs = {**kwargs, "dtype": Constant(torch.float64)}
        made = m.recorder.record("call_function", torch.full, [m.builder.new_tuple([]), number], kwargs)
        return m.recorder.record("call_method", "to", [made, Constant(dtype)], {}) if dtype is torch.float32 else made
    return m.recorder.record("call_function", torch.full, [m.builder.new_tuple([]), data], kwargs)


def weighted(m: Interpreter, args: Args, kwargs: Kwargs) -> tuple[Args, Kwargs]:
    """The arguments of ``lerp`` with a symbolic weight as a tensor: torch's kernel and its gradient ask what a number is."""
    weight = (kwargs.get("weight") or [*args, *[Constant(None)] * 3][2]).realize(m)
    fake = getattr(args[0].realize(m), "fake", None) if args else None
    if not isinstance(weight, Symbolic) or weight.python_type() is not float or fake is None:
        return args, kwargs
    if fake.dtype not in _ROUNDED_ALIKE:
        return args, kwargs
    like: Kwargs = {"dtype": Constant(fake.dtype), "device": Constant(fake.device)}
    made = m.recorder.record("call_function", torch.full, [m.builder.new_tuple([]), weight], like)
    return (args, {**kwargs, "weight": made}) if "weight" in kwargs else ([*args[:2], made], kwargs)


@handles(torch.lerp)
def _lerp(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    return m.recorder.record("call_function", torch.lerp, *weighted(m, args, kwargs))


def _counting(function: Any, operator: Any) -> None:
    @handles(function)
    def make(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
        count = (args[2] if len(args) > 2 else kwargs.get("steps", Constant(None))).realize(m)
        ends = [v.realize(m) for v in (*args[:2], *(kwargs[name] for name in ("start", "end") if name in kwargs))]
        numbers = all(map(is_any_number, ends))
        if not _is_position(count) or not numbers or kwargs.keys() & {"out", "requires_grad"}:
            return m.recorder.record("call_function", function, args, kwargs)
        devices = default_devices()
        if devices and m.builder.is_none(kwargs.get("device", Constant(None)).realize(m)):
            kwargs = {**kwargs, "device": Constant(devices[-1])}  # torch gives it to its own functions alone
        return m.recorder.record("call_function", operator, args, kwargs)


for _function, _operator in counted_factories.items():
    _counting(_function, _operator)


def _broadcast(*shapes: Any) -> torch.Size:
    """The size that all broadcast to; a dimension is compared with 1 only where it is not the other's, so that few conditions are made."""
    sizes = [(shape,) if isinstance(shape, int) else shape for shape in shapes if shape is not None]
    common: list[Any] = [None] * max([len(size) for size in sizes], default=0)
    for which, size in enumerate(sizes):
        for at in range(-1, -1 - len(size), -1):
            length = size[at]
            if common[at] is None or (length != common[at] and common[at] == 1):
                if length < 0:
                    raise ValueError("Attempting to broadcast a dimension with negative length!")
                common[at] = length
            elif length != common[at] and length != 1:
                raise RuntimeError(
                    f"Attempting to broadcast a dimension of length {length} at {at}! "
                    f"Mismatching argument at index {which} had {size}; but expected shape "
                    f"should be broadcastable to {[1 if n is None else n for n in common]}"
                )
    return torch.Size(common)


@handles(torch.functional.broadcast_shapes)
def _broadcast_shapes(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    """Torch's own asks a module for help whose import takes seconds."""
    for shape in [arg.realize(m) for arg in args]:
        is_size = isinstance(shape, Sequence) or is_any_number(shape)
        if not is_size and not (isinstance(shape, Constant) and shape.value is None):
            raise Unsupported(f"broadcast_shapes of {shape!r}")
    return m.calls.call(m.builder.known(_broadcast), args, kwargs)


def _joined(first: torch.Size, second: torch.Size) -> torch.Size:
    joined: list[Any] = []
    most = max(len(first), len(second))
    for at in range(-1, -most - 1, -1):
        a = first[at] if -at <= len(first) else 1
        b = second[at] if -at <= len(second) else 1
        if a != b and a != 1 and b != 1:
            raise RuntimeError(
                f"The size of tensor a ({a}) must match the size of tensor b ({b}) at non-singleton dimension {most + at}"
            )
        joined.append(b if a == 1 else a)
    return torch.Size(joined[::-1])


@handles(infer_size)
def _infer_size(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    """What two sizes are broadcast to."""
    if kwargs or len(args) != 2 or any(arg.realize(m).python_type() is not torch.Size for arg in args):
        raise Unsupported("torch's broadcasting of other than two sizes")
    return m.calls.call(m.builder.known(_joined), args, kwargs)
