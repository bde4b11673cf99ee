"""Lists, tuples and ``torch.Size``. Lists are mutable and tracked for replay."""

from __future__ import annotations

import functools
import inspect
import operator
import sys
import types
from collections.abc import Callable, Hashable, Iterable
from typing import Any, NoReturn

import torch

from capture import config
from capture.bytecode import build
from capture.errors import NotConstant, Unsupported
from capture.guards import GuardKind
from capture.sources import Attr, Const, Item, Source

from .base import Args, Interpreter, Kwargs, SymbolicRaise, Variable
from .building import builds, converts
from .constants import CONSTANT_TYPES, BoundBuiltin, Constant
from .handlers import handles
from .iterators import SequenceIterator, TextIterator
from .lookups import has_entry, shown_type
from .operations import COMPARE
from .operator_methods import OPERATOR_METHODS, operator_method
from .placeholders import Lazy, real_of
from .reconstruction import Emitter, method_of
from .slices import Slice


def _counted(m: Interpreter, value: Variable) -> int:
    """A place that a method takes; raises in the program where it is none, or too large for one."""
    place = m.operators.index(value)
    m.builder.fold([].insert, [place, None])
    return place


def _bound(m: Interpreter, value: Variable) -> int:
    """Where a search begins or ends; raises in the program where that is no integer."""
    real = value.realize(m)
    if not has_entry(real.python_type(), "__index__"):
        m.builder.fold([].index, [None, None])
    return m.operators.index(real)


def _names_no_value() -> bool:
    """Whether what is looked for in a list and not there is not in the error's text, as from 3.14."""
    try:
        list[int]().index(0)
    except ValueError as error:
        return "0" not in str(error)
    raise AssertionError("an empty list has a number")


_NAMES_NO_VALUE = _names_no_value()


