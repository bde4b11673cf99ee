"""The C functions by which guards read tensors, found in torch's libraries when this is imported (`settings` does so for global settings).

Of those outside the stable ABI the mangled name fixes the arguments; what they return is a guess until each has been tried
against the public Python function, on several values that differ. What is missing or disagrees is read by Python instead
(`native_failures` says why).
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from contextlib import nullcontext
from functools import cache
from pathlib import Path
from typing import Any

import torch

from capture import _native, _torch
from capture._form import FormPlaces, find_places
from symshapes import dataclass

_TENSOR_OFFSETS = range(16, 64, 8)
_KEYS_OFFSETS = range(8, 256, 8)


@dataclass(frozen=True)
class TensorReader:
    """What a C function tells of a tensor, `int32_t f(void *tensor, T *out)`, and who says the same publicly.

    `code` readers give numbers of C enumerations: equal for equal public answers, different for different ones. `method`
    is a method of the C++ object instead, `bool f(void *impl)`.
    """

    symbol: str
    read: Callable[[torch.Tensor], Any]
    out: Any  # a ctypes type
    code: bool = False
    method: bool = False


_LONGS = ctypes.POINTER(ctypes.c_int64)

TENSOR_READERS: dict[str, TensorReader] = {
    "dim": TensorReader("aoti_torch_get_dim", torch.Tensor.dim, ctypes.c_int64),
    "sizes": TensorReader("aoti_torch_get_sizes", lambda t: tuple(t.shape), _LONGS),
    "strides": TensorReader("aoti_torch_get_strides", lambda t: tuple(t.stride()), _LONGS),
    "storage_offset": TensorReader("aoti_torch_get_storage_offset", torch.Tensor.storage_offset, ctypes.c_int64),
    "dtype": TensorReader("aoti_torch_get_dtype", lambda t: t.dtype, ctypes.c_int32, code=True),
    "device_type": TensorReader("aoti_torch_get_device_type", lambda t: t.device.type, ctypes.c_int32, code=True),
    "device_index": TensorReader(
        "aoti_torch_get_device_index", lambda t: t.device.index or 0, ctypes.c_int32, code=True
    ),
    "layout": TensorReader("aoti_torch_get_layout", lambda t: t.layout, ctypes.c_int32, code=True),
    "requires_grad": TensorReader(
        "_ZNK3c1010TensorImpl13requires_gradEv", lambda t: t.requires_grad, ctypes.c_int32, method=True
    ),
}
"""All but the last are in `torch/csrc/inductor/aoti_torch/c/shim.h`, the ABI that torch promises to keep. The shim has no
requires_grad, and the attribute costs more than all the others: c10::TensorImpl::requires_grad() const."""

native_failures: dict[str, str] = {}
"""Readers that are not used, and why."""


@cache
def libraries() -> tuple[ctypes.CDLL, ...]:
    """Torch's own libraries, of those that lie where its wheels have them."""
    folder = Path(torch.__file__).parent / "lib"
    found = (folder / f"lib{name}{suffix}" for name in ("torch_cpu", "c10") for suffix in (".so", ".dylib"))
    return tuple(ctypes.CDLL(str(path)) for path in found if path.exists())


def address_of(symbol: str) -> int:
    """Where a C function of torch's libraries lies; 0 if they do not have it."""
    for library in libraries():
        function = getattr(library, symbol, None)
        if function is not None:
            return ctypes.cast(function, ctypes.c_void_p).value or 0
    return 0


def _word(address: int) -> int:
    return int.from_bytes(ctypes.string_at(address, 8), "little")


def _samples() -> list[torch.Tensor]:
    base = torch.empty(2, 3, 5, dtype=torch.float32)
    return [
        base,
        base.transpose(0, 2),
        base[1:, ::2],
        torch.empty(()),
        torch.empty(0, 4, dtype=torch.int64),
        torch.empty(7, dtype=torch.complex64, requires_grad=True),
        torch.nn.Parameter(torch.empty(3)),
        torch.nn.Parameter(torch.empty(2, 2, dtype=torch.bfloat16), requires_grad=False),
        torch.empty(3, dtype=torch.bool),
        torch.empty(4, device="meta"),
        torch.empty(2, 6, device="meta", dtype=torch.float16)[1:],
    ]


def _handle_offset(samples: list[torch.Tensor]) -> int:
    """Where an `at::Tensor` lies in its Python object: the one word equal to the C++ object's address, or 0."""
    fitting = [
        offset
        for offset in _TENSOR_OFFSETS
        if offset + 8 <= torch.Tensor.__basicsize__
        and all(_word(id(sample) + offset) == getattr(sample, _torch.POINTER) for sample in samples)
    ]
    return fitting[0] if len(fitting) == 1 else 0


def _keys_offset() -> tuple[int, int]:
    """Where the dispatch key set lies in the C++ object, and its conjugate and negative bits; zeros if unsure.

    It is the word that is equal for like tensors and differs by one bit for a conjugate, by another for a negative, by
    both for both, and by several for sparse and meta tensors. The search ends there: the object ends somewhere beyond.
    """
    plain, other = torch.zeros(3, dtype=torch.complex64), torch.zeros(3, dtype=torch.complex64)
    conjugate, negative = plain.conj(), _torch.neg_view(plain)
    both = _torch.neg_view(conjugate)
    sparse, meta = plain.to_sparse(), torch.zeros(3, dtype=torch.complex64, device="meta")
    for offset in _KEYS_OFFSETS:
        keys = [
            _word(getattr(t, _torch.POINTER) + offset) for t in (plain, other, conjugate, negative, both, sparse, meta)
        ]
        conjugate_bit, negative_bit = keys[0] ^ keys[2], keys[0] ^ keys[3]
        single = conjugate_bit.bit_count() == negative_bit.bit_count() == 1 and conjugate_bit != negative_bit
        fits = keys[0] == keys[1] and single and keys[0] ^ keys[4] == conjugate_bit | negative_bit
        if fits and all((keys[0] ^ key).bit_count() >= 2 for key in keys[5:]):
            return offset, conjugate_bit | negative_bit
    return 0, 0


