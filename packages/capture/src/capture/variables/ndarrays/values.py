"""NumPy's arrays and scalars: a tensor of the graph each, with the operators, attributes and methods that NumPy gives them."""

from __future__ import annotations

import operator
from collections.abc import Callable, Hashable, Iterable
from typing import Any

import numpy as np
import torch

from capture.arrays import indexing, memory
from capture.arrays.creation import of_numbers, of_parts
from capture.arrays.dtypes import TORCH_DTYPES, numpy_dtype, torch_dtype
from capture.arrays.elementwise import apply
from capture.bytecode import build
from capture.errors import NotConstant, SkipFrame, Unsupported
from capture.variables.base import Args, Interpreter, Kwargs, Variable
from capture.variables.constants import BoundBuiltin, Constant, InfoObject, Real
from capture.variables.iterators import SequenceIterator
from capture.variables.numbers import Symbolic
from capture.variables.reconstruction import CannotReconstruct, Emitter
from capture.variables.sequences import Sequence, Tuple
from capture.variables.slices import Slice
from capture.variables.tensors import Tensor

from .errors import check_errors

#: The ufunc that each operator is.
OPERATORS: dict[str, np.ufunc] = {
    "+": np.add, "-": np.subtract, "*": np.multiply, "/": np.true_divide, "//": np.floor_divide, "%": np.remainder,
    "**": np.power, "@": np.matmul, "&": np.bitwise_and, "|": np.bitwise_or, "^": np.bitwise_xor,
    "<<": np.left_shift, ">>": np.right_shift, "<": np.less, "<=": np.less_equal, "==": np.equal, "!=": np.not_equal,
    ">": np.greater, ">=": np.greater_equal, "~": np.invert, "abs": np.absolute,
}  # fmt: skip
_SIGNS: dict[str, np.ufunc] = {"-": np.negative, "+": np.positive}
#: By the class of a scalar.
SCALARS: dict[type, np.dtype[Any]] = {dtype.type: dtype for dtype in TORCH_DTYPES}


#: What methods of arrays mean, by name: registered where functions are, which most of them are.
ARRAY_METHODS: dict[str, Callable[[Interpreter, Any, Args, Kwargs], Variable]] = {}


