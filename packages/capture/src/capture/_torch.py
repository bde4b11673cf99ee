"""The one file that touches private parts of torch; each says why nothing public serves."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from types import BuiltinFunctionType, CodeType, FunctionType, GetSetDescriptorType
from typing import Any

import torch
from torch import fx
from torch.fx.graph import _Namespace
from torch.utils._device import DeviceContext, _device_constructors
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes, return_and_correct_aliasing

from symshapes import dataclass

# The softmax of attention: rows of -inf alone give zeros. Public code would test for them and choose.
safe_softmax = torch._safe_softmax

# The class of the `ctx` of a function of autograd, which is its node; and what the public methods of `ctx` (`save_for_backward`
# and the like) put there, as the source of `torch.autograd.function.FunctionCtx` has it.
AUTOGRAD_NODE: type[Any] = torch._C._FunctionBase
TOLD_TO_NODES = frozenset(
    name
    for method in vars(torch.autograd.function.FunctionCtx).values()
    if isinstance(method, FunctionType)
    for name in method.__code__.co_names
    if isinstance(vars(AUTOGRAD_NODE).get(name), GetSetDescriptorType)
)

# What `Module.to` asks before it gives parameters another's data: nothing public says it.
takes_data_of = torch._has_compatible_shallow_copy_type

# The classes of what `torch.ops` holds: public code has the objects, not the names.
OpOverload = torch._ops.OpOverload
OpOverloadPacket = torch._ops.OpOverloadPacket
# The class of what a schema says of an argument's memory, which the public `torch.Argument` gives.
ALIAS_INFO: type[Any] = torch._C._AliasInfo  # type: ignore[attr-defined]  # no stub has it


# What `torch.set_default_dtype` calls, and all that it does.
set_default_dtype: Callable[[torch.dtype], None] = torch._C._set_default_dtype


def _switches() -> dict[Any, Any]:
    """Torch's own switches, by which its libraries choose kernels: by what sets one what reads it, told by their names.

    Public are context managers and attributes (`torch.backends`), each of which comes down to these.
    """
    found: dict[Any, Any] = {}
    for name in dir(torch._C):
        if not name.startswith(("_get_", "_cuda_get_")):
            continue
        read = getattr(torch._C, name)
        if not isinstance(read, BuiltinFunctionType):
            continue
        named = name.replace("get_", "set_", 1)
        if named.endswith("_getter"):
            named = f"{named.removesuffix('_getter')}_setter"
        if named.startswith("_set_") and named.endswith("_sdp_enabled"):
            named = f"_set_sdp_use_{named.removeprefix('_set_').removesuffix('_sdp_enabled')}"
        write = getattr(torch._C, named, None)
        if isinstance(write, BuiltinFunctionType):
            found[write] = read
    # Which dtype is made of a number: by it compiled pieces differ, too.
    found[set_default_dtype] = torch.get_default_dtype
    return found


SWITCHES = _switches()
#: The arguments of those that take any: a precision is one of a library's for some operations.
_SWITCHED = tuple((library, of) for library in ("generic", "cuda", "mkldnn") for of in ("all", "conv", "rnn", "matmul"))


def is_plain(value: Any) -> bool:
    """Whether what a switch is set to is told by sight."""
    return isinstance(value, (bool, int, float, str, torch.dtype)) or (
        isinstance(value, list) and all(map(is_plain, value))
    )


def switch_values() -> dict[tuple[Any, tuple[Any, ...]], Any]:
    """What is in force, by the reader of each switch and its arguments, as far as values can be told by sight. None: there is none."""
    found: dict[tuple[Any, tuple[Any, ...]], Any] = {}
    for read in SWITCHES.values():
        for args in ((), *_SWITCHED):
            try:
                value = read(*args)
            except (TypeError, RuntimeError):  # it takes others, or has none to tell
                continue
            if value is None or is_plain(value):
                found[(read, args)] = value
    return found


# What the public flags of libraries and of attention come down to, which refuse to be set where flags are frozen: reader, setter, and
# the method of at::Context that reads it.
Flag = tuple[Callable[[], bool], Callable[[bool], None], str]
LIBRARY_FLAGS: dict[str, Flag] = {
    "cuDNN": (torch._C._get_cudnn_enabled, torch._C._set_cudnn_enabled, "userEnabledCuDNN"),
    "oneDNN": (torch._C._get_mkldnn_enabled, torch._C._set_mkldnn_enabled, "userEnabledMkldnn"),
}
ATTENTION_FLAGS: dict[str, Flag] = {
    "flash": (torch._C._get_flash_sdp_enabled, torch._C._set_sdp_use_flash, "userEnabledFlashSDP"),
    "memory efficient": (
        torch._C._get_mem_efficient_sdp_enabled,
        torch._C._set_sdp_use_mem_efficient,
        "userEnabledMemEfficientSDP",
    ),
    "math": (torch._C._get_math_sdp_enabled, torch._C._set_sdp_use_math, "userEnabledMathSDP"),
    "cuDNN": (torch._C._get_cudnn_sdp_enabled, torch._C._set_sdp_use_cudnn, "userEnabledCuDNNSDP"),
    "overrideable": (
        torch._C._get_overrideable_sdp_enabled,
        torch._C._set_sdp_use_overrideable,
        "userEnabledOverrideableSDP",
    ),
    "products of halves": (
        torch._C._get_math_sdp_allow_fp16_bf16_reduction,
        torch._C._set_math_sdp_allow_fp16_bf16_reduction,
        "allowFP16BF16ReductionMathSDP",
    ),
}


# Public is a context manager alone.
def attention_order() -> tuple[int, ...]:
    """In which order kernels of attention are tried on a GPU."""
    return tuple(torch._C._get_sdp_priority_order())


def set_attention_order(order: tuple[int, ...]) -> None:
    """Have them tried in this order."""
    torch._C._set_sdp_priority_order(list(order))


# What `torch.backends.cuda.matmul.fp32_precision` and `torch.set_float32_matmul_precision` come down to, with what of it is inherited; the
# public question of the latter raises where both were asked.
float32_precision: Callable[[str, str], str] = torch._C._get_fp32_precision_getter
set_float32_precision: Callable[[str, str, str], Any] = torch._C._set_fp32_precision_setter

# What makes nested tensors beneath the public functions, which read their arguments' data first.
nested_from_list = torch._nested_tensor_from_tensor_list
# How many torch-function modes are in force: public code can only enter and leave them.
torch_function_depth: Callable[[], int] = torch._C._len_torch_function_stack
# The same of dispatch modes, whose stack a compiled graph would not run through.
dispatch_mode_depth: Callable[[], int] = torch._C._len_torch_dispatch_stack
# The mode of a default device, and the functions of which it says where their tensors are made.
DEVICE_MODE: type[Any] = DeviceContext
device_constructors: Callable[[], set[Any]] = _device_constructors
# What enters and leaves a torch-function mode, beneath the public context managers: what a program's calls come down to.
enter_function_mode: Callable[[Any], None] = torch._C._push_on_torch_function_stack
leave_function_mode: Callable[[], Any] = torch._C._pop_torch_function_stack
function_mode_at: Callable[[int], Any] = torch._C._get_function_stack_at
# Whether vmap, grad or another transform of torch.func runs: there is no public question.
in_transform: Callable[[], bool] = torch._C._are_functorch_transforms_active
# Entered modes can be left in order by public code, not dropped by who did not enter them.
_drop_dispatch_mode: Callable[[Any], Any] = torch._C._pop_torch_dispatch_stack
# ---- function transforms ----

# The levels of torch.func's transforms, which its own Python enters and leaves, and the wrappers of tensors at a level: what is
# public is the transforms alone, as wholes.
_transforms: Any = torch._C._functorch
ENTER_LEVEL: tuple[Callable[..., int], ...] = (
    _transforms._vmap_increment_nesting,
    _transforms._grad_increment_nesting,
    _transforms._jvp_increment_nesting,
)
LEAVE_LEVEL: tuple[Callable[..., int], ...] = (
    _transforms._vmap_decrement_nesting,
    _transforms._grad_decrement_nesting,
    _transforms._jvp_decrement_nesting,
)
enter_vmap, enter_grad, enter_jvp = ENTER_LEVEL
leave_vmap, leave_grad, leave_jvp = LEAVE_LEVEL
#: Functions of a tensor, other arguments, and a level, which is the last one; of `remove_batch` the second.
add_batch: Callable[..., Any] = _transforms._add_batch_dim
remove_batch: Callable[..., Any] = _transforms._remove_batch_dim
wrap_for_grad: Callable[..., Any] = _transforms._wrap_for_grad
unwrap_for_grad: Callable[..., Any] = _transforms._unwrap_for_grad
#: Whether a wrapper may be made a leaf in place.
leaves_allowed: Callable[[], bool] = _transforms.get_inplace_requires_grad_allowed
allow_leaves: Callable[[bool], None] = _transforms.set_inplace_requires_grad_allowed
#: Whether tangents are computed.
tangents_enabled: Callable[[], bool] = torch._C._is_fwd_grad_enabled
enable_tangents: Callable[[bool], None] = torch._C._set_fwd_grad_enabled
is_wrapped: Callable[[torch.Tensor], bool] = _transforms.is_functorch_wrapped_tensor
#: Questions about a tensor that its wrapping answers.
WRAPPING: tuple[Callable[..., Any], ...] = tuple(
    found
    for name in (
        "is_functorch_wrapped_tensor",
        "is_batchedtensor",
        "is_gradtrackingtensor",
        "maybe_get_level",
        "maybe_get_bdim",
    )
    if (found := getattr(_transforms, name, None)) is not None
)
#: Levels are there, and operations do not see them.
beneath_levels: Any = torch._C._DisableFuncTorch
#: Operations made of others are so in Python where torch has that: beneath transforms its C++ takes no symbolic sizes.
composed_in_python: Any = torch._C._EnablePythonDispatcher
# What `saved_tensors_hooks` sets and takes back, which a reason for a break is to name by what it does.
set_saved_tensor_hooks: Callable[..., None] = torch._C._autograd._push_saved_tensors_default_hooks
take_saved_tensor_hooks: Callable[[], None] = torch._C._autograd._pop_saved_tensors_default_hooks
# Saved-tensor hooks: which are in force, and that a transform can't have any.
saved_tensor_hooks: Callable[[bool], Any] = torch._C._autograd._top_saved_tensors_default_hooks
FORBID_SAVED_TENSOR_HOOKS: tuple[Callable[..., Any], ...] = (
    torch._C._autograd._saved_tensors_hooks_disable,
    torch._C._autograd._saved_tensors_hooks_enable,
)
why_no_saved_tensor_hooks: Callable[[], str | None] = torch._C._autograd._saved_tensors_hooks_get_disabled_error_message


def inside(tensor: Any) -> Any:
    """What the wrappers of a tensor wrap in the end; other values as they are."""
    while isinstance(tensor, torch.Tensor) and is_wrapped(tensor):
        tensor = _transforms.get_unwrapped(tensor)
    return tensor


# Whether subclasses' torch functions are switched off; the context manager that does it is private too.
torch_function_enabled: Callable[[], bool] = torch._C._is_torch_function_enabled
# The public tensor attribute gives no address: a tensor's C++ object, to find it inside the Python object.
POINTER = "_cdata"


def dispatch_bit(name: str) -> int:
    """The bit of a dispatch key in a tensor's set; 0 where torch has none of that name."""
    key = getattr(torch._C.DispatchKey, name, None)
    return 0 if key is None else int(torch._C.DispatchKeySet(key).raw_repr())


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


