"""What Python's iteration comes to: iterators, all elements of an iterable, pairs of a mapping, sorting."""

from __future__ import annotations

import collections
import functools
import itertools
import operator
from collections.abc import Callable, Generator

from capture.variables.base import Interpreter, SymbolicRaise, Variable
from capture.variables.constants import Constant
from capture.variables.exceptions import ExceptionObject
from capture.variables.generators import stopped
from capture.variables.instances import InstanceDict
from capture.variables.iterators import Iterator, StopIter, UserIterator
from capture.variables.lookups import class_lookup, has_entry, shown_type
from capture.variables.mapping_proxies import MappingProxy
from capture.variables.mapping_views import DictView
from capture.variables.mappings import Dict
from capture.variables.objects import Object
from capture.variables.sequences import List, Tuple


def _refusal_of_none() -> str:
    """What this interpreter says of looking for something in what holds nothing."""
    try:
        operator.contains(None, None)  # type: ignore[arg-type]
    except TypeError as error:
        return str(error)
    raise AssertionError("None holds something")


_NO_CONTAINER = _refusal_of_none()


def _refusal_of_a_number() -> tuple[str, str]:
    """What it says of one in the place of a first pair of a key and a value, and the note that it leaves on that."""
    try:
        dict([0])  # type: ignore[arg-type]
    except TypeError as error:
        return str(error), "".join(getattr(error, "__notes__", ()))
    raise AssertionError("a number is a pair")


_NO_PAIR = _refusal_of_a_number()


class _Asked:
    """Tells whether it was asked how many it has."""

    told = False

    def __iter__(self) -> _Asked:
        return self

    def __next__(self) -> object:
        raise StopIteration

    def __length_hint__(self) -> int:
        self.told = True
        return 0


#: Whether what makes a tuple asks, as what makes a list does: not in every version.
_ASKED = _Asked()
_TUPLES_ASK = tuple(_ASKED) == () and _ASKED.told


