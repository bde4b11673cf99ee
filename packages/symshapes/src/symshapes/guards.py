"""Shape guards as text: a Python predicate over the sources of sizes, and the same in words.

Flows in: a `ShapeEnv`'s symbols, facts and recorded guards. Flows out: `ShapeGuardCode`, without guards that follow
from others.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import inf
from typing import Any

import sympy
from sympy import Expr, Integer, Symbol

from symshapes.constraints import RELATIONS, Constraints, is_integral, normal_form
from symshapes.expr.functions import Mod
from symshapes.expr.printers import print_expr
from symshapes.expr.ranges import NON_NEGATIVE, UNKNOWN, ValueRange, bound
from symshapes.expr.terms import Term, sum_of, terms_of


@dataclass(frozen=True, slots=True)
class ShapeGuard:
    """A condition that the captured graph relies on, the user's line that asked, and the operator that ran ("" if none)."""

    expr: Any
    text: str
    user_line: str
    operator: str = ""

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
class GuardPart:
    """One condition of a predicate: `code` over sources, `local` over parameter names, `text` in words."""

    code: str
    local: str
    text: str


@dataclass(frozen=True, slots=True)
class ShapeGuardCode:
    """A predicate over sizes.

    `code` is an expression over the sources themselves (`2 <= x.size(0) <= 64`). `source` defines `check(...)`, whose
    parameters are `parameters`, to be called with the values of `arguments` (sources), in the same order.
    """

    parts: tuple[GuardPart, ...]
    parameters: tuple[str, ...]
    arguments: tuple[str, ...]
    text: str

    @property
    def code(self) -> str:
        """One Python expression over the sources."""
        return " and ".join(part.code for part in self.parts) or "True"

    @property
    def source(self) -> str:
        """The Python text of a module that defines `check`."""
        body = " and ".join(part.local for part in self.parts) or "True"
        modules = "".join(f"import {name}\n" for name in ("math", "operator") if f"{name}." in body)
        return f"{modules}def check({', '.join(self.parameters)}):\n    return {body}\n"


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
    """Collects parts and, per subject, phrases."""

    def __init__(self, sources: Mapping[Symbol, str]) -> None:
        self.sources = sources
        self.locals = {symbol: symbol.name for symbol in sources}
        self.parts: list[GuardPart] = []
        self.phrases: dict[Symbol, list[str]] = {}
        self.sentences: list[str] = []

    def condition(self, condition: Any) -> None:
        """Add a condition."""
        code = condition_text(condition, self.sources)
        subject, phrase = self._phrase(condition)
        if subject is None:
            self.sentences.append(code)
            text = code
        else:
            self.phrases.setdefault(subject, []).append(phrase)
            text = f"{self.sources[subject]} {phrase}"
        self.parts.append(GuardPart(code, condition_text(condition, self.locals), text))

    def span(self, symbol: Symbol, span: ValueRange) -> None:
        """Add the bounds of a symbol; none for one that may be anything."""
        if span.is_constant:
            template, phrase = "{} == " + str(span.lower), f"is {span.lower}"
        elif span.upper == inf:
            if span.lower == -inf:
                return
            template, phrase = "{} >= " + str(span.lower), f"is at least {span.lower}"
        elif span.lower == -inf:
            template, phrase = "{} <= " + str(span.upper), f"is at most {span.upper}"
        else:
            template, phrase = f"{span.lower} <= {{}} <= {span.upper}", f"is between {span.lower} and {span.upper}"
        self.phrases.setdefault(symbol, []).append(phrase)
        source = self.sources[symbol]
        code, local = (template.replace("{}", name) for name in (source, symbol.name))
        self.parts.append(GuardPart(code, local, f"{source} {phrase}"))

    def equals(self, first: Symbol, other: Symbol) -> None:
        """Add that two symbols are equal."""
        self.condition(sympy.Eq(first, other, evaluate=False))

    def _phrase(self, condition: Any) -> tuple[Symbol | None, str]:
        """What is said of which source: `x.size(0)`, "equals y.size(0)"."""
        if condition.func is not sympy.Eq or not is_integral(condition):
            return None, ""
        form = normal_form(condition)
        if isinstance(form, bool):
            return None, ""
        if isinstance(form[1], Mod) and form[1].args[0].is_Symbol:
            symbol, divisor = form[1].args
            return symbol, f"is divisible by {print_expr(divisor, 'python', names=self.sources)}"
        left, right = _sides(form[1])
        if right.is_Symbol and not left.is_Symbol:
            left, right = right, left
        if left.is_Symbol and right.is_Symbol:
            order = list(self.sources)
            left, right = sorted((left, right), key=order.index)
        if not left.is_Symbol or left in right.free_symbols:
            return None, ""
        return left, f"equals {print_expr(right, 'python', names=self.sources)}"

    def finish(self) -> ShapeGuardCode:
        """The predicate over all that was added."""
        lines = [f"{self.sources[symbol]} {_joined(phrases)}" for symbol, phrases in self.phrases.items()]
        used = [symbol for symbol in self.sources if any(_mentions(part.local, symbol.name) for part in self.parts)]
        return ShapeGuardCode(
            tuple(self.parts),
            tuple(symbol.name for symbol in used),
            tuple(self.sources[symbol] for symbol in used),
            "; ".join([*lines, *self.sentences]) or "no conditions on sizes",
        )


def _mentions(code: str, name: str) -> bool:
    return re.search(rf"\b{re.escape(name)}\b", code) is not None


def _joined(phrases: list[str]) -> str:
    return phrases[0] if len(phrases) == 1 else ", ".join(phrases[:-1]) + " and " + phrases[-1]


def write_guards(
    sources: Mapping[Symbol, str],
    copies: Iterable[tuple[Symbol, Symbol, str]],
    constants: Iterable[tuple[Symbol, str, int]],
    unbacked: Mapping[Symbol, tuple[str, ValueRange]],
    known: Constraints,
    guards: Iterable[ShapeGuard],
) -> ShapeGuardCode:
    """The predicate of a capture.

    Args:
        sources: symbols with a hint, in order of creation, and where their values are read.
        copies: (symbol, its stand-in, source) for further sources that share a symbol.
        constants: (stand-in, source, value) for sources that were made constants.
        unbacked: symbols without a hint that a call brings all the same: where they are read, what was promised.
        known: what is known at the end.
        guards: what was recorded, in order.
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
        writer.span(symbol, span)
        kept.add_symbol(symbol, span)
        if span.is_constant:
            kept.learn(sympy.Eq(symbol, Integer(span.lower), evaluate=False))
    for symbol, (_, span) in unbacked.items():
        if span != NON_NEGATIVE:
            writer.span(symbol, span)
    for symbol, stand_in, _ in copies:
        writer.equals(symbol, stand_in)
    for stand_in, _, value in constants:
        writer.span(stand_in, ValueRange(value, value))
    for guard in sorted(guards, key=lambda guard: guard.expr.func is not sympy.Eq):
        if kept.decide(guard.expr) is True:
            continue
        writer.condition(guard.expr)
        kept.learn(guard.expr)
    return writer.finish()
