"""Parameters that the frame makes, and modules whose parameters wait for their first input.

In: ``torch.nn.Parameter(...)``; the first call of a lazy module. Out: a leaf of the graph; a module that is like any other, after which
the frame is evaluated again.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.nn.modules.lazy import LazyModuleMixin

from capture._torch import takes_data_of
from capture.errors import EvaluateAgain, Unsupported
from symshapes import hint_of

from .autograd_state import require_grad
from .base import Args, Interpreter, Kwargs, Variable
from .constants import Constant
from .handlers import handles
from .tensors import Tensor, any_asked_below


@handles(torch.nn.Parameter)
def _parameter(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    given = dict(zip(("data", "requires_grad"), args, strict=False)) | kwargs
    if len(given) < len(args) + len(kwargs) or not given.keys() <= {"data", "requires_grad"}:
        raise Unsupported("torch.nn.Parameter with these arguments")
    data = given.get("data", Constant(None)).realize(m)
    if m.builder.is_none(data):
        data = m.recorder.record("call_function", torch.empty, [Constant(0)], {})
    if not isinstance(data, Tensor) or data.cls not in (torch.Tensor, torch.nn.Parameter):
        raise Unsupported("torch.nn.Parameter of what is no plain tensor")
    made = m.recorder.record("call_method", "detach", [data], {}).realize(m)
    assert isinstance(made, Tensor)
    made.cls = torch.nn.Parameter
    made.fake._is_param = True
    if m.operators.truth(given.get("requires_grad", Constant(True))):
        require_grad(m, made, True)
    return made


def initialise_lazy(m: Interpreter, module: torch.nn.Module, args: Args, kwargs: Kwargs) -> None:
    """Give a lazy module its parameters now, as the first call would have; the frame is then evaluated anew.

    Only one of torch's own, and while nothing was done that would come before: it draws random numbers.
    """
    if not isinstance(module, LazyModuleMixin) or not module.has_uninitialized_params():
        return
    hooks = list(module._forward_pre_hooks.values())
    own = type(module).initialize_parameters.__module__.startswith("torch.nn.")
    if not own or hooks != [module._infer_parameters] or m.recorder.acts or m.state.in_arms:
        raise Unsupported("the first call of a lazy module")
    given = [_like(m, arg) for arg in args]
    named = {name: _like(m, arg) for name, arg in kwargs.items()}
    module._infer_parameters(module, tuple(given), named)
    raise EvaluateAgain(f"{type(module).__name__} was lazy")


def _like(m: Interpreter, arg: Variable) -> Any:
    """What the module looks at: sizes and the like."""
    value = arg.realize(m)
    if not isinstance(value, Tensor):
        return m.builder.to_python(value)
    fake = value.fake
    return torch.empty([hint_of(length) for length in fake.shape], dtype=fake.dtype, device="meta")


@handles(takes_data_of)
def _takes_data_of(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    """Whether a tensor can get another's data: for certain of two dense ones of a device, by kernels that torch has for all dtypes."""
    given = [arg.realize(m) for arg in (*args, *kwargs.values())]
    if any_asked_below(given):  # in some modes
        return m.recorder.record("call_function", takes_data_of, args, kwargs)
    fakes = [each.fake for each in given if isinstance(each, Tensor)]
    plain = all(fake.layout is torch.strided and not fake.is_quantized for fake in fakes)
    if len(fakes) != 2 or not plain or fakes[0].device.type != fakes[1].device.type:
        raise Unsupported("whether a tensor can get another's data")
    return Constant(True)