class Sequence(Variable):
    """Common behaviour of the ordered containers; ``items`` may hold inputs that were not looked at yet."""

    base: type = tuple  #: What it can be compared with, and added to.
    cls: type

    def __init__(self, items: list[Variable], cls: type) -> None:
        self.items = items
        self.cls = cls

    def python_type(self) -> type:
        return self.cls

    def truth(self, m: Interpreter) -> bool:
        return bool(self.items)

    def length(self, m: Interpreter) -> Variable:
        return Constant(len(self.items))

    def make(self, m: Interpreter, items: list[Variable]) -> Variable:
        """A new object as slicing and arithmetic give it."""
        return m.effects.created(type(self)(items, self.cls))

    def item(self, m: Interpreter, key: Variable) -> Variable:
        if isinstance(key, Slice):
            return self.make(m, self.items[key.taken(m)])
        return self.items[self.place(m, key, f"{self.base.__name__} index out of range")]

    def place(self, m: Interpreter, key: Variable, beyond: str) -> int:
        """Where an index points to; ``beyond`` is the message for one that is too large."""
        if m.builder.is_constant(key) and not has_entry(type(m.builder.to_python(key)), "__index__"):
            m.builder.fold(operator.getitem, [self.empty_container(), m.builder.to_python(key)])
        index = m.operators.index(key)
        if not -len(self.items) <= index < len(self.items):
            if not -sys.maxsize - 1 <= index <= sys.maxsize:
                beyond = f"cannot fit {shown_type(key.python_type())!r} into an index-sized integer"
            m.errors.throw(IndexError, beyond)
        return index

    def empty_container(self) -> Any:
        """A real, empty container of the same kind: what it refuses, it refuses with Python's own error."""
        return () if issubclass(self.cls, tuple) else self.cls()

    def iterate(self, m: Interpreter) -> Variable:
        return m.effects.created(SequenceIterator(self))

    def iterate_of(self, m: Interpreter, text: Variable) -> Variable:
        """An iterator over a text, or bytes, of which these are the elements."""
        return m.effects.created(TextIterator(text, self))

    def attribute(self, m: Interpreter, name: str) -> Variable:
        if name == "__class__":
            return m.builder.known(self.cls)
        if not has_entry(self.cls, name):
            m.errors.throw(AttributeError, f"{shown_type(self.cls)!r} object has no attribute {name!r}")
        if has_method(self, name):
            return BoundBuiltin(self, name)
        raise Unsupported(f"{self.cls.__name__}.{name}")

    def method(self, m: Interpreter, name: str, args: Args, kwargs: Kwargs) -> Variable:
        return builtin_method(self, m, name, args, kwargs)

    def py_index(self, m: Interpreter, value: Variable, *bounds: Variable) -> Variable:
        """``index``; raises ``ValueError`` in the program."""
        limits = [_bound(m, each) for each in bounds]
        start, stop, _ = slice(*[*limits, None][:2]).indices(len(self.items))
        for i in range(start, stop):
            if i >= len(self.items):  # comparing may change it
                break
            if m.operators.equal(self.items[i], value):
                return Constant(i)
        if issubclass(self.cls, tuple):
            m.errors.throw(ValueError, "tuple.index(x): x not in tuple")
        self.not_found(m, value)

    def not_found(self, m: Interpreter, value: Variable, method: str = "index") -> NoReturn:
        """The error of a method that looked for a value, which until 3.14 is shown."""
        if _NAMES_NO_VALUE:
            name = "list" if issubclass(self.cls, list) else self.cls.__name__
            m.errors.throw(ValueError, f"{name}.{method}(x): x not in {name}")
        if not m.builder.is_constant(value):
            raise Unsupported("a message that shows a value that is not constant")
        m.errors.throw(ValueError, f"{m.builder.to_python(value)!r} is not in {self.cls.__name__}")

    def py_count(self, m: Interpreter, value: Variable) -> Variable:
        """``count``."""
        return Constant(sum(m.operators.equal(x, value) for x in self.items))  # comparing may change it

    def contents(self, m: Interpreter) -> Iterable[Variable]:
        return self.items

    def binary(self, m: Interpreter, symbol: str, other: Variable) -> Variable | None:
        if symbol == "+" and isinstance(other, Sequence):
            if self.base is not other.base:
                own = self.cls.__name__
                m.errors.throw(TypeError, f'can only concatenate {own} (not "{shown_type(other.cls)}") to {own}')
            return self.make(m, [*self.items, *other.items])
        if symbol == "*" and has_entry(other.python_type(), "__index__"):
            return self.make(m, self.times(m, m.operators.index(other)))
        return None

    def times(self, m: Interpreter, count: int) -> list[Variable]:
        """Its items so many times over."""
        if len(self.items) * count > config.max_instructions:
            raise Unsupported("a sequence of very many items")
        return self.items * count

    def compare(self, m: Interpreter, symbol: str, other: Variable) -> Variable | None:
        if not isinstance(other, Sequence):
            return None
        if self.base is not other.base:
            if symbol in ("==", "!="):
                return Constant(symbol == "!=")
            m.errors.throw(
                TypeError,
                f"{symbol!r} not supported between instances of {shown_type(self.cls)!r} and {other.cls.__name__!r}",
            )
        a, b = self.items, other.items
        if symbol in ("==", "!=") and len(a) != len(b):
            return Constant(symbol == "!=")
        place = 0
        while place < len(a) and place < len(b):  # comparing may change either
            x, y = a[place], b[place]
            if not m.operators.equal(x, y):
                if place >= min(len(a), len(b)):
                    break  # it is no longer there
                return Constant(symbol == "!=") if symbol in ("==", "!=") else m.operators.compare(symbol, x, y)
            place += 1
        return Constant(COMPARE[symbol][0](len(a), len(b)))


def has_method(var: Variable, name: str) -> bool:
    """Whether a family implements a method as ``py_<name>``, or one that all of them have: of those that the class has."""
    return hasattr(var, "py_" + name) or name in OPERATOR_METHODS or name in DUNDERS


def check_call(handler: Callable[..., Variable], args: list[Any], kwargs: Kwargs) -> None:
    """Raise ``Unsupported`` with Python's message where a handler of a method does not take these arguments."""
    code = getattr(handler, "__func__", handler).__code__
    given = len(args) + (1 if hasattr(handler, "__self__") else 0)
    least = code.co_argcount - len(getattr(handler, "__defaults__", None) or ())
    if kwargs or given < least or (given > code.co_argcount and not code.co_flags & inspect.CO_VARARGS):
        try:
            inspect.signature(handler).bind(*args, **kwargs)
        except TypeError as error:
            raise Unsupported(f"{error} in a call of a built-in method") from None


