"""What a session tells of each capture, for as long as it is of use: of those that are gone only the latest.

In: what is told, and the object that it is about (a capture, or a code left to the interpreter). Out: the session's
``Trace``, whose size is bounded by what lives: a program may run new code (``exec``) at each call.
"""

from __future__ import annotations

import threading
import weakref
from collections import Counter, deque
from collections.abc import Iterable, Sequence
from typing import Any

from .graph import Break, CapturedGraph
from .guards import Guard
from .language import replaced_builtin
from .report import Trace

#: So much that is gone is told of: what one call makes and drops is mostly less.
_MOST_GONE = 64
#: So many are taken out at once: each time all that is told is gone through.
_AT_ONCE = 8

#: Graphs, guards, breaks, recompiles, and what was skipped.
Told = tuple[Sequence[CapturedGraph], Sequence[Guard], Sequence[Break], Sequence[str], Sequence[str]]


class Ledger:
    """Writes a trace, and takes out again what was told of objects that died, but for the latest of them."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._number = 0
        self._told: dict[int, tuple[weakref.ref[object], Told]] = {}
        #: The numbers of what died; taken out when there is more to tell: the collector may run while someone reads the trace.
        self._gone: deque[int] = deque()
        #: One thread at a time; what dies meanwhile may run code of the program's that is captured, in the same thread.
        self._turns = threading.RLock()

    def tell(
        self,
        about: object,
        *,
        graphs: Sequence[CapturedGraph] = (),
        guards: Sequence[Guard] = (),
        breaks: Sequence[Break] = (),
        recompiles: Sequence[str] = (),
        skipped: Sequence[str] = (),
    ) -> None:
        """Tell something of an object, which is not kept alive by it; what is told must not hold the object either."""
        gone, trace = self._gone, self._trace
        with self._turns:
            self._number = number = self._number + 1
            self._told[number] = weakref.ref(about, lambda _: gone.append(number)), (
                graphs, guards, breaks, recompiles, skipped,
            )  # fmt: skip
            trace.graphs.extend(graphs)
            trace.guards.extend(guards)
            trace.breaks.extend(breaks)
            trace.recompiles.extend(recompiles)
            trace.skipped.extend(skipped)
            # A code may be left as the program has put something else in the place of a built-in, which is not called here: another time.
            if gone.__len__() >= _MOST_GONE + _AT_ONCE and replaced_builtin() is None:
                self._forget([gone.popleft() for _ in range(_AT_ONCE)])

    def _forget(self, numbers: Iterable[int]) -> None:
        told = [self._told.pop(number)[1] for number in numbers]
        trace = self._trace
        lists: tuple[list[Any], ...] = (trace.graphs, trace.guards, trace.breaks, trace.recompiles, trace.skipped)
        for place, kept in enumerate(lists):
            dropped = Counter(id(each) for lists_of in told for each in lists_of[place])
            left = []
            for each in kept:
                if dropped[id(each)]:
                    dropped[id(each)] -= 1
                else:
                    left.append(each)
            kept[:] = left
