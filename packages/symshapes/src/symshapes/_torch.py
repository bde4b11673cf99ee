"""The one file that touches private parts of torch; each name says why nothing public serves.

A new torch release is this file's work: names in, plain functions and constants out.
"""

import functools
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.fx.graph import _is_from_torch
from torch.fx.node import _get_qualified_name
from torch.utils._python_dispatch import TorchDispatchMode

# The classes of what `torch.ops` holds: public code has the objects, not the names.
OpOverload = torch._ops.OpOverload
OpOverloadPacket = torch._ops.OpOverloadPacket

# What graphs write by name, and by which: nothing public says it.
is_written_by_name = _is_from_torch
written_name = _get_qualified_name

# A subclass that must see no torch-function override: the documented way, but only under this private name.
disabled_torch_function = torch._C._disabled_torch_function_impl

# Torch functions called inside do not come back to a subclass's override (only private where not a mode).
no_torch_function = torch._C.DisableTorchFunctionSubclass

# Before this release the C++ of matmul, linear and unfused attention asks for plain sizes.
MATMUL_NEEDS_INTS = tuple(int(part) for part in torch.__version__.split(".")[:2]) < (2, 13)

# The dispatcher has one slot for a mode that fakes tensors. A mode in that slot stays below every user mode,
# and factory functions with `device="cuda"` do not initialise CUDA while the slot is taken.
FAKE_SLOT = torch._C._TorchDispatchModeKey.FAKE


def current_fake_mode() -> Any | None:
    """The mode in the fake slot of this thread, or None."""
    return torch._C._get_dispatch_mode(FAKE_SLOT)


def clear_fake_slot() -> Any | None:
    """Take the mode out of the fake slot (entering a second one would be an error) and return it."""
    return torch._C._unset_dispatch_mode(FAKE_SLOT)


def set_fake_slot(mode: TorchDispatchMode) -> None:
    """Put `mode` in the fake slot without its enter protocol: it had been there before."""
    torch._C._set_dispatch_mode(mode)


def allow_device_without_hardware(device: torch.device) -> None:
    """Let autograd's nodes, which ask the device guard for a stream, be made for `device` without a GPU.

    Without it a CUDA build on a machine without a GPU aborts the process inside autograd. (A build without CUDA has
    no such guard to install: there fake CUDA tensors are for inference only.)
    """
    if device.type == "cuda":
        torch._C._ensureCUDADeviceGuardSet()


def lift_from_cpu(enabled: bool) -> bool:
    """Whether `torch.tensor(data, device="cuda")` makes its constant on the CPU and then copies; the old setting.

    A machine without a GPU can make fakes of such constants in no other way.
    """
    before: bool = torch._C._only_lift_cpu_tensors()
    torch._C._set_only_lift_cpu_tensors(enabled)
    return before


def fake_function(op: Any) -> Any | None:
    """What a user registered by `torch.library.register_fake` for an operator; the kernel made of it refuses sizes in data."""
    kernel = torch._library.simple_registry.singleton.find(op._schema.name).fake_impl.kernel
    return None if kernel is None else kernel.func


def register_fake(name: str, function: Callable[..., Any], library: torch.library.Library) -> None:
    """`torch.library.register_fake` for an operator ("namespace::name") of a package's own library.

    That asks which module called it, for which it walks over all modules there are, at each operator again; here they are known.
    """
    fake = torch._library.simple_registry.singleton.find(name).fake_impl
    library._registration_handles.append(fake.register(function, function.__module__, lib=library))
    module = sys.modules[function.__module__]
    # What a module defines when it was imported already another process's import will not define.
    if getattr(module.__spec__, "_initializing", False):
        _definers[name] = module.__name__


_definers: dict[str, str] = {}


def definer_of(name: str) -> str | None:
    """The module whose import defines an operator of a package's own library ("namespace::name"), if one does."""
    return _definers.get(name)


def python_kernels() -> Mapping[str, Sequence[tuple[str, str]]]:
    """Of torch's own operators those that Python code has given kernels to, by their names ("add"): a call may act as such a kernel does.

    Each kernel is the name with its overload ("add.Tensor") and the dispatcher's key ("CPU"); those of tensors without memory, of which
    torch has many of its own, compute nothing and are left out. No public function lists them.
    """
    return _python_kernels(frozenset(torch.library._impls))


