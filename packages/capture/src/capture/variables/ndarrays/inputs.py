"""Arrays, scalars and dtypes that a call brings: the graph takes the tensors over arrays' memory; integers are what they were."""

from __future__ import annotations

from typing import Any

import numpy as np

from capture.arrays.memory import tensor_over
from capture.errors import Unsupported
from capture.guards import GuardKind
from capture.sources import Const, Made, Source
from capture.variables.base import Interpreter, Variable
from capture.variables.building import builds, converts
from capture.variables.tensors import Tensor

from .values import SCALARS, DtypeObject, NdArray, NumpyConstant, constant


@builds(np.ndarray, subclasses=True)
def _build_array(m: Interpreter, value: Any, source: Source | None) -> Variable:
    if type(value) is not np.ndarray:
        raise Unsupported(f"array subclass {type(value).__name__}")
    return NdArray(_brought(m, value, source))


def _brought(m: Interpreter, value: Any, source: Source | None) -> Tensor:
    """The tensor that an array or scalar is to the graph, as an input of it."""
    if source is None:
        raise Unsupported("an array of unknown origin")
    try:
        tensor = tensor_over(value)
    except NotImplementedError as error:
        raise Unsupported(str(error)) from None
    m.guards.add(source, GuardKind.TYPE, type(value))
    made = Made(source, tensor_over)
    node, fake = m.recorder.input(tensor, made)
    found = Tensor(node, fake)
    found.source = made
    found.value = tensor
    m.recorder.know(found)
    return found


@builds(np.generic, subclasses=True)
def _build_scalar(m: Interpreter, value: Any, source: Source | None) -> Variable:
    if type(value) not in SCALARS:
        raise Unsupported(f"a {type(value).__name__}")
    if source is None or isinstance(source, Const):
        return NumpyConstant(value)
    if isinstance(value, (np.integer, np.bool_)):
        found = NumpyConstant(value)
        m.guards.add(source, GuardKind.TYPE, type(value))
        found.source = source
        m.guards.predicate(found, lambda other: other == value, f"{{}} == {value}", (type(value), value.item()))
        return found
    return NdArray(_brought(m, value, source), scalar=True)


@converts(*SCALARS)
def _scalar(m: Interpreter, value: Any) -> Variable:
    return NumpyConstant(value)


@converts(np.ndarray)
def _array(m: Interpreter, value: Any) -> Variable:
    return constant(m, value)


@builds(np.dtype, subclasses=True)
@builds(np.finfo, np.iinfo)
def _build_dtype(m: Interpreter, value: Any, source: Source | None) -> Variable:
    return m.builder.identified(DtypeObject(value), source)