def torch_stance() -> str:
    """What torch's own compiler was told to do; "default" where it was never imported, which asking it would do."""
    told = sys.modules.get("torch._dynamo.eval_frame")
    return getattr(getattr(told, "_stance", None), "stance", "default")


def registered_backends() -> dict[str, Any]:
    """By name, the backends that the program registered with torch's own compiler; none where that was never imported."""
    registry = sys.modules.get("torch._dynamo.backends.registry")
    return dict(getattr(registry, "_COMPILER_FNS", {}))


@dataclass(frozen=True)
class InForce:
    """What a thread has in force that a capture changes while it runs."""

    function_modes: int
    dispatch_modes: int
    grad: bool
    multithreading: bool

    @classmethod
    def now(cls) -> InForce:
        """What is in force."""
        return cls(
            torch_function_depth(),
            dispatch_mode_depth(),
            torch.is_grad_enabled(),
            torch._C._is_multithreading_enabled(),  # public is only what sets it
        )

    def restore(self) -> None:
        """Drop the modes entered since, and put the grad mode back."""
        while torch_function_depth() > self.function_modes:
            leave_function_mode()
        while dispatch_mode_depth() > self.dispatch_modes:
            _drop_dispatch_mode(None)
        torch.set_grad_enabled(self.grad)
        torch.autograd.set_multithreading_enabled(self.multithreading)