@functools.lru_cache(maxsize=1)
def _python_kernels(given: frozenset[str]) -> Mapping[str, Sequence[tuple[str, str]]]:
    """Of some 2000 names, which seldom change."""
    found: dict[str, list[tuple[str, str]]] = {}
    for each in sorted(name for name in given if name[:5] == "aten/" and name[-5:] != "/Meta"):
        _, operator, key = each.split("/")
        found.setdefault(operator.partition(".")[0], []).append((operator, key))
    return found


# What `torch.library.get_ctx` gives such a function is set by the mode that runs it.
fake_context = torch._library.fake_impl.set_ctx_getter


@functools.cache
def has_gpu() -> bool:
    """Whether CUDA can run here (asked once: it does not change within a process)."""
    return torch.cuda.is_available()


def wrapper_tensor(
    cls: type,
    size: tuple[Any, ...],
    stride: tuple[Any, ...],
    offset: Any,
    dtype: torch.dtype,
    device: torch.device,
    requires_grad: bool,
    extra_keys: Any | None,
    storage_size: Any | None = None,
    asks: bool = False,
) -> Tensor:
    """A tensor of class `cls` with this metadata and no storage (the documented-by-use wrapper constructor).

    `storage_size` is what its storage says of its bytes, where torch is not to compute them: of symbolic sizes that is
    most of the constructor's time. `asks`: torch does not work out for itself how it is laid out, but asks by operators
    (`aten.is_contiguous`, ...).
    """
    more: dict[str, Any] = {} if extra_keys is None else {"_extra_dispatch_keys": extra_keys}
    if storage_size is not None:
        more["storage_size"] = storage_size
    if asks:
        more["dispatch_sizes_strides_policy"] = "strides"
    return torch.Tensor._make_wrapper_subclass(
        cls,
        size,
        strides=stride,
        storage_offset=offset,
        dtype=dtype,
        device=device,
        requires_grad=requires_grad,
        **more,
    )


def plain_wrapper(
    cls: type, size: tuple[int, ...], stride: tuple[int, ...], offset: int, dtype: torch.dtype, device: torch.device
) -> Any:
    """The same of one that asks for nothing further: by position, which torch reads faster."""
    return torch.Tensor._make_wrapper_subclass(cls, size, stride, offset, None, dtype, torch.strided, device)


def lazy_bit_keys(conj: bool, neg: bool) -> Any | None:
    """Dispatch keys that mark a tensor as lazily conjugated or negated; None if neither."""
    if not (conj or neg):
        return None
    keys = torch._C.DispatchKeySet(torch._C.DispatchKey.Conjugate if conj else torch._C.DispatchKey.Negative)
    return keys.add(torch._C.DispatchKey.Negative) if conj and neg else keys


# What `torch.stft` calls once a signal is padded: its Python is run as it is.
plain_stft: Any = torch._VF.stft  # type: ignore[attr-defined]
# What `torch.block_diag` calls, told the same.
plain_block_diag: Any = torch._VF.block_diag  # type: ignore[attr-defined]


def image_function(name: str) -> Any:
    """torch's function that resizes or pools images: a function of `torch.nn.functional` calls it, and nothing public is it."""
    return getattr(torch._C._nn, name)


def is_composite(op: Any) -> bool:
    """Whether `op` is defined by other ops for every backend (it reaches a mode only in inference mode)."""
    return torch._C._dispatch_has_kernel_for_dispatch_key(op.name(), "CompositeImplicitAutograd")


def composite_kernel(op: Any, *args: Any, **kwargs: Any) -> Any:
    """Run the kernel that defines `op` by other ops, the one that eager runs.

    The public `decompose` prefers what Python registered in its place, which need not do the same: torch's recurrent layers
    written in Python leave out dropout.
    """
    return op._op_dk(torch._C.DispatchKey.CompositeImplicitAutograd, *args, **kwargs)


def calls_for_each(op: Any) -> bool:
    """Whether the kernel of an operator on lists calls another operator for each tensor: the dispatcher counts those writes, and none to lists."""
    has = torch._C._dispatch_has_kernel_for_dispatch_key
    name = op.name()
    return has(name, "CompositeExplicitAutograd") and not has(name, "ADInplaceOrView")


