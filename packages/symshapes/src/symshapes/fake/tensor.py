"""`FakeTensor`: a tensor with sizes, strides, dtype and its real device, but no storage and no data.

What it needs of the mode that made it is the Protocol `Mode`, which `FakeMode` fulfils.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import FunctionType
from typing import Any, Protocol

import torch

from symshapes import _torch
from symshapes.facts import override_questions
from symshapes.fake.composites import COMPOSITES
from symshapes.fake.subscripts import has_symbol, select_symbols
from symshapes.rules.layout import CONJ, NEG, TensorMeta
from symshapes.rules.registry import DataDependentError


class Mode(Protocol):
    """What answers for ops on fake tensors."""

    shape_env: Any | None
    """Makes symbols for the dynamic sizes of converted tensors, if given."""
    storage_size: Any | None
    """What storages of tensors with symbolic sizes say of their bytes."""
    numbers_read: list[Any]
    """The tensors with a `number` that was asked for."""
    counts: dict[Any, Any]
    """By what a tensor holds (`contents.py`): how many elements are not zero; with "item", the number that its one element is."""
    written: dict[object, int]
    """How often operators wrote to a storage, also where no version tells (`Tensor.data`); of what is written without saying so, as
    far as numbers in data are symbols."""
    data_dependent: bool
    """Whether numbers and sizes that are in the data become symbols that only the run knows."""

    def dispatch(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """What an op gives. Raises what eager would, and DataDependentError where that depends on data."""
        ...

    def from_tensor(self, t: torch.Tensor) -> Any:
        """The fake of a real tensor, all sizes static."""
        ...

    def number_in(self, tensor: FakeTensor) -> Any:
        """What stands for the one number that a fake holds now; None where nobody has asked for it since it was written to."""
        ...


class FakeTensor(torch.Tensor):
    """A tensor whose operations compute metadata only.

    `.fake_mode` is the mode that made it; `.storage_key` is one hashable object for all tensors that share a
    storage. Device, sizes (ints or `torch.SymInt`s), strides and autograd state answer as a real tensor's do.
    A fake of an `nn.Parameter` is an instance of `nn.Parameter` for `isinstance`.
    """

    fake_mode: Mode
    storage_key: object
    lazy_flags: int
    number: tuple[int, Any] | None
    """Of one whose elements are known: its version then, and what `tolist` gives."""
    made_by: tuple[Any, Any]
    """Of a mask: its state (`state_of`) when it was made, and what it held then; see `contents.py`."""
    strides: tuple[Any, ...]
    """Of one that answers for its own layout, which torch asks by operators; see `LAYOUTS`."""
    told: TensorMeta
    """Its metadata, of one with symbolic sizes from the start: reading that from torch copies each number four times, and asks it what it is
    as often. Of others once it was asked for, by `meta_of`."""
    __slots__ = (
        "fake_mode",
        "lazy_flags",
        "made_by",
        "number",
        "storage_key",
        "strides",
        "told",
    )  # no dictionary each

    __torch_function__ = _torch.disabled_torch_function  # type: ignore[assignment]

    @staticmethod
    def __new__(
        cls, mode: Mode, meta: Any, storage_key: object | None = None, requires_grad: bool = False
    ) -> FakeTensor:
        flags = meta.flags
        device = meta.device
        if device.type == "cuda":
            _torch.allow_device_without_hardware(device)
            if device.index is None:
                device = torch.device("cuda", torch.cuda.current_device() if torch.cuda.is_initialized() else 0)
        size, stride, offset, storage, asks = meta.size, meta.stride, meta.offset, None, False
        env = mode.shape_env if cls is SymbolicFakeTensor else None
        if env is not None:
            size, stride, offset = _settled(size), _settled(stride), *_settled((offset,))
            storage, asks = mode.storage_size, env.has_open
        fake: Any = _torch.wrapper_tensor(
            cls,
            size,
            stride,
            offset,
            meta.dtype,
            device,
            requires_grad,
            _torch.lazy_bit_keys(bool(flags & CONJ), bool(flags & NEG)) if flags else None,
            storage,
            asks,
        )
        if asks:
            fake.strides = stride
        if env is not None:
            fake.told = TensorMeta(size, stride, meta.dtype, device, offset, flags)
        fake.fake_mode = mode
        fake.storage_key = object() if storage_key is None else storage_key
        fake.lazy_flags = flags
        return fake

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Reached when no mode is active: the first fake argument's mode answers."""
        mode = _find_mode(args) or _find_mode(tuple((kwargs or {}).values()))
        if mode is None:
            return NotImplemented
        return mode.dispatch(func, args, kwargs or {})

    def __getitem__(self, key: Any) -> Any:
        if not has_symbol(key):
            return super().__getitem__(key)
        part, rest = select_symbols(self, key)
        return torch.Tensor.__getitem__(part, rest) if rest else part

    def __setitem__(self, key: Any, value: Any) -> None:
        if not has_symbol(key):
            super().__setitem__(key, value)
            return
        part, rest = select_symbols(self, key)
        torch.Tensor.__setitem__(part, rest or Ellipsis, value)

    def laid_out(self, like: torch.Tensor) -> None:
        """Note that torch has given it the sizes, strides and offset of `like`, a fake, in place."""
        meta = meta_of(like)
        if hasattr(self, "strides"):
            self.strides = meta.stride
        if hasattr(self, "told"):
            self.told = meta

    def __repr__(self, *, tensor_contents: Any = None) -> str:  # type: ignore[override]
        dtype = str(self.dtype).removeprefix("torch.")
        grad = ", requires_grad=True" if self.requires_grad else ""
        return f"FakeTensor({dtype}{list(self.shape)}, {self.device}{grad})"

    def tolist(self) -> Any:
        """Symbols that only the run knows, where the mode makes such. Raises DataDependentError where it does not."""
        if not self.fake_mode.data_dependent:
            raise DataDependentError("tolist")
        known = told_number(self)
        if known is not None:
            return known
        if self.dim() == 0:
            return self.item()
        return [part.tolist() for part in self.unbind(0)]

    def numpy(self, *, force: bool = False) -> Any:
        """Always raises DataDependentError."""
        raise DataDependentError("numpy")

    def __array__(self, dtype: Any = None) -> Any:
        raise DataDependentError("numpy")