class NdArray(Variable):
    """An array, or where ``scalar`` is set one of NumPy's numbers, which ``tensor`` holds."""

    rules_operators = True

    def __init__(self, tensor: Tensor, *, scalar: bool = False, read_only: bool = False) -> None:
        self._tensor = tensor
        self.scalar = scalar
        self.read_only = read_only

    @property
    def tensor(self) -> Tensor:
        """The elements in the graph."""
        return self._tensor

    @property
    def dtype(self) -> np.dtype[Any]:
        """NumPy's."""
        return numpy_dtype(self.tensor.fake.dtype)

    def python_type(self) -> type:
        return self.dtype.type if self.scalar else np.ndarray

    def truth(self, m: Interpreter) -> bool:
        number = self.as_number(m, bool)
        return number.truth(m)

    def as_number(self, m: Interpreter, cls: type) -> Variable:
        if self.tensor.fake.numel() != 1 or (self.tensor.fake.dim() and cls is not bool):
            raise Unsupported(f"{cls.__name__}() of an array of several elements")
        return self.tensor.as_number(m, cls)

    def data_as_tensor(self, m: Interpreter) -> Variable | None:
        return self.memory(m)

    def memory(self, m: Interpreter) -> Tensor:
        """The tensor over its memory that a program gets."""
        if self.read_only:
            raise Unsupported("a tensor over an array that nobody may write to")
        return self.tensor

    def number(self, m: Interpreter) -> Variable:
        """The number of Python's that NumPy gives for it."""
        kinds: dict[str, type] = {"b": bool, "i": int, "u": int, "f": float}
        if self.dtype.kind not in kinds:
            raise Unsupported("a complex number from an array's data")
        return self.tensor.as_number(m, kinds[self.dtype.kind])

    def attribute(self, m: Interpreter, name: str) -> Variable:
        if name == "dtype":
            return m.builder.known(self.dtype)
        if name == "__class__":
            return m.builder.known(self.python_type())
        if name == "shape":
            sizes = self.tensor.method(m, "size", [], {})
            assert isinstance(sizes, Tuple)
            return m.effects.created(Tuple(sizes.items))
        if name in ("ndim", "itemsize"):
            return Constant(self.tensor.fake.dim() if name == "ndim" else self.dtype.itemsize)
        if name in ("size", "nbytes"):
            return self.tensor.measure(m, "numel", [], {}) if name == "size" else self.tensor.attribute(m, name)
        if name == "strides":
            steps = [m.operators.binary("*", step, Constant(self.dtype.itemsize)) for step in self.steps(m)]
            return m.effects.created(Tuple(steps))
        if name == "T":
            return self.method(m, "transpose", [], {})
        if name in ("mT", "real", "imag"):
            return self.part(m, name)
        if not hasattr(self.python_type(), name):
            m.errors.throw(AttributeError, f"{_shown(self)!r} object has no attribute {name!r}")
        if callable(getattr(self.python_type(), name)):
            return BoundBuiltin(self, name)
        if name == "base" and not self.scalar:  # which arrays over memory of tensors do not have
            raise SkipFrame("it asks whose memory an array of its own is over")
        raise Unsupported(f"ndarray.{name}")

    def steps(self, m: Interpreter) -> list[Variable]:
        """The strides, in elements."""
        found = self.tensor.method(m, "stride", [], {})
        assert isinstance(found, Tuple)
        return found.items

    def part(self, m: Interpreter, name: str) -> Variable:
        """The attribute that is a view of the same memory."""
        if name == "real" and not self.tensor.fake.dtype.is_complex:
            return self
        if name == "imag" and not self.tensor.fake.dtype.is_complex:
            return wrapped(
                m, m.recorder.record("call_function", torch.zeros_like, [self.tensor], {}), [self], read_only=True
            )
        return wrapped(m, m.recorder.record("call_function", getattr, [self.tensor, Constant(name)], {}), [self])

    def set_attribute(self, m: Interpreter, name: str, value: Variable) -> None:
        raise Unsupported(f"setting ndarray.{name}")

    def method(self, m: Interpreter, name: str, args: Args, kwargs: Kwargs) -> Variable:
        found = ARRAY_METHODS.get(name)
        if found is not None:
            return found(m, self, [arg.realize(m) for arg in args], kwargs)
        if hasattr(self.python_type(), name):
            raise Unsupported(f"ndarray.{name}()")
        return m.calls.call(self.attribute(m, name), args, kwargs)

    def length(self, m: Interpreter) -> Variable:
        if not self.tensor.fake.dim():
            m.errors.throw(
                TypeError,
                "len() of unsized object" if not self.scalar else f"object of type {_shown(self)!r} has no len()",
            )
        return self.tensor.length(m)

    def iterate(self, m: Interpreter) -> Variable:
        if not self.tensor.fake.dim():
            what = f"{_shown(self)!r} object is not iterable" if self.scalar else "iteration over a 0-d array"
            m.errors.throw(TypeError, what)
        count = self.tensor.fake.shape[0]
        if not isinstance(count, int):
            count = m.operators.index(self.length(m))
        return m.effects.created(
            SequenceIterator(m.builder.new_tuple([self.item(m, Constant(i)) for i in range(count)]))
        )

    def item(self, m: Interpreter, key: Variable) -> Variable:
        parts = [_subscript(m, each) for each in _parts(m, key)]
        if any(isinstance(part, Slice) and _is_backwards(part) for part in parts):
            return self.backwards(m, parts)
        found = m.recorder.record("call_function", indexing.get, [self.tensor, m.builder.new_tuple(parts)], {})
        view = not any(isinstance(part, Tensor) for part in parts)
        whole = any(isinstance(part, Constant) and part.value is Ellipsis for part in parts)
        assert isinstance(found, Tensor)
        self.check_view(found)
        if self.scalar and shares(self, found):
            found = _copied(m, found)
        return m.effects.created(
            NdArray(found, scalar=not found.fake.dim() and not whole, read_only=self.read_only and view)
        )

    def backwards(self, m: Interpreter, parts: list[Variable]) -> Variable:
        """A view some of whose dimensions run backwards: those that lie so forwards, and which they are."""
        self.check_view(self.tensor)
        forwards: list[Variable] = []
        turned: list[int] = []
        dim = at = 0
        missing = self.tensor.fake.dim() - sum(_takes(part) for part in parts)
        if missing < 0:
            raise Unsupported("a subscript of more dimensions than there are")
        for part in parts:
            if isinstance(part, Tensor):
                raise Unsupported("elements by arrays beside a view backwards")
            if isinstance(part, Slice) and _is_backwards(part):
                forwards.append(_forwards(m, part, self.tensor.fake.shape[dim]))
                turned.append(at)
            else:
                forwards.append(part)
            dim += missing if _is_ellipsis(part) else _takes(part)
            at += missing if _is_ellipsis(part) else int(isinstance(part, Slice) or m.builder.is_none(part))
        view = self.item(m, m.builder.new_tuple(forwards))
        assert isinstance(view, NdArray)
        dims = m.builder.new_tuple([Constant(each) for each in turned])
        copied = m.recorder.record("call_function", torch.flip, [view.tensor, dims], {})
        assert isinstance(copied, Tensor)
        return m.effects.created(BackwardsArray(view, copied, tuple(turned)))

    def check_view(self, made: Tensor) -> None:
        """Raise ``Unsupported`` for a view of it that the graph does not have as one."""

    def set_item(self, m: Interpreter, key: Variable, value: Variable) -> None:
        self.check_writable()
        parts = [_subscript(m, each) for each in _parts(m, key)]
        if any(isinstance(part, Slice) and _is_backwards(part) for part in parts):
            raise Unsupported("writing to a view of an array backwards")
        given = operand(m, value)
        m.recorder.record("call_function", indexing.put, [self.tensor, m.builder.new_tuple(parts), given], {})

    def check_writable(self) -> None:
        """Raise ``Unsupported`` where NumPy refuses to write."""
        if self.read_only or self.scalar:
            raise Unsupported("writing to what NumPy has for read-only")

    def contains(self, m: Interpreter, value: Variable) -> bool:
        same = m.operators.compare("==", self, value).realize(m)
        return m.operators.truth(same.method(m, "any", [], {}))

    def operate(self, m: Interpreter, symbol: str, operands: list[Variable]) -> Variable:
        return operated(m, symbol, operands)

    @property
    def is_torchs(self) -> bool:
        """Whether it is over a tensor that NumPy cannot have, as in a function that `torch.compiler.wrap_numpy` wraps."""
        fake = self.tensor.fake
        return fake.requires_grad or fake.device.type != "cpu"

    def made_of(self) -> Iterable[Variable]:
        if self.is_torchs:
            raise CannotReconstruct(self, "an array over a tensor that NumPy cannot have")
        return (self.tensor,)

    def reconstruct(self, e: Emitter) -> None:
        made = memory.scalar_of if self.scalar else memory.read_only_array_of if self.read_only else memory.array_of
        e.call(made, [self.tensor])

    def __repr__(self) -> str:
        return f"<{'scalar' if self.scalar else 'array'} {self.tensor.node.name}>"


