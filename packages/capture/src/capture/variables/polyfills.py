"""Functions of the standard library that are written in C and call the program's code, said again in Python: evaluated into the graph as such."""

from __future__ import annotations

import bisect
import functools
import heapq
from collections.abc import Callable
from typing import Any

from .base import Args, Interpreter, Kwargs, Variable
from .constants import Constant
from .handlers import handles


def stands_for(*functions: Any) -> Callable[[Any], Any]:
    """Register what is evaluated in place of functions written in C."""

    def register(polyfill: Any) -> Any:
        @handles(*functions)
        def call(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
            return m.calls.call(m.builder.known(polyfill), args, kwargs)

        return polyfill

    return register


@stands_for(bisect.bisect_right)
def _bisect_right(a: Any, x: Any, lo: int = 0, hi: int | None = None, *, key: Any = None) -> int:
    if lo < 0:
        raise ValueError("lo must be non-negative")
    if hi is None:
        hi = len(a)
    while lo < hi:
        middle = (lo + hi) // 2
        item = a[middle] if key is None else key(a[middle])
        if x < item:
            hi = middle
        else:
            lo = middle + 1
    return lo


@stands_for(bisect.bisect_left)
def _bisect_left(a: Any, x: Any, lo: int = 0, hi: int | None = None, *, key: Any = None) -> int:
    if lo < 0:
        raise ValueError("lo must be non-negative")
    if hi is None:
        hi = len(a)
    while lo < hi:
        middle = (lo + hi) // 2
        item = a[middle] if key is None else key(a[middle])
        if item < x:
            lo = middle + 1
        else:
            hi = middle
    return lo


@stands_for(bisect.insort_right)
def _insort_right(a: Any, x: Any, lo: int = 0, hi: int | None = None, *, key: Any = None) -> None:
    a.insert(_bisect_right(a, x if key is None else key(x), lo, hi, key=key), x)


@stands_for(bisect.insort_left)
def _insort_left(a: Any, x: Any, lo: int = 0, hi: int | None = None, *, key: Any = None) -> None:
    a.insert(_bisect_left(a, x if key is None else key(x), lo, hi, key=key), x)


def _less(a: Any, b: Any) -> Any:
    return a < b


def _greater(a: Any, b: Any) -> Any:
    return b < a


def _rise(heap: list[Any], top: int, place: int, before: Any) -> None:
    """Move an item towards the root until its parent goes before it."""
    item = heap[place]
    while place > top:
        parent = (place - 1) // 2
        if not before(item, heap[parent]):
            break
        heap[place] = heap[parent]
        place = parent
    heap[place] = item


def _sink(heap: list[Any], place: int, before: Any) -> None:
    """Move an item to a leaf, past the child that goes first each time, and up again from there."""
    top, end, item = place, len(heap), heap[place]
    child = 2 * place + 1
    while child < end:
        other = child + 1
        if other < end and not before(heap[child], heap[other]):
            child = other
        heap[place] = heap[child]
        place = child
        child = 2 * place + 1
    heap[place] = item
    _rise(heap, top, place, before)


#: What the names of the functions for heaps with the largest element first begin with: from 3.14 they are public.
_PRIVATE = heapq._heappop_max.__name__.removesuffix("heappop_max")  # type: ignore[attr-defined]


def _check(heap: Any, argument: str) -> None:
    if not isinstance(heap, list):
        kind = "None" if heap is None else type(heap).__name__
        raise TypeError(f"{argument} must be list, not {kind}")


def _check_filled(heap: Any, argument: str) -> None:
    _check(heap, argument)
    if not heap:
        raise IndexError("index out of range")


def _pop(heap: list[Any], before: Any) -> Any:
    last = heap.pop()
    if not heap:
        return last
    first = heap[0]
    heap[0] = last
    _sink(heap, 0, before)
    return first


def _replace(heap: list[Any], item: Any, before: Any) -> Any:
    first = heap[0]
    heap[0] = item
    _sink(heap, 0, before)
    return first


def _order(heap: list[Any], before: Any) -> None:
    for place in reversed(range(len(heap) // 2)):
        _sink(heap, place, before)


@stands_for(heapq.heappush)
def _heappush(heap: list[Any], item: Any) -> None:
    _check(heap, "heappush() argument 1")
    heap.append(item)
    _rise(heap, 0, len(heap) - 1, _less)


@stands_for(heapq.heappushpop)
def _heappushpop(heap: list[Any], item: Any) -> Any:
    _check(heap, "heappushpop() argument 1")
    if heap and heap[0] < item:
        return _replace(heap, item, _less)
    return item


@stands_for(heapq.heappop)
def _heappop(heap: list[Any]) -> Any:
    _check_filled(heap, "heappop() argument")
    return _pop(heap, _less)


@stands_for(heapq.heapreplace)
def _heapreplace(heap: list[Any], item: Any) -> Any:
    _check_filled(heap, "heapreplace() argument 1")
    return _replace(heap, item, _less)


@stands_for(heapq.heapify)
def _heapify(heap: list[Any]) -> None:
    _check(heap, "heapify() argument")
    _order(heap, _less)


@stands_for(heapq._heappop_max)  # type: ignore[attr-defined]
def _heappop_max(heap: list[Any]) -> Any:
    _check_filled(heap, f"{_PRIVATE}heappop_max() argument")
    return _pop(heap, _greater)


@stands_for(heapq._heapreplace_max)  # type: ignore[attr-defined]
def _heapreplace_max(heap: list[Any], item: Any) -> Any:
    _check_filled(heap, f"{_PRIVATE}heapreplace_max() argument 1")
    return _replace(heap, item, _greater)


@stands_for(heapq._heapify_max)
def _heapify_max(heap: list[Any]) -> None:
    _check(heap, f"{_PRIVATE}heapify_max() argument")
    _order(heap, _greater)


class Compared(Variable):
    """A value that compares as a function says, of ``functools.cmp_to_key``."""

    cls = type(functools.cmp_to_key(lambda a, b: 0)(0))

    def __init__(self, function: Variable, value: Variable) -> None:
        self.function = function
        self.value = value

    def python_type(self) -> type:
        return self.cls

    def truth(self, m: Interpreter) -> bool:
        return True

    def attribute(self, m: Interpreter, name: str) -> Variable:
        return self.value if name == "obj" else super().attribute(m, name)

    def compare(self, m: Interpreter, symbol: str, other: Variable) -> Variable | None:
        if not isinstance(other, Compared):
            m.errors.throw(TypeError, "other argument must be K instance")
        found = m.calls.call(self.function, [self.value, other.value], {})
        return m.operators.compare(symbol, found, Constant(0))


class ComparedBy(Variable):
    """What ``functools.cmp_to_key`` gives: a key function."""

    def __init__(self, function: Variable) -> None:
        self.function = function

    def python_type(self) -> type:
        return Compared.cls

    def truth(self, m: Interpreter) -> bool:
        return True

    def call(self, m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
        value = args[0] if args else kwargs["obj"]
        return m.effects.created(Compared(self.function, value))


@handles(functools.cmp_to_key)
def _cmp_to_key(m: Interpreter, args: Args, kwargs: Kwargs) -> Variable:
    return m.effects.created(ComparedBy(args[0] if args else kwargs["mycmp"]))


def _bound_dispatch(self: Any, obj: Any, cls: Any = None) -> Any:
    dispatch = self.dispatcher.dispatch
    name = getattr(self.func, "__name__", "singledispatchmethod method")

    def method(*args: Any, **kwargs: Any) -> Any:
        if not args:
            raise TypeError(f"{name} requires at least 1 positional argument")
        return dispatch(args[0].__class__).__get__(obj, cls)(*args, **kwargs)

    method.__isabstractmethod__ = self.__isabstractmethod__  # type: ignore[attr-defined]
    method.register = self.register  # type: ignore[attr-defined]
    return functools.update_wrapper(method, self.func)


# CPython 3.13.0 and 3.13.1 remember it weakly for each object: an object of the frame's own is in no such memory.
if "_method_cache" in functools.singledispatchmethod.__get__.__code__.co_names:
    stands_for(functools.singledispatchmethod.__get__)(_bound_dispatch)
