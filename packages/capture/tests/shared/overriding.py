"""Classes whose objects say what torch's functions make of them, and the comparison of a compiled program with the plain one."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

import capture

#: What those that take notes were asked about.
NOTES: list[Any] = []


def count(*sizes: int) -> torch.Tensor:
    """1, 2, 3, ... in this shape."""
    return torch.arange(1.0, 1 + torch.Size(sizes).numel()).reshape(sizes)


class Plain(torch.Tensor):
    """Has nothing of its own."""


class Unit(torch.Tensor):
    """Carries a unit to all that is computed with it."""

    @staticmethod
    def __new__(cls, data: torch.Tensor, unit: str = "m") -> Any:
        return torch.Tensor._make_subclass(cls, data)

    def __init__(self, data: torch.Tensor, unit: str = "m") -> None:
        self.unit = unit

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        out = super().__torch_function__(func, types, args, kwargs or {})
        if isinstance(out, Unit):
            out.unit = next((a.unit for a in args if isinstance(a, Unit) and hasattr(a, "unit")), None)
        return out


class Noting(torch.Tensor):
    """Takes notes of all that is done with it."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        NOTES.append((getattr(func, "__name__", str(func)), [t.__name__ for t in types]))
        return super().__torch_function__(func, types, args, kwargs)


class NotingMore(Noting):
    """Asked before what it is made from."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        NOTES.append("first")
        return super().__torch_function__(func, types, args, kwargs)


class Image(torch.Tensor):
    """Stays what it is in few functions, and is a plain tensor's memory in all others."""

    def __new__(cls, data: torch.Tensor) -> Any:
        return torch.as_tensor(data).as_subclass(cls)

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if not all(issubclass(cls, t) for t in types):
            return NotImplemented
        with torch._C.DisableTorchFunctionSubclass():
            output = func(*args, **(kwargs or {}))
        if func in {torch.Tensor.clone, torch.Tensor.to, torch.Tensor.detach} and isinstance(args[0], cls):
            return output.as_subclass(cls)
        return output.as_subclass(torch.Tensor) if isinstance(output, cls) else output

    @classmethod
    def wrap(cls, data: torch.Tensor) -> Any:
        return data.as_subclass(cls)

    @property
    def half(self) -> int:
        return self.shape[-2] // 2


class Tagged(torch.Tensor):
    """Made of keywords, which go over to what is computed."""

    def __new__(cls, data: torch.Tensor, **kwargs: Any) -> Any:
        made = data.as_subclass(cls)
        for name, value in kwargs.items():
            setattr(made, name, value)
        return made

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        out = super().__torch_function__(func, types, args, kwargs or {})
        first = next((a for a in args if isinstance(a, Tagged)), None)
        if isinstance(out, Tagged) and first is not None and hasattr(first, "tag"):
            out.tag = first.tag
        return out


class Masked(torch.Tensor):
    """With a mask that sums heed."""

    @staticmethod
    def __new__(cls, data: torch.Tensor, mask: torch.Tensor) -> Any:
        made = data.as_subclass(cls)
        made.mask = mask
        return made

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if func in HANDLED:
            return HANDLED[func](*args, **(kwargs or {}))
        with torch._C.DisableTorchFunctionSubclass():
            return func(*args, **(kwargs or {}))


HANDLED: dict[Any, Any] = {
    torch.sum: lambda x: (x.as_subclass(torch.Tensor) * x.mask).sum(),
    torch.mean: lambda x: (x.as_subclass(torch.Tensor) * x.mask).sum() / x.mask.sum(),
}


class Multiplying(torch.Tensor):
    """Another function in the place of one."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return super().__torch_function__(torch.mul if func is torch.add else func, types, args, kwargs)


class Operators(torch.Tensor):
    """Operators and attributes in its own way."""

    scale = 3

    def scaled(self) -> Any:
        return self * self.scale

    @classmethod
    def twice(cls, data: torch.Tensor) -> Any:
        return cls(data) + cls(data)

    @property
    def double(self) -> Any:
        return self * 2

    @double.setter
    def double(self, factor: float) -> None:
        self.mul_(factor)

    def __add__(self, other: Any) -> Any:
        return torch.Tensor.sub(self, other)

    def __radd__(self, other: Any) -> Any:
        return self * 100

    def __getitem__(self, key: Any) -> Any:
        return super().__getitem__(key) * 10

    def __len__(self) -> int:
        return 77

    def __getattr__(self, name: str) -> Any:
        if name == "magic":
            return 5
        raise AttributeError(name)


class Refusing(torch.Tensor):
    """Leaves all to others."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        NOTES.append("asked")
        return NotImplemented