def increment_versions(tensors: Sequence[Tensor]) -> None:
    """Count a write to each of these: the public function walks over subclasses' parts, too."""
    torch._C._increment_version([tensor for tensor in tensors if not tensor.is_inference()])


def cpu_kernel(op: Any, *args: Any, **kwargs: Any) -> Any:
    """Run the host's kernel of `op`, whatever this thread records or watches: public calls go by all that."""
    return op.redispatch(_CPU, *args, **kwargs)


_CPU = torch._C.DispatchKeySet(torch._C.DispatchKey.CPU)


class _Probe(torch.Tensor):
    """Metadata alone, for questions to torch that look at nothing else."""

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:  # type: ignore[override]
        raise RuntimeError(f"a probe met {func}")


def is_slow_conv3d(input: tuple[Any, ...], weight: tuple[Any, ...], options: tuple[Any, ...]) -> bool:
    """Whether eager runs this 3-d convolution by the kernels that ignore channels-last.

    Which kernel runs depends on library versions, CPU features and thread count: only torch's own choice is right.
    `input` and `weight` are (size, stride, dtype, device); `options` what follows the bias in `aten.convolution`.
    """
    probes = [wrapper_tensor(_Probe, m[0], m[1], 0, m[2], m[3], False, None) for m in (input, weight)]
    backend = torch._C._select_conv_backend(*probes, None, *options, None)
    slow = torch._C._ConvBackend  # type: ignore[attr-defined]
    return backend in (slow.Slow3d, slow.SlowDilated3d, slow.SlowTranspose3d)


# The stack of saved-tensor hooks: public code can only enter and leave its own.
top_saved_tensor_hooks = torch._C._autograd._top_saved_tensors_default_hooks
push_saved_tensor_hooks = torch._C._autograd._push_saved_tensors_default_hooks
pop_saved_tensor_hooks = torch._C._autograd._pop_saved_tensors_default_hooks


def in_dispatch_mode() -> bool:
    """Whether any dispatch mode is in force in this thread; the public way builds a list of them."""
    return bool(torch._C._len_torch_dispatch_stack()) or current_fake_mode() is not None


# Holds every dispatch mode back for a stretch; what public code does by popping them is slower by five microseconds.
NoDispatchModes = torch._C._DisableTorchDispatch


# The levels of function transforms (vmap, grad, jvp) that are entered, innermost last, and how each kind is left: what is public is
# the transforms alone, as wholes.
_transforms: Any = torch._C._functorch
_LEAVE = {
    _transforms.TransformType.Vmap: _transforms._vmap_decrement_nesting,
    _transforms.TransformType.Grad: _transforms._grad_decrement_nesting,
    _transforms.TransformType.Jvp: _transforms._jvp_decrement_nesting,
}
# Whether a tensor of a level may be made a leaf in place, and whether tangents are computed: transforms set both.
leaves_allowed: Any = _transforms.get_inplace_requires_grad_allowed
allow_leaves: Any = _transforms.set_inplace_requires_grad_allowed
tangents_enabled: Any = torch._C._is_fwd_grad_enabled
enable_tangents: Any = torch._C._set_fwd_grad_enabled


def dual_level() -> int:
    """The level of forward-mode differentiation; -1 outside."""
    return forward_ad._current_level


def levels() -> list[Any]:
    """The levels of function transforms that are entered."""
    return _transforms.get_interpreter_stack() or []


def leave_level(level: Any) -> None:
    """Leave the innermost level, which this is."""
    _LEAVE[level.key()]()


def apply_here(function: type[torch.autograd.Function], *args: Any) -> Any:
    """What a function of autograd gives where it is applied, though levels of transforms are entered: `apply` asks those, even where they are left."""
    before = _transforms.get_single_level_autograd_function_allowed()
    _transforms.set_single_level_autograd_function_allowed(True)
    try:
        return super(torch.autograd.Function, function).apply(*args)  # type: ignore[misc]
    finally:
        _transforms.set_single_level_autograd_function_allowed(before)


PACK_PADDED: Any = torch._pack_padded_sequence
PAD_PACKED: Any = torch._pad_packed_sequence
"""What `torch.nn.utils.rnn` packs and pads by: only these functions tell that it is done, which has no public operator."""
