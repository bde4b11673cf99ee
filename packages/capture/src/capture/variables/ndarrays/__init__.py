"""NumPy's arrays and scalars as values, computed by the graph; nothing of it is there where NumPy is not installed.

Few programs have any: what takes part in them is imported when something of NumPy's is met (`family`), or a tensor becomes an array.
"""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any

import torch

from capture.variables.base import Args, Interpreter, Kwargs, Variable
from capture.variables.families import meet_package, waits
from capture.variables.handlers import handles, handles_wrapper


def _interchange() -> Any:
    meet_package("numpy")
    return importlib.import_module(f"{__name__}.interchange")


if importlib.util.find_spec("numpy") is not None:
    importlib.import_module(f"{__name__}.draws")
    waits("numpy", f"{__name__}.family")

    @handles(torch.Tensor.numpy)
    def _numpy(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
        return _interchange().array_of(m, args, kwargs)

    @handles(torch.from_numpy)
    def _from_numpy(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
        return _interchange().tensor_of(m, args, kwargs)

    @handles_wrapper("torch._dynamo.external_utils.wrap_numpy.<locals>.wrap", "f")
    def _wrapped(m: Interpreter, wrapped: Variable, args: Args, kwargs: Kwargs) -> Variable:
        return _interchange().call_with_arrays(m, wrapped, args, kwargs)