def builtin_method(var: Variable, m: Interpreter, name: str, args: Args, kwargs: Kwargs) -> Variable:
    """Call a method that a family implements as ``py_<name>``, or one of the operator methods."""
    own: Callable[..., Variable] | None = getattr(var, "py_" + name, None)
    if own is not None:
        check_call(own, [m, *args], kwargs)
        return own(m, *[a.realize(m) for a in args], **{k: v.realize(m) for k, v in kwargs.items()})
    if name in OPERATOR_METHODS and not kwargs and len(args) == 1:
        return operator_method(m, name, var, args[0].realize(m))
    dunder = DUNDERS.get(name)
    if dunder is not None and not kwargs:
        check_call(dunder, [m, var, *args], kwargs)
        return dunder(m, var, *[a.realize(m) for a in args])
    raise Unsupported(f"method {name!r} of {var!r}")


def _set_item(m: Interpreter, v: Variable, k: Variable, x: Variable) -> Variable:
    v.set_item(m, k, x)
    return Constant(None)


def _delete_item(m: Interpreter, v: Variable, k: Variable) -> Variable:
    v.delete_item(m, k)
    return Constant(None)


def _init(m: Interpreter, v: Variable, *args: Variable) -> Variable:
    if isinstance(v, List):
        return v.made_anew(m, *args)
    if args and not isinstance(v, Tuple):
        raise Unsupported("explicit __init__ of a built-in container")
    return Constant(None)


#: Other special methods called by name on the built-in containers.
DUNDERS: dict[str, Callable[..., Variable]] = {
    "__getitem__": lambda m, v, k: v.item(m, k),
    "__setitem__": _set_item,
    "__delitem__": _delete_item,
    "__len__": lambda m, v: v.length(m),
    "__iter__": lambda m, v: v.iterate(m),
    "__contains__": lambda m, v, x: Constant(v.contains(m, x)),
    "__next__": lambda m, v: m.iteration.next_value(v),
    "__init__": _init,
}


#: What a tuple and a ``torch.Size`` make: their types have taken turns in it.
_JOINED: type = type(operator.add((1,), torch.Size((1,))))


class Tuple(Sequence):
    """Tuples, ``torch.Size`` (cls) and the result tuples of torch operations (cls is their struct sequence)."""

    dies_backwards = True

    def __init__(self, items: list[Variable], cls: type = tuple) -> None:
        super().__init__(items, cls)
        #: The object itself, of one that a code object holds.
        self.literal: tuple[Any, ...] | None = None

    def as_python(self, m: Interpreter) -> Any:
        values = [m.builder.to_python(x) for x in self.items]
        if self.cls not in (tuple, torch.Size):
            raise NotConstant(self)
        return self.of(values)

    def of(self, values: Iterable[Any]) -> Any:
        """A real one of its class with these items. What is written in C makes its own, which ``tuple.__new__`` would not."""
        return tuple.__new__(self.cls, values) if self._has_names else self.cls(tuple(values))

    @property
    def _has_names(self) -> bool:
        """Whether it is a named tuple, whose class takes the items one by one, and may take others than it holds."""
        return hasattr(self.cls, "_fields")

    def hash_key(self, m: Interpreter) -> Hashable:
        return tuple(x.realize(m).hash_key(m) for x in self.items)

    def make(self, m: Interpreter, items: list[Variable]) -> Variable:
        cls = self.cls if self.cls is torch.Size else tuple
        return m.effects.created(Tuple(items, cls))

    def item(self, m: Interpreter, key: Variable) -> Variable:
        if self.cls is tuple and isinstance(key, Slice):
            taken = key.taken(m).indices(len(self.items))
            if taken == (0, len(self.items), 1):
                return self  # as it is where nothing is left out
        return super().item(m, key)

    def binary(self, m: Interpreter, symbol: str, other: Variable) -> Variable | None:
        countable = symbol == "*" and has_entry(other.python_type(), "__index__")
        if self.cls is tuple and countable and m.operators.index(other) == 1:
            return self
        plain = isinstance(other, Tuple) and self.cls is other.cls is tuple
        if symbol == "+" and plain and not (self.items and other.items):  # type: ignore[attr-defined]
            return self if self.items else other  # the other one is what they come to
        if symbol != "+" or not isinstance(other, Sequence) or torch.Size not in (self.cls, other.cls):
            return super().binary(m, symbol, other)
        items = [*self.items, *other.items]
        if not isinstance(other, Tuple) or not all(issubclass(x.realize(m).python_type(), int) for x in items):
            raise Unsupported("sizes joined with what is none")
        return m.effects.created(Tuple(items, torch.Size if self.cls is torch.Size else _JOINED))

    def attribute(self, m: Interpreter, name: str) -> Variable:
        if self.cls not in (tuple, torch.Size):
            fields = [n for n in dir(self.cls) if isinstance(getattr(self.cls, n), types.MemberDescriptorType)]
            if name in fields:
                probe = self.cls(range(len(self.items)))
                return self.items[getattr(probe, name)]
        return super().attribute(m, name)

    def py_numel(self, m: Interpreter) -> Variable:
        """``torch.Size.numel``."""
        out: Variable = Constant(1)
        for x in self.items:
            out = m.operators.binary("*", out, x)
        return out

    def made_of(self) -> Iterable[Variable]:
        return self.items if self.literal is None else ()

    def reconstruct(self, e: Emitter) -> None:
        if self.literal is not None:
            e.emit(build.load_const(self.literal))
            return
        if self.cls is tuple:
            e.emit(build.build_tuple(e.load_many(self.items)))
            return
        named = self._has_names
        function = tuple.__new__ if named else self.cls
        e.emit(build.push_callable(build.load_const(function)))
        if named:
            e.emit(build.load_const(self.cls))
        e.emit(build.build_tuple(e.load_many(self.items)), build.call(2 if named else 1))

    def as_argument(self, m: Interpreter) -> tuple[Any, Any]:
        pairs = [x.realize(m).as_argument(m) for x in self.items]
        real = tuple(p[1] for p in pairs)
        return tuple(p[0] for p in pairs), torch.Size(real) if self.cls is torch.Size else real