class BackwardsArray(NdArray):
    """A view backwards of another one, ``view``. Torch has none: the graph has a copy, which is right until something is written."""

    def __init__(self, view: NdArray, copied: Tensor, turned: tuple[int, ...]) -> None:
        super().__init__(copied, read_only=view.read_only)
        self.view = view
        self.turned = turned
        if copied.fake.is_inference():
            raise Unsupported("a view of an array backwards where nothing tells of writes")
        self.version = view.tensor.fake._version

    @property
    def tensor(self) -> Tensor:
        if self.view.tensor.fake._version != self.version:
            raise Unsupported("a view of an array backwards, which was written to")
        return self._tensor

    def check_writable(self) -> None:
        raise Unsupported("writing to a view of an array backwards")

    def check_view(self, made: Tensor) -> None:
        if made is self._tensor or shares(self, made):
            raise Unsupported("a view of a view of an array backwards")

    def memory(self, m: Interpreter) -> Tensor:
        raise Unsupported("a tensor over an array that lies backwards")

    def steps(self, m: Interpreter) -> list[Variable]:
        raise Unsupported("the strides of an array that lies backwards")

    def made_of(self) -> Iterable[Variable]:
        return (self.view,)

    def reconstruct(self, e: Emitter) -> None:
        e.call(memory.turned, [self.view, Constant(self.turned)])


