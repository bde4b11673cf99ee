"""How every kind of variable is rebuilt by generated code: its parts, and the instructions that push it."""

from __future__ import annotations

import collections
import functools
import types
from collections.abc import Callable, Iterable
from typing import Any

from .bytecode import Instruction, build
from .emit import KINDS, CannotRebuild, Emitter, Kind, kind_of, method_of
from .evaluator.frame import HandlerState
from .variables.base import Lazy, Null, Variable
from .variables.classes import PAYLOADS
from .variables.constants import BoundBuiltin, Constant, Known
from .variables.constructors import Getter
from .variables.deques import Deque, DequeIterator
from .variables.exceptions import ExceptionObject
from .variables.functions import Cell, Function, Generator, Method, Partial
from .variables.instances import InstanceDict
from .variables.iterators import (
    Chain,
    Computed,
    Count,
    Enumerate,
    Filter,
    Iterator,
    Map,
    RangeIterator,
    Repeat,
    ReversedIterator,
    SequenceIterator,
    UserIterator,
    Zip,
)
from .variables.lookups import made_by_object
from .variables.mappings import Dict, DictIterator, DictView
from .variables.numbers import Symbolic
from .variables.objects import Object
from .variables.sequences import List, Range, Slice, Tuple
from .variables.sets import Set
from .variables.supers import Super, SuperBuiltin
from .variables.tensors import Tensor

Make = Callable[[Emitter, Any], None]


def rebuilds(
    *kinds: type[Variable],
    parts: Callable[[Any], Iterable[Variable]] = lambda v: (),
    empty: Make | None = None,
    fill: Make | None = None,
) -> Callable[[Make], Make]:
    """Register how variables of these kinds are rebuilt; see ``Kind``."""

    def register(make: Make) -> Make:
        for kind in kinds:
            KINDS[kind] = Kind(parts, make, empty, fill)
        return make

    return register


# Leaves


@rebuilds(Constant)
def _constant(e: Emitter, v: Constant) -> None:
    e.emit(build.load_const(v.value))


@rebuilds(Known, Range)
def _known(e: Emitter, v: Any) -> None:
    e.emit(build.load_const(v.value))


@rebuilds(Lazy)
def _lazy(e: Emitter, v: Lazy) -> None:
    assert v.source is not None
    e.load_source(v.source)


@rebuilds(Null)
def _null(e: Emitter, v: Null) -> None:
    e.emit([Instruction("PUSH_NULL")])


@rebuilds(Tensor, Symbolic)
def _result(e: Emitter, v: Variable) -> None:
    raise CannotRebuild(v, "a graph result that was not planned")


@rebuilds(HandlerState)
def _handler_state(e: Emitter, v: HandlerState) -> None:
    raise CannotRebuild(v, "a break inside an exception handler")


# Containers


def _fill_list(e: Emitter, v: List) -> None:
    e.emit(build.copy(1), build.load_attr("extend"))
    name = e.temp()
    e.emit(build.store_fast(name), build.push_callable(build.load_fast(name)))
    e.load_list(v.items)
    e.emit(build.call(1), build.pop())


@rebuilds(List, parts=lambda v: v.items, empty=lambda e, v: e.call(v.cls, []), fill=_fill_list)
def _list(e: Emitter, v: List) -> None:
    e.load_list(v.items)


@rebuilds(
    Deque,
    parts=lambda v: v.items,
    empty=lambda e, v: e.call(v.cls, [Constant(()), Constant(v.maxlen)]),
    fill=_fill_list,
)
def _deque(e: Emitter, v: Deque) -> None:
    e.emit(build.push_callable(build.load_const(v.cls)))
    e.load_list(v.items)
    e.emit(build.load_const(v.maxlen), build.call(2))


@rebuilds(Tuple, parts=lambda v: v.items if v.literal is None else [])
def _tuple(e: Emitter, v: Tuple) -> None:
    if v.literal is not None:
        e.emit(build.load_const(v.literal))
        return
    if v.cls is tuple:
        e.emit(build.build_tuple(e.load_many(v.items)))
        return
    named = hasattr(v.cls, "_fields")
    function = tuple.__new__ if named else v.cls
    e.emit(build.push_callable(build.load_const(function)))
    if named:
        e.emit(build.load_const(v.cls))
    e.emit(build.build_tuple(e.load_many(v.items)), build.call(2 if named else 1))


def _empty_dict(e: Emitter, v: Dict) -> None:
    e.call(v.cls, [v.factory or Constant(None)] if v.cls is collections.defaultdict else [])


def _fill_dict(e: Emitter, v: Dict) -> None:
    name = e.temps[id(v)]
    for key, value in v.entries.values():
        e.load(value)
        e.emit(build.load_fast(name))
        e.load(key)
        e.emit(build.store_subscr())