@functools.cache
def _refusal_of_slices(plain: bool) -> str:
    """What this interpreter says of what cannot be put in a slice's place."""
    try:
        operator.setitem([], slice(None, None, None if plain else 2), None)  # type: ignore[call-overload]
    except TypeError as error:
        return str(error)
    raise AssertionError("None is put in a slice's place")


class List(Sequence):
    """A list. Every change is noted with ``m.effects.mutated`` so that inputs are written back."""

    base: type = list
    dies_backwards = True
    #: Whether it asks what it is extended by how many there are.
    asks_length = True
    #: False of one that may be being sorted, and so empty to what runs meanwhile, until something is put into it.
    was_filled = True

    def __init__(self, items: list[Variable], cls: type = list) -> None:
        super().__init__(items, cls)
        self.is_payload = False
        #: What one from outside holds as long as it is not written.
        self.found: tuple[Variable, ...] | None = None

    def as_python(self, m: Interpreter) -> Any:
        if self.cls is not list or self.source is not None:
            raise NotConstant(self)
        return [m.builder.to_python(x) for x in self.items]

    def hash_key(self, m: Interpreter) -> Hashable:
        m.errors.throw(TypeError, f"unhashable type: {shown_type(self.cls)!r}")

    def changed(self, m: Interpreter) -> Variable:
        """Note a change. Gives None, as the methods that change a list do."""
        m.effects.mutated(self)
        return Constant(None)

    def resized(self, m: Interpreter) -> Variable:
        """After elements came or went."""
        self.was_filled = self.was_filled or bool(self.items)
        return self.changed(m)

    def set_item(self, m: Interpreter, key: Variable, value: Variable) -> None:
        if isinstance(key, Slice):
            index = key.taken(m)
            plain = index.step in (None, 1)
            values = m.iteration.elements_or(value, _refusal_of_slices(plain))
            taken = len(self.items[index])
            if not plain and taken != len(values):
                sizes = f"sequence of size {len(values)} to extended slice of size {taken}"
                m.errors.throw(ValueError, f"attempt to assign {sizes}")
            self.items[index] = values
            self.was_filled = self.was_filled or bool(self.items)
        else:
            self.items[self.place(m, key, "list assignment index out of range")] = value
        self.changed(m)

    def delete_item(self, m: Interpreter, key: Variable) -> None:
        if isinstance(key, Slice):
            del self.items[key.taken(m)]
        else:
            del self.items[self.place(m, key, "list assignment index out of range")]
        self.resized(m)

    def py_append(self, m: Interpreter, value: Variable) -> Variable:
        """``append``."""
        self.items.append(value)
        return self.resized(m)

    def py_extend(self, m: Interpreter, values: Variable) -> Variable:
        """``extend``."""
        real = values.realize(m)
        if isinstance(real, Sequence):
            return self.extended(m, m.iteration.elements(real))
        iterator = m.iteration.iterate(real)
        if self.asks_length:
            m.iteration.ask_length(real)
        for each in m.iteration.each(iterator):  # at once: what gives the next may look, or raise
            self.py_append(m, each)
        return self.resized(m)

    def made_anew(self, m: Interpreter, values: Variable | None = None, *more: Variable) -> Variable:
        """``__init__`` called by name: it is empty before the first of the values is asked for."""
        if more:
            m.errors.throw(TypeError, f"list expected at most 1 argument, got {1 + len(more)}")
        self.items.clear()
        self.resized(m)
        return Constant(None) if values is None else self.py_extend(m, values)

    def extended(self, m: Interpreter, values: list[Variable]) -> Variable:
        """After these came to its end."""
        self.items.extend(values)
        return self.resized(m)

    def py_insert(self, m: Interpreter, at: Variable, value: Variable) -> Variable:
        """``insert``."""
        self.items.insert(_counted(m, at), value)
        return self.resized(m)

    def py_pop(self, m: Interpreter, at: Variable | None = None) -> Variable:
        """``pop``; raises ``IndexError`` in the program."""
        i = -1 if at is None else _counted(m, at)
        if not self.items:
            m.errors.throw(IndexError, "pop from empty list")
        if not -len(self.items) <= i < len(self.items):
            m.errors.throw(IndexError, "pop index out of range")
        value = self.items.pop(i)
        self.changed(m)
        return value

    def py_clear(self, m: Interpreter) -> Variable:
        """``clear``."""
        self.items.clear()
        return self.resized(m)

    def py_reverse(self, m: Interpreter) -> Variable:
        """``reverse``."""
        self.items.reverse()
        return self.changed(m)

    def py_copy(self, m: Interpreter) -> Variable:
        """``copy``."""
        return self.make(m, list(self.items))

    def py_remove(self, m: Interpreter, value: Variable) -> Variable:
        """``remove``; raises ``ValueError`` in the program."""
        for i, x in enumerate(self.items):
            if m.operators.equal(x, value):
                del self.items[i : i + 1]  # comparing may have changed it
                return self.resized(m)
        self.refuse_removal(m, value)

    def refuse_removal(self, m: Interpreter, value: Variable) -> NoReturn:
        """The error of removing what is not there."""
        m.errors.throw(ValueError, "list.remove(x): x not in list")

    def py_sort(self, m: Interpreter, *, key: Variable | None = None, reverse: Variable | None = None) -> Variable:
        """``list.sort``."""
        items = list(self.items)
        self.items.clear()  # as it is to what runs meanwhile
        before, self.was_filled = self.was_filled, False
        try:
            items = m.iteration.sort(items, key, reverse)
        except SymbolicRaise:
            self.changed(m)  # the items are in the order to which they came
            raise
        finally:
            self.items[:] = items
            was_filled, self.was_filled = self.was_filled, before or bool(items)
        self.changed(m)
        if was_filled:
            m.errors.throw(ValueError, "list modified during sort")
        return Constant(None)

    def made_of(self) -> Iterable[Variable]:
        return self.items

    def reconstruct(self, e: Emitter) -> None:
        e.load_list(self.items)

    def reconstruct_empty(self, e: Emitter) -> None:
        e.call(self.cls, [])

    def fill(self, e: Emitter) -> None:
        e.emit(build.copy(1), build.load_attr("extend"))
        name = e.temp()
        e.emit(build.store_fast(name), build.push_callable(build.load_fast(name)))
        e.load_list(self.items)
        e.emit(build.call(1), build.pop())

    def appended(self) -> list[Variable] | None:
        """What came to the end of one that else is as it was; None of any other.

        The others are left alone: they may be many, and what another thread or a ``__del__`` appends meanwhile stays.
        """
        if self.found is None or len(self.items) < len(self.found):
            return None
        same = all(now is before for now, before in zip(self.items, self.found, strict=False))
        return self.items[len(self.found) :] if same else None

    def let_go(self) -> Iterable[Any]:
        if self.found is None:  # nobody looked: it is as it was, but for what came to its end
            return []
        kept = {id(item) for item in self.items}
        return [real_of(item) for item in self.found if id(item) not in kept]

    def written(self) -> Iterable[Variable]:
        appended = self.appended()
        return list(self.items) if appended is None else appended

    def replay(self, e: Emitter) -> None:
        appended = self.appended()
        if appended is not None:
            filled_meanwhile = not self.found and not appended and self.was_filled
            e.call_with_list(list.extend, self, [Constant(None)] if filled_meanwhile else appended)
            if filled_meanwhile:  # what sorts it outside sees that
                e.call_discarding(list.clear, [self])
            return
        if self.cls is list and not self.is_payload:
            e.load_list(self.items)
            e.load(self)
            e.emit(build.load_const(slice(None)), build.store_subscr())
            return
        e.call_discarding(method_of(self.cls, "clear"), [self])
        e.call_with_list(method_of(self.cls, "extend"), self, self.items)

    def as_argument(self, m: Interpreter) -> tuple[Any, Any]:
        pairs = [x.realize(m).as_argument(m) for x in self.items]
        return [p[0] for p in pairs], [p[1] for p in pairs]

    def inplace(self, m: Interpreter, symbol: str, other: Variable) -> Variable | None:
        if symbol == "+=":
            self.py_extend(m, other)
            return self
        if symbol == "*=" and has_entry(other.python_type(), "__index__"):
            self.items[:] = self.times(m, m.operators.index(other))
            self.resized(m)
            return self
        return None