def _told(reader: TensorReader, address: int, handle: int, rank: int) -> Any:
    """What the C function says of the tensor; None if it returns an error."""
    if reader.method:
        impl = ctypes.c_void_p.from_address(handle)
        return ctypes.CFUNCTYPE(ctypes.c_bool, ctypes.c_void_p)(address)(impl)
    out = reader.out()
    function = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p)(address)
    if function(handle, ctypes.addressof(out)) != 0:
        return None
    return tuple(out[i] for i in range(rank)) if isinstance(out, _LONGS) else out.value


def _disagreement(pairs: list[tuple[Any, Any]], code: bool) -> str:
    """Where native and public answers do not go together; "" if they do."""
    for native, public in pairs:
        if native is None:
            return f"an error instead of {public}"
        if not code and native != public:
            return f"{native} instead of {public}"
        for other, value in pairs:
            if (native == other) != (public == value):
                return f"{native} for {public}, {other} for {value}"
    return ""


def _tensor_addresses(samples: list[torch.Tensor], offset: int) -> dict[str, int]:
    """The readers' C functions; notes which are missing or disagree with the public answer for a sample."""
    addresses = {}
    for name, reader in TENSOR_READERS.items():
        native_failures.pop(name, None)
        address = addresses[name] = address_of(reader.symbol)
        if not address or not offset:
            native_failures[name] = f"no {reader.symbol}" if not address else "tensors are laid out otherwise"
            continue
        pairs = [(_told(reader, address, id(t) + offset, t.dim()), reader.read(t)) for t in samples]
        if problem := _disagreement(pairs, reader.code):
            native_failures[name] = f"{reader.symbol} says {problem}"
    return addresses


def configure_tensors(native: bool = True) -> bool:
    """Let guards read tensors by address if torch lends itself to it (and `native`); whether they do.

    One reader that fails makes them all attributes: the native check reads a tensor as a whole.
    """
    tensor_codes.cache_clear()  # none could be read the other way
    # Whatever is in force at import. A device that is asked for looks at each call.
    here = nullcontext() if torch.get_default_device().type == "cpu" else torch.device("cpu")
    with torch.inference_mode(False), torch.enable_grad(), here:
        samples = _samples()
        offset = _handle_offset(samples) if native else 0
        addresses = _tensor_addresses(samples, offset)
        if offset and not any(name in native_failures for name in TENSOR_READERS):
            keys_offset, special = _keys_offset()
            kinds = _torch.dispatch_bit("Dense"), _torch.dispatch_bit("Python")
            _native.configure_tensors(torch.Tensor, offset, addresses, keys_offset, special, *kinds)
            if all(_reads_right(sample) for sample in samples):
                _configure_forms(offset, keys_offset, addresses["device_index"])
                return True
            native_failures["dim"] = "a tensor does not fit its own description"
    _native.configure_tensors(torch.Tensor, 0, {}, 0, 0, 0, 0)
    _native.configure_forms(*FormPlaces())
    return False


def _configure_forms(handle: int, keys: int, device_index: int) -> None:
    """Let watches compare tensors where their metadata lies, if that is found."""
    native_failures.pop("form", None)
    reader = TENSOR_READERS["device_index"]

    def index_of(impl: int) -> Any:
        pointer = ctypes.c_void_p(impl)
        return _told(reader, device_index, ctypes.addressof(pointer), 0)

    places = find_places(handle, keys, lambda tensor: getattr(tensor, _torch.POINTER), index_of)
    if not places.handle:
        native_failures["form"] = "tensors are laid out otherwise"
    _native.configure_forms(*places)


def _reads_right(sample: torch.Tensor) -> bool:
    """Whether the native reader takes a tensor for what it is, and for nothing else."""
    codes = _native.tensor_codes(sample)
    sizes, strides = tuple(sample.shape), tuple(sample.stride())

    def fits(requires_grad: bool, sizes: tuple[int, ...], strides: tuple[int, ...], code: int = 0) -> bool:
        changed = None if codes is None else (codes[0] + code, *codes[1:])
        spec = _native.TensorSpec(
            type(sample), sample.dtype, sample.device, sample.layout, requires_grad, sizes, strides, changed, None
        )
        return spec.fits(sample)

    grad = sample.requires_grad
    wrong = [fits(not grad, sizes, strides), fits(grad, (*sizes, 1), (*strides, 1)), fits(grad, sizes, strides, 1)]
    if sizes:
        wrong += [fits(grad, (sizes[0] + 1, *sizes[1:]), strides), fits(grad, sizes, (strides[0] + 1, *strides[1:]))]
    return codes is not None and fits(grad, sizes, strides) and not any(wrong)


def tensor_keys(tensor: torch.Tensor) -> int | None:
    """The dispatch key set of a real tensor, where it can be read; None for others."""
    return _native.tensor_keys(tensor) if type(tensor) in (torch.Tensor, torch.nn.Parameter) else None


@cache
def tensor_codes(dtype: torch.dtype, device: torch.device) -> tuple[int, int, int, int] | None:
    """The C codes of strided tensors of this type on this device; None if they can't be read."""
    by_dtype = _native.tensor_codes(torch.empty(0, dtype=dtype))
    by_device = _native.tensor_codes(torch.empty(0, device=device))
    if by_dtype is None or by_device is None:
        return None
    return by_dtype[0], by_device[1], by_device[2], by_dtype[3]


configure_tensors()
