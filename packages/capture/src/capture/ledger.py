"""What a session tells of each capture, for as long as it is of use: of those that are gone only the latest.

In: what is told, and the object that it is about (a capture, or a code left to the interpreter). Out: the session's
``Trace``, whose size is bounded by what lives: a program may run new code (``exec``) at each call.
"""

from __future__ import annotations

import itertools
import weakref
from collections import Counter, deque
from collections.abc import Iterable

from .graph import Break, CapturedGraph
from .guards import Guard
from .report import Trace

#: So much that is gone is told of: what one call makes and drops is mostly less.
_MOST_GONE = 64


class Ledger:
    """Writes a trace, and takes out again what was told of objects that died, but for the latest of them."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._numbers = itertools.count()
        self._told: dict[int, tuple[weakref.ref[object], Trace]] = {}
        #: The numbers of what died; taken out when there is more to tell: the collector may run while someone reads the trace.
        self._gone: deque[int] = deque()

    def tell(
        self,
        about: object,
        *,
        graphs: Iterable[CapturedGraph] = (),
        guards: Iterable[Guard] = (),
        breaks: Iterable[Break] = (),
        recompiles: Iterable[str] = (),
        skipped: Iterable[str] = (),
    ) -> None:
        """Tell something of an object, which is not kept alive by it; what is told must not hold the object either."""
        told = Trace(list(graphs), list(guards), list(breaks), list(recompiles), list(skipped))
        number, gone = next(self._numbers), self._gone
        self._told[number] = weakref.ref(about, lambda _: gone.append(number)), told
        for kept, new in zip(_lists(self._trace), _lists(told), strict=True):
            kept.extend(new)
        if len(gone) > 2 * _MOST_GONE:  # many at once: each time all that is told is gone through
            self._forget([gone.popleft() for _ in range(_MOST_GONE)])

    def _forget(self, numbers: Iterable[int]) -> None:
        traces = [self._told.pop(number)[1] for number in numbers]
        for place, kept in enumerate(_lists(self._trace)):
            dropped = Counter(id(each) for trace in traces for each in _lists(trace)[place])
            left = []
            for each in kept:
                if dropped[id(each)]:
                    dropped[id(each)] -= 1
                else:
                    left.append(each)
            kept[:] = left


def _lists(trace: Trace) -> tuple[list[object], ...]:
    lists: tuple[list[object], ...] = (trace.graphs, trace.guards, trace.breaks, trace.recompiles, trace.skipped)  # type: ignore[assignment]
    return lists