class InputList(List):
    """A list from outside. How long it is counts from when that, or an element, is looked at: until then the program may only put more at its end."""

    was_filled = False

    def __init__(self, value: list[Any], see: Callable[[], list[Variable]]) -> None:
        self._see = see
        self._items: list[Variable] | None = None
        #: What the program appended to one that it has not looked at.
        self._more: list[Variable] = []
        super().__init__([], type(value))
        self._items = None

    @property
    def items(self) -> list[Variable]:
        """Its elements."""
        if self._items is None:
            self.found = tuple(self._see())
            self._items = [*self.found, *self._more]
        return self._items

    @items.setter
    def items(self, items: list[Variable]) -> None:
        self._items = items

    def make(self, m: Interpreter, items: list[Variable]) -> Variable:
        return m.effects.created(List(items, self.cls))

    def py_append(self, m: Interpreter, value: Variable) -> Variable:
        if self._items is not None:
            return super().py_append(m, value)
        self._more.append(value)
        return self.resized(m)

    def extended(self, m: Interpreter, values: list[Variable]) -> Variable:
        (self._more if self._items is None else self._items).extend(values)
        return self.resized(m)

    def resized(self, m: Interpreter) -> Variable:
        if self._items is not None:
            return super().resized(m)
        self.was_filled = self.was_filled or bool(self._more)
        return self.changed(m)

    def appended(self) -> list[Variable] | None:
        return list(self._more) if self._items is None else super().appended()


