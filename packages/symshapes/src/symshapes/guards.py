"""Shape guards as text: a Python predicate over the sources of sizes, and the same in words.

Flows in: a `ShapeEnv`'s symbols, facts and recorded guards. Flows out: `ShapeGuardCode`, without guards that follow
from others.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from math import inf
from typing import Any

import sympy
from sympy import Expr, Integer, Symbol

from symshapes.constraints import RELATIONS, Constraints, is_integral, normal_form
from symshapes.expr.printers import print_expr
from symshapes.expr.ranges import NON_NEGATIVE, UNKNOWN, ValueRange, bound
from symshapes.expr.terms import Term, sum_of, terms_of
from symshapes.records import dataclass

#: No size or number that a machine word has room for is beyond.
_HUGE = 2**62 - 1


@dataclass(frozen=True, slots=True)
class ShapeGuard:
    """A condition that the captured graph relies on, the user's line that asked, and the operator that ran ("" if none).

    A check at run time raises `error` with `message`.
    """

    expr: Any
    text: str
    user_line: str
    operator: str = ""
    error: type[Exception] = RuntimeError
    message: str = ""

    def __str__(self) -> str:
        by = f" by {self.operator}" if self.operator else ""
        return f"{self.text}{by}, from {self.user_line}"


@dataclass(frozen=True, slots=True)
class Specialization:
    """A size or number that lost its freedom: `source` can only be `value` now.

    `value` is an int, or the text of an expression over other sources (`y.size(0)`). `operator` ran when that was decided,
    "" if none did; `user_line` is the program's line.
    """

    source: str
    value: int | str
    operator: str
    user_line: str

    def __str__(self) -> str:
        by = f" by {self.operator}" if self.operator else ""
        return f"{self.source} is {self.value}{by}, from {self.user_line}"


@dataclass(frozen=True, slots=True)
class SymbolFacts:
    """What became of a symbol: where its value is read (several sources where sizes share it), and what it may be.

    `hint` is the value that was captured for, None where there was none; `settled` what fixed it, None if it may vary;
    `found` says of a number without sources which operator and line of the program found it in data.
    """

    name: str
    sources: tuple[str, ...]
    hint: int | float | None
    span: ValueRange
    settled: Specialization | None = None
    found: str = ""

    def __str__(self) -> str:
        was = "" if self.hint is None else f"was {self.hint}, "
        found = f", found in data{self.found}" if self.found else ""
        return f"{' = '.join((self.name, *self.sources))}: {was}{self._may_be()}{found}"

    def _may_be(self) -> str:
        if self.settled is not None:
            by = f" by {self.settled.operator}" if self.settled.operator else ""
            return f"must be {self.settled.value}{by}, from {self.settled.user_line}"
        if self.span.is_constant:
            return f"must be {self.span.lower}"
        low, high = self.span.lower > -_HUGE, self.span.upper < _HUGE
        if low and high:
            return f"may be {self.span.lower} to {self.span.upper}"
        return (
            f"may be {self.span.lower} or more"
            if low
            else f"may be {self.span.upper} or less"
            if high
            else "may be any"
        )


@dataclass(frozen=True, slots=True)
class GuardPart:
    """One condition of a predicate: `code` over sources, `local` over parameter names, and why it is there.

    `user_line` is the program's line that asked, "" where none did; `reason` says as much in words.
    """

    code: str
    local: str
    user_line: str = ""
    reason: str = ""

    def __str__(self) -> str:
        why = f"from {self.user_line}" if self.user_line else self.reason
        return f"{self.code}, {why}" if why else self.code


@dataclass(frozen=True, slots=True)
class ShapeGuardCode:
    """A predicate over sizes; `str()` says a condition a line, and why it is there.

    `code` is an expression over the sources themselves (`2 <= x.size(0) <= 64`). `source` defines `check(...)`, whose
    parameters are `parameters`, to be called with the values of `arguments` (sources), in the same order.
    """

    parts: tuple[GuardPart, ...]
    parameters: tuple[str, ...]
    arguments: tuple[str, ...]

    def __str__(self) -> str:
        return "\n".join(map(str, self.parts)) or "any sizes"

    @property
    def code(self) -> str:
        """One Python expression over the sources."""
        return _all_of(part.code for part in self.parts)

    @property
    def source(self) -> str:
        """The Python text of a module that defines `check`."""
        body = _all_of(part.local for part in self.parts)
        modules = "".join(f"import {name}\n" for name in ("math", "operator") if f"{name}." in body)
        return f"{modules}def check({', '.join(self.parameters)}):\n    return {body}\n"


def _all_of(conditions: Iterable[str]) -> str:
    return " and ".join(f"({text})" if " or " in text else text for text in conditions) or "True"


def condition_text(condition: Any, names: Mapping[Symbol, str]) -> str:
    """A condition as Python over `names`; comparisons of integers without negative terms where that is possible."""
    if condition.func in RELATIONS and is_integral(condition):
        form = normal_form(condition)
        if not isinstance(form, bool):
            return _comparison(*form, names)
    return print_expr(condition, "python", names=names)


def span_text(span: ValueRange) -> str:
    """A range of sizes in words: `from 2 to 64`."""
    if span.is_constant:
        return str(span.lower)
    if span.upper == inf:
        return f"from {span.lower}"
    return f"up to {span.upper}" if span.lower == -inf else f"from {span.lower} to {span.upper}"


_SIGNS = {"ge": (">=", "<="), "eq": ("==", "=="), "ne": ("!=", "!=")}


def _sides(difference: Expr) -> tuple[Expr, Expr]:
    """a, b with difference == a - b and no negative terms in either."""
    left: list[Term] = []
    right: list[Term] = []
    for coefficient, monomial in terms_of(difference):
        (left if coefficient > 0 else right).append((abs(coefficient), monomial))
    return sum_of(left), sum_of(right)


def _comparison(kind: str, difference: Expr, names: Mapping[Symbol, str]) -> str:
    left, right = _sides(difference)
    sign, mirrored = _SIGNS[kind]
    if left.is_Integer and not right.is_Integer:
        left, right, sign = right, left, mirrored
    return f"{print_expr(left, 'python', names=names)} {sign} {print_expr(right, 'python', names=names)}"


class GuardWriter:
    """Collects the parts of a predicate."""

    def __init__(self, sources: Mapping[Symbol, str]) -> None:
        self.sources = sources
        self.locals = {symbol: symbol.name for symbol in sources}
        self.equalities: list[GuardPart] = []
        self.parts: list[GuardPart] = []

    def condition(self, condition: Any, user_line: str = "", reason: str = "") -> None:
        """Add a condition."""
        code, local = (condition_text(condition, names) for names in (self.sources, self.locals))
        # What the program asked to be equal goes before bounds that follow from it, where it fails tells more.
        into = self.equalities if user_line and condition.func is sympy.Eq else self.parts
        into.append(GuardPart(code, local, user_line, reason))

    def span(self, symbol: Symbol, span: ValueRange, user_line: str = "", reason: str = "") -> None:
        """Add the bounds of a symbol; none for one that may be anything."""
        if span == UNKNOWN:
            return
        low, high = (
            f"{span.lower} <= " if span.lower != -inf else "",
            f" <= {span.upper}" if span.upper != inf else "",
        )
        template = ("{}", f" == {span.lower}") if span.is_constant else (f"{low}{{}}", high)
        code, local = (template[0].replace("{}", name) + template[1] for name in (self.sources[symbol], symbol.name))
        self.parts.append(GuardPart(code, local, user_line, reason))

    def equals(self, first: Symbol, other: Symbol, reason: str) -> None:
        """Add that two symbols are equal."""
        self.condition(sympy.Eq(first, other, evaluate=False), reason=reason)

    def finish(self) -> ShapeGuardCode:
        """The predicate over all that was added."""
        parts = (*self.equalities, *self.parts)
        used = [symbol for symbol in self.sources if any(_mentions(part.local, symbol.name) for part in parts)]
        return ShapeGuardCode(
            parts, tuple(symbol.name for symbol in used), tuple(self.sources[symbol] for symbol in used)
        )


def _mentions(code: str, name: str) -> bool:
    return re.search(rf"\b{re.escape(name)}\b", code) is not None


_APART = "since 0 and 1 are compiled for apart"
_EMPTY = "since 0 is compiled for apart"
_WORD = "as a machine word holds it"
_MARKED = "as marked"
_EQUAL = "since they were equal"


def write_guards(
    sources: Mapping[Symbol, str],
    copies: Iterable[tuple[Symbol, Symbol, str]],
    constants: Iterable[tuple[Symbol, str, int]],
    unbacked: Mapping[Symbol, tuple[str, ValueRange]],
    known: Constraints,
    guards: Iterable[ShapeGuard],
    narrowed: Mapping[Symbol, ShapeGuard],
    marked: Collection[Symbol],
) -> ShapeGuardCode:
    """The predicate of a capture.

    Args:
        sources: symbols with a hint, in order of creation, and where their values are read.
        copies: (symbol, its stand-in, source) for further sources that share a symbol.
        constants: (stand-in, source, value) for sources that were made constants.
        unbacked: symbols without a hint that a call brings all the same: where they are read, what was promised.
        known: what is known at the end.
        guards: what was recorded, in order.
        narrowed: for symbols of which not all values are left, what asked so last.
        marked: symbols of which the user promised something.
    """
    copies, constants = list(copies), list(constants)
    names = dict(sources)
    names.update((stand_in, source) for _, stand_in, source in copies)
    names.update((stand_in, source) for stand_in, source, _ in constants)
    names.update((symbol, source) for symbol, (source, _) in unbacked.items())
    writer = GuardWriter(names)
    kept = Constraints()  # what the parts written so far imply
    for symbol in sources:
        value = known.replacements.get(symbol)
        span = known.ranges.get(symbol, UNKNOWN)
        if value is not None and not value.is_Integer:
            implied = bound(value, known.ranges)
            if implied.lower >= span.lower and implied.upper <= span.upper:
                kept.add_symbol(symbol, UNKNOWN)
                continue
        asked = narrowed.get(symbol)
        apart = _EMPTY if span.lower == 1 else _APART
        reason = _MARKED if symbol in marked else _WORD if span.upper == _HUGE else apart
        writer.span(symbol, span, asked.user_line if asked else "", reason)
        kept.add_symbol(symbol, span)
        if span.is_constant:
            kept.learn(sympy.Eq(symbol, Integer(span.lower), evaluate=False))
    for symbol, (_, span) in unbacked.items():
        if span != NON_NEGATIVE:
            writer.span(symbol, span, reason=_MARKED)
    for symbol, stand_in, _ in copies:
        writer.equals(symbol, stand_in, _MARKED if symbol in marked else _EQUAL)
    for stand_in, _, value in constants:
        writer.span(stand_in, ValueRange(value, value), reason=_APART)
    for guard in _needed(list(guards), kept):
        writer.condition(guard.expr, guard.user_line)
    return writer.finish()


def _needed(guards: list[ShapeGuard], kept: Constraints) -> list[ShapeGuard]:
    """Those that do not follow from others and from what is `kept`, in order.

    Equalities first, since they make others simpler; then the last first: when it was recorded it did not follow from
    those before, but they may follow from it.
    """
    equalities = [guard for guard in guards if guard.expr.func is sympy.Eq]
    others = [guard for guard in guards if guard.expr.func is not sympy.Eq]
    found = []
    for guard in (*equalities, *reversed(others)):
        if kept.decide(guard.expr) is not True:
            found.append(guard)
            kept.learn(guard.expr)
    place = {id(guard): at for at, guard in enumerate(guards)}
    return sorted(found, key=lambda guard: (guard.expr.func is not sympy.Eq, place[id(guard)]))