class NumpyConstant(Real):
    """A known scalar of NumPy's."""

    rules_operators = True

    def __init__(self, value: np.generic) -> None:
        self.value = value

    def truth(self, m: Interpreter) -> bool:
        return bool(self.value)

    def hash_key(self, m: Interpreter) -> Hashable:
        return self.value

    def attribute(self, m: Interpreter, name: str) -> Variable:
        found = m.builder.fold(getattr, [self.value, name])
        return BoundBuiltin(self, name) if callable(found) else m.builder.from_python(found)

    def method(self, m: Interpreter, name: str, args: Args, kwargs: Kwargs) -> Variable:
        try:
            real = [m.builder.to_python(a) for a in args]
            named = {k: m.builder.to_python(v) for k, v in kwargs.items()}
        except NotConstant:
            return scalar(m, self).method(m, name, args, kwargs)
        return m.builder.from_python(m.builder.fold(getattr(self.value, name), real, named))

    def operate(self, m: Interpreter, symbol: str, operands: list[Variable]) -> Variable:
        return operated(m, symbol, operands)

    def made_of(self) -> Iterable[Variable]:
        return ()

    def reconstruct(self, e: Emitter) -> None:
        e.emit(build.load_const(self.value))

    def data_as_tensor(self, m: Interpreter) -> Variable | None:
        return scalar(m, self).tensor

    def as_argument(self, m: Interpreter) -> tuple[Any, Any]:
        # Where torch looks for NumPy's scalars it takes their dtype; to it these are numbers alone.
        if isinstance(self.value, (np.float64, np.integer, np.bool_)):
            plain: Any = self.value.item()
            return plain, plain
        return super().as_argument(m)

    def __repr__(self) -> str:
        return repr(self.value)


class DtypeObject(InfoObject):
    """``numpy.dtype``, ``finfo`` and ``iinfo`` objects: plain values by name."""

    def attribute(self, m: Interpreter, name: str) -> Variable:
        found = m.builder.fold(getattr, [self.value, name])
        return (
            BoundBuiltin(self, name)
            if callable(found) and not isinstance(found, type)
            else m.builder.from_python(found)
        )


def _shown(value: Variable) -> str:
    cls = value.python_type()
    return f"{cls.__module__}.{cls.__name__}"


# Values into the graph and out of it


def wrapped(
    m: Interpreter, made: Variable, among: Iterable[Variable] = (), *, read_only: bool = False, computed: bool = False
) -> Variable:
    """What a program gets for what the graph made: arrays for tensors, one of ``among`` where it is that; scalars if they are ``computed``."""
    made = made.realize(m)
    if isinstance(made, Tensor):
        for one in among:
            if isinstance(one, NdArray) and one.tensor is made and one.scalar <= computed:
                return one
            if isinstance(one, NdArray):
                one.check_view(made)
            if isinstance(one, NdArray) and one.scalar and shares(one, made):
                made = _copied(m, made)  # scalars cannot change
        scalar = computed and not made.fake.dim()
        inherited = any(isinstance(one, NdArray) and one.read_only and shares(one, made) for one in among)
        return m.effects.created(NdArray(made, scalar=scalar, read_only=read_only or inherited))
    if isinstance(made, Sequence):
        made.items = [wrapped(m, item, among, read_only=read_only, computed=computed) for item in made.items]
    return made


def _copied(m: Interpreter, tensor: Tensor) -> Tensor:
    found = m.recorder.record("call_method", "clone", [tensor], {})
    assert isinstance(found, Tensor)
    return found


def shares(array: NdArray, made: Tensor) -> bool:
    """Whether a tensor lies over an array's memory."""
    return bool(array.tensor.fake.storage_key is made.fake.storage_key)  # type: ignore[attr-defined]


def operand(m: Interpreter, value: Variable) -> Variable:
    """What the graph takes for a value among arrays: a tensor, or a number of Python's."""
    value = value.realize(m)
    if isinstance(value, NdArray):
        return value.tensor
    if isinstance(value, NumpyConstant):
        return scalar(m, value).tensor
    if isinstance(value, Symbolic) or (isinstance(value, Constant) and isinstance(value.value, (int, float, complex))):
        return value
    if isinstance(value, Sequence):
        return made_array(m, value).tensor
    # A tensor's own methods decide what it gives among arrays.
    raise Unsupported(f"{value!r} among arrays")


def as_array(m: Interpreter, value: Variable) -> NdArray:
    """The array that NumPy makes of a value."""
    value = value.realize(m)
    if isinstance(value, NdArray):
        return value
    if isinstance(value, NumpyConstant):
        return scalar(m, value)
    return made_array(m, value)