def _dict_parts(v: Dict) -> Iterable[Variable]:
    parts = [x for pair in v.entries.values() for x in pair]
    return [*parts, v.factory] if v.factory is not None else parts


@rebuilds(Dict, parts=_dict_parts, empty=_empty_dict, fill=_fill_dict)
def _dict(e: Emitter, v: Dict) -> None:
    if v.cls is not dict:
        e.emit(build.push_callable(build.load_const(v.cls)))
        if v.cls is collections.defaultdict:
            e.load(v.factory or Constant(None))
    for key, value in v.entries.values():
        e.load(key)
        e.load(value)
    e.emit(build.build_map(len(v.entries)))
    if v.cls is not dict:
        e.emit(build.call(2 if v.cls is collections.defaultdict else 1))


@rebuilds(DictView, parts=lambda v: [v.owner])
def _view(e: Emitter, v: DictView) -> None:
    e.call(method_of(v.owner.cls, v.kind), [v.owner])


def _set_parts(v: Set) -> Iterable[Variable]:
    if not v.is_rebuilt_alike:
        raise CannotRebuild(v, "a set whose order depends on more than its elements")
    return v.entries.values()


@rebuilds(Set, parts=_set_parts)
def _set(e: Emitter, v: Set) -> None:
    if v.cls is set:
        e.emit(build.build_set(e.load_many(v.entries.values())))
        return
    e.emit(build.push_callable(build.load_const(v.cls)))
    e.load_list(list(v.entries.values()))
    e.emit(build.call(1))


@rebuilds(Slice, parts=lambda v: v.parts)
def _slice(e: Emitter, v: Slice) -> None:
    e.call(slice, list(v.parts))


# Functions


@rebuilds(BoundBuiltin, parts=lambda v: [v.owner])
def _bound_builtin(e: Emitter, v: BoundBuiltin) -> None:
    e.load(v.owner)
    e.emit(build.load_attr(v.name))


@rebuilds(Method, parts=lambda v: [v.function, v.owner])
def _method(e: Emitter, v: Method) -> None:
    e.call(types.MethodType, [v.function, v.owner])


@rebuilds(Partial, parts=lambda v: [v.function, *v.args, *v.kwargs.values()])
def _partial(e: Emitter, v: Partial) -> None:
    e.emit(build.push_callable(build.load_const(functools.partial)))
    e.load(v.function)
    count = 1 + e.load_many(v.args) + e.load_many(v.kwargs.values())
    e.emit(build.call(count, tuple(v.kwargs)))


@rebuilds(Getter, parts=lambda v: [*v.args, *v.kwargs.values()])
def _getter(e: Emitter, v: Getter) -> None:
    e.emit(build.push_callable(build.load_const(v.cls)))
    count = e.load_many(v.args) + e.load_many(v.kwargs.values())
    e.emit(build.call(count, tuple(v.kwargs)))


def _fill_cell(e: Emitter, v: Cell) -> None:
    assert v.content is not None
    e.load(v.content)
    e.emit(build.load_fast(e.temps[id(v)]), build.store_attr("cell_contents"))


@rebuilds(
    Cell,
    parts=lambda v: [] if v.content is None else [v.content],
    empty=lambda e, v: e.call(types.CellType, []),
    fill=_fill_cell,
)
def _cell(e: Emitter, v: Cell) -> None:
    e.call(types.CellType, [] if v.content is None else [v.content])


def _function_parts(v: Function) -> Iterable[Variable]:
    extra = [v.annotations] if v.annotations is not None else []
    return [*v.defaults, *v.kwdefaults.values(), *v.closure, *v.attrs.values(), *extra]


@rebuilds(Function, parts=_function_parts)
def _function(e: Emitter, v: Function) -> None:
    if v.real is not None:
        e.emit(build.load_const(v.real))
        return
    e.emit(build.push_callable(build.load_const(make_function)))
    e.emit(build.load_const(v.code), build.load_const(v.globals))
    e.emit(build.build_tuple(e.load_many(v.defaults)))
    for name, value in v.kwdefaults.items():
        e.emit(build.load_const(name))
        e.load(value)
    e.emit(build.build_map(len(v.kwdefaults)))
    e.emit(build.build_tuple(e.load_many(v.closure)))
    for name, value in v.attrs.items():
        e.emit(build.load_const(name))
        e.load(value)
    e.emit(build.build_map(len(v.attrs)))
    e.load(v.annotations or Constant(None))
    e.emit(build.call(7))


