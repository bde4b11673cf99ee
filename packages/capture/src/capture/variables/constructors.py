"""What calling the built-in classes does: conversions, containers, lazy iterators, ``super``, ``type``."""

from __future__ import annotations

import collections
import functools
import itertools
import operator
import types
from collections.abc import Iterable
from typing import Any

import torch

from capture.bytecode import build
from capture.errors import NotConstant, Unsupported

from . import iterators
from .base import Args, Interpreter, Kwargs, Variable, shown_type
from .builtins import _products, sequence_of, tuples_iterator
from .constants import Constant, Known
from .deques import Deque
from .functions import Cell, Method, Partial, own_attributes
from .handlers import handles
from .itertools import Accumulate, Chain, Count, LongestZip, Pairwise, Part, Repeat
from .mappings import Dict
from .named_tuples import NamedTuple
from .numbers import Symbolic
from .objects import Object
from .reconstruction import Emitter
from .sequences import List, Range, Sequence, Slice, Tuple
from .sets import Set, unordered
from .supers import Super
from .tensors import Tensor


@handles(type)
def _type(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    if len(args) != 1:
        raise Unsupported("class made by type()")
    return m.builder.known(args[0].realize(m).python_type())


@handles(super)
def _super(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    if args:
        start, obj = m.builder.to_python(args[0]), args[1].realize(m)
    else:
        frame = m.state.frame
        cell = frame.cells.get("__class__")
        if cell is None or cell.content is None:
            m.errors.throw(RuntimeError, "super(): __class__ cell not found")
        start = m.builder.to_python(cell.content)
        name = frame.code.co_varnames[0]
        first = frame.cells[name].content if name in frame.cells else frame.first_argument
        if first is None:
            m.errors.throw(RuntimeError, "super(): arg[0] deleted")
        obj = first.realize(m)
    made = Super(start, obj)
    made.check(m)
    return m.effects.created(made)


@handles(bool)
def _bool(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    if not args:
        return Constant(False)
    value = args[0].realize(m)
    if isinstance(value, Symbolic) and value.python_type() is bool:
        return value
    return Constant(m.operators.truth(value))


def _number(cls: type, method: str) -> None:
    @handles(cls)
    def convert(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
        if not args:
            return Constant(cls())
        value = args[0].realize(m)
        if isinstance(value, Tensor):
            raise Unsupported(f"{cls.__name__}() of a tensor's value")
        if isinstance(value, Symbolic):
            if value.python_type() is cls:
                return value
            if cls is float and value.python_type() is int:
                return m.recorder.record("call_function", torch.sym_float, [value], {})
            if cls is int and value.python_type() is float:
                return m.recorder.record("call_function", torch.sym_int, [value], {})
            value = Constant(value.specialise(m))
        if isinstance(value, Object):
            found = value.call_special(m, method, [])
            if found is not None:
                return found
        try:
            real = [m.builder.to_python(a) for a in [value, *args[1:]]]
            named = {k: m.builder.to_python(v) for k, v in kwargs.items()}
        except NotConstant:
            raise Unsupported(f"{cls.__name__}() of {value!r}") from None
        return Constant(m.builder.fold(cls, real, named))


_number(int, "__int__")
_number(float, "__float__")
_number(complex, "__complex__")


@handles(str)
def _str(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    if not args:
        return Constant("")
    if len(args) > 1 or kwargs:
        return Constant(
            m.builder.fold(
                str, [m.builder.to_python(a) for a in args], {k: m.builder.to_python(v) for k, v in kwargs.items()}
            )
        )
    return m.operators.text(args[0])


@handles(bytes)
def _bytes(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    return Constant(m.builder.fold(bytes, [m.builder.to_python(a) for a in args]))


@handles(list)
def _list(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    return m.effects.created(List(m.iteration.elements(args[0]) if args else []))


@handles(collections.deque)
def _deque(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    limit = args[1] if len(args) > 1 else kwargs.get("maxlen")
    made: Deque = m.effects.created(
        Deque([], None if limit is None or m.builder.is_none(limit) else m.operators.index(limit))
    )
    if args:
        made.py_extend(m, args[0])
    return made


@handles(tuple)
def _tuple(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    if args:
        value = args[0].realize(m)
        if type(value) is Tuple and value.cls is tuple:
            return value
    return m.builder.new_tuple(m.iteration.elements(args[0]) if args else [])


@handles(torch.Size)
def _size(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    return m.effects.created(Tuple(m.iteration.elements(args[0]) if args else [], torch.Size))


@handles(set)
def _set(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    return _set_of(m, args, set)


@handles(frozenset)
def _frozenset(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    return _set_of(m, args, frozenset)


def _set_of(m: Interpreter, args: Args, cls: type) -> Set:
    given = args[0].realize(m) if args else Tuple([])
    made = Set.of(m, unordered(m, given), cls, in_order=not isinstance(given, Set))
    if cls is frozenset and isinstance(given, Set) and given.cls is frozenset:
        made.only_grew = given.only_grew  # it is the same object
    return made


@handles(dict)
def _dict(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    return _fill(m, m.effects.created(Dict({})), args, kwargs)


@handles(collections.OrderedDict)
def _ordered_dict(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    return _fill(m, m.effects.created(Dict({}, collections.OrderedDict)), args, kwargs)


@handles(collections.defaultdict)
def _defaultdict(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    made = m.effects.created(Dict({}, collections.defaultdict, args[0].realize(m) if args else Constant(None)))
    return _fill(m, made, args[1:], kwargs)


def _fromkeys(cls: type) -> None:
    @handles(cls.fromkeys)  # type: ignore[attr-defined]
    def fromkeys(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
        named = dict(zip(("iterable", "value"), args, strict=False)) | kwargs
        if "iterable" not in named or len(named) != len(args) + len(kwargs) or (kwargs and cls is dict):
            raise Unsupported("fromkeys with other than its arguments")
        made = Dict({}, cls)
        m.effects.created(made)
        for key in m.iteration.elements(named["iterable"]):
            made.set_item(m, key, named.get("value", Constant(None)))
        return made


_fromkeys(dict)
_fromkeys(collections.OrderedDict)


def _fill(m: Interpreter, made: Dict, args: Args, kwargs: Kwargs) -> Variable:
    made.update(m, args, kwargs)
    return made


@handles(slice)
def _slice(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    none = Constant(None)
    parts = [none, args[0], none] if len(args) == 1 else [*args, none][:3]
    return Slice(*parts)


@handles(range)
def _range(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    return Range(m.builder.fold(range, [m.operators.index(a) for a in args]))


@handles(enumerate)
def _enumerate(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    start = args[1] if len(args) > 1 else kwargs.get("start", Constant(0))
    return m.effects.created(iterators.Enumerate(m.iteration.iterate(args[0]), m.operators.index(start)))


@handles(zip)
def _zip(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    strict = "strict" in kwargs and m.operators.truth(kwargs["strict"])
    return m.effects.created(iterators.Zip([m.iteration.iterate(a) for a in args], strict))


@handles(map)
def _map(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    return m.effects.created(iterators.Map(args[0], [m.iteration.iterate(a) for a in args[1:]]))


@handles(filter)
def _filter(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    return m.effects.created(iterators.Filter(args[0], m.iteration.iterate(args[1])))


@handles(reversed)
def _reversed(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    value = args[0].realize(m)
    cls = value.python_type()
    if not hasattr(cls, "__reversed__") and not (hasattr(cls, "__getitem__") and hasattr(cls, "__len__")):
        m.errors.throw(TypeError, f"{shown_type(cls)!r} object is not reversible")
    if isinstance(value, Object):
        found = value.special(m, "__reversed__")
        if found is not None and value.payload is None:
            return m.calls.call(found, [], {})
    if type(value) in (List, Tuple, NamedTuple):
        return m.effects.created(iterators.ReversedIterator(value))
    if isinstance(value, Range):
        return m.effects.created(iterators.RangeIterator(value.value[::-1]))
    if isinstance(value, Object) and value.payload is None:
        raise Unsupported("reversed() of an object")
    listed = sequence_of(m, value)
    assert isinstance(listed, Sequence)
    return m.effects.created(iterators.Computed(m.builder.new_tuple(list(reversed(listed.items)))))


@handles(property)
def _property(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    raise Unsupported("property made in the frame")


@handles(object)
def _object(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    if args or kwargs:
        m.builder.fold(object, [None] * len(args), dict.fromkeys(kwargs))
    return m.effects.created(Object(object))


@handles(functools.partial)
def _partial(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    inner = args[0].realize(m)
    if isinstance(inner, Partial) and inner.own is None:  # one with attributes stays what it is
        if inner.real is not None:
            m.guards.predicate(inner, lambda real: own_attributes(real) is None, "{} was given no attributes")
        return m.effects.created(Partial(inner.function, [*inner.args, *args[1:]], {**inner.kwargs, **kwargs}))
    return m.effects.created(Partial(inner, list(args[1:]), dict(kwargs)))


@handles(types.MethodType)
def _method(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    return m.effects.created(Method(args[0].realize(m), args[1].realize(m)))


@handles(types.CellType)
def _cell(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    return m.effects.created(Cell(args[0] if args else None))


@handles(types.SimpleNamespace)
def _namespace(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    if args:
        raise Unsupported("SimpleNamespace of a mapping")
    made = m.effects.created(Object(types.SimpleNamespace))
    for name, value in kwargs.items():
        made.attrs[name] = value
    return made


@handles(torch.device, torch.dtype)
def _device(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    real = [m.builder.to_python(a) for a in args]
    return Constant(m.builder.fold(torch.device, real, {k: m.builder.to_python(v) for k, v in kwargs.items()}))


def _folded(*classes: type) -> None:
    """Immutable information objects that are computed for real."""
    for cls in classes:

        @handles(cls)
        def make(m: Interpreter, args: Args, kwargs: Kwargs, cls: Any = cls) -> Variable:
            real = [m.builder.to_python(a) for a in args]
            return InfoObject(m.builder.fold(cls, real, {k: m.builder.to_python(v) for k, v in kwargs.items()}))


class InfoObject(Known):
    """``torch.finfo`` and ``torch.iinfo``: plain numbers by name."""

    def truth(self, m: Interpreter) -> bool:
        return True

    def attribute(self, m: Interpreter, name: str) -> Variable:
        return m.builder.from_python(m.builder.fold(getattr, [self.value, name]))


_folded(torch.finfo, torch.iinfo)


# itertools


@handles(itertools.chain)
def _chain(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    return m.effects.created(Chain(m.iteration.iterate(m.builder.new_tuple(list(args))), itertools.chain))


@handles(itertools.count)
def _count(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    start = args[0] if args else kwargs.get("start", Constant(0))
    step = args[1] if len(args) > 1 else kwargs.get("step", Constant(1))
    return m.effects.created(Count(start.realize(m), step.realize(m), itertools.count))


@handles(itertools.repeat)
def _repeat(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    times = args[1] if len(args) > 1 else kwargs.get("times")
    return m.effects.created(Repeat(args[0], None if times is None else m.operators.index(times), itertools.repeat))


@handles(itertools.product)
def _product(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    return tuples_iterator(m, _products(m, args, kwargs))


@handles(itertools.combinations)
def _combinations(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    return tuples_iterator(m, list(itertools.combinations(m.iteration.elements(args[0]), m.operators.index(args[1]))))


@handles(itertools.permutations)
def _permutations(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    size = m.operators.index(args[1]) if len(args) > 1 else None
    return tuples_iterator(m, list(itertools.permutations(m.iteration.elements(args[0]), size)))


@handles(itertools.pairwise)
def _pairwise(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    return m.effects.created(Pairwise(m.iteration.iterate(args[0])))


@handles(itertools.zip_longest)
def _zip_longest(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    fill = kwargs.get("fillvalue", Constant(None))
    return m.effects.created(LongestZip([m.iteration.iterate(a) for a in args], fill))


@handles(itertools.islice)
def _islice(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    bounds = [None if m.builder.is_none(a) else m.operators.index(a) for a in args[1:]]
    m.builder.fold(itertools.islice, [(), *bounds])  # it refuses negative ones
    limits = slice(*bounds)
    return m.effects.created(Part(m.iteration.iterate(args[0]), limits.start or 0, limits.stop, limits.step or 1))


@handles(itertools.accumulate)
def _accumulate(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    function = args[1] if len(args) > 1 else kwargs.get("func")
    if function is not None and m.builder.is_none(function):
        function = None
    initial = kwargs.get("initial")
    if initial is not None and m.builder.is_none(initial):
        initial = None
    return m.effects.created(Accumulate(m.iteration.iterate(args[0]), function, initial))


# operator's callable objects


class Getter(Variable):
    """``operator.itemgetter``, ``attrgetter`` and ``methodcaller`` objects."""

    def __init__(self, cls: type, args: Args, kwargs: Kwargs) -> None:
        self.cls = cls
        self.args = args
        self.kwargs = kwargs

    def python_type(self) -> type:
        return self.cls

    def truth(self, m: Interpreter) -> bool:
        return True

    def call(self, m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
        if self.cls is operator.methodcaller:
            return m.calls.call(
                args[0].realize(m).attribute(m, m.builder.to_python(self.args[0])), self.args[1:], self.kwargs
            )
        found = [self.one(m, args[0].realize(m), key) for key in self.args]
        return found[0] if len(found) == 1 else m.builder.new_tuple(found)

    def one(self, m: Interpreter, value: Variable, key: Variable) -> Variable:
        if self.cls is operator.itemgetter:
            return value.item(m, key.realize(m))
        for part in m.builder.to_python(key).split("."):
            value = value.realize(m).attribute(m, part).realize(m)
        return value

    def made_of(self) -> Iterable[Variable]:
        return (*self.args, *self.kwargs.values())

    def reconstruct(self, e: Emitter) -> None:
        e.emit(build.push_callable(build.load_const(self.cls)))
        count = e.load_many(self.args) + e.load_many(self.kwargs.values())
        e.emit(build.call(count, tuple(self.kwargs)))


for _cls in (operator.itemgetter, operator.attrgetter, operator.methodcaller):

    @handles(_cls)
    def _getter(m: Interpreter, args: Args, kwargs: Kwargs, cls: Any = _cls) -> Variable:
        return m.effects.created(Getter(cls, [a.realize(m) for a in args], kwargs))