def over(m: Interpreter, value: Tensor) -> NdArray:
    """The array over a tensor's memory, as ``Tensor.numpy`` gives it."""
    fake = value.fake
    if (
        value.node is None
        or fake.requires_grad
        or fake.device.type != "cpu"
        or fake.is_conj()
        or fake.is_neg()
        or fake.layout is not torch.strided
    ):
        raise Unsupported("an array over a tensor that has none")
    if fake.dtype not in TORCH_DTYPES.values():
        raise Unsupported(f"arrays of {fake.dtype}")
    found = m.recorder.record("call_method", "detach", [value], {})
    assert isinstance(found, Tensor)
    return m.effects.created(NdArray(found))


def scalar(m: Interpreter, value: NumpyConstant) -> NdArray:
    """A known scalar as one that the graph makes."""
    return constant(m, value.value, scalar=True)


def constant(m: Interpreter, value: Any, *, scalar: bool = False) -> NdArray:
    """A known array, or scalar, made by the graph."""
    try:
        dtype = torch_dtype(value.dtype)
    except NotImplementedError as error:
        raise Unsupported(str(error)) from None
    numbers = m.builder.from_python(value.tolist())
    found = m.recorder.record("call_function", of_numbers, [numbers, Constant(dtype)], {})
    assert isinstance(found, Tensor)
    return m.effects.created(NdArray(found, scalar=scalar))


def made_array(m: Interpreter, value: Variable) -> NdArray:
    """``np.array`` of numbers, in lists or alone, some of which may be known at the run only."""
    value = value.realize(m)
    if not isinstance(value, (Sequence, Constant, Symbolic)):
        raise Unsupported(f"an array made of {value!r}")
    if m.builder.is_constant(value):
        real = m.builder.fold(np.array, [m.builder.to_python(value)])
        if real.size > _MOST:
            raise Unsupported("an array of many known numbers")
        return constant(m, real)
    if isinstance(value, Sequence):
        parts: list[Variable] = [
            operand(m, item) if not isinstance(item.realize(m), Sequence) else made_array(m, item).tensor
            for item in value.items
        ]
        found = m.recorder.record("call_function", of_parts, [m.builder.new_tuple(parts)], {})
    else:
        found = m.recorder.record("call_function", of_parts, [value], {})
    assert isinstance(found, Tensor)
    return m.effects.created(NdArray(found))


#: Known numbers that a graph is written with.
_MOST = 1024


# Operators


def operated(m: Interpreter, symbol: str, operands: list[Variable]) -> Variable:
    """An operator of operands of which one is an array or a scalar of NumPy's."""
    values = [each.realize(m) for each in operands]
    if symbol.endswith("=") and symbol[:-1] in OPERATORS and symbol not in ("<=", ">=", "==", "!="):
        return _assigned(m, symbol[:-1], values)
    known = [each.value for each in values if isinstance(each, (NumpyConstant, Constant))]
    if len(known) == len(values):
        function = _REAL[symbol] if len(values) > 1 else _REAL_SIGNS[symbol]
        return m.builder.from_python(m.builder.fold(function, known))
    if any(isinstance(each, Tensor) for each in values):
        return _with_tensor(m, symbol, values)
    ufunc = _SIGNS.get(symbol) if len(values) == 1 else None
    ufunc = ufunc or OPERATORS[symbol]
    if any(not isinstance(each, (NdArray, NumpyConstant, Constant, Symbolic, Sequence)) for each in values):
        raise Unsupported(f"{values[0]!r} {symbol} {values[-1]!r}")
    return call_ufunc(m, ufunc, list(values))


def _with_tensor(m: Interpreter, symbol: str, values: list[Variable]) -> Variable:
    """Torch takes scalars of NumPy's for numbers; with arrays neither side knows what to do."""
    numbers: list[Variable] = []
    for value in values:
        if isinstance(value, NumpyConstant):
            numbers.append(Constant(value.value.item()))
        elif isinstance(value, NdArray) and value.scalar:
            numbers.append(value.number(m))
        elif isinstance(value, Tensor):
            numbers.append(value)
        else:
            raise Unsupported(f"{symbol} of an array and a tensor")
    if symbol in _COMPARISONS:
        return m.operators.compare(symbol, *numbers)
    return m.operators.binary(symbol, *numbers)


_COMPARISONS = frozenset({"<", "<=", "==", "!=", ">", ">="})
_REAL: dict[str, Any] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv, "//": operator.floordiv,
    "%": operator.mod, "**": operator.pow, "@": operator.matmul, "&": operator.and_, "|": operator.or_,
    "^": operator.xor, "<<": operator.lshift, ">>": operator.rshift, "<": operator.lt, "<=": operator.le,
    "==": operator.eq, "!=": operator.ne, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
