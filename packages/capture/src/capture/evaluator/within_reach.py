"""What code that is handed nothing of the frame's can see of the frame's changes: objects from outside that were changed, and what they hold.

In: changes, as they are noted. Out: whether that is as it was at an earlier time.
"""

from __future__ import annotations

from capture._native import address
from capture.sources import Source
from capture.variables.base import Variable
from capture.variables.constants import Constant, Known
from capture.variables.functions import Cell, Function, Method
from capture.variables.mappings import Dict
from capture.variables.modules import Module
from capture.variables.objects import Object
from capture.variables.placeholders import resolved
from capture.variables.reconstruction import CannotReconstruct
from capture.variables.sequences import List, Tuple
from capture.variables.sets import Set

from .side_effects import SideEffects

#: What notes each of its changes: not so iterators, which go on as they are asked, and tensors, which are written to.
_TELLING = frozenset({Tuple, List, Dict, Set, Object, Cell, Function, Method, Module})


class WithinReach:
    """The objects of one attempt that the frame has changed, or made and put there, where others may find them."""

    def __init__(self, effects: SideEffects) -> None:
        self._effects = effects
        #: After how many changes of objects from outside it was looked; where those lie, and which objects of the frame's they hold,
        #: by identity. None where that is not told.
        self._looked = 0
        self._places: list[Source] = []
        self._held: set[int] | None = set()

    def excludes(self, source: Source) -> bool:
        """Whether it is told, and nothing of it hangs from a source."""
        self._look()
        return self._held is not None and not any(source in place.path for place in self._places)

    def stays(self, mutations: int) -> bool:
        """Whether what the frame made and put there was not changed since so many changes were noted."""
        self._look()
        held = self._held
        if held is None:
            return False
        return not held or all(key not in held for key, _ in self._effects.mutated_at[mutations:])

    def _look(self) -> None:
        effects = self._effects
        if self._looked == effects.outside:
            return
        self._looked = effects.outside
        changed = [each for each in effects.changed.values() if each.source is not None]
        self._places = [each.source for each in changed if each.source is not None]
        self._held = _held_by(changed)


def _held_by(changed: list[Variable]) -> set[int] | None:
    """What objects from outside were given of the frame's own; None where that cannot be told."""
    held: set[int] = set()
    try:
        waiting = [value for each in changed for value in each.written()]
        while waiting:
            each = resolved(waiting.pop())
            if each.source is not None or type(each) is Constant or address(each) in held:
                continue
            if isinstance(each, Known) and not each.made_here:
                continue
            if type(each) not in _TELLING:
                return None
            parts = [part for part in (each, each.payload, each.holder) if part is not None]
            held.update(map(address, parts))
            for part in parts:
                waiting += part.made_of()
    except CannotReconstruct:
        return None
    return held
