"""Calls of NumPy's functions and of arrays' methods: computed for real of what is known, else by what stands for them in the graph."""

from __future__ import annotations

import functools
import inspect
from typing import Any

import numpy as np
import torch

from capture.arrays import arrangement, creation, elementwise, linear, reductions, searching
from capture.arrays.dtypes import torch_dtype
from capture.arrays.reductions import axes_of
from capture.arrays.table import FUNCTIONS, METHODS, Entry, Gives, Kind
from capture.errors import NotConstant, Unsupported
from capture.sources import Source
from capture.variables.base import Args, Interpreter, Kwargs, Variable
from capture.variables.building import builds
from capture.variables.constants import BoundBuiltin, Constant
from capture.variables.handlers import Fold, Handler, folds, handles, label
from capture.variables.sequences import Sequence
from capture.variables.slices import Slice
from capture.variables.tensors import Tensor
from capture.variables.torch_calls import BuiltinFunction

from .errors import check_errors
from .values import (
    ARRAY_METHODS,
    SCALARS,
    DtypeObject,
    NdArray,
    NumpyConstant,
    as_array,
    call_ufunc,
    constant,
    operand,
    over,
    wrapped,
)

#: Where the entries are registered; those of creation make arrays of numbers that are known, too, in the graph.
_TABLES = (arrangement, creation, linear, reductions, searching)


