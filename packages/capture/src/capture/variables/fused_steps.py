"""Steps of optimizers that are one kernel over all parameters: a rate that changes is given to them as a tensor, as a float it would be fixed.

In: calls of them. Out: the same calls in the graph.
"""

from __future__ import annotations

import torch

from capture._torch import FUSED_STEPS

from .base import Args, Interpreter, Kwargs, Variable
from .constants import Constant
from .handlers import Handler, handles
from .numbers import Symbolic


def _with_rate_as_tensor(function: object) -> Handler:
    def call(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
        rate = kwargs["lr"].realize(m) if "lr" in kwargs else None
        if isinstance(rate, Symbolic) and rate.python_type() is float:
            # Eager's kernels read it as the double that it is.
            kind: Kwargs = {"dtype": Constant(torch.float64), "device": Constant(torch.device("cpu"))}
            kwargs = {**kwargs, "lr": m.recorder.record("call_function", torch.scalar_tensor, [rate], kind)}
        return m.recorder.record("call_function", function, args, kwargs)

    return call


for _function in FUSED_STEPS:
    handles(_function)(_with_rate_as_tensor(_function))