class LanguageIteration:
    """Iteration over variables, which ``m`` is handed to."""

    def __init__(self, m: Interpreter) -> None:
        self._m = m

    def iterate(self, value: Variable) -> Variable:
        """``iter(value)``."""
        m = self._m
        m.effects.activity += 1  # what iterates may come to an end halfway
        return value.realize(m).iterate(m)

    def iterate_with(self, method: Variable) -> Variable:
        """What an ``__iter__`` gives."""
        return self.checked(self._m.calls.call(method, [], {}).realize(self._m), "iter()")

    def checked(self, found: Variable, asked: str) -> Variable:
        """What one of the program's special methods gave for an iterator; raises in the words of what ``asked`` for it."""
        m = self._m
        given = found.python_type()
        if not has_entry(given, "__next__"):
            m.errors.throw(TypeError, f"{asked} returned non-iterator of type {shown_type(given)!r}")
        return m.effects.created(UserIterator(found)) if isinstance(found, Object) else found

    def next_value(self, iterator: Variable) -> Variable:
        """``next(iterator)``."""
        m = self._m
        m.effects.activity += 1
        return self.stop_as_exception(lambda: iterator.next(m))

    def stop_as_exception(self, action: Callable[[], Variable]) -> Variable:
        """Turn exhaustion into the program's ``StopIteration``."""
        m = self._m
        try:
            return action()
        except StopIter as stop:
            value = stop.value
            m.errors.throw_value(StopIteration, [] if value is None or m.builder.is_none(value) else [value])

    def next_of_object(self, owner: Variable) -> Variable:
        """``__next__`` of a user's object; its ``StopIteration`` becomes the signal."""
        m = self._m
        return self.exception_as_stop(lambda: owner.realize(m).method(m, "__next__", [], {}))

    def exception_as_stop(self, action: Callable[[], Variable]) -> Variable:
        """Turn the program's ``StopIteration`` into exhaustion, with its value."""
        try:
            return action()
        except SymbolicRaise as raised:
            stop = stopped(raised)
            raise raised if stop is None else stop from None

    def among(self, iterable: Variable, value: Variable) -> bool:
        """Whether an iterable gives a value, which it is asked for until it does."""
        m = self._m
        if type(iterable) is Tuple and iterable.cls is tuple:  # nothing comes or goes meanwhile
            m.state.count_instructions(len(iterable.items))
            return any(m.operators.equal(item, value) for item in iterable.items)
        iterator = self._begun(iterable, _NO_CONTAINER).realize(m)
        while True:
            try:
                if m.operators.equal(iterator.next(m), value):
                    return True
            except StopIter:
                return False
            m.state.count_instructions(1)

    def elements(self, value: Variable, most: int | None = None) -> list[Variable]:
        """All elements of an iterable, as ``list`` takes them; an iterator is asked for no more than ``most``."""
        m = self._m
        real = value.realize(m)
        if type(real) in (List, Tuple):
            return list(real.items)  # type: ignore[attr-defined]
        if isinstance(real, DictView):
            return real.elements(m)
        return self._drained(self.iterate(real), most)

    def each(self, value: Variable) -> Generator[Variable, None, None]:
        """The elements of an iterable one after the other, for what acts on each before it asks for the next."""
        real = value.realize(self._m)
        if type(real) is Tuple:  # nothing comes or goes meanwhile
            yield from real.items
            return
        yield from self._following(self.iterate(real))

    def elements_or(self, value: Variable, words: str) -> list[Variable]:
        """All elements of an iterable; the ``TypeError`` of what is none says this."""
        real = value.realize(self._m)
        return self.elements(real if type(real) in (List, Tuple) else self._begun(real, words))

    def listed(self, value: Variable) -> list[Variable]:
        """All elements of an iterable, by what makes a list of them: it asks how many there are once it has the iterator."""
        m = self._m
        real = value.realize(m)
        if type(real) in (List, Tuple) or isinstance(real, DictView):
            return self.elements(real)
        iterator = self.iterate(real)
        self.ask_length(real)
        return self._drained(iterator)

    def tupled(self, value: Variable) -> list[Variable]:
        """All elements of an iterable, by what makes a tuple of them."""
        return self.listed(value) if _TUPLES_ASK else self.elements(value)

    def ask_length(self, value: Variable) -> None:
        """Ask an object of the program's for its length, or else for a guess, as for the room of a list: a ``TypeError`` is let pass."""
        m = self._m
        if not isinstance(value, Object):
            return
        for name in ("__len__", "__length_hint__"):
            try:
                found = value.call_special(m, name, [])
            except SymbolicRaise as raised:
                if not issubclass(raised.exception.python_type(), TypeError):
                    raise
                continue
            if found is None or (name != "__len__" and found.realize(m).python_type() is type(NotImplemented)):
                continue
            m.operators.answer(found, int, "__len__")
            return

    def _drained(self, iterator: Variable, most: int | None = None) -> list[Variable]:
        return [*itertools.islice(self._following(iterator), most)]

    def _following(self, iterator: Variable) -> Generator[Variable, None, None]:
        """What an iterator has left, one after the other."""
        m = self._m
        if not isinstance(iterator, Iterator):
            iterator = iterator.realize(m)
        while True:
            try:
                found = iterator.next(m)
            except StopIter:
                return
            m.state.count_instructions(1)
            yield found

    def _begun(self, value: Variable, words: str) -> Variable:
        """An iterator, where the interpreter says the same of all that gives none, also of an ``__iter__`` that raises a ``TypeError``."""
        m = self._m
        try:
            return self.iterate(value)
        except SymbolicRaise as raised:
            if not issubclass(raised.exception.python_type(), TypeError):
                raise
        m.errors.throw(TypeError, words.replace("NoneType", shown_type(value.realize(m).python_type())))

    def _iterates_as_dict(self, cls: type) -> bool:
        """Whether what a dictionary of a class holds is copied as it lies, whatever else the class says of reading it."""
        m = self._m
        return class_lookup(m, cls, "__iter__")[1] in (dict, collections.OrderedDict)

    def pairs(self, value: Variable) -> Generator[tuple[Variable, Variable], None, None]:
        """Keys and values of a mapping, or of an iterable of pairs, as ``dict`` takes them: one after the other."""
        m = self._m
        real = value.realize(m)
        if isinstance(real, MappingProxy):
            real = real.mapping.realize(m)
        if isinstance(real, InstanceDict):
            real = real.as_dict(m)
        if isinstance(real, Object) and isinstance(real.payload, Dict) and self._iterates_as_dict(real.cls):
            real = real.payload
        if isinstance(real, Dict):
            yield from list(real.in_order(m).values())
            return
        if isinstance(real, Object) and real.special(m, "keys") is not None:
            keys = self.elements(m.calls.call(real.attribute(m, "keys"), [], {}))
            for key in keys:
                yield key, real.item(m, key)
            return
        for place, pair in enumerate(self.each(real)):
            shown = f"dictionary update sequence element #{place}"
            both = self._pair(pair, place)
            if len(both) != 2:
                m.errors.throw(ValueError, f"{shown} has length {len(both)}; 2 is required")
            yield both[0], both[1]

    def _pair(self, pair: Variable, place: int) -> list[Variable]:
        """The elements of what is to be a key and its value."""
        words, note = (each.replace("#0", f"#{place}") for each in _NO_PAIR)
        try:
            return self.elements_or(pair, words)
        except SymbolicRaise as raised:
            if note and isinstance(raised.exception, ExceptionObject) and issubclass(raised.exception.cls, TypeError):
                raised.exception.add_note(self._m, Constant(note))
            raise

    def sort(self, items: list[Variable], key: Variable | None, reverse: Variable | None) -> list[Variable]:
        """Put what a list holds into a stable order by ``<`` on the keys; where that raises, they stay as far as they came."""
        m = self._m
        by_key = key is not None and not m.builder.is_none(key)
        keys = [m.calls.call(key, [x], {}) if by_key and key is not None else x for x in items]

        def less(a: tuple[Variable, Variable], b: tuple[Variable, Variable]) -> int:
            # Whether it is greater is not asked by sorting.
            return -1 if m.operators.truth(m.operators.compare("<", a[0], b[0])) else 0

        backwards = reverse is not None and m.operators.truth(reverse)
        pairs = list(zip(keys, items, strict=True))
        try:
            pairs.sort(key=functools.cmp_to_key(less), reverse=backwards)
        finally:
            items[:] = [item for _, item in pairs]
        return items
