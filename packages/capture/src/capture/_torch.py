"""The one file that touches private parts of torch; each says why nothing public serves.

It finds, at import, the C functions by which guards read tensors and global settings, tries them out against the
public Python functions, and hands what agrees to `_native`; what is missing or disagrees is read by Python instead.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import CodeType
from typing import Any

import torch

from capture import _native

# How many torch-function modes are in force: public code can only enter and leave them.
torch_function_depth: Callable[[], int] = torch._C._len_torch_function_stack
# The same of dispatch modes, whose stack a compiled graph would not run through.
dispatch_mode_depth: Callable[[], int] = torch._C._len_torch_dispatch_stack
# Whether subclasses' torch functions are switched off; the context manager that does it is private too.
torch_function_enabled: Callable[[], bool] = torch._C._is_torch_function_enabled
# The public tensor attribute gives no address: a tensor's C++ object, to find it inside the Python object.
_POINTER = "_cdata"


def hide_from_torch_compile(code: CodeType, *, beneath: bool = False) -> None:
    """Nothing of ours is a program for torch.compile, whose frame hook may lie beneath ours; no public function says so.

    ``beneath``: nor is anything that it calls. Where torch has no such function it may compile what it sees.
    """
    hook = getattr(torch._C._dynamo, "eval_frame", None)
    if hook is None or not hasattr(hook, "set_code_exec_strategy"):
        return
    action = hook._FrameAction
    strategy = hook._FrameExecStrategy(action.SKIP, action.SKIP if beneath else action.DEFAULT)
    hook.set_code_exec_strategy(code, strategy)


_TENSOR_OFFSETS = range(16, 64, 8)
_KEYS_OFFSETS = range(8, 256, 8)


# ---- tensors ----

# In `torch/csrc/inductor/aoti_torch/c/shim.h`, the ABI that torch promises to keep.
_SHIM = ("dim", "sizes", "strides", "dtype", "device_type", "device_index", "layout", "storage_offset")
# c10::TensorImpl::requires_grad() const: the shim has none, and the attribute costs more than all the others.
_REQUIRES_GRAD = "_ZNK3c1010TensorImpl13requires_gradEv"


@cache
def _libraries() -> tuple[ctypes.CDLL, ...]:
    folder = Path(torch.__file__).parent / "lib"
    found = (folder / f"lib{name}{suffix}" for name in ("torch_cpu", "c10") for suffix in (".so", ".dylib"))
    return tuple(ctypes.CDLL(str(path)) for path in found if path.exists())


def _address(symbol: str) -> int:
    """Where a C function of torch's libraries lies; 0 if they do not have it."""
    for library in _libraries():
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
    ]


def _handle_offset(samples: list[torch.Tensor]) -> int:
    """Where an `at::Tensor` lies in its Python object: the one word equal to the C++ object's address, or 0."""
    fitting = [
        offset
        for offset in _TENSOR_OFFSETS
        if offset < torch.Tensor.__basicsize__
        and all(_word(id(sample) + offset) == getattr(sample, _POINTER) for sample in samples)
    ]
    return fitting[0] if len(fitting) == 1 else 0


def _keys_offset() -> tuple[int, int]:
    """Where the dispatch key set lies in the C++ object, and its conjugate and negative bits; zeros if unsure.

    It is the one word that is equal for like tensors and differs by one bit for a conjugate, by another for a
    negative, and by several for sparse tensors.
    """
    plain, other = torch.zeros(3, dtype=torch.complex64), torch.zeros(3, dtype=torch.complex64)
    conjugate, negative = plain.conj(), torch._neg_view(plain)
    sparse = torch.zeros(3, dtype=torch.complex64).to_sparse()
    fitting = []
    for offset in _KEYS_OFFSETS:
        keys = [_word(getattr(t, _POINTER) + offset) for t in (plain, other, conjugate, negative, sparse)]
        conjugate_bit, negative_bit = keys[0] ^ keys[2], keys[0] ^ keys[3]
        single = conjugate_bit.bit_count() == negative_bit.bit_count() == 1 and conjugate_bit != negative_bit
        if keys[0] == keys[1] and single and (keys[0] ^ keys[4]).bit_count() >= 2:
            fitting.append((offset, conjugate_bit | negative_bit))
    return fitting[0] if len(fitting) == 1 else (0, 0)


def configure_tensors(native: bool = True) -> bool:
    """Let guards read tensors by address if torch lends itself to it (and `native`); whether they do."""
    addresses = {name: _address(f"aoti_torch_get_{name}") for name in _SHIM}
    addresses["requires_grad"] = _address(_REQUIRES_GRAD)
    samples = _samples()
    offset = _handle_offset(samples) if native and all(addresses.values()) else 0
    if offset == 0:
        _native.configure_tensors(torch.Tensor, 0, {}, 0, 0)
        return False
    keys_offset, special = _keys_offset()
    _native.configure_tensors(torch.Tensor, offset, addresses, keys_offset, special)
    if all(_reads_right(sample) for sample in samples):
        return True
    _native.configure_tensors(torch.Tensor, 0, {}, 0, 0)
    return False


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


# ---- global settings ----


