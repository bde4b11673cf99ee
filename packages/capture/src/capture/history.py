"""What earlier captures of a frame met, and what of it has changed since: that is symbolic from then on.

In: the sizes, strides and numbers that each capture read. Out: which of them changed, and which always were equal.
"""

from __future__ import annotations

import functools
import itertools
import weakref
from collections.abc import Hashable, Iterable, Iterator, Mapping
from types import CodeType, FunctionType, MethodType
from typing import Any

import torch

from . import _native, config
from .identity_map import IdentityMap
from .profile import changed_before, note_changed

Number = int | float
#: Where a number is read: the words of its source, and which of several it is.
Place = Hashable

_REMEMBERED = 16
#: So many pieces of a long loop in which there is nothing to compile.
_PIECES = 2


class History:
    """Sizes, strides and numbers that the captures of one frame met, place by place."""

    def __init__(self, code: CodeType) -> None:
        self._code = weakref.ref(code)
        self._captures = 0
        self._met: dict[Place, tuple[tuple[int, Number], ...]] = {}
        self._changed: set[Place] = changed_before(config.profile, code) if config.profile else set()
        self._constant: set[Place] = set()
        self._closed = False
        self._pieces = 0
        #: Whether a size that changes makes all sizes of its tensor symbolic.
        self.spread = False

    def changed(self, place: Place) -> bool:
        """Whether an earlier capture found another value at a place."""
        return place in self._changed

    def changes(self, place: Place, value: Number) -> bool:
        """Whether another value was met at a place, and the program did not ask for the value itself."""
        if place in self._constant:
            return False
        return place in self._changed or self._differs(place, value)

    def _differs(self, place: Place, value: Number) -> bool:
        """Whether the first capture met another value."""
        met = self._met.get(place)
        return met is not None and not _same(met[0][1], value)

    def turns(self, place: Place, value: Number) -> int:
        """How often a value met at a place was another than that of the capture before."""
        met = [number for _, number in self._met.get(place, ())]
        return sum(not _same(before, after) for before, after in itertools.pairwise([*met, value]))

    def class_of(self, place: Place) -> Hashable:
        """Equal for places that held equal numbers at each capture so far."""
        return self._met.get(place, ())

    def is_open(self) -> bool:
        """Whether a capture is to serve sizes of 1 with all others: any but the first, if the program can be captured so."""
        return self._captures > 0 and not self._closed

    def close(self) -> None:
        """The program is not captured so that it serves sizes of 1 with others."""
        self._closed = True

    def is_constant(self, place: Place) -> bool:
        """Whether the program asks for the value itself."""
        return place in self._constant

    def is_worn_out(self) -> bool:
        """Whether the frame, as this time, came to an end for the length of a loop several times before."""
        self._pieces += 1
        return self._pieces > _PIECES

    def make_constant(self, places: Iterable[Place]) -> None:
        """The program asks for the values there themselves: a capture serves one."""
        self._constant.update(places)

    def add(self, met: Mapping[Place, Number]) -> None:
        """What one more capture met."""
        news = {place for place, value in met.items() if self._differs(place, value)} - self._changed
        self._changed |= news
        for place, value in met.items():
            before = self._met.get(place, ())
            if len(before) < _REMEMBERED:
                self._met[place] = (*before, (self._captures, value))
        self._captures += 1
        code = self._code()
        if news and config.profile and code is not None:
            note_changed(config.profile, code, news)


def _same(first: Number, second: Number) -> bool:
    """Equality in which NaN equals itself."""
    return first == second or (first != first and second != second)


class _Branch:
    """The history of a frame with some modules, and those with one more."""

    def __init__(self, code: CodeType) -> None:
        self.history = History(code)
        self.by_module: IdentityMap[torch.nn.Module, _Branch] = IdentityMap()


class Histories:
    """The histories of frames, by code; of methods of modules, and of wrappers around these, by the module as well.

    Layers of one class differ in what they are called with, each time in the same way: that is no change.
    """

    def __init__(self) -> None:
        _ALL.add(self)
        self._of_codes: IdentityMap[CodeType, _Branch] = IdentityMap()

    def of(self, code: CodeType, args: Iterable[Any], function: FunctionType) -> History:
        """The history of a frame of ``code`` with these arguments, of this function."""
        branch = self._of_codes.get(code)
        if branch is None:
            branch = self._of_codes[code] = _Branch(code)
        modules = filter(_is_module, _brought(args, function))
        # What goes on in the middle of a model's loop over its layers brings both.
        for module in modules if code.co_flags & _native.CONTINUES else itertools.islice(modules, 1):
            kept = branch.by_module.get(module)
            if kept is None:
                kept = branch.by_module[module] = _Branch(code)
            branch = kept
        return branch.history

    def clear(self) -> None:
        """Forget what was met."""
        self._of_codes.clear()


def _is_module(value: Any) -> bool:
    """By its real class: asking what it claims to be may run code of the program, and what a weak proxy stands for may be gone."""
    return issubclass(type(value), torch.nn.Module)


def _brought(args: Iterable[Any], function: FunctionType) -> Iterator[Any]:
    """Arguments, those of a decorator's ``*args`` too, then what a closure holds: what a wrapper has of the module that it is of."""
    for arg in args:
        yield from arg if type(arg) is tuple else (arg,)
    for cell in function.__closure__ or ():
        try:
            content = cell.cell_contents
        except ValueError:  # empty
            continue
        if type(content) is functools.partial:
            yield from content.args
            content = content.func
        yield content.__self__ if type(content) is MethodType else content


_ALL: weakref.WeakSet[Histories] = weakref.WeakSet()


def reset_histories() -> None:
    """Forget what all captures met."""
    for histories in _ALL:
        histories.clear()