def dispatch_keys() -> tuple[Any, Any]:
    """The dispatch keys that this thread adds to those of tensors, and those that it passes over: modes, autocast, what is beneath
    autograd. Public are context managers for one of them each."""
    return torch._C._dispatch_tls_local_include_set(), torch._C._dispatch_tls_local_exclude_set()


@contextlib.contextmanager
def outside_dispatch(keys: tuple[Any, Any]) -> Iterator[None]:
    """Within, no dispatch mode is in force, and these keys are the thread's. Modes that are only passed over, autograd's engine would put back
    in force."""
    with _disable_current_modes(), torch._C._ForceDispatchKeyGuard(*keys):
        yield


# ---- modes ----


def function_modes() -> list[Any]:
    """The torch-function modes in force, innermost last."""
    return [function_mode_at(i) for i in range(torch_function_depth())]


def set_function_modes(modes: list[Any]) -> None:
    """These are in force, and no others."""
    while torch_function_depth():
        leave_function_mode()
    for mode in modes:
        enter_function_mode(mode)


def default_devices() -> tuple[torch.device, ...]:
    """The devices asked for by `torch.set_default_device` and `with device`, the one in force last."""
    return tuple(mode.device for mode in function_modes() if isinstance(mode, DeviceContext))


def watcher_in_force() -> str:
    """What of the program's is in force that is to see each operation as it runs, in words; "" if nothing."""
    if dispatch_mode_depth():
        return "a dispatch mode of the program's is in force"
    if DeviceContext in map(type, followed_modes()):
        return "a default device is in force within a torch-function mode of the program's"
    return "a function transform (vmap, grad, ...) runs" if in_transform() else ""


