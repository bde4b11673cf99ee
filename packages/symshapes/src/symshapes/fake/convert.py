"""Real tensors in, their fakes out: one fake for one tensor, one storage key for one storage, both held weakly."""

import weakref
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import torch

from symshapes._torch import apply_here
from symshapes.fake.tensor import FakeTensor, Mode, fake_class
from symshapes.policy import DimPolicy
from symshapes.rules.layout import CONJ, NEG, Size, Sizes, TensorMeta

#: What tells objects apart as `id` does, and no hook for audits is called for it.
_identity = object.__hash__


class _Held(weakref.ref[Any]):
    """A reference that knows where it is kept."""

    __slots__ = ("place",)
    place: int


class _Entries(dict[int, tuple[_Held, Any]]):
    __slots__ = ("__weakref__",)


class _Memo:
    """What is known of objects, by identity, for as long as they live."""

    def __init__(self) -> None:
        self._entries = _Entries()
        there = weakref.ref(self._entries)  # they hold this function: with them it goes at once

        def forget(gone: Any) -> None:
            entries = there()
            entry = None if entries is None else entries.get(gone.place)
            if entries is not None and entry is not None and entry[0] is gone:
                del entries[gone.place]

        self._forget = forget

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, real: Any) -> Any | None:
        """What is kept for an object, if anything is."""
        entry = self._entries.get(_identity(real))
        return entry[1] if entry is not None and entry[0]() is real else None

    def clear(self) -> None:
        """Keep nothing, and no reference."""
        self._entries.clear()

    def put(self, real: Any, value: Any) -> None:
        """Keep a value until the object goes."""
        held = _Held(real, self._forget)
        held.place = _identity(real)
        self._entries[held.place] = (held, value)


class Converter:
    """The memo of one `FakeMode` from real tensors to fakes."""

    def __init__(self, mode: Mode) -> None:
        self._mode = weakref.ref(mode)
        self._fakes = _Memo()
        self._storages = _Memo()

    def convert(
        self,
        t: torch.Tensor,
        source: str | None,
        policy: Any | None,
        alike: Any | None = None,
        changing_strides: Sequence[bool | DimPolicy] = (),
    ) -> FakeTensor:
        """See `FakeMode.from_tensor`."""
        mode = self._mode()
        assert mode is not None
        if isinstance(t, FakeTensor):
            if t.fake_mode is mode:
                return t
            raise RuntimeError("a fake tensor of one FakeMode met another FakeMode")
        held = self._fakes.get(t)
        if held is not None and _still_like(held, t):
            return held
        if t.layout is not torch.strided or t.is_quantized or t.is_nested:
            raise NotImplementedError(f"no fake of a tensor with layout {t.layout}")
        grad = t.grad if policy is None and t.is_leaf else None
        if grad is not None and (grad.dtype is not t.dtype or grad.shape != t.shape or grad.device != t.device):
            # It was there before the tensor got other data; autograd lets nobody give such a one.
            raise NotImplementedError("no fake of a tensor whose gradient is of another dtype, size or device")
        size, stride = self._sizes(t, source, policy, alike, changing_strides)
        flags = (CONJ if t.is_conj() else 0) | (NEG if t.is_neg() else 0)
        meta = TensorMeta(size, stride, t.dtype, t.device, t.storage_offset(), flags)
        key = self._storage_key(t)
        made = fake_class(meta)
        if t.is_leaf:
            fake = made(mode, meta, key, t.requires_grad)
        else:
            with torch.enable_grad():
                fake = apply_here(_Computed, made(mode, meta, key, True), mode, meta, key)
        if isinstance(t, torch.nn.Parameter):
            # What isinstance(t, Parameter) asks of tensors that are not of that exact class.
            fake._is_param = True
        self._fakes.put(t, fake)
        if grad is not None and not isinstance(grad, FakeTensor):
            fake.grad = self.convert(grad, f"{source}.grad" if source else None, None)
        return fake

    def forget_tensors(self) -> None:
        """Hold no reference to a tensor. Of storages it is still known which is which."""
        self._fakes.clear()

    def constant(self, t: torch.Tensor) -> FakeTensor:
        """The fake of a real tensor that an op met: a constant of the program, all sizes static."""
        return self.convert(t, None, None)

    def _sizes(
        self,
        t: torch.Tensor,
        source: str | None,
        policy: Any | None,
        alike: Sequence[Hashable] | None,
        changing_strides: Sequence[bool | DimPolicy],
    ) -> tuple[Sizes, Sizes]:
        mode = self._mode()
        assert mode is not None
        env = mode.shape_env
        if env is None or (policy is None and not any(changing_strides)):
            return tuple(t.shape), t.stride()
        policies = list(policy) if isinstance(policy, (list, tuple)) else [policy or DimPolicy.STATIC] * t.dim()
        size = tuple(
            env.create_size(length, f"{source}.size({dim})", policies[dim], alike=None if alike is None else alike[dim])
            for dim, length in enumerate(t.shape)
        )

        def own(dim: int) -> Size:
            changes = dim < len(changing_strides) and changing_strides[dim]
            kind = DimPolicy.DYNAMIC if changes else DimPolicy.STATIC
            return env.create_size(t.stride(dim), f"{source}.stride({dim})", kind)

        stride = symbolic_strides(t.shape, t.stride(), size, own)
        loose = {dim for dim, each in enumerate(changing_strides) if isinstance(each, DimPolicy)}
        return size, tuple(own(dim) if dim in loose else each for dim, each in enumerate(stride))

    def _storage_key(self, t: torch.Tensor) -> object:
        storage = t.untyped_storage()
        key = self._storages.get(storage)
        if key is None:
            key = object()
            self._storages.put(storage, key)
        return key


def symbolic_strides(size: torch.Size, stride: tuple[int, ...], symbols: Sizes, own: Callable[[int], Size]) -> Sizes:
    """Strides in terms of the symbolic sizes, wherever a stride is the product of what lies inside it.

    Strides that are no such product (a slice's, an expanded dimension's) are what `own` gives for the dimension.
    """
    out: list[Size] = list(stride)
    step: Size = 1
    step_hint = 1
    # Innermost first; of equal strides the shorter dimension lies inside.
    for dim in sorted(range(len(size)), key=lambda dim: (stride[dim], size[dim], -dim)):
        if stride[dim] == step_hint:
            out[dim] = step
        else:
            out[dim] = step = own(dim)
            step_hint = stride[dim]
        step = step * symbols[dim]
        step_hint = step_hint * size[dim]
    return tuple(out)


def _still_like(fake: FakeTensor, t: torch.Tensor) -> bool:
    """Whether `t` was not given new metadata since its fake was made (symbolic sizes are not compared)."""
    if fake.dtype is not t.dtype or fake.dim() != t.dim() or fake.requires_grad != t.requires_grad:
        return False
    return all(
        type(mine) is not int or mine == real
        for mine, real in zip((*fake.shape, *fake.stride()), (*t.shape, *t.stride()), strict=True)
    )


class _Computed(torch.autograd.Function):
    """Makes a fake that requires grad and is no leaf, like the result of some op before."""

    @staticmethod
    def forward(ctx: Any, leaf: Any, mode: Any, meta: Any, key: Any) -> Any:
        return fake_class(meta)(mode, meta, key)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return grads[0], None, None, None