class Accepting(torch.Tensor):
    """Takes what others leave."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        with torch._C.DisableTorchFunctionSubclass():
            return func(*args, **(kwargs or {}))


class Quantity:
    """No tensor: a value and its unit."""

    def __init__(self, value: torch.Tensor, unit: str) -> None:
        self.value = value
        self.unit = unit

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        values = [a.value if isinstance(a, Quantity) else a for a in args]
        return Quantity(func(*values, **(kwargs or {})), next(a.unit for a in args if isinstance(a, Quantity)))

    def __add__(self, other: Any) -> Any:
        return torch.add(self, other)

    def __radd__(self, other: Any) -> Any:
        return torch.add(other, self)


class Diagonal:
    """No tensor: stands for a matrix."""

    def __init__(self, values: torch.Tensor) -> None:
        self.values = values

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        NOTES.append([t.__name__ for t in types])
        return func(*[torch.diag(a.values) if isinstance(a, Diagonal) else a for a in args], **(kwargs or {}))

    def __matmul__(self, other: Any) -> Any:
        return torch.matmul(self, other)


class MoreDiagonal(Diagonal):
    """Asked before what it is made from."""


class Subtracting(TorchFunctionMode):
    """Another function in the place of some."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        if func in (torch.add, torch.Tensor.add, torch.Tensor.__add__):
            return torch.sub(*args, **(kwargs or {}))
        return func(*args, **(kwargs or {}))


class InDouble(TorchFunctionMode):
    """Another dtype for what is made."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        if func in (torch.ones, torch.zeros):
            kwargs.setdefault("dtype", torch.float64)
        return func(*args, **kwargs)


class NotingAll(TorchFunctionMode):
    """Takes notes of all functions."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        NOTES.append(getattr(func, "__name__", "?"))
        return func(*args, **(kwargs or {}))


class Counting(TorchFunctionMode):
    """Counts, by keywords that are never None."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def __torch_function__(self, func, types, args=(), kwargs={}):
        self.calls += 1
        return func(*args, **kwargs)


class Elsewhere(TorchFunctionMode):
    """Makes tensors on a device."""

    def __init__(self, device: str) -> None:
        super().__init__()
        self.device = device

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        if func in torch.utils._device._device_constructors() and kwargs.get("device") is None:
            kwargs["device"] = self.device
        return func(*args, **kwargs)


def plain(*sizes: int) -> Any:
    return count(*sizes).as_subclass(Plain)


def noting(*sizes: int) -> Any:
    return count(*sizes).as_subclass(Noting)


class Parameter(torch.nn.Parameter):
    pass


class MorePlain(Plain):
    pass


def alike(a: Any, b: Any) -> bool:
    """Whether two values are of the same classes, with the same numbers and attributes."""
    if type(a) is not type(b):
        return False
    if isinstance(a, torch.Tensor):
        with torch._C.DisableTorchFunction():
            same = a.dtype == b.dtype and a.requires_grad == b.requires_grad and a.stride() == b.stride()
            return same and torch.equal(a, b) and alike(vars(a), vars(b))
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(alike, a, b))
    if isinstance(a, dict):
        return list(a) == list(b) and alike(list(a.values()), list(b.values()))
    if hasattr(type(a), "__torch_function__"):
        return alike(vars(a), vars(b))
    return bool(a == b)


def outcome(fn: Callable[..., Any], make: Callable[[], tuple[Any, ...]], context: Callable[[], Any]) -> list[Any]:
    """What a call gives or raises, what became of the arguments and of the mode, and the notes."""
    NOTES.clear()
    args = make()
    with context() as mode:
        try:
            result = fn(*args)
        except Exception as error:
            result = (type(error), str(error))
    return [result, args, vars(mode).get("calls") if isinstance(mode, TorchFunctionMode) else None, list(NOTES)]


def check(
    fn: Callable[..., Any],
    make: Callable[[], tuple[Any, ...]],
    context: Callable[[], Any] = contextlib.nullcontext,
    graphs: int | None = 1,
) -> None:
    """A compiled program does in two calls what the plain one does, in so many graphs, None for any number; one has no breaks."""
    compiled = capture.compile(fn)
    for _ in range(2):
        wanted, found = outcome(fn, make, context), outcome(compiled, make, context)
        assert alike(wanted, found), (wanted, found)
    report = compiled.session.report
    if graphs is not None:
        assert (report.graph_count, report.break_count if graphs < 2 else 0) == (graphs, 0), str(report)