def followed_modes() -> tuple[Any, ...]:
    """The torch-function modes in force from the outermost one on that is the program's, innermost last."""
    modes = function_modes()
    while modes and type(modes[0]) is DeviceContext:
        del modes[0]
    return tuple(modes)


def mode_in_force(ignored: object, place: int) -> Any:
    """The torch-function mode at a place, the outermost at 0; None where there is none."""
    return function_mode_at(place) if place < torch_function_depth() else None


class _PassingOn(torch.overrides.TorchFunctionMode):
    """In the place of a mode that is not to see what capturing does: as many are in force, and this one changes nothing."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


@contextlib.contextmanager
def stood_in_for(modes: tuple[Any, ...]) -> Iterator[None]:
    """Others are in force in the place of these, which are the innermost ones."""
    depth = torch_function_depth()
    for _ in modes:
        leave_function_mode()
    try:
        for _ in modes:
            enter_function_mode(_PassingOn())
        yield
    finally:
        while torch_function_depth() > depth - len(modes):
            leave_function_mode()
        for mode in modes:
            enter_function_mode(mode)


def unasked(graph: Callable[..., Any]) -> Callable[..., Any]:
    """A graph that no torch-function mode sees run."""

    def run(*inputs: Any) -> Any:
        with without_functions():
            return graph(*inputs)

    return run


def set_deterministic(value: tuple[bool, bool]) -> None:
    """Switch deterministic algorithms, and whether they only warn.

    The public setter imports torch's own compiler, to tell it too: seconds, for what is put back at once.
    """
    torch._C._set_deterministic_algorithms(value[0], warn_only=value[1])


# What the public context managers of the grad mode call, so that it is what a program's calls come down to.
set_grad_enabled: Callable[[bool], None] = torch._C._set_grad_enabled
# What `Tensor.imag` of a conjugate gives a view by, and `torch.neg` none.
neg_view: Callable[[torch.Tensor], torch.Tensor] = torch._neg_view
# What the public context manager of inference mode makes as it is entered.
inference_guard: Any = torch._C._InferenceMode
# The two ways to switch subclasses' torch functions off, the second modes as well: context managers without a public name. Also for the code
# that looks at tensors of the program's classes, or runs a graph, without being asked about it.
without_overrides: Callable[[], contextlib.AbstractContextManager[Any]] = torch._C.DisableTorchFunctionSubclass
without_functions: Callable[[], contextlib.AbstractContextManager[Any]] = torch._C.DisableTorchFunction
function_switches: tuple[Any, ...] = (without_overrides, without_functions)
# What stands in a class whose tensors override nothing.
NO_OVERRIDE: Any = torch._C._disabled_torch_function_impl
NO_DISPATCH: Any = torch._C._disabled_torch_dispatch_impl
# Whether torch functions are switched off, modes included.
all_functions_off: Callable[[], bool] = torch._C._is_torch_function_all_disabled


# What makes a tensor of a class of the program's from another one's memory, without its history.
make_subclass: Callable[..., torch.Tensor] = torch.Tensor._make_subclass
# What makes a tensor of a class that is asked below autograd: of sizes, without memory. And what such classes call to have their results alias
# as the operator's schema says.
make_wrapper_subclass: Callable[..., torch.Tensor] = torch.Tensor._make_wrapper_subclass
correct_aliasing: Callable[..., Any] = return_and_correct_aliasing
# A mode that hears what is asked below autograd.
DispatchMode: Any = TorchDispatchMode


_creation: Callable[[torch.Tensor], Any] = torch._C._autograd._get_creation_meta


def is_view(tensor: torch.Tensor) -> bool:
    """Whether autograd takes a tensor for a view of another one; no class is asked."""
    with without_functions():
        return tensor._is_view()


def refuses_writes(tensor: torch.Tensor) -> bool:
    """Whether autograd lets nobody write what has gradients to a tensor: a leaf that gets some, a view of one, or a view made so that it cannot
    tell. One that gets none, and a view of such, may be written to.

    How a view was made is nowhere to be read in public.
    """
    with without_functions():
        if not tensor._is_view():
            return _gets_gradients(tensor)
        base = tensor._base
        return base is None or _gets_gradients(base) or _creation(tensor) != torch._C._autograd.CreationMeta.DEFAULT


def loses_gradients(tensor: torch.Tensor) -> bool:
    """Whether a tensor is a view made so that autograd refuses to tell its gradient once its memory was written to."""
    with without_functions():
        return tensor._is_view() and _creation(tensor) != torch._C._autograd.CreationMeta.DEFAULT


def _gets_gradients(tensor: torch.Tensor) -> bool:
    return tensor.is_leaf and tensor.requires_grad


#: What is read of such a tensor past what its class makes of it.
PLAINLY_READ = ("is_leaf", "grad", "_base", "grad_fn", "_backward_hooks", "_post_accumulate_grad_hooks")


def read_plainly(tensor: torch.Tensor, index: int) -> Any:
    """One of `PLAINLY_READ`, as torch has it: nobody is asked."""
    with without_functions():
        return getattr(torch.Tensor, PLAINLY_READ[index]).__get__(tensor)


def is_inference(tensor: torch.Tensor) -> bool:
    """Whether a tensor was made in inference mode; no class is asked."""
    with without_functions():
        return torch.Tensor.is_inference(tensor)


def write_plainly(tensor: torch.Tensor, name: str, value: Any) -> None:
    """``tensor.name = value`` for what is torch's: nobody is asked."""
    with without_functions():
        getattr(torch.Tensor, name).__set__(tensor, value)


