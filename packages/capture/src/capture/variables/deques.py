"""Deques: lists with two ends and, maybe, a limit, whose iterators notice when elements come or go."""

from __future__ import annotations

import collections
import operator
from collections.abc import Callable, Generator, Iterable
from typing import Any, NoReturn

from capture.bytecode import build
from capture.errors import Unsupported
from capture.guards import GuardKind
from capture.sources import Attr, Item, Source

from .base import Args, Interpreter, Kwargs, Variable
from .building import builds
from .constants import Constant
from .handlers import handles
from .iterators import Iterator, StopIter
from .placeholders import Lazy
from .reconstruction import CannotReconstruct, Emitter
from .sequences import List, Sequence
from .slices import Slice
from .unseen import UnseenElements


class Deque(List):
    """A ``collections.deque``."""

    dies_backwards = False
    base: type = collections.deque
    asks_length = False

    def __init__(self, items: list[Variable], maxlen: int | None = None) -> None:
        super().__init__(items, collections.deque)
        self.maxlen = maxlen
        #: Counts the changes that an iterator notices.
        self.age = 0

    def make(self, m: Interpreter, items: list[Variable]) -> Variable:
        made: Deque = m.effects.created(Deque(items, self.maxlen))
        made.trim(left=True)
        return made

    def place(self, m: Interpreter, key: Variable, beyond: str) -> int:
        return super().place(m, key, "deque index out of range")

    def item(self, m: Interpreter, key: Variable) -> Variable:
        self.refuse_slice(m, key)
        return super().item(m, key)

    def set_item(self, m: Interpreter, key: Variable, value: Variable) -> None:
        self.refuse_slice(m, key)
        super().set_item(m, key, value)

    def delete_item(self, m: Interpreter, key: Variable) -> None:
        self.refuse_slice(m, key)
        super().delete_item(m, key)

    def refuse_slice(self, m: Interpreter, key: Variable) -> None:
        """Raises in the program what a deque says of slices, if the key is one."""
        if isinstance(key, Slice):
            m.builder.fold(operator.getitem, [collections.deque(), slice(None)])

    def attribute(self, m: Interpreter, name: str) -> Variable:
        return Constant(self.maxlen) if name == "maxlen" else super().attribute(m, name)

    def iterate(self, m: Interpreter) -> Variable:
        return m.effects.created(DequeIterator(self))

    def compared(self, m: Interpreter, value: Variable, error: type, words: str) -> Generator[bool, None, None]:
        """Whether each element equals a value; raises in the program as soon as comparing has changed the deque."""
        age = self.age
        for x in list(self.items):
            same = m.operators.equal(x, value)
            if self.age != age:
                m.errors.throw(error, words)
            yield same

    def contains(self, m: Interpreter, value: Variable) -> bool:
        return any(self.compared(m, value, RuntimeError, "deque mutated during iteration"))

    def py_count(self, m: Interpreter, value: Variable) -> Variable:
        return Constant(sum(self.compared(m, value, RuntimeError, "deque mutated during iteration")))

    def py_remove(self, m: Interpreter, value: Variable) -> Variable:
        for i, same in enumerate(self.compared(m, value, IndexError, "deque mutated during remove().")):
            if same:
                del self.items[i]
                return self.resized(m)
        self.refuse_removal(m, value)

    def trim(self, left: bool) -> None:
        """Drop what is beyond the limit, at the left end or at the right."""
        if self.maxlen is not None and len(self.items) > self.maxlen:
            extra = len(self.items) - self.maxlen
            del self.items[slice(0, extra) if left else slice(-extra, None)]

    def resized(self, m: Interpreter, *, left: bool = True) -> Variable:
        """After elements came or went; those too many go at the left, or at the right."""
        self.trim(left)
        self.age += 1
        return self.changed(m)

    def made_anew(self, m: Interpreter, values: Variable | None = None, *more: Variable) -> Variable:
        if more or self.maxlen is not None:
            raise Unsupported("explicit __init__ of a deque with a limit, which is another then")
        return super().made_anew(m, values)

    def py_appendleft(self, m: Interpreter, value: Variable) -> Variable:
        """``deque.appendleft``."""
        self.items.insert(0, value)
        return self.resized(m, left=False)

    def py_extendleft(self, m: Interpreter, values: Variable) -> Variable:
        """``deque.extendleft``."""
        real = values.realize(m)
        for each in m.iteration.elements(real) if isinstance(real, Sequence) else m.iteration.each(real):
            self.py_appendleft(m, each)
        return self.changed(m)

    def py_insert(self, m: Interpreter, at: Variable, value: Variable) -> Variable:
        if self.maxlen is not None and len(self.items) >= self.maxlen:
            m.errors.throw(IndexError, "deque already at its maximum size")
        return super().py_insert(m, at, value)

    def py_pop(self, m: Interpreter, at: Variable | None = None) -> Variable:
        if at is not None:
            raise Unsupported("a deque's pop with an argument")
        return self._taken(m, -1)

    def py_popleft(self, m: Interpreter) -> Variable:
        """``deque.popleft``; raises ``IndexError`` in the program if it is empty."""
        return self._taken(m, 0)

    def _taken(self, m: Interpreter, at: int) -> Variable:
        if not self.items:
            m.errors.throw(IndexError, "pop from an empty deque")
        value = self.items.pop(at)
        self.resized(m)
        return value

    def py_rotate(self, m: Interpreter, by: Variable | None = None) -> Variable:
        """``deque.rotate``."""
        turned: collections.deque[Variable] = collections.deque(self.items)
        turned.rotate(1 if by is None else m.operators.index(by))
        self.items[:] = turned
        return self.resized(m)

    def refuse_removal(self, m: Interpreter, value: Variable) -> NoReturn:
        self.not_found(m, value, "remove")

    def reconstruct(self, e: Emitter) -> None:
        e.emit(build.push_callable(build.load_const(self.cls)))
        e.load_list(self.items)
        e.emit(build.load_const(self.maxlen), build.call(2))

    def reconstruct_empty(self, e: Emitter) -> None:
        e.call(self.cls, [Constant(()), Constant(self.maxlen)])

    def replay(self, e: Emitter) -> None:
        if self.age:
            super().replay(e)
            return
        for i, value in enumerate(self.items):  # in place: what iterates over it goes on
            e.call_discarding(collections.deque.__setitem__, [self, Constant(i), value])

    def as_argument(self, m: Interpreter) -> tuple[Any, Any]:
        raise Unsupported("a deque as an operator's argument")