def make_function(
    code: types.CodeType,
    module_globals: dict[str, Any],
    defaults: tuple[Any, ...],
    kwdefaults: dict[str, Any],
    closure: tuple[types.CellType, ...],
    attributes: dict[str, Any],
    annotations: Any,
) -> types.FunctionType:
    """A function that the frame made, made again; called from generated code."""
    function = types.FunctionType(code, module_globals, code.co_name, defaults or None, closure or None)
    function.__kwdefaults__ = kwdefaults or None
    for name, value in attributes.items():
        setattr(function, name, value)
    if annotations:
        function.__annotations__ = annotations
    return function


def _generator_parts(v: Generator) -> Iterable[Variable]:
    if v.started:
        raise CannotRebuild(v, "a generator that has started")
    args, kwargs = v.bound
    return [v.function, *args, *kwargs.values()]


@rebuilds(Generator, parts=_generator_parts)
def _generator(e: Emitter, v: Generator) -> None:
    args, kwargs = v.bound
    name = e.temp()
    e.load(v.function)
    e.emit(build.store_fast(name), build.push_callable(build.load_fast(name)))
    count = e.load_many(args) + e.load_many(kwargs.values())
    e.emit(build.call(count, tuple(kwargs)))


# Objects


def _object_parts(v: Object) -> Iterable[Variable]:
    parts = [x for x in v.attrs.values() if x is not None]
    if v.payload is not None:
        parts.extend(kind_of(v.payload).parts(v.payload))
    return parts


def make_instance(e: Emitter, v: Object) -> None:
    """Push an instance without its attributes."""
    payload = v.payload
    if payload is None and made_by_object(v.cls):
        e.emit(build.push_callable(build.load_const(object.__new__)), build.load_const(v.cls), build.call(1))
        return
    if v.cls is types.SimpleNamespace:
        e.call(v.cls, [])
        return
    if payload is None:
        raise CannotRebuild(v, f"an instance of {v.cls.__name__}, which keeps state in C")
    base = payload.python_type()
    assert base in PAYLOADS
    e.emit(build.push_callable(build.load_const(base.__new__)), build.load_const(v.cls))
    if isinstance(payload, Constant):
        e.emit(build.load_const(payload.value), build.call(2))
    elif isinstance(payload, Tuple):
        e.emit(build.build_tuple(e.load_many(payload.items)), build.call(2))
    else:
        e.emit(build.call(1))


def fill_instance(e: Emitter, v: Object) -> None:
    """Set the attributes and contents of the instance on top of the stack."""
    name = e.temps.get(id(v))
    if name is None:
        name = e.temp()
        e.emit(build.copy(1), build.store_fast(name))
    payload = v.payload
    if isinstance(payload, Dict):
        for key, value in payload.entries.values():
            e.emit(build.push_callable(build.load_const(method_of(payload.cls, "__setitem__"))), build.load_fast(name))
            e.load(key)
            e.load(value)
            e.emit(build.call(3), build.pop())
    elif isinstance(payload, List | Set):
        function = list.extend if isinstance(payload, List) else set.update
        e.emit(build.push_callable(build.load_const(function)), build.load_fast(name))
        e.load_list(list(payload.items if isinstance(payload, List) else payload.entries.values()))
        e.emit(build.call(2), build.pop())
    for attribute, content in v.attrs.items():
        if content is not None:
            e.emit(build.push_callable(build.load_const(object.__setattr__)), build.load_fast(name))
            e.emit(build.load_const(attribute))
            e.load(content)
            e.emit(build.call(3), build.pop())


@rebuilds(Object, parts=_object_parts, empty=make_instance, fill=fill_instance)
def _object(e: Emitter, v: Object) -> None:
    make_instance(e, v)
    if v.attrs or isinstance(v.payload, Dict | List | Set):
        fill_instance(e, v)


def _exception_parts(v: ExceptionObject) -> Iterable[Variable]:
    if v.origin >= 0:
        raise CannotRebuild(v, "an exception that was raised and is kept, with its traceback")
    if v.has_state_in_c:
        raise CannotRebuild(v, f"an instance of {v.cls.__name__}, which keeps state in C")
    return [*v.args, *(x for x in v.attrs.values() if x is not None)]


@rebuilds(ExceptionObject, parts=_exception_parts)
def _exception(e: Emitter, v: ExceptionObject) -> None:
    e.emit(build.push_callable(build.load_const(v.cls.__new__)), build.load_const(v.cls))
    e.emit(build.call(1 + e.load_many(v.args)))
    if v.attrs:
        fill_instance(e, v)


@rebuilds(InstanceDict, parts=lambda v: [v.owner])
def _instance_dict(e: Emitter, v: InstanceDict) -> None:
    e.load(v.owner)
    e.emit(build.load_attr("__dict__"))


@rebuilds(Super, parts=lambda v: [v.obj])
def _super(e: Emitter, v: Super) -> None:
    e.emit(build.push_callable(build.load_const(super)), build.load_const(v.start))
    e.load(v.obj)
    e.emit(build.call(2))


