"""Torch's modes and queries: grad mode and autocast as recorded state, tracing and scripting flags as constants."""

from __future__ import annotations

from typing import Any

import torch

from ..errors import Unsupported
from ..evaluator.machine import Machine
from .base import Args, Kwargs, Variable
from .constants import Constant
from .tensors import Tensor
from .torch_calls import BUILTINS, builtin, constant_bool

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
    torch._C._is_torch_function_mode_enabled,
    torch._C._get_cudnn_enabled,
    torch._C._get_flash_sdp_enabled,
    torch._C._get_mem_efficient_sdp_enabled,
    torch._C._get_math_sdp_enabled,
    torch._C._get_deterministic_algorithms,
    torch._C._len_torch_function_stack,
    torch._C._get_privateuse1_backend_name,
    torch._C._is_torch_function_enabled,
    torch._C._has_cuda if callable(getattr(torch._C, "_has_cuda", None)) else torch.is_grad_enabled,
)


def _register() -> None:
    for setter in _SETTERS:
        builtin(setter)(lambda m, args, kwargs, f=setter: _set(m, f, args))
    for query in _QUERIES:
        builtin(query)(lambda m, args, kwargs, f=query: _ask(m, f, args, kwargs))
    answers: dict[Any, bool | None] = {torch._C._get_tracing_state: None}
    for function, answer in answers.items():
        builtin(function)(lambda m, args, kwargs, a=answer: Constant(a))


def _set(m: Machine, function: Any, args: Args) -> Variable:
    if function in (torch.autocast_increment_nesting, torch.autocast_decrement_nesting):
        before = function  # the count it returns decides when the cache is cleared
        m.graph_state_call(before, args)
        return Constant(m.autocast_nesting)
    m.graph_state_call(function, args)
    return Constant(None)


def _ask(m: Machine, function: Any, args: Args, kwargs: Kwargs) -> Variable:
    real = [m.to_python(a) for a in args]
    return m.from_python(m.fold(function, real, {k: m.to_python(v) for k, v in kwargs.items()}))


_register()


def _has_torch_function(m: Machine, args: Args, kwargs: Kwargs) -> Variable:
    """Plain tensors have no overrides; other tensor-likes never get this far."""
    return Constant(False)


for _name in ("_has_torch_function", "_has_torch_function_unary", "_has_torch_function_variadic"):
    BUILTINS[getattr(torch._C, _name)] = _has_torch_function


@builtin(torch._C._log_api_usage_once)
def _log_api_usage(m: Machine, args: Args, kwargs: Kwargs) -> Variable:
    return Constant(None)


@builtin(torch.is_floating_point, torch.is_complex, torch.numel)
def _property_of_tensor(m: Machine, args: Args, kwargs: Kwargs) -> Variable:
    raise Unsupported("replaced below")


for _function, _method in (
    (torch.is_floating_point, "is_floating_point"),
    (torch.is_complex, "is_complex"),
    (torch.numel, "numel"),
):
    BUILTINS[_function] = lambda m, args, kwargs, n=_method: m.realize(args[0]).method(m, n, args[1:], kwargs)


def tensor_of(m: Machine, value: Variable) -> Tensor | None:
    real = m.realize(value)
    return real if isinstance(real, Tensor) else None


always_false = constant_bool(False)