@builds(list)
def _build_list(m: Interpreter, value: Any, source: Source | None) -> Variable:
    m.guards.of_type(source, list)
    assert source is not None

    def see() -> list[Variable]:
        m.guards.add(source, GuardKind.LEN, len(value))
        return [Lazy(v, Item(source, i)) for i, v in enumerate(value)]

    return InputList(value, see)


@builds(tuple, torch.Size)
def _build_sequence(m: Interpreter, value: Any, source: Source | None) -> Variable:
    cls = type(value)
    if cls is tuple and isinstance(source, Attr) and _is_literal(value):
        # Sizes, strides and the like in an attribute: one guard on the whole.
        m.guards.add(source, GuardKind.EQUALS, value)
        return Tuple([m.builder.from_python(v) for v in value])
    m.guards.of_type(source, cls)
    assert source is not None
    if not isinstance(source, Const):
        m.guards.add(source, GuardKind.LEN, len(value))
    return Tuple([Lazy(v, Item(source, i)) for i, v in enumerate(value)], cls)


def _is_literal(value: Any) -> bool:
    """Whether a value consists of literals, down through tuples."""
    if type(value) is tuple:
        return len(value) <= 16 and all(map(_is_literal, value))
    return type(value) in CONSTANT_TYPES


@handles(list)
def _list(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    return m.effects.created(List(m.iteration.listed(args[0]) if args else []))


@handles(tuple)
def _tuple(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    if args:
        value = args[0].realize(m)
        if type(value) is Tuple and value.cls is tuple:
            return value
    return m.builder.new_tuple(m.iteration.tupled(args[0]) if args else [])


@handles(torch.Size)
def _size(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    return m.effects.created(Tuple(m.iteration.tupled(args[0]) if args else [], torch.Size))


@converts(tuple, torch.Size)
def _convert_tuple(m: Interpreter, value: Any) -> Variable:
    return m.effects.created(Tuple([m.builder.from_python(v) for v in value], type(value)))


@converts(list)
def _convert_list(m: Interpreter, value: list[Any]) -> Variable:
    return m.effects.created(List([m.builder.from_python(v) for v in value]))