@rebuilds(SuperBuiltin, parts=lambda v: [v.obj])
def _super_builtin(e: Emitter, v: SuperBuiltin) -> None:
    e.emit(build.push_callable(build.load_const(getattr(v.owner, v.name).__get__)))
    e.load(v.obj)
    e.emit(build.call(1))


# Iterators


@rebuilds(Iterator, Computed)
def _iterator(e: Emitter, v: Iterator) -> None:
    raise CannotRebuild(v, f"an iterator of type {v.python_type().__name__}")


def _set_position(e: Emitter, position: int) -> None:
    """Move the iterator on top of the stack."""
    name = e.temp()
    e.emit(build.copy(1), build.load_attr("__setstate__"), build.store_fast(name))
    e.emit(build.push_callable(build.load_fast(name)), build.load_const(position), build.call(1), build.pop())


@rebuilds(SequenceIterator, parts=lambda v: [v.sequence])
def _sequence_iterator(e: Emitter, v: SequenceIterator) -> None:
    if v.position < 0:
        e.call(iter, [Constant(())])
        return
    e.call(iter, [v.sequence])
    if v.position:
        _set_position(e, v.position)


def _deque_iterator_parts(v: DequeIterator) -> Iterable[Variable]:
    if v.deque.age:
        raise CannotRebuild(v, "an iterator over a deque that was changed")
    return [v.deque]


@rebuilds(DequeIterator, parts=_deque_iterator_parts)
def _deque_iterator(e: Emitter, v: DequeIterator) -> None:
    e.call(v.cls, [v.deque, Constant(v.position)])


@rebuilds(ReversedIterator, parts=lambda v: [v.sequence])
def _reversed_iterator(e: Emitter, v: ReversedIterator) -> None:
    e.call(reversed, [v.sequence])
    if v.position != len(v.sequence.items) - 1:  # type: ignore[attr-defined]
        if v.position < 0:
            raise CannotRebuild(v, "a reversed iterator at its end")
        _set_position(e, v.position)


@rebuilds(RangeIterator)
def _range_iterator(e: Emitter, v: RangeIterator) -> None:
    e.emit(build.push_callable(build.load_const(iter)), build.load_const(v.rest), build.call(1))


def _dict_iterator_parts(v: DictIterator) -> Iterable[Variable]:
    if v.position:
        raise CannotRebuild(v, "a dictionary iterator that has started")
    return [v.owner]


@rebuilds(DictIterator, parts=_dict_iterator_parts)
def _dict_iterator(e: Emitter, v: DictIterator) -> None:
    e.emit(build.push_callable(build.load_const(iter)))
    e.call(method_of(v.owner.cls, v.kind), [v.owner])
    e.emit(build.call(1))


@rebuilds(Enumerate, parts=lambda v: [v.inner])
def _enumerate(e: Emitter, v: Enumerate) -> None:
    e.call(enumerate, [v.inner, Constant(v.count)])


@rebuilds(Zip, parts=lambda v: v.inner)
def _zip(e: Emitter, v: Zip) -> None:
    e.emit(build.push_callable(build.load_const(zip)))
    count = e.load_many(v.inner)
    if v.strict:
        e.emit(build.load_const(True), build.call(count + 1, ("strict",)))
    else:
        e.emit(build.call(count))


@rebuilds(Map, parts=lambda v: [v.function, *v.inner])
def _map(e: Emitter, v: Map) -> None:
    e.call(map, [v.function, *v.inner])


@rebuilds(Filter, parts=lambda v: [v.function, v.inner])
def _filter(e: Emitter, v: Filter) -> None:
    e.call(filter, [v.function, v.inner])


@rebuilds(Count, parts=lambda v: [v.value, v.by])
def _count(e: Emitter, v: Count) -> None:
    e.call(v.cls, [v.value, v.by])


@rebuilds(Repeat, parts=lambda v: [v.value])
def _repeat(e: Emitter, v: Repeat) -> None:
    e.call(v.cls, [v.value] if v.times is None else [v.value, Constant(v.times)])


@rebuilds(Chain, parts=lambda v: [v.iterables] if v.active is None else [v.active, v.iterables])
def _chain(e: Emitter, v: Chain) -> None:
    if v.active is None:
        e.call(method_of(v.cls, "from_iterable"), [v.iterables])
        return
    e.emit(build.push_callable(build.load_const(v.cls)))
    e.load(v.active)
    e.call(method_of(v.cls, "from_iterable"), [v.iterables])
    e.emit(build.call(2))


@rebuilds(UserIterator, parts=lambda v: [v.inner])
def _user_iterator(e: Emitter, v: UserIterator) -> None:
    e.load(v.inner)