class SymbolicFakeTensor(FakeTensor):
    """A fake with a symbolic size: composite ops whose C++ knows plain sizes only go another way (composites.py).

    What Python reads of its metadata it says itself, without torch's turning each number into its own and back.
    """

    @property
    def shape(self) -> torch.Size:  # type: ignore[override]
        """Its sizes."""
        return torch.Size(self.told.size)

    @property
    def dtype(self) -> torch.dtype:  # type: ignore[override]
        """Of its elements."""
        return self.told.dtype

    @property
    def device(self) -> torch.device:  # type: ignore[override]
        """Its real device."""
        return self.told.device

    def dim(self) -> int:
        """How many dimensions."""
        return len(self.told.size)

    def size(self, *dim: Any, **named: Any) -> Any:
        """Its sizes, or that of one dimension."""
        return super().size(*dim, **named) if dim or named else self.shape

    def stride(self, *dim: Any, **named: Any) -> Any:
        """Its strides, or that of one dimension."""
        return super().stride(*dim, **named) if dim or named else self.told.stride

    @classmethod
    def __torch_function__(  # type: ignore[override]
        cls, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        own = COMPOSITES.get(func)
        body = _body(func) if own is None else None
        if body is not None:
            return body(*args, **(kwargs or {}))
        with _torch.no_torch_function():
            return (own or func)(*args, **(kwargs or {}))


def _body(func: Any) -> Any:
    """A Python function of torch's that asks whether it is overridden, told that it is not: what it calls may be.

    None for any other; a method of tensors calls the operator that it overrides by the same name.
    """
    if type(func) is not FunctionType or getattr(torch.Tensor, func.__name__, None) is func:
        return None
    asked = override_questions(func)
    if not asked:
        return None
    namespace = {**func.__globals__, **dict.fromkeys(asked, _is_not)}
    body = FunctionType(func.__code__, namespace, func.__name__, func.__defaults__, func.__closure__)
    body.__kwdefaults__ = func.__kwdefaults__
    return body


def _is_not(*values: Any) -> bool:
    return False


def fake_class(meta: Any) -> type[FakeTensor]:
    """The class a fake with this metadata needs."""
    for length in meta.size:
        if type(length) is torch.SymInt:
            return SymbolicFakeTensor
    return FakeTensor


def told_number(fake: Any) -> Any | None:
    """What a fake holds, a number or lists of them, where somebody has said so; noted as asked for."""
    known = getattr(fake, "number", None)
    if known is None or known[0] != fake._version:
        return None
    fake.fake_mode.numbers_read.append(fake)
    return known[1]


#: Makes one of all its fields: without a call of the Python function that takes them one by one.
_meta = tuple.__new__


def meta_of(fake: torch.Tensor) -> TensorMeta:
    """The metadata of a fake tensor as rules see it: read once, since torch gives it another in one place only (`laid_out`)."""
    told: TensorMeta | None = getattr(fake, "told", None)
    if told is None:
        fields = tuple(fake.shape), fake.stride(), fake.dtype, fake.device, fake.storage_offset(), fake.lazy_flags  # type: ignore[attr-defined]
        told = fake.told = _meta(TensorMeta, fields)  # type: ignore[attr-defined]
    return told


def _settled(numbers: Sequence[Any]) -> tuple[Any, ...]:
    """Sizes or strides as torch takes them: symbols of which one value is left are ints."""
    return tuple([number if type(number) is int else _plain(number) for number in numbers])


def _plain(number: Any) -> Any:
    known = number.node.maybe_as_int()
    return number if known is None else known


def _find_mode(values: Any) -> Mode | None:
    for value in values:
        if isinstance(value, FakeTensor):
            return value.fake_mode
        if isinstance(value, (list, tuple)):
            found = _find_mode(value)
            if found is not None:
                return found
    return None