class ReversedDequeIterator(Iterator):
    """Over a deque, from the right."""

    cls: type = type(reversed(collections.deque()))

    def __init__(self, deque: Deque) -> None:
        self.deque = deque
        self.age = deque.age
        self.position = 0

    def next(self, m: Interpreter) -> Variable:
        if self.age != self.deque.age:
            m.errors.throw(RuntimeError, "deque mutated during iteration")
        if self.position >= len(self.deque.items):
            raise StopIter
        self.position += 1
        return self.deque.items[-self.position]

    def made_of(self) -> Iterable[Variable]:
        if self.deque.age:
            raise CannotReconstruct(self, "an iterator over a deque that was changed")
        return (self.deque,)

    def reconstruct(self, e: Emitter) -> None:
        e.call(self.cls, [self.deque, Constant(self.position)])


class DequeIterator(Iterator):
    """Over a deque, from the left."""

    cls: type = type(iter(collections.deque()))

    def __init__(self, deque: Deque) -> None:
        self.deque = deque
        self.age = deque.age
        self.position = 0

    def next(self, m: Interpreter) -> Variable:
        if self.position >= len(self.deque.items) and self.age == self.deque.age:
            raise StopIter
        if self.age != self.deque.age:
            m.errors.throw(RuntimeError, "deque mutated during iteration")
        self.position += 1
        return self.deque.items[self.position - 1]

    def made_of(self) -> Iterable[Variable]:
        if self.deque.age:
            raise CannotReconstruct(self, "an iterator over a deque that was changed")
        return (self.deque,)

    def reconstruct(self, e: Emitter) -> None:
        e.call(self.cls, [self.deque, Constant(self.position)])


class InputDeque(UnseenElements, Deque):
    """A deque from outside. What is in it counts from when that is looked at: until then the program may only append to it."""

    _put_in = "extend"
    _content = ("items", "maxlen", "found")

    def __init__(self, value: collections.deque[Any], see: Callable[[InputDeque], None]) -> None:
        super().__init__([])
        for name in self._content:
            vars(self).pop(name, None)
        self._see = see
        self._value = value
        #: What the program appended to one that it has not looked at.
        self._more: list[Variable] = []

    def _looked(self) -> None:
        self.items.extend(self._more)
        self.trim(left=True)

    def let_go(self) -> Iterable[Any]:
        if self._see is None:
            return super().let_go()
        most, now = self._value.maxlen, list(self._value)
        return [] if most is None else now[: max(len(now) + len(self._more) - most, 0)]

    def py_append(self, m: Interpreter, value: Variable) -> Variable:
        if self._see is None:
            return super().py_append(m, value)
        self._more.append(value)
        self.age += 1
        return self.changed(m)


@builds(collections.deque)
def _build_deque(m: Interpreter, value: collections.deque[Any], source: Source | None) -> Variable:
    m.guards.of_type(source, collections.deque)
    assert source is not None

    def see(made: InputDeque) -> None:
        m.guards.add(source, GuardKind.LEN, len(value))
        m.guards.add(Attr(source, "maxlen"), GuardKind.EQUALS, value.maxlen)
        made.items, made.maxlen = [Lazy(v, Item(source, i)) for i, v in enumerate(value)], value.maxlen
        made.found = None

    return InputDeque(value, see)


@handles(collections.deque)
def _deque(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    limit = args[1] if len(args) > 1 else kwargs.get("maxlen")
    made: Deque = m.effects.created(Deque([], None if limit is None or m.builder.is_none(limit) else _limit(m, limit)))
    if args or "iterable" in kwargs:
        made.py_extend(m, args[0] if args else kwargs["iterable"])
    return made


def _limit(m: Interpreter, limit: Variable) -> int:
    """Asked before the elements are; what is no integer is not made one, by ``__index__`` either."""
    if not issubclass(limit.realize(m).python_type(), int):
        m.errors.throw(TypeError, "an integer is required")
    most = m.operators.index(limit)
    m.builder.fold(collections.deque, [(), most])  # which says what is wrong with it
    return most
