"""Bytecode that rebuilds the program's state after a graph ran: every variable kind knows its parts and its instructions.

In: variables reached from the stack, locals and effects. Out: instructions that push them, each object made once.
"""

from __future__ import annotations

import collections
import types
from collections.abc import Callable, Iterable
from typing import Any

from .bytecode import Instruction, build
from .errors import CannotRebuild
from .evaluator.frame import HandlerState
from .evaluator.machine import Machine
from .sources import Source
from .variables.base import Lazy, Null, Variable
from .variables.classes import PAYLOADS
from .variables.constants import BoundBuiltin, Constant, Known
from .variables.constructors import Getter
from .variables.functions import Cell, Function, Generator, Method, Partial
from .variables.iterators import (
    Chain,
    Count,
    DictIterator,
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
from .variables.mappings import Dict, DictView, Set
from .variables.numbers import Symbolic
from .variables.objects import ExceptionObject, InstanceDict, Object, Super, SuperBuiltin
from .variables.sequences import List, Range, Slice, Tuple
from .variables.tensors import Tensor

Parts = Callable[[Any], Iterable[Variable]]
Make = Callable[["Emitter", Any], None]
Fill = Callable[["Emitter", Any], None]

_KINDS: dict[type[Variable], tuple[Parts, Make, Fill | None]] = {}


def rebuilds(*kinds: type[Variable], parts: Parts = lambda v: (), fill: Fill | None = None) -> Callable[[Make], Make]:
    """Register how variables of these kinds are pushed; ``fill`` completes an object made empty, for cycles."""

    def register(make: Make) -> Make:
        for kind in kinds:
            _KINDS[kind] = (parts, make, fill)
        return make

    return register


def _kind(variable: Variable) -> tuple[Parts, Make, Fill | None]:
    for cls in type(variable).__mro__:
        if cls in _KINDS:
            return _KINDS[cls]
    raise CannotRebuild(variable, f"{variable!r} cannot be rebuilt after a graph break")


def method_of(cls: type, name: str) -> Any:
    """A method of a real class, unbound."""
    return getattr(cls, name)


def _begins_with(whole: list[Instruction], start: list[Instruction]) -> bool:
    """Whether one reading goes on from another, whatever kind of local it starts at."""
    local = ("LOAD_FAST", "LOAD_DEREF")
    return len(whole) > len(start) and all(
        a.argval is b.argval and (a.opname == b.opname or (a.opname in local and b.opname in local))
        for a, b in zip(whole, start, strict=False)
    )


def resolved(variable: Variable) -> Variable:
    """The variable behind an input that was looked at."""
    while isinstance(variable, Lazy) and variable.seen is not None:
        variable = variable.seen
    return variable


class Emitter:
    """Collects instructions. ``plan`` first finds what is reachable; then ``load`` pushes values."""

    def __init__(self, m: Machine, cellvars: tuple[str, ...]) -> None:
        self.m = m
        self.cellvars = frozenset(cellvars)
        self.out: list[Instruction] = []
        self.uses: dict[int, int] = {}
        self.cyclic: set[int] = set()
        self.temps: dict[int, str] = {}
        self.source_temps: dict[Source, str] = {}
        self.save_sources = False
        self.shared: dict[Source, int] = {}
        self.results: list[Variable] = []
        self.cells: list[Cell] = []
        self.count = 0

    # Planning

    def plan(self, roots: Iterable[Variable]) -> None:
        """Count uses, find cycles, collect the graph's results and the frame's cells that are needed."""
        path: set[int] = set()
        for root in roots:
            self._visit(resolved(root), path)

    def _visit(self, variable: Variable, path: set[int]) -> None:
        key = id(variable)
        if key in path:
            self.cyclic.add(key)
            self.uses[key] += 1
            return
        if key in self.uses:
            self.uses[key] += 1
            return
        self.uses[key] = 1
        if isinstance(variable, Cell) and variable.name is not None:
            self.cells.append(variable)
            if variable.content is not None and variable.name in self.cellvars:
                path.add(key)
                self._visit(resolved(variable.content), path)
                path.discard(key)
            return
        if self.is_input(variable):
            return
        if isinstance(variable, Tensor | Symbolic):
            self.results.append(variable)
            return
        parts, _, _ = _kind(variable)
        path.add(key)
        for part in parts(variable):
            self._visit(resolved(part), path)
        path.discard(key)

    def is_input(self, variable: Variable) -> bool:
        """Whether the value is read from its source."""
        return variable.source is not None

    # Emission

    def emit(self, *parts: Iterable[Instruction]) -> None:
        for part in parts:
            self.out.extend(part)

    def temp(self) -> str:
        """A fresh local, with a name no program can have."""
        self.count += 1
        return f"<{self.count}>"

    def share(self, sources: Iterable[Source]) -> None:
        """Note which places several of these are read from: such a place is read once."""
        for source in sources:
            parent = source.parent
            while parent is not None:
                first = parent not in self.shared
                self.shared[parent] = self.shared.get(parent, 0) + 1
                if not first:
                    break
                parent = parent.parent

    def load_source(self, source: Source) -> None:
        """Push an input, or a part of one that was saved."""
        saved = self.source_temps.get(source)
        if saved is not None:
            self.emit(build.load_fast(saved))
            return
        self.out.extend(self.reading(source))
        if self.save_sources or self.shared.get(source, 0) > 1:
            name = self.temp()
            self.emit(build.copy(1), build.store_fast(name))
            self.source_temps[source] = name

    def reading(self, source: Source) -> list[Instruction]:
        """Instructions that read a source, from its parent's saved value if that is shared."""
        whole = source.load()
        for instruction in whole:
            if instruction.opname == "LOAD_FAST" and instruction.argval in self.cellvars:
                instruction.opname = "LOAD_DEREF"
        parent = source.parent
        if parent is None or self.shared.get(parent, 0) < 2:
            return whole
        start = parent.load()
        if not _begins_with(whole, start):
            return whole
        self.load_source(parent)
        return whole[len(start) :]

    def load(self, variable: Variable) -> None:
        """Push a value."""
        variable = resolved(variable)
        key = id(variable)
        name = self.temps.get(key)
        if name is not None:
            self.emit(build.load_fast(name))
            return
        if isinstance(variable, Cell) and variable.name is not None:
            self.emit(build.load_closure(variable.name))
            return
        if variable.source is not None:
            self.load_source(variable.source)
            return
        _, make, fill = _kind(variable)
        if key in self.cyclic:
            if fill is None:
                raise CannotRebuild(variable, f"{variable!r} contains itself")
            self.make_empty(variable)
            self.keep(variable)
            fill(self, variable)
            return
        make(self, variable)
        if self.uses.get(key, 1) > 1 and not isinstance(variable, Constant | Known):
            self.keep(variable)

    def keep(self, variable: Variable) -> None:
        """Store the top in a local for further uses; it stays on the stack."""
        name = self.temps[id(variable)] = self.temp()
        self.emit(build.copy(1), build.store_fast(name))

    def make_empty(self, variable: Variable) -> None:
        if isinstance(variable, List):
            self.call(variable.cls, [])
        elif isinstance(variable, Dict):
            self.make_empty_dict(variable)
        elif isinstance(variable, Object):
            make_instance(self, variable)
        else:
            raise CannotRebuild(variable, f"{variable!r} contains itself")

    def make_empty_dict(self, variable: Dict) -> None:
        if variable.cls is collections.defaultdict:
            factory = variable.factory or Constant(None)
            self.emit(build.push_callable(build.load_const(variable.cls)))
            self.load(factory)
            self.emit(build.call(1))
        else:
            self.call(variable.cls, [])

    def call(self, function: Any, args: list[Variable]) -> None:
        """Push ``function(*args)`` of a real function."""
        self.emit(build.push_callable(build.load_const(function)))
        for arg in args:
            self.load(arg)
        self.emit(build.call(len(args)))

    def call_discarding(self, function: Any, args: list[Variable]) -> None:
        self.call(function, args)
        self.emit(build.pop())

    def load_many(self, values: Iterable[Variable]) -> int:
        count = 0
        for value in values:
            self.load(value)
            count += 1
        return count

    def load_list(self, values: list[Variable]) -> None:
        self.load_many(values)
        self.emit(build.build_list(len(values)))


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


@rebuilds(List, parts=lambda v: v.items, fill=_fill_list)
def _list(e: Emitter, v: List) -> None:
    if v.cls is list:
        e.load_list(v.items)
        return
    e.emit(build.push_callable(build.load_const(v.cls)))
    e.load_list(v.items)
    e.emit(build.load_const(v.maxlen), build.call(2))


@rebuilds(Tuple, parts=lambda v: v.items)
def _tuple(e: Emitter, v: Tuple) -> None:
    if v.cls is tuple:
        e.emit(build.build_tuple(e.load_many(v.items)))
        return
    named = hasattr(v.cls, "_fields")
    function = tuple.__new__ if named else v.cls
    e.emit(build.push_callable(build.load_const(function)))
    if named:
        e.emit(build.load_const(v.cls))
    e.emit(build.build_tuple(e.load_many(v.items)), build.call(2 if named else 1))


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


@rebuilds(Dict, parts=_dict_parts, fill=_fill_dict)
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
    e.call(getattr(dict, v.kind), [v.owner])


@rebuilds(Set, parts=lambda v: v.entries.values())
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
    import functools

    e.emit(build.push_callable(build.load_const(functools.partial)))
    e.load(v.function)
    count = 1 + e.load_many(v.args) + e.load_many(v.kwargs.values())
    e.emit(build.call(count, tuple(v.kwargs)))


@rebuilds(Getter, parts=lambda v: [*v.args, *v.kwargs.values()])
def _getter(e: Emitter, v: Getter) -> None:
    e.emit(build.push_callable(build.load_const(v.cls)))
    count = e.load_many(v.args) + e.load_many(v.kwargs.values())
    e.emit(build.call(count, tuple(v.kwargs)))


@rebuilds(Cell, parts=lambda v: [] if v.content is None else [v.content])
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
    if isinstance(annotations, tuple):
        annotations = dict(zip(annotations[::2], annotations[1::2], strict=True))
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
        payload_parts, _, _ = _kind(v.payload)
        parts.extend(payload_parts(v.payload))
    return parts


def make_instance(e: Emitter, v: Object) -> None:
    """Push an instance without its attributes."""
    payload = v.payload
    if payload is None:
        e.emit(build.push_callable(build.load_const(object.__new__)), build.load_const(v.cls), build.call(1))
        return
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


@rebuilds(Object, parts=_object_parts, fill=fill_instance)
def _object(e: Emitter, v: Object) -> None:
    make_instance(e, v)
    if v.attrs or isinstance(v.payload, Dict | List | Set):
        fill_instance(e, v)


@rebuilds(ExceptionObject, parts=lambda v: [*v.args, *(x for x in v.attrs.values() if x is not None)])
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


@rebuilds(Iterator)
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
    e.call(getattr(dict, v.kind), [v.owner])
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
