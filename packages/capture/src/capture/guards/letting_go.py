"""What stays of guards once a program checks them: they are told of in reports, which outlive what the guards are about.

In: the guards and sources of a capture that has ended. Out: the same in the same words, which keep no object of the program's alive.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from capture._native import address
from capture.guards.kinds import WRITTEN, Guard, GuardKind, Predicate, ShapePredicate, brief
from capture.labels import Told
from capture.sources import Const, Source, remembered


class LettingGo:
    """Of one capture. ``keyed``: sources may be read by keys that are objects of the program's."""

    def __init__(self, *, keyed: bool) -> None:
        self._keyed = keyed
        self._known: dict[Source, Source] = {}
        #: By address: while a guard is left that holds it, nothing else lies there.
        self._told: dict[int, Told] = {}

    def guards(self, guards: Iterable[Guard]) -> None:
        """Have these guards, which nothing checks any more, let go of what they are about."""
        keyed = self._keyed
        for guard in guards:
            source, expected = guard.source, guard.expected
            held, kept = source, expected
            if source is not None and (keyed or type(source.root) is Const):
                held = remembered(source, self._known)
            if type(expected) not in WRITTEN:
                how = _KEPT.get(guard.kind)
                kept = expected if how is None else how(self, expected)
            if held is not source or kept is not expected:
                guard.let_go(held, kept)

    def source(self, source: Source) -> Source:
        """A source that is told of as this one is."""
        return remembered(source, self._known) if self._keyed or type(source.root) is Const else source

    def brief(self, expected: Any) -> Any:
        """What is told of as `brief` tells of it."""
        told = self._told.get(address(expected))
        if told is None:
            told = self._told[address(expected)] = Told(expected, brief(expected))
        return told

    def keys(self, expected: Any) -> Any:
        """The same of each of these."""
        if WRITTEN.issuperset(map(type, expected)):
            return expected
        return tuple(key if type(key) in WRITTEN else self.brief(key) for key in expected)

    def predicate(self, expected: Predicate) -> Predicate:
        """Its text."""
        return Predicate(_is_checked, expected.text)

    def condition(self, expected: ShapePredicate) -> ShapePredicate:
        """Of inputs that are told of as its own are."""
        inputs = [replace(each, source=self.source(each.source)) for each in expected.inputs]
        return replace(expected, inputs=tuple(inputs))


def _is_checked(value: object) -> bool:
    raise AssertionError("a guard that its program checks")


#: What each kind keeps of what it expects, where that is not written as it is. What is not here leads to nothing of the program's.
_KEPT: dict[GuardKind, Callable[[LettingGo, Any], Any]] = {
    GuardKind.TYPE: LettingGo.brief,
    GuardKind.ID: LettingGo.brief,
    GuardKind.BOUND: LettingGo.brief,
    GuardKind.HAS_KEY: LettingGo.brief,
    GuardKind.NO_KEY: LettingGo.brief,
    GuardKind.DICT_KEYS: LettingGo.keys,
    GuardKind.EQUALS: lambda _, expected: Told(expected, str(expected)) if isinstance(expected, type) else expected,
    GuardKind.CALLABLE: LettingGo.predicate,
    GuardKind.SAME_OBJECT: LettingGo.source,
    GuardKind.DISTINCT: lambda self, expected: tuple(map(self.source, expected)),
    GuardKind.SHAPE: LettingGo.condition,
}