# Whether autocast is on for any device, whether deterministic algorithms are on, whether a torch-function mode is in
# force: what torch's own Python asks, where the public questions are about one device, or add a frame.
any_autocast: Callable[[], bool] = torch._C._is_any_autocast_enabled
deterministic_algorithms: Callable[[], bool] = torch._C._get_deterministic_algorithms
in_function_mode: Callable[[], bool] = torch._C._is_torch_function_mode_enabled


# Questions of torch's own Python whose answers no setting tells: what this build has, which libraries' kernels may serve.
QUERIES: tuple[Callable[..., Any], ...] = (
    torch._C._is_autocast_available,
    torch._C._are_functorch_transforms_active,
    torch._C._get_privateuse1_backend_name,
    # Optimizers ask on GPUs. Builds without CUDA have no such function, or a class that raises.
    *(f for f in (getattr(torch._C, "_cuda_isCurrentStreamCapturing", None),) if isinstance(f, BuiltinFunctionType)),
)
# What torch's own Python asks before it looks for overrides of an operation, in its three forms.
OVERRIDE_QUERIES: tuple[Callable[..., bool], ...] = (
    torch._C._has_torch_function,
    torch._C._has_torch_function_unary,
    torch._C._has_torch_function_variadic,
)
# What torch's own Python asks of the tracer of torch.jit, and tells who counts calls.
tracing_state: Callable[[], Any] = torch._C._get_tracing_state
# Whether a profiler records ranges and operations.
profiling: Callable[[], bool] = torch._C._autograd._profiler_enabled