@dataclass(frozen=True)
class Setting:
    """A setting that changes what torch functions do. `read` is its public reader and `native` a C++ twin.

    `native` is (mangled symbol, argument, bits of the result); a method of at::Context has the argument "context".
    `only_if` names a setting without which this one means nothing.
    """

    read: Callable[[], Any]
    native: tuple[str, int | str, int]
    only_if: str = ""
    in_thread_keys: bool = False  # changes with the thread's dispatch keys


_CPU, _CUDA = 0, 1  # c10::DeviceType, part of the stable ABI


def _autocast_settings(device: str, number: int) -> dict[str, Setting]:
    enabled, dtype = f"autocast on {device}", f"autocast dtype on {device}"
    enabled_symbol = "_ZN2at8autocast19is_autocast_enabledEN3c1010DeviceTypeE"
    dtype_symbol = "_ZN2at8autocast18get_autocast_dtypeEN3c1010DeviceTypeE"
    return {
        enabled: Setting(lambda: torch.is_autocast_enabled(device), (enabled_symbol, number, 8), in_thread_keys=True),
        dtype: Setting(lambda: torch.get_autocast_dtype(device), (dtype_symbol, number, 8), only_if=enabled),
        f"autocast cache for {device}": Setting(
            torch.is_autocast_cache_enabled,
            ("_ZN2at8autocast25is_autocast_cache_enabledEv", 0, 8),
            only_if=enabled,
        ),
    }


STATE: dict[str, Setting] = {
    **_autocast_settings("cpu", _CPU),
    **_autocast_settings("cuda", _CUDA),
    "default dtype": Setting(torch.get_default_dtype, ("_ZN3c1031get_default_dtype_as_scalartypeEv", 0, 8)),
    "inference mode": Setting(
        torch.is_inference_mode_enabled,
        ("_ZN3c1013InferenceMode10is_enabledEv", 0, 8),
        in_thread_keys=True,
    ),
    "deterministic algorithms": Setting(
        torch.are_deterministic_algorithms_enabled,
        ("_ZNK2at7Context23deterministicAlgorithmsEv", "context", 8),
    ),
    "deterministic algorithms only warn": Setting(
        torch.is_deterministic_algorithms_warn_only_enabled,
        ("_ZNK2at7Context31deterministicAlgorithmsWarnOnlyEv", "context", 8),
        only_if="deterministic algorithms",
    ),
    "torch-function modes": Setting(torch_function_depth, ("_ZN2at4impl22PythonTorchFunctionTLS9stack_lenEv", 0, 64)),
    "torch functions of subclasses": Setting(
        torch_function_enabled, ("_ZN2at4impl22PythonTorchFunctionTLS18get_disabled_stateEv", 0, 8)
    ),
    "dispatch modes": Setting(
        dispatch_mode_depth,
        ("_ZN3c104impl20TorchDispatchModeTLS9stack_lenEv", 0, 64),
        in_thread_keys=True,
    ),
}
_GRAD_MODE = "_ZN3c108GradMode10is_enabledEv"
_GLOBAL_CONTEXT = "_ZN2at13globalContextEv"
# Included and excluded dispatch keys of a thread: autocast, inference mode, dispatch modes and function transforms
# all show in these two words, whose load costs less than one call.
_THREAD_KEYS = "_ZN3c104impl26raw_local_dispatch_key_setE"
_THREAD_KEY_WORDS = ("included dispatch keys", "excluded dispatch keys")

# What `_native.read_state` reads, by its place there; the settings that are missing are read by Python.
native_settings: dict[str, int] = {}
# Whether guards on the grad mode are checked natively.
native_grad_mode = False


def configure_state(native: bool = True) -> None:
    """Let guards read global settings by address where torch has the functions (and `native`)."""
    global native_grad_mode
    readers: dict[str, tuple[int, int, int]] = {}
    find_context = _address(_GLOBAL_CONTEXT)
    context = ctypes.CFUNCTYPE(ctypes.c_void_p)(find_context)() if find_context else None
    for name, setting in STATE.items() if native else ():
        symbol, argument, bits = setting.native
        address = _address(symbol)
        if address and not (argument == "context" and context is None):
            readers[name] = (address, (context or 0) if argument == "context" else int(argument), bits)
    handle = _thread_keys_library() if native else 0
    if handle:
        readers.update({name: (0, word, 64) for word, name in enumerate(_THREAD_KEY_WORDS)})
    grad = _address(_GRAD_MODE) if native else 0
    _native.configure_state(tuple(readers.values()), grad, handle, _THREAD_KEYS)
    native_settings.clear()
    native_settings.update({name: place for place, name in enumerate(readers)})
    native_grad_mode = grad != 0


def _thread_keys_library() -> int:
    """The handle of the library that has the thread's dispatch keys, or 0; they must follow a mode to be trusted."""
    for library in _libraries():
        try:
            words = (ctypes.c_uint64 * 2).in_dll(library, _THREAD_KEYS)
        except ValueError:
            continue
        before = tuple(words)
        with torch.inference_mode():
            changed = tuple(words) != before
        return library._handle if changed and tuple(words) == before else 0
    return 0


def relevant_settings(values: dict[str, Any]) -> list[str]:
    """The names of what a guard on these settings must check: natively readable first where one read says it all."""
    keys = [name for name in _THREAD_KEY_WORDS if name in native_settings]
    return keys + [
        name
        for name in values
        if name in STATE
        and not (keys and STATE[name].in_thread_keys)
        and (not STATE[name].only_if or values[STATE[name].only_if])
    ]


configure_tensors()
configure_state()
