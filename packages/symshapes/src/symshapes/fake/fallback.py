"""The answer for an op without a rule: torch's own meta kernel, run on tensors of the meta device.

Its sizes are concrete: a symbolic size is guarded to its hint first, which is sound and merely specialised.
"""

from typing import Any

import torch

from symshapes.expr.symbols import SYMBOLIC
from symshapes.fake.tensor import FakeTensor, Mode
from symshapes.rules.layout import TensorMeta, View


class _MetaCall:
    """Arguments on the way to the meta device and results on the way back."""

    def __init__(self, mode: Mode) -> None:
        self.mode = mode
        self.tensors: list[tuple[torch.Tensor, FakeTensor]] = []
        self.device: torch.device | None = None

    def to_meta(self, value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return self.tensor(value)
        if isinstance(value, SYMBOLIC):
            return _concrete(value)
        if type(value) in (list, tuple, torch.Size):
            return [self.to_meta(item) for item in value]
        return value

    def tensor(self, value: torch.Tensor) -> torch.Tensor:
        fake = value if isinstance(value, FakeTensor) else self.mode.from_tensor(value)
        if self.device is None or (self.device.type == "cpu" and fake.dim() > 0):
            self.device = fake.device
        for meta, known in self.tensors:
            if known is fake:
                return meta
        for meta, known in self.tensors:
            if known.storage_key is fake.storage_key and known.dtype is fake.dtype:
                made = meta.as_strided(_ints(fake.shape), _ints(fake.stride()), int(fake.storage_offset()))
                break
        else:
            made = _meta_tensor(fake)
        self.tensors.append((made, fake))
        return made

    def from_meta(self, value: Any, device: torch.device) -> Any:
        if isinstance(value, torch.Tensor):
            return self.result(value, device)
        if type(value) in (list, tuple):
            return type(value)(self.from_meta(item, device) for item in value)
        return value

    def result(self, value: torch.Tensor, device: torch.device) -> torch.Tensor:
        storage = value.untyped_storage()._cdata
        for meta, fake in self.tensors:
            if value is meta:
                return fake
        key = None
        for meta, fake in self.tensors:
            if meta.untyped_storage()._cdata == storage:
                key = fake.storage_key
                device = fake.device
                break
        meta_class = TensorMeta if key is None else View
        return FakeTensor(
            self.mode,
            meta_class(tuple(value.shape), value.stride(), value.dtype, device, value.storage_offset()),
            key,
        )


def run_meta_kernel(mode: Mode, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Run `func` on meta tensors and give its results the device eager would.

    Raises NotImplementedError if the op has no meta kernel.
    """
    call = _MetaCall(mode)
    on_meta = [call.to_meta(value) for value in args]
    named = {name: call.to_meta(value) for name, value in kwargs.items()}
    device = call.device or torch.device("cpu")
    if isinstance(named.get("device"), (str, torch.device)):
        device = torch.device(named["device"])
        named["device"] = torch.device("meta")
    elif call.device is None and "device" in named:
        named["device"] = torch.device("meta")
    if "generator" in named:
        named["generator"] = None
    try:
        result = func(*on_meta, **named)
    except NotImplementedError as error:
        raise NotImplementedError(f"{func} has neither a shape rule nor a meta kernel") from error
    return call.from_meta(result, device)


def _concrete(value: Any) -> Any:
    if isinstance(value, torch.SymInt):
        return int(value)
    return float(value) if isinstance(value, torch.SymFloat) else bool(value)


def _ints(sizes: Any) -> tuple[int, ...]:
    return tuple(int(length) for length in sizes)


def _meta_tensor(fake: FakeTensor) -> torch.Tensor:
    size, stride, offset = _ints(fake.shape), _ints(fake.stride()), int(fake.storage_offset())
    extent = 0 if 0 in size else 1 + sum((n - 1) * s for n, s in zip(size, stride, strict=True))
    block = torch.empty(offset + extent, dtype=fake.dtype, device="meta")
    return block.as_strided(size, stride, offset)