# Functions compiled by TorchScript; what asks for the class of a value as that has it.
ScriptFunction: Any = torch._C.ScriptFunction
jit_isinstance: Callable[[Any, Any], bool] = torch._jit_internal._isinstance
# What begins and ends ranges of other vendors' profilers, in C beneath `torch.cuda.nvtx` and `torch.profiler.itt`, where they are built in.
_RANGES = [vars(torch._C)[name] for name in ("_nvtx", "_itt") if name in vars(torch._C)]
RANGE_MARKS: tuple[Any, ...] = tuple(
    vars(module)[name]
    for module in _RANGES
    for name in ("rangePushA", "rangePop", "rangeStartA", "rangeEnd", "markA", "rangePush", "mark")
    if name in vars(module)
)
# Whether they are built in.
RANGE_QUESTIONS: tuple[Any, ...] = tuple(
    vars(module)["is_available"] for module in _RANGES if hasattr(module, "is_available")
)

# Steps of optimizers as one kernel.
FUSED_STEPS: tuple[Callable[..., Any], ...] = (
    torch._fused_sgd_,
    torch._fused_adam_,
    torch._fused_adamw_,
    torch._fused_adagrad_,
)


def held_alone(tensor: torch.Tensor) -> bool:
    """Whether a tensor's memory is no other tensor's: one count is its own, one that of the object asked here."""
    return torch._C._storage_Use_Count(tensor.untyped_storage()._cdata) <= 2


def stream_is_captured() -> bool:
    """Whether what is put on the accelerator's current stream goes into a graph of the device's."""
    stream: Any = torch.accelerator.current_stream()  # torch 2.11 says nothing of `is_capturing`
    return bool(stream.is_capturing())


# How torch's optimizers count their steps.
add_to_each: Callable[..., None] = torch._foreach_add_
# What torch's optimizers and clipping sort tensors by.
group_tensors: Callable[[Any, bool], Any] = torch._C._group_tensors_by_device_and_dtype
log_api_usage: Callable[[str], None] = torch._C._log_api_usage_once


# What programs promise of numbers, with the exception that each raises: these names have nothing public that is the same.
CHECKS: dict[Any, type[Exception]] = {
    torch._check: RuntimeError,
    torch._check_index: IndexError,
    torch._check_value: ValueError,
    torch._check_type: TypeError,
    torch._check_not_implemented: NotImplementedError,
}
check_is_size = torch._check_is_size
check_with = torch._check_with

#: What two `torch.Size` are broadcast to, as losses and distributions ask for it.
infer_size: Callable[[torch.Size, torch.Size], torch.Size] = torch._C._infer_size


#: The name of a module in a `ModuleList` by a place in it, which may be counted from the end.
name_in_list = torch.nn.ModuleList._get_abs_string_index


class _NodeNames(_Namespace):
    """The names of a graph's nodes. One that was asked for before is told apart by the number after the last one's, without taking it apart."""

    def __init__(self) -> None:
        super().__init__()
        self._whole: set[str] = set()

    def create_name(self, candidate: str, obj: Any | None) -> str:
        """A name for a node that no other has."""
        if obj is None and candidate in self._whole:
            number = self._base_count[candidate] + 1
            while (name := f"{candidate}_{number}") in self._used_names:
                number += 1
            self._used_names.add(name)
            self._base_count[candidate] = number
            return name
        name = super().create_name(candidate, obj)
        if name == candidate and not name.rpartition("_")[2].isdigit():  # else it is one of those of another name
            self._whole.add(name)
        return name


def new_graph() -> fx.Graph:
    """An empty graph, which names its nodes as any does: each call in it is a node."""
    graph = fx.Graph()
    graph._graph_namespace = _NodeNames()
    return graph