_REAL_SIGNS: dict[str, Any] = {"-": operator.neg, "+": operator.pos, "~": operator.invert, "abs": operator.abs}


def _assigned(m: Interpreter, symbol: str, values: list[Variable]) -> Variable:
    """``+=`` and its kin: an array is written to, a scalar is another one then."""
    target = values[0]
    if not isinstance(target, NdArray) or target.scalar:
        return operated(m, symbol, values)
    return call_ufunc(m, OPERATORS[symbol], values, out=target)


def call_ufunc(
    m: Interpreter, ufunc: np.ufunc, args: Args, *, dtype: Variable | None = None, out: NdArray | None = None
) -> Variable:
    """A ufunc's result; written to ``out`` where that is given, which must take it by NumPy's rule of the same kind."""
    if torch.is_autocast_enabled("cpu"):
        raise Unsupported("arrays where autocast is on")
    check_errors(m)
    operands = [operand(m, arg) for arg in args]
    named = {} if dtype is None else {"dtype": dtype}
    made = m.recorder.record("call_function", apply, [Constant(ufunc.__name__), *operands], named).realize(m)
    if out is None:
        return wrapped(m, made, computed=True)
    out.check_writable()
    if not isinstance(made, Tensor) or not np.can_cast(numpy_dtype(made.fake.dtype), out.dtype, "same_kind"):
        raise Unsupported(f"np.{ufunc.__name__} into an array that does not take its results")
    everything = m.builder.new_tuple([Constant(Ellipsis)])
    if made.fake.dim() > out.tensor.fake.dim():
        raise Unsupported(f"np.{ufunc.__name__} into an array of fewer dimensions")
    m.recorder.record("call_function", indexing.put, [out.tensor, everything, made], {})
    return out


# Subscripts


def _parts(m: Interpreter, key: Variable) -> list[Variable]:
    real = key.realize(m)
    return [each.realize(m) for each in real.items] if isinstance(real, Tuple) else [real]


def _subscript(m: Interpreter, part: Variable) -> Variable:
    """One part of a key, as ``arrays.indexing`` takes them."""
    if isinstance(part, NumpyConstant) and isinstance(part.value, np.integer):
        return Constant(int(part.value))
    if isinstance(part, NdArray):
        if part.dtype.kind in "iu" and not part.tensor.fake.dim():
            return part.tensor.as_number(m, int)
        return part.tensor
    if isinstance(part, Sequence) and not isinstance(part, Tuple):
        return made_array(m, part).tensor
    if isinstance(part, Slice):
        ends = [_end(m, each.realize(m)) for each in part.parts]
        return Slice(*ends)
    if isinstance(part, Symbolic) and part.python_type() is int:
        return part
    if isinstance(part, Constant) and (part.value in (None, Ellipsis) or type(part.value) is int):
        return part
    raise Unsupported(f"an array's element at {part!r}")


def _is_ellipsis(part: Variable) -> bool:
    return isinstance(part, Constant) and part.value is Ellipsis


def _takes(part: Variable) -> int:
    """How many dimensions a part of a key without arrays is about."""
    return 0 if isinstance(part, Constant) and (part.value is None or part.value is Ellipsis) else 1


def _is_backwards(part: Slice) -> bool:
    step = part.parts[2]
    return isinstance(step, Constant) and isinstance(step.value, int) and step.value < 0


def _forwards(m: Interpreter, part: Slice, length: Any) -> Slice:
    """The slice of the same elements in the order in which they lie."""
    try:
        start, stop, step = (m.builder.to_python(end) for end in part.parts)
    except NotConstant:
        raise Unsupported("a view of an array backwards between ends that may vary") from None
    if step == -1 and start is None and stop is None:
        return Slice(Constant(None), Constant(None), Constant(None))
    if not isinstance(length, int):
        raise Unsupported("a view of an array backwards, whose length may vary")
    places = range(*slice(start, stop, step).indices(length))
    ends = (places[-1], places[0] + 1, -step) if places else (0, 0, 1)
    return Slice(*map(Constant, ends))


def _end(m: Interpreter, end: Variable) -> Variable:
    if isinstance(end, NumpyConstant) and isinstance(end.value, np.integer):
        return Constant(int(end.value))
    if isinstance(end, NdArray) and end.dtype.kind in "iu" and not end.tensor.fake.dim():
        return end.tensor.as_number(m, int)
    return end