class NumpyFunction(BuiltinFunction):
    """A ufunc, or one of NumPy's functions that other classes of arrays may override."""

    def call(self, m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
        if isinstance(self.value, np.ufunc):
            return _call_ufunc(m, self.value, args, kwargs)
        return super().call(m, args, kwargs)

    def attribute(self, m: Interpreter, name: str) -> Variable:
        if isinstance(self.value, np.ufunc) and name in _UFUNC_METHODS:
            return BoundBuiltin(self, name)
        return super().attribute(m, name)

    def method(self, m: Interpreter, name: str, args: Args, kwargs: Kwargs) -> Variable:
        found = _UFUNC_METHODS.get(name, {}).get(self.value.__name__) if isinstance(self.value, np.ufunc) else None
        if found is None:
            raise Unsupported(f"{label(self.value)}.{name}")
        if name != "outer" and len(args) < 2:
            kwargs = {"axis": Constant(0), **kwargs}
        return call_entry(m, FUNCTIONS[found], args, kwargs)


#: The functions that methods of ufuncs are, by the ufunc's name.
_REDUCED = {
    np.add: "sum",
    np.multiply: "prod",
    np.maximum: "max",
    np.minimum: "min",
    np.logical_and: "all",
    np.logical_or: "any",
}
_UFUNC_METHODS: dict[str, dict[str, str]] = {
    "reduce": {ufunc.__name__: name for ufunc, name in _REDUCED.items()},
    "accumulate": {"add": "cumsum", "multiply": "cumprod"},
    "outer": {"multiply": "outer"},
    "at": {},
    "reduceat": {},
}


@builds(np.ufunc, type(np.sum))
def _build_function(m: Interpreter, value: Any, source: Source | None) -> Variable:
    return m.builder.identified(NumpyFunction(value), source)


def _is_known(m: Interpreter, args: Args, kwargs: Kwargs) -> bool:
    return all(m.builder.is_constant(value) for value in (*args, *kwargs.values()))


def _call_ufunc(m: Interpreter, ufunc: np.ufunc, args: Args, kwargs: Kwargs) -> Variable:
    own = getattr(np, ufunc.__name__, None) is ufunc
    if own and _is_known(m, args, kwargs):
        return Fold(ufunc)(m, args, kwargs)
    if not own or ufunc.__name__ not in elementwise.UFUNCS:
        raise Unsupported(f"np.{ufunc.__name__}")
    given = {name: value.realize(m) for name, value in kwargs.items()}
    args = [arg.realize(m) for arg in args]
    out = given.pop("out", args.pop() if len(args) > ufunc.nin else None)
    if isinstance(out, Sequence) and len(out.items) == 1:
        out = out.items[0].realize(m)
    if out is not None and m.builder.is_none(out):
        out = None
    dtype = _dtype(m, given.pop("dtype", Constant(None)))
    where = given.pop("where", Constant(True))
    if given or not (isinstance(where, Constant) and where.value is True) or len(args) != ufunc.nin:
        raise Unsupported(f"np.{ufunc.__name__} with {', '.join([*given, 'where'])}")
    if out is not None and (not isinstance(out, NdArray) or m.builder.to_python(dtype) is not None):
        raise Unsupported(f"np.{ufunc.__name__} into {out!r}")
    return call_ufunc(m, ufunc, args, dtype=None if m.builder.is_none(dtype) else dtype, out=out)


# Functions with entries


def call_entry(
    m: Interpreter, entry: Entry, args: Args, kwargs: Kwargs, real: Any = None, *, computed: bool = False
) -> Variable:
    """A call of what an entry stands for: ``real``, if its parameters are told by that. ``computed``: results are scalars where they can be."""
    if torch.is_autocast_enabled("cpu"):
        raise Unsupported("arrays where autocast is on")
    check_errors(m)
    given = _bound(m, entry, [arg.realize(m) for arg in args], {k: v.realize(m) for k, v in kwargs.items()}, real)
    positional: Args = []
    named: Kwargs = {}
    for name, value in given.items():
        parameter = entry.signature.parameters[name]
        kind = entry.parameters[name]
        if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
            assert isinstance(value, tuple)
            positional += [_argument(m, kind, each) for each in value]
        elif parameter.kind is inspect.Parameter.KEYWORD_ONLY or len(positional) < list(entry.parameters).index(name):
            named[name] = _argument(m, kind, value)
        else:
            positional.append(_argument(m, kind, value))
    made = m.recorder.record("call_function", entry.function, positional, named)
    if entry.gives is Gives.NUMBER:
        assert isinstance(made, Tensor)
        return NdArray(made).number(m)
    among = [each for each in (*args, *kwargs.values()) for each in [each.realize(m)] if isinstance(each, NdArray)]
    read_only = entry.gives is Gives.READ_ONLY
    return wrapped(m, made, among, read_only=read_only, computed=computed or entry.gives is Gives.COMPUTED)


def _bound(m: Interpreter, entry: Entry, args: Args, kwargs: Kwargs, real: Any) -> dict[str, Any]:
    """The arguments by the names of the entry's parameters, without those that say what is so anyway."""
    try:
        return dict(entry.signature.bind(*args, **kwargs).arguments)
    except TypeError as problem:
        theirs = _signature(real)
        if theirs is None:
            raise Unsupported(f"np.{entry.name}: {problem}") from None
    try:
        found = theirs.bind(*args, **kwargs).arguments
    except TypeError as problem:
        raise Unsupported(f"np.{entry.name}: {problem}") from None
    given: dict[str, Any] = {}
    for name, value in found.items():
        if name in entry.parameters:
            given[name] = value
        elif not _is_default(value, theirs.parameters[name].default):
            raise Unsupported(f"np.{entry.name} with {name}")
    return given


def _is_default(value: Any, default: Any) -> bool:
    return isinstance(value, Constant) and (value.value is None or value.value is default)


@functools.cache
def _signature(real: Any) -> inspect.Signature | None:
    try:
        return inspect.signature(real)
    except (TypeError, ValueError):
        return None


def _argument(m: Interpreter, kind: Kind, value: Variable) -> Variable:
    """What the graph takes for an argument."""
    if kind is Kind.DTYPE:
        return _dtype(m, value)
    if kind is Kind.ARRAY:
        return as_array(m, value).tensor
    if kind is Kind.OPERAND:
        return value if m.builder.is_none(value) else operand(m, value)
    if kind is Kind.ARRAYS:
        items = m.iteration.elements(value)
        return m.builder.new_tuple([as_array(m, item).tensor for item in items])
    value = value.realize(m)
    if isinstance(value, Sequence):
        return m.builder.new_tuple([_argument(m, kind, item) for item in value.items])
    if isinstance(value, NdArray):
        if value.tensor.fake.dim() or value.dtype.kind not in "iu":
            raise Unsupported("an array where NumPy takes numbers")
        return value.tensor.as_number(m, int)
    return value


def _dtype(m: Interpreter, value: Variable) -> Variable:
    """Torch's dtype for what NumPy makes a dtype of; None for None."""
    try:
        real = m.builder.to_python(value)
        return Constant(None if real is None else torch_dtype(m.builder.fold(np.dtype, [real])))
    except NotConstant:
        raise Unsupported(f"{value!r} as a dtype") from None
    except NotImplementedError as error:
        raise Unsupported(str(error)) from None


def _handler(entry: Entry, real: Any) -> Handler:
    """A call of a function: of what is known alone it is made for real, unless it makes arrays of sizes."""
    makes = entry.function.__module__ == creation.__name__
    takes_data = entry.name in ("array", "asarray", "asanyarray", "ascontiguousarray")

    def handle(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
        if takes_data and args and isinstance(tensor := args[0].realize(m), Tensor):
            args = [over(m, tensor), *args[1:]]
        if not makes and _is_known(m, args, kwargs):
            if takes_data:
                return constant(
                    m, m.builder.fold(real, _real(m, args), {k: m.builder.to_python(v) for k, v in kwargs.items()})
                )
            return Fold(real)(m, args, kwargs)
        return call_entry(m, entry, args, kwargs, real)

    return handle


def _real(m: Interpreter, args: Args) -> list[Any]:
    return [m.builder.to_python(arg) for arg in args]


def _register() -> None:
    seen: set[int] = set()
    for name, entry in FUNCTIONS.items():
        try:
            real = functools.reduce(getattr, name.split("."), np)
        except AttributeError:  # of another version of NumPy
            continue
        if id(real) not in seen:
            seen.add(id(real))
            handles(real)(_handler(entry, real))


_register()
# What they say of dtypes depends on these alone.
folds(np.issubdtype, np.promote_types, np.broadcast_shapes, np.isdtype, np.min_scalar_type)


# Methods


def _function(name: str) -> Any:
    """NumPy's function of a method's name, which has its parameters, if there is one."""
    return getattr(np, name, None)


def _method(entry: Entry, name: str) -> Any:
    def call(m: Interpreter, array: NdArray, args: Args, kwargs: Kwargs) -> Variable:
        if name in ("reshape", "transpose") and len(args) > 1:
            args = [m.builder.new_tuple(args)]
        return call_entry(m, entry, [array, *args], kwargs, _function(name), computed=array.scalar)

    return call


def _conjugate(m: Interpreter, array: NdArray, args: Args, kwargs: Kwargs) -> Variable:
    return call_ufunc(m, np.conjugate, [array, *args])


def _item(m: Interpreter, array: NdArray, args: Args, kwargs: Kwargs) -> Variable:
    if args:
        key = args[0] if len(args) == 1 else m.builder.new_tuple(args)
        if len(args) == 1 and array.tensor.fake.dim() != 1:
            raise Unsupported("ndarray.item() by a place among all elements")
        found = array.item(m, key)
        assert isinstance(found, NdArray)
        return found.number(m)
    if array.tensor.fake.numel() != 1:
        m.errors.throw(ValueError, "can only convert an array of size 1 to a Python scalar")
    return array.number(m)


def _tolist(m: Interpreter, array: NdArray, args: Args, kwargs: Kwargs) -> Variable:
    return array.tensor.method(m, "tolist", [], {}) if array.tensor.fake.dim() else array.number(m)


def _fill(m: Interpreter, array: NdArray, args: Args, kwargs: Kwargs) -> Variable:
    array.set_item(m, Constant(Ellipsis), args[0])
    return Constant(None)


def _sort(m: Interpreter, array: NdArray, args: Args, kwargs: Kwargs) -> Variable:
    array.check_writable()
    array.set_item(m, Constant(Ellipsis), call_entry(m, FUNCTIONS["sort"], [array, *args], kwargs, np.sort))
    return Constant(None)


def _set_item(m: Interpreter, array: NdArray, args: Args, kwargs: Kwargs) -> Variable:
    array.set_item(m, *args)
    return Constant(None)


def _length(m: Interpreter, array: NdArray, args: Args, kwargs: Kwargs) -> Variable:
    return array.length(m)


ARRAY_METHODS.update({name: _method(entry, name) for name, entry in METHODS.items()})
ARRAY_METHODS.update(
    item=_item,
    tolist=_tolist,
    fill=_fill,
    sort=_sort,
    __len__=_length,
    __setitem__=_set_item,
    conj=_conjugate,
    conjugate=_conjugate,
)


# Attributes as functions, and classes of scalars


def _measure(name: str) -> Handler:
    def measure(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
        if len(args) != 1 or kwargs:
            raise Unsupported(f"np.{name} along an axis")
        return as_array(m, args[0]).attribute(m, name)

    return measure


for _name in ("shape", "ndim", "size", "real", "imag"):
    handles(getattr(np, _name))(_measure(_name))


@handles(np.dtype)
def _make_dtype(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    if len(args) != 1 or kwargs:
        raise Unsupported("np.dtype with options")
    return m.builder.known(m.builder.fold(np.dtype, [m.builder.to_python(args[0])]))


def _information(cls: Any) -> None:
    @handles(cls)
    def make(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
        return DtypeObject(m.builder.fold(cls, _real(m, args)))


_information(np.finfo)
_information(np.iinfo)


@handles(np.result_type)
def _result_type(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    given = [arg.realize(m) for arg in args]
    real = [arg.dtype if isinstance(arg, NdArray) else m.builder.to_python(arg) for arg in given]
    return m.builder.known(m.builder.fold(np.result_type, real))


def _scalar_class(cls: type) -> None:
    @handles(cls)
    def make(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
        if len(args) > 1 or kwargs:
            raise Unsupported(f"np.{cls.__name__} of several arguments")
        if _is_known(m, args, kwargs):
            return m.builder.from_python(m.builder.fold(cls, _real(m, args)))
        value = args[0].realize(m)
        if isinstance(value, Tensor):
            raise Unsupported(f"np.{cls.__name__} of a tensor")
        given = as_array(m, value)
        return call_entry(m, METHODS["astype"], [given, Constant(SCALARS[cls])], {}, computed=True)


for _cls in SCALARS:
    _scalar_class(_cls)


@handles(np.flip)
def _flip(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    given = dict(zip(("m", "axis"), args, strict=False)) | kwargs
    array = as_array(m, given.pop("m", Constant(None)))
    axis = m.builder.to_python(given.pop("axis", Constant(None)))
    if given or not (axis is None or isinstance(axis, (int, tuple))):
        raise Unsupported("np.flip of other arguments")
    dims = m.builder.fold(axes_of, [array.tensor.fake, axis])
    nothing = Constant(None)
    whole = [Slice(nothing, nothing, Constant(-1 if dim in dims else None)) for dim in range(array.tensor.fake.dim())]
    return array.item(m, m.builder.new_tuple(list(whole)))


def _flip_along(axis: int) -> Handler:
    return lambda m, args, kwargs: _flip(m, [*args, Constant(axis)], kwargs)


handles(np.fliplr)(_flip_along(1))
handles(np.flipud)(_flip_along(0))


@handles(np.isscalar)
def _isscalar(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    value = args[0].realize(m)
    if isinstance(value, NdArray):
        return Constant(value.scalar)
    if isinstance(value, NumpyConstant):
        return Constant(True)
    if not isinstance(value, Constant):
        raise Unsupported(f"np.isscalar of {value!r}")
    return Constant(np.isscalar(value.value))
