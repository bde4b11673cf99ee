"""Torch's modes and queries: grad mode and autocast as recorded state, tracing and scripting flags as constants."""

from __future__ import annotations

from typing import Any

import torch

from capture.errors import Unsupported
from capture.guards import GuardKind

from .base import Args, Interpreter, Kwargs, Variable
from .constants import Constant
from .objects import MISSING, Object, class_lookup
from .sequences import Sequence
from .torch_calls import BUILTINS, Handler, builtin

#: Setters that the graph records and that the frame's end restates.
_SETTERS = (
    torch._C._set_grad_enabled,
    torch.set_autocast_enabled,
    torch.set_autocast_dtype,
    torch.set_autocast_cache_enabled,
    torch.autocast_increment_nesting,
    torch.autocast_decrement_nesting,
    torch.clear_autocast_cache,
)

#: Queries answered by asking torch now: the capture is guarded on the state at entry and tracks its changes.
_QUERIES = (
    torch.is_grad_enabled,
    torch.is_inference_mode_enabled,
    torch.is_autocast_enabled,
    torch.get_autocast_dtype,
    torch.is_autocast_cache_enabled,
    torch.is_autocast_cpu_enabled,
    torch.get_default_dtype,
    torch.are_deterministic_algorithms_enabled,
    torch._C._is_any_autocast_enabled,
    torch._C._is_autocast_available,
    torch._C._are_functorch_transforms_active,
    torch._C._is_torch_function_mode_enabled,
    torch._C._get_cudnn_enabled,
    torch._C._get_flash_sdp_enabled,
    torch._C._get_mem_efficient_sdp_enabled,
    torch._C._get_math_sdp_enabled,
    torch._C._get_deterministic_algorithms,
    torch._C._len_torch_function_stack,
    torch._C._len_torch_dispatch_stack,
    torch._C._get_privateuse1_backend_name,
    torch._C._is_torch_function_enabled,
    torch._C._has_cuda if callable(getattr(torch._C, "_has_cuda", None)) else torch.is_grad_enabled,
)


#: Of those, the ones whose answers every capture is guarded on.
_ALWAYS_GUARDED = frozenset(
    {
        torch.is_grad_enabled,
        torch.is_inference_mode_enabled,
        torch.is_autocast_enabled,
        torch.is_autocast_cpu_enabled,
        torch.get_default_dtype,
        torch.are_deterministic_algorithms_enabled,
        torch._C._is_any_autocast_enabled,
        torch._C._is_torch_function_mode_enabled,
        torch._C._get_deterministic_algorithms,
        torch._C._len_torch_function_stack,
        torch._C._len_torch_dispatch_stack,
        torch._C._is_torch_function_enabled,
    }
)


def _register() -> None:
    for setter in _SETTERS:
        BUILTINS[setter] = _setter(setter)
    for query in _QUERIES:
        BUILTINS[query] = _query(query)
    BUILTINS[torch._C._get_tracing_state] = lambda m, args, kwargs: Constant(None)


def _setter(function: Any) -> Handler:
    return lambda m, args, kwargs: _set(m, function, args)


def _query(function: Any) -> Handler:
    return lambda m, args, kwargs: _ask(m, function, args, kwargs)


def _set(m: Interpreter, function: Any, args: Args) -> Variable:
    if function is torch.set_autocast_enabled:
        _note_autocast(m, m.to_python(args[0]))
    m.graph_state_call(function, args)
    if function in (torch.autocast_increment_nesting, torch.autocast_decrement_nesting):
        return Constant(m.autocast_nesting)  # the program clears the cache when it reaches 0
    return Constant(None)


def _ask(m: Interpreter, function: Any, args: Args, kwargs: Kwargs) -> Variable:
    real = [m.to_python(a) for a in args]
    answer = m.fold(function, real, {k: m.to_python(v) for k, v in kwargs.items()})
    if function is torch.get_autocast_dtype or function is torch.is_autocast_cache_enabled:
        _note_autocast(m, real[0] if real else "cpu")
    elif function not in _ALWAYS_GUARDED and not kwargs:
        m.guard(None, GuardKind.ANSWER, (function, tuple(real), answer))
    return m.from_python(answer)


def _note_autocast(m: Interpreter, device: str) -> None:
    """What autocast would do on a device counts, though it was off where the frame began; the frame may have set it."""
    if device not in ("cpu", "cuda"):
        raise Unsupported(f"autocast on {device}")
    dtype = m.entered_with["autocast_dtype"][device == "cuda"]
    m.guard(None, GuardKind.ANSWER, (torch.get_autocast_dtype, (device,), dtype))
    m.guard(None, GuardKind.ANSWER, (torch.is_autocast_cache_enabled, (), m.entered_with["autocast_cache"]))


_register()


def _has_torch_function(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    """Plain tensors have no overrides, and other objects that are asked about rarely."""
    for value in [v for a in args for v in _each(m.realize(a))]:
        real = m.realize(value)
        if isinstance(real, Object) and class_lookup(m, real.cls, "__torch_function__")[0] is not MISSING:
            raise Unsupported(f"the overrides of a {real.cls.__name__}")
    return Constant(False)


def _each(value: Variable) -> list[Variable]:
    return value.items if isinstance(value, Sequence) else [value]


for _name in ("_has_torch_function", "_has_torch_function_unary", "_has_torch_function_variadic"):
    BUILTINS[getattr(torch._C, _name)] = _has_torch_function


@builtin(torch._C._log_api_usage_once)
def _log_api_usage(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    return Constant(None)


def _tensor_method(name: str) -> Handler:
    return lambda m, args, kwargs: m.realize(args[0]).method(m, name, args[1:], kwargs)


BUILTINS[torch.is_floating_point] = _tensor_method("is_floating_point")
BUILTINS[torch.is_complex] = _tensor_method("is_complex")
BUILTINS[torch.numel] = _tensor_method("numel")
