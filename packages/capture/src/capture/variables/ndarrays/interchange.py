"""Between torch and NumPy: one memory, two faces. ``Tensor.numpy`` and ``torch.from_numpy`` give the other face."""

from __future__ import annotations

import torch

from capture.errors import Unsupported
from capture.variables.base import Args, Interpreter, Kwargs, Variable
from capture.variables.constants import Constant
from capture.variables.handlers import handles
from capture.variables.tensors import Tensor

from .values import NdArray, over


@handles(torch.Tensor.numpy)
def _numpy(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    tensor = args[0].realize(m)
    force = kwargs.get("force", Constant(False))
    if not isinstance(tensor, Tensor) or len(args) > 1 or kwargs.keys() - {"force"}:
        raise Unsupported("Tensor.numpy() of other arguments")
    if m.operators.truth(force):
        for method in ("detach", "cpu", "resolve_conj", "resolve_neg"):
            tensor = m.recorder.record("call_method", method, [tensor], {})
            assert isinstance(tensor, Tensor)
    return over(m, tensor)


@handles(torch.from_numpy)
def _from_numpy(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    array = args[0].realize(m) if len(args) == 1 and not kwargs else None
    if not isinstance(array, NdArray) or array.scalar or array.read_only:
        raise Unsupported("torch.from_numpy of what is no array that may be written to")
    return m.recorder.record("call_method", "detach", [array.tensor], {})
