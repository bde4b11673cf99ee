"""What users promise of the sizes they mark, and what broke a promise.

Flows in: marked symbols, and each condition as a `ShapeEnv` learns it. Flows out: sentences for a `MarkError`.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from typing import Any

import sympy
from sympy import Expr, Symbol

from symshapes.constraints import Constraints, is_integral, normal_form
from symshapes.expr.evaluate import evaluate
from symshapes.expr.ranges import ValueRange, bound
from symshapes.expr.terms import terms_of
from symshapes.guards import ShapeGuard, span_text
from symshapes.policy import DimMark, DimPolicy
from symshapes.records import dataclass

_TRIED = 1 << 10  # sizes that are tried to find one that a condition leaves out


@dataclass(frozen=True, slots=True)
class Promise:
    """A marked size: its symbol, where it is read, its mark, and the sizes that one compile is to serve."""

    symbol: Symbol
    source: str
    mark: DimMark
    span: ValueRange

    @property
    def title(self) -> str:
        """`x.size(0) is marked dynamic, from 2 to 64`."""
        ends = ""
        if self.is_bounded:
            ends = ", " + span_text(ValueRange(self.mark.min or 0, inf if self.mark.max is None else self.mark.max))
        name = f" as {self.mark.name!r}" if self.mark.name else ""
        return f"{self.source} is marked {self.mark.policy.value}{name}{ends}"

    @property
    def is_bounded(self) -> bool:
        """Whether the user said which sizes."""
        return self.mark.min is not None or self.mark.max is not None


class Promises:
    """The marked sizes of one environment. `sources` says how symbols are read, for messages."""

    def __init__(self, known: Constraints, sources: Mapping[Symbol, str]) -> None:
        self._known = known
        self._sources = sources
        self._open: list[Promise] = []
        self.broken: list[str] = []
        """Sentences, one a promise: what was promised, what became of it, by which condition at which line."""

    def add(self, symbol: Symbol, source: str, mark: DimMark, span: ValueRange) -> None:
        """A size was marked."""
        self._open.append(Promise(symbol, source, mark, span))

    def check(self, guard: ShapeGuard | None) -> None:
        """Note which promises do not hold any more, `guard` having been learnt last (None: nobody knows by what)."""
        still = []
        for promise in self._open:
            fault = self._fault(promise, guard)
            if fault is None:
                still.append(promise)
                continue
            what, instead = fault
            by = "" if guard is None else f"\n    since {guard}"
            self.broken.append(f"{promise.title}, but {what}{by}\n    {instead}")
        self._open = still

    def _fault(self, promise: Promise, guard: ShapeGuard | None) -> tuple[str, str] | None:
        """What is wrong, and what can be done about it; None while the promise holds."""
        value = self._known.simplify(promise.symbol)
        if value.is_Integer:
            if promise.span.is_constant:
                return None
            return (
                f"the program was specialised to {value}",
                _FREE,
            )
        if guard is not None and value in _divisors(guard.expr):
            return "the program was captured for few sizes only", _FREE
        other = self._other_name(promise, value)
        if other is not None:
            return (
                f"it must equal {other.source}, which is marked {other.mark.name!r}",
                "Give both one name if they are one size.",
            )
        if not promise.is_bounded or promise.mark.policy is DimPolicy.UNBACKED:
            return None  # what is asked of an unbacked size is checked when the program runs
        left = bound(value, self._known.ranges)
        if left.lower > promise.span.lower or left.upper < promise.span.upper:
            return f"the program was captured for sizes {span_text(left)} only", _NARROW
        missing = None if guard is None else _missing(guard.expr, value, promise.span)
        return None if missing is None else (f"the program was not captured for {missing}", _NARROW)

    def _other_name(self, promise: Promise, value: Expr) -> Promise | None:
        """The size of another name that this one must equal."""
        if promise.mark.name is None or value is promise.symbol:
            return None
        return next(
            (
                other
                for other in self._open
                if other.symbol is value and other.mark.name not in (None, promise.mark.name)
            ),
            None,
        )


_FREE = "Compute with the size instead of deciding by it there, or mark it with maybe_mark_dynamic, which lets it become a constant."
_NARROW = "Mark it for fewer sizes with min= and max=, or mark it without, so that other sizes are compiled for when they come."


def _divisors(condition: Any) -> frozenset[Any]:
    """The sizes of which a condition says that their product is a number: each can only be a divisor of it."""
    if condition.func is not sympy.Eq or not is_integral(condition):
        return frozenset()
    form = normal_form(condition)
    terms = [] if isinstance(form, bool) else [monomial for _, monomial in terms_of(form[1]) if not monomial.is_Integer]
    return frozenset(terms[0].free_symbols) if len(terms) == 1 and (terms[0].is_Mul or terms[0].is_Pow) else frozenset()


def _missing(condition: Any, size: Expr, span: ValueRange) -> int | None:
    """A size within the span of which a condition on that size alone does not hold."""
    if not size.is_Symbol or condition.free_symbols != {size}:
        return None
    first = int(span.lower)
    last = first + _TRIED if span.upper == inf else min(int(span.upper), first + _TRIED)
    return next((each for each in range(first, last + 1) if not evaluate(condition, {size: each})), None)
