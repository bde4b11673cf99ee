"""Between torch and NumPy: one memory, two faces. ``Tensor.numpy`` and ``torch.from_numpy`` give the other face."""

from __future__ import annotations

from collections.abc import Callable

from capture.arrays.dtypes import NUMPY_DTYPES
from capture.errors import Unsupported
from capture.variables.base import Args, Interpreter, Kwargs, Variable
from capture.variables.constants import Constant
from capture.variables.mappings import Dict
from capture.variables.sequences import List, Tuple
from capture.variables.tensors import Tensor

from .values import NdArray, over


def array_of(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    """``Tensor.numpy``."""
    tensor = args[0].realize(m)
    force = kwargs.get("force", Constant(False))
    if not isinstance(tensor, Tensor) or len(args) > 1 or kwargs.keys() - {"force"}:
        raise Unsupported("Tensor.numpy() of other arguments")
    if m.operators.truth(force):
        for method in ("detach", "cpu", "resolve_conj", "resolve_neg"):
            tensor = m.recorder.record("call_method", method, [tensor], {})
            assert isinstance(tensor, Tensor)
    return over(m, tensor)


def tensor_of(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    """``torch.from_numpy``."""
    array = args[0].realize(m) if len(args) == 1 and not kwargs else None
    if not isinstance(array, NdArray) or array.scalar:
        raise Unsupported("torch.from_numpy of what is no array")
    return m.recorder.record("call_method", "detach", [array.memory(m)], {})


def call_with_arrays(m: Interpreter, wrapped: Variable, args: Args, kwargs: Kwargs) -> Variable:
    """``torch.compiler.wrap_numpy``: a function of arrays as one of tensors, through which gradients go, on whatever device they are."""
    arrays = [_mapped(m, arg, _face) for arg in args]
    named = {name: _mapped(m, arg, _face) for name, arg in kwargs.items()}
    return _mapped(m, m.calls.call(wrapped, arrays, named), _tensor_behind)


def _mapped(m: Interpreter, value: Variable, function: Callable[[Variable], Variable]) -> Variable:
    """A value with a function applied to all that is no list, tuple or dictionary in it."""
    value = value.realize(m)
    if type(value) is Tuple and value.python_type() is tuple:
        return m.builder.new_tuple([_mapped(m, item, function) for item in value.items])
    if isinstance(value, List) and value.python_type() is list:
        return m.effects.created(List([_mapped(m, item, function) for item in value.items]))
    if isinstance(value, Dict) and value.python_type() is dict:
        entries = {key: (name, _mapped(m, item, function)) for key, (name, item) in value.entries.items()}
        return m.effects.created(Dict(entries))
    found = function(value)
    return found if found is value else m.effects.created(found)


def _face(value: Variable) -> Variable:
    if not isinstance(value, Tensor):
        return value
    if value.fake.dtype not in NUMPY_DTYPES:
        raise Unsupported(f"arrays of {value.fake.dtype}")
    return NdArray(value)


def _tensor_behind(value: Variable) -> Variable:
    """NumPy's scalars stay what they are where NumPy can have them."""
    if not isinstance(value, NdArray) or (value.scalar and not value.is_torchs):
        return value
    return value.tensor
