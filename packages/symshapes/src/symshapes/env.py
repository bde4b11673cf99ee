"""`ShapeEnv`: the symbols of one capture, what is known of them, and the guards that make it so.

Flows in: sizes with hints and sources, and questions that the program asks of symbolic values. Flows out:
`torch.SymInt`s, answers, guards and checks to make at run time.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import replace
from math import inf
from typing import Any

import sympy
import torch
from sympy import Integer, S, Symbol

from symshapes.constraints import RELATIONS, Constraints, is_integral, is_value, negation, normal_form, relation, truth
from symshapes.expr.evaluate import evaluate
from symshapes.expr.floats import is_number, number_of
from symshapes.expr.functions import as_expr
from symshapes.expr.ranges import UNKNOWN, ValueRange, bound
from symshapes.expr.symbols import STORAGE_BYTES, SYMBOLIC, expr_of, size_symbol
from symshapes.guards import (
    ShapeGuard,
    ShapeGuardCode,
    Specialization,
    SymbolFacts,
    condition_text,
    write_guards,
)
from symshapes.locate import user_line
from symshapes.node import SymNode
from symshapes.open_sizes import other_than_one
from symshapes.policy import DimMark, DimPolicy, MarkError
from symshapes.promises import Promises
from symshapes.unbacked import UnbackedError

#: Conditions on ints are checked in 64-bit arithmetic, in which sums and small multiples of these are exact.
_WORD = ValueRange(-(2**62) + 1, 2**62 - 1)
_KINDS = {"ge": sympy.Ge, "eq": sympy.Eq, "ne": sympy.Ne}


_GUESS = 64
_NODES = 1 << 12
"""So many composed nodes are kept at most."""


class ShapeEnv:
    """Symbols with hints and sources, guards, equalities, divisibility, ranges, and checks for run time.

    `locate` gives the user's line for a guard; by default it is read from the Python stack. Not thread-safe.
    """

    def __init__(self, locate: Callable[[], str] = user_line) -> None:
        self.locate = locate
        self.hints: dict[Symbol, int | float] = {}
        self.sources: dict[Symbol, str] = {}
        """Where a symbol's value is read: the source it was first made for."""
        self.copies: list[tuple[Symbol, Symbol, str]] = []
        """(symbol, stand-in, source) of sources that were found to share an earlier symbol (duck shaping)."""
        self.constants: list[tuple[Symbol, str, int]] = []
        """(stand-in, source, value) of sizes that were asked to be symbolic and are 0 or 1."""
        self.guards: list[ShapeGuard] = []
        self.runtime_asserts: list[ShapeGuard] = []
        """Conditions on unbacked symbols that the program promised, to be checked when it runs."""
        self.constraints = Constraints()
        self.nodes: dict[Any, SymNode] = {}
        """Nodes that were made of numbers, or of other nodes: the same few are composed thousands of times."""
        self.answers: Any = None
        """Who answers the questions of a call that goes on with one answer only (`symshapes.answers`); None for nobody."""
        self.exact = False
        """Whether torch goes the way it goes with sizes that are plain numbers, each decision guarded: who counts which operators it comes to
        says so meanwhile."""
        self.operator: object = ""
        """What runs: a `FakeMode` says it, so that it is known what took a size for a constant."""
        self._specializations: list[Specialization] = []
        #: By whether it is unbacked, and a name or a hint: what further sizes of that name or hint are, too.
        self._shared: dict[tuple[bool, Hashable], Symbol] = {}
        #: The source that a name was first met at, and its size.
        self._named: dict[str, tuple[str, int]] = {}
        #: What calls bring of unbacked sizes.
        self._promised: dict[Symbol, ValueRange] = {}
        #: Where the program found what only the run can tell: by which operator, at which line.
        self._found: dict[Symbol, str] = {}
        self._narrowed: dict[Symbol, ShapeGuard] = {}
        self._marked: set[Symbol] = set()
        self._open: set[Symbol] = set()
        self.repeating: set[Any] = set()
        """Sizes that are 1 or those of what they are repeated to, which only the run tells."""
        self._promises = Promises(self.constraints, self.sources)
        self._by_source: dict[tuple[str, Any], int | torch.SymInt] = {}
        self._counts: dict[str, int] = {}
        self.unbacked_count = 0
        """How many numbers have been met that only the run can tell."""

    # Symbols

    def create_size(
        self,
        hint: int,
        source: str,
        policy: DimPolicy | DimMark,
        *,
        min: int | None = None,
        max: int | None = None,
        alike: Hashable = None,
    ) -> int | torch.SymInt:
        """A size as the policy wants it: the int itself, or a `torch.SymInt`.

        Args:
            hint: the size now, at least 0.
            source: how the size is read again, for example `x.size(0)`. The same source gives the same size again.
            policy: see `DimPolicy`; a `DimMark` brings its own `min` and `max`.
            min, max: promised sizes, both inclusive; they become a guard.
            alike: with `DimPolicy.DUCK`, only sizes that are equal in this too share a symbol.

        A static size is not guarded here: that is the guard on the tensor. A symbolic one of 0 or 1 becomes a
        constant with a guard, because broadcasting and strides depend on those; unless it is unbacked.

        Raises:
            ValueError: the hint is outside `min` to `max`.
        """
        mark = policy if isinstance(policy, DimMark) else DimMark(policy, min, max, binding=False)
        if mark.policy is DimPolicy.STATIC:
            return hint
        known = self._by_source.get((source, hint))
        if known is None:
            known = self._by_source[source, hint] = self._new_size(hint, source, mark, alike)
        return known

    def _new_size(self, hint: int, source: str, mark: DimMark, alike: Hashable) -> int | torch.SymInt:
        span = ValueRange(0 if mark.min is None else mark.min, inf if mark.max is None else mark.max)
        if hint not in span:
            raise MarkError(f"{source} is {hint}, which is not within {span.lower} to {span.upper}")
        first = None if mark.name is None else self._named.setdefault(mark.name, (source, hint))
        if first is not None and first[1] != hint:
            raise MarkError(f"{source} and {first[0]} are both marked {mark.name!r}, and are {hint} and {first[1]}")
        if mark.policy is not DimPolicy.UNBACKED and (hint == 0 or (hint == 1 and mark.policy is not DimPolicy.OPEN)):
            self.constants.append((Symbol(self._fresh("c"), integer=True), source, hint))
            self._specializations.append(Specialization(source, hint, "", self.locate()))
            return hint
        symbol, span = self._size_symbol(hint, source, mark, span, alike)
        if mark.min is not None or mark.max is not None or mark.name is not None:
            self._marked.add(symbol)
        if mark.binding:
            self._promises.add(symbol, source, mark, span)
        return torch.SymInt(SymNode(symbol, self, self.hints.get(symbol), int))

    def _size_symbol(
        self, hint: int, source: str, mark: DimMark, span: ValueRange, alike: Hashable
    ) -> tuple[Symbol, ValueRange]:
        """The symbol of a size, shared or its own, and what one compile is to serve of it."""
        unbacked, is_open = mark.policy is DimPolicy.UNBACKED, mark.policy is DimPolicy.OPEN
        span = span if unbacked else ValueRange(1 if is_open else 2, inf).intersect(span)
        shares = mark.policy is DimPolicy.DUCK or is_open
        key: Any = mark.name if mark.name is not None else (hint, alike) if shares else None
        symbol = self._shared.get((unbacked, key))
        if symbol is not None and key is not None:
            copy = Symbol(f"{symbol.name}_{sum(of == symbol for of, _, _ in self.copies) + 1}", integer=True)
            self.copies.append((symbol, copy, source))
            self.constraints.refine(symbol, span)
            if unbacked:
                self._promised[symbol] = self._promised[symbol].intersect(span)
            return symbol, span
        if unbacked:
            symbol = self._unbacked("u", integer=True, nonnegative=True)
            self._promised[symbol] = span
        else:
            symbol = size_symbol(self._fresh("s"))
            self.hints[symbol] = hint
            if is_open:
                self._open.add(symbol)
        self.sources[symbol] = source
        self.constraints.add_symbol(symbol, span, unbacked=unbacked)
        if key is not None:
            self._shared[unbacked, key] = symbol
        return symbol, span

    def create_int(self, hint: int, source: str) -> int | torch.SymInt:
        """An int of the program as a symbol of its own, of any value that a machine word has room for.

        Raises ValueError for one that has none.
        """
        known = self._by_source.get((source, hint))
        if known is None:
            if hint not in _WORD:
                raise ValueError(f"{source} is {hint}, which no word has room for")
            symbol = Symbol(self._fresh("n"), integer=True)
            self.hints[symbol] = hint
            self.sources[symbol] = source
            self.constraints.add_symbol(symbol, _WORD)
            known = self._by_source[source, hint] = self._int(symbol, hint)
        return known

    def create_float(self, hint: float, source: str) -> torch.SymFloat:
        """A float of the program as a symbol.

        Raises ValueError for 0, infinities and NaN: `==` cannot guard them (-0.0 == 0.0, NaN != NaN).
        """
        if hint == 0 or hint - hint != 0:
            raise ValueError(f"{source} is {hint}, which cannot be guarded by ==")
        symbol = Symbol(self._fresh("f"), real=True)
        self.hints[symbol] = hint
        self.sources[symbol] = source
        return torch.SymFloat(SymNode(symbol, self, hint, float))

    def create_unbacked_int(self, min: int | None = None, max: int | None = None) -> torch.SymInt:
        """An int that the program computes from data, within `min` to `max` (both inclusive)."""
        positive = {"nonnegative": True} if min is not None and min >= 0 else {}
        symbol = self._unbacked("u", integer=True, **positive)
        span = ValueRange(-inf if min is None else min, inf if max is None else max)
        self.constraints.add_symbol(symbol, span, unbacked=True)
        return torch.SymInt(SymNode(symbol, self, None, int))

    def create_unbacked_size(self, most: int | torch.SymInt | None = None) -> torch.SymInt:
        """A size that the program finds in data; never more than `most`."""
        size = self.create_unbacked_int(0)
        if most is not None:
            self.constraints.learn(relation(sympy.Le, size.node.expr, expr_of(most)))
        return size

    def create_unbacked_float(self) -> torch.SymFloat:
        """A float that the program computes from data."""
        return torch.SymFloat(SymNode(self._unbacked("uf", real=True), self, None, float))

    def create_unbacked_bool(self) -> torch.SymBool:
        """A bool that the program computes from data: an unbacked int that is 1."""
        number = self.create_unbacked_int(0, 1).node
        return torch.SymBool(SymNode(relation(sympy.Eq, number.expr, Integer(1)), self, None, bool))

    @property
    def count(self) -> int:
        """How many symbols were made."""
        return sum(self._counts.values())

    def _fresh(self, prefix: str) -> str:
        count = self._counts.get(prefix, 0)
        self._counts[prefix] = count + 1
        return f"{prefix}{count}"

    def _unbacked(self, prefix: str, **assumptions: bool) -> Symbol:
        symbol = Symbol(self._fresh(prefix), **assumptions)
        self.unbacked_count += 1
        operator, line = self._operator_name(), self.locate()
        if line:  # else no line of the program is being captured: what compiles it traces it again
            self._found[symbol] = (f" by {operator}" if operator else "") + f", from {line}"
        return symbol

    def _int(self, symbol: Symbol, hint: int) -> torch.SymInt:
        return torch.SymInt(SymNode(symbol, self, hint, int))

    def symint(self, expr: Any) -> int | torch.SymInt:
        """The int or `torch.SymInt` of an expression over this environment's symbols."""
        expr = self.simplify(as_expr(expr))
        if expr.is_Integer:
            return int(expr)
        return torch.SymInt(SymNode(expr, self, self.hint(expr), int))

    # Questions

    def hint(self, expr: Any) -> Any:
        """The value of an expression on the hints, or None if it has unbacked symbols."""
        if all(symbol in self.hints for symbol in expr.free_symbols):
            return evaluate(expr, self.hints)
        return None

    @property
    def has_unbacked(self) -> bool:
        """Whether there are numbers that only the run can tell."""
        return self.unbacked_count > 0

    def remember(self, key: Any, node: SymNode) -> SymNode:
        """The node, which `nodes` has from now on by what it is made of."""
        if len(self.nodes) >= _NODES:
            self.nodes.clear()
        self.nodes[key] = node
        return node

    def learn(self, condition: Any) -> None:
        """A condition holds because of how its parts came about, so that there is nothing to guard or check."""
        self.constraints.learn(condition)

    def guess(self, expr: Any) -> Any:
        """A value that an expression may have, in which numbers that only the run can tell are neither small nor large."""
        numbers: dict[Symbol, int | float] = {}
        for symbol in expr.free_symbols:
            span = self.constraints.ranges.get(symbol, UNKNOWN)
            numbers[symbol] = self.hints.get(symbol, max(span.lower, min(span.upper, _GUESS)))
        return evaluate(expr, numbers)

    def simplify(self, expr: Any) -> Any:
        """An equal expression in which equalities and divisibility have been used."""
        return self.constraints.simplify(expr)

    def range_of(self, expr: Any) -> ValueRange:
        """What an integer expression can be."""
        return bound(self.simplify(as_expr(expr)), self.constraints.ranges)

    def statically_known(self, condition: Any) -> bool | None:
        """The truth of a condition for all inputs that pass the guards so far; None if it depends. No guard."""
        if isinstance(condition, bool):
            return condition
        return self.constraints.decide(condition)

    def evaluate(self, expr: Any, hint: Any = None) -> Any:
        """The value of a condition (bool) or an integer or float expression, with a guard where it depends.

        Args:
            expr: a sympy condition or expression, or a SymInt, SymFloat or SymBool.
            hint: the value on the hints, where the caller has it.

        Raises:
            UnbackedError: it depends on a value that has no hint.
        """
        if isinstance(expr, SYMBOLIC):
            hint, expr = expr.node.hint, expr.node.expr
        if isinstance(expr, (bool, int, float)):
            return expr
        if expr.is_Boolean or expr.is_Relational:
            return self._evaluate_condition(expr, hint)
        simple = self.simplify(expr)
        if is_number(simple):
            return number_of(simple)
        if hint is None:
            hint = self.hint(simple)
        if hint is None:
            raise UnbackedError(expr)
        for condition in is_value(simple, hint):
            self._guard(condition)
        return hint

    def _reduced(self, condition: Any, hint: Any) -> tuple[Any, Any]:
        """A condition and its value on the hints, None if only the run can tell. Numbers that it does not turn on (the `u` of
        `u + n == u + 3`) are not in it: what remains may be a guard."""
        if hint is None:
            hint = self.hint(condition)
        if hint is None and condition.func in RELATIONS and is_integral(condition):
            form = normal_form(condition)
            if isinstance(form, bool):
                return truth(form), form
            kind, difference = form
            if self.hint(difference) is not None:
                condition = relation(_KINDS[kind], difference, S.Zero)
                hint = self.hint(condition)
        return condition, hint

    def _evaluate_condition(self, condition: Any, hint: Any) -> bool:
        known = self.constraints.decide(condition)
        if known is not None:
            return known
        condition, hint = self._reduced(self.simplify(condition), hint)
        if hint is None:
            raise UnbackedError(condition)
        self._guard(condition if hint else negation(condition))
        return bool(hint)

    def _guard(self, condition: Any) -> None:
        """Record a condition that holds on the hints, and what follows from it."""
        if condition.func is sympy.And:
            for part in condition.args:
                self._guard(part)
            return
        if condition.func is sympy.Not and condition.args[0].func is sympy.Or:
            for part in condition.args[0].args:
                self._guard(negation(part))
            return
        if self.constraints.decide(condition) is True:
            return
        guard = self._asked(condition)
        self.guards.append(guard)
        settled, refined = len(self.constraints.settled), len(self.constraints.refined)
        self.constraints.learn(condition)
        self._narrowed.update(dict.fromkeys(self.constraints.refined[refined:], guard))
        for symbol in self.constraints.settled[settled:]:
            if symbol in self.hints:
                self._specializations.append(self._specialization(symbol, guard.user_line))
        self._promises.check(guard)

    def _asked(self, condition: Any) -> ShapeGuard:
        """A condition with what asks for it."""
        return ShapeGuard(condition, condition_text(condition, self.sources), self.locate(), self._operator_name())

    def _operator_name(self) -> str:
        return str(self.operator).removesuffix(".default")

    def _specialization(self, symbol: Symbol, line: str) -> Specialization:
        value = self.simplify(symbol)
        said = int(value) if value.is_Integer else condition_text(value, self.sources)
        return Specialization(self.sources[symbol], said, self._operator_name(), line)

    @property
    def has_open(self) -> bool:
        """Whether there are sizes that may be 1 as well as more."""
        return bool(self._open)

    def other_than_one(self, condition: Any) -> bool | None:
        """The truth of a condition that turns on an open size's being 1, where it is not; None for any other. No guard."""
        if not self._open or isinstance(condition, bool):
            return None
        return other_than_one(self.simplify(condition), self._open, self.constraints)

    def repeats(self, size: Any) -> None:
        """A size is 1 or that of what it is repeated to; only the run can tell."""
        self.repeating.add(size)

    def turns_on_repeating(self, condition: Any) -> bool:
        """Whether a condition compares such a size for equality."""
        if condition.func not in (sympy.Eq, sympy.Ne):
            return False
        repeating = {self.simplify(size) for size in self.repeating}
        return any(side in repeating for side in condition.args)

    def evaluate_size_oblivious(self, condition: Any, hint: Any = None) -> bool:
        """Like `evaluate`, but unbacked sizes are taken to be neither 0 nor 1, so that they need no value; open ones not 1."""
        known = self.constraints.decide(condition)
        if known is None:
            known = self.other_than_one(condition)
        if known is not None:
            return known
        unbacked = [symbol for symbol in self.simplify(condition).free_symbols if symbol not in self.hints]
        if not unbacked:
            return self._evaluate_condition(condition, hint)
        assumed = Constraints()
        for symbol in self.simplify(condition).free_symbols:
            span = self.constraints.ranges.get(symbol, UNKNOWN)
            if symbol in unbacked and span.lower >= 0 and span.upper >= 2:
                span = span.intersect(ValueRange(2, inf))
            assumed.add_symbol(symbol, span)
        answer = assumed.decide(self.simplify(condition))
        if answer is None:
            raise UnbackedError(condition)
        return answer

    def expect_true(
        self,
        condition: Any,
        hint: Any = None,
        error: type[Exception] = RuntimeError,
        message: str | None = None,
        line: str | None = None,
    ) -> bool:
        """Whether a condition that the program promises holds: by a guard, or for unbacked values by a check at run time.

        `error` and `message` are what such a check raises, by default the condition's text; `line` the user's.
        """
        known = self.constraints.decide(condition)
        if known is not None:
            return known
        if STORAGE_BYTES in condition.free_symbols:
            return True
        condition, hint = self._reduced(self.simplify(condition), hint)
        if hint is not None:
            return self._evaluate_condition(condition, hint)
        check = self._asked(condition)
        check = replace(
            check,
            error=error,
            user_line=check.user_line if line is None else line,
            message=f"{check.text} does not hold" if message is None else message,
        )
        self.runtime_asserts.append(check)
        self.constraints.learn(condition)
        self._promises.check(check)
        return True

    def constrain_range(self, expr: Any, min: int | None = None, max: int | None = None) -> None:
        """Take `min <= expr <= max` as promised: a guard, or a check at run time. Raises ValueError if it is false."""
        for kind, end in ((sympy.Ge, min), (sympy.Le, max)):
            if end is not None:
                condition = relation(kind, expr, Integer(end))
                if not (condition is truth(True) or self.expect_true(condition)):
                    raise ValueError(f"{expr} is {self.hint(expr)}, which is not within {min} to {max}")

    # What came of it

    def specializations(self) -> list[Specialization]:
        """Which sizes and numbers were asked to be symbolic and are constants, or equal to others, and what made them so.

        In the order in which it happened; one that equals another and is a constant later is there twice. Sizes that shared
        a symbol from the start (duck shaping) are not in it.
        """
        return list(self._specializations)

    def symbols(self) -> list[SymbolFacts]:
        """Each symbol with its sources, its hint and what it may be, in the order in which they were made."""
        settled = {each.source: each for each in self._specializations}
        found = []
        for symbol in dict.fromkeys((*self.constraints.order, *self.hints)):
            first = self.sources.get(symbol)
            if first is None and (symbol in self.constraints.replacements or symbol not in self._found):
                continue  # another name of what is told already
            sources = () if first is None else (first, *(more for of, _, more in self.copies if of == symbol))
            span = (
                bound(self.simplify(symbol), self.constraints.ranges) if symbol in self.constraints.order else UNKNOWN
            )
            found.append(
                SymbolFacts(
                    symbol.name,
                    sources,
                    self.hints.get(symbol),
                    span,
                    settled.get(first) if first else None,
                    "" if first else self._found.get(symbol, ""),
                )
            )
        return found

    def check_marks(self) -> None:
        """Whether all that was promised of marked sizes holds of this capture.

        Raises:
            MarkError: it does not; the message tells each size, what became of it, by what and at which line.
        """
        self._promises.check(None)
        if self._promises.broken:
            raise MarkError("\n".join(self._promises.broken))

    def produce_guard_code(self) -> ShapeGuardCode:
        """The predicate under which the capture is valid, without parts that follow from others."""
        backed = {symbol: source for symbol, source in self.sources.items() if symbol in self.hints}
        unbacked = {symbol: (self.sources[symbol], span) for symbol, span in self._promised.items()}
        return write_guards(
            backed,
            self.copies,
            self.constants,
            unbacked,
            self.constraints,
            self.guards,
            self._narrowed,
            self._marked,
        )
