"""The recorder of lowerings: `ir.body.Recorder` plus what lazy values need to know while they are inlined.

Flows in: loop variables with their sizes. Flows out: a `Body` and the fx nodes it computes.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import sympy
import torch
from torch import fx

from inductor.ir.body import Recorder
from inductor.ir.indexing import within
from inductor.ir.operations import Constant, Elementwise, Expr, IndexExpr, Indirect, Load, Op, Ref, Store, Symbol, Where

_ARITHMETIC: dict[str, Callable[[Expr, Expr], Expr]] = {"add": operator.add, "sub": operator.sub, "mul": operator.mul}


class LoopRecorder(Recorder):
    """Records one loop's body.

    `ranges`: sizes of the index symbols, also of those that `indirect` defines. `inlined`: elements of pending sources
    computed so far, under the mask now in force. `origins`: the fx nodes whose sources were inlined, in order."""

    def __init__(self, dtype_of: Callable[[str], torch.dtype], ranges: Mapping[Symbol, Expr]) -> None:
        super().__init__(dtype_of)
        self.memory_dtype = dtype_of
        self.ranges: dict[Symbol, Expr] = dict(ranges)
        self.inlined: dict[Any, Any] = {}
        self.origins: dict[fx.Node, None] = {}
        self._layers: dict[Any, dict[Any, Any]] = {}

    def indirect(self, value: Ref, size: Any, rule: str = "wrap") -> Any:
        """A position that is an expression known to be in range is that expression: nothing is to be checked."""
        size = sympy.sympify(size)
        known = self._expression(value)
        if known is not None and within(known, size, self.ranges):
            return known
        symbol = super().indirect(value, size, rule)
        self.ranges[symbol] = size
        return symbol

    def _expression(self, value: Ref, depth: int = 4) -> Expr | None:
        """A recorded int64 value as an expression of loop variables and sizes, if it is one."""
        op = self.recorded[value.at]
        if op.dtype is not torch.int64:
            return None
        match op:
            case IndexExpr(index):
                return index
            case Constant(number):
                return sympy.Integer(number)
            case Elementwise(name, operands) if name in _ARITHMETIC and depth > 0:
                a, b = (self._expression(part, depth - 1) for part in operands)
                return None if a is None or b is None else sympy.expand(_ARITHMETIC[name](a, b))
        return None

    def reads(self, symbol: Symbol) -> bool:
        """Whether some index recorded so far uses `symbol`."""
        return any(symbol in index.free_symbols for op in self.recorded if (index := op.index) is not None)

    def where(self, condition: Ref, a: Ref, b: Ref) -> Ref:
        """A branch that asks the same condition again already knows the answer, and a masked load is zero outside."""
        first, second = self.recorded[a.at], self.recorded[b.at]
        if isinstance(first, Where) and first.condition == condition:
            a = first.then
        if isinstance(second, Where) and second.condition == condition:
            b = second.otherwise
        first, second = self.recorded[a.at], self.recorded[b.at]
        zero = isinstance(second, Constant) and second.value == 0 and not str(second.value).startswith("-")
        if zero and isinstance(first, Load) and first.mask == condition:
            return a
        return super().where(condition, a, b)

    def masked(self, mask: Ref, body: Callable[[], Ref], other: float | int | bool) -> Ref:
        # What is loaded under a mask is zero outside it, so it must not be taken for the unmasked value.
        before = self.inlined

        def inside() -> Ref:
            self.inlined = self._layers.setdefault(self._mask, {})
            return body()

        try:
            return super().masked(mask, inside, other)
        finally:
            self.inlined = before


def used(recorded: Sequence[Op]) -> tuple[Op, ...]:
    """The operations that some store needs, with references renumbered."""
    defined = {op.symbol: at for at, op in enumerate(recorded) if isinstance(op, Indirect)}
    needed = [isinstance(op, Store) for op in recorded]
    for at in range(len(recorded) - 1, -1, -1):
        if not needed[at]:
            continue
        op = recorded[at]
        for operand in op.operands:
            needed[operand.at] = True
        if defined and op.index is not None:
            for symbol in op.index.free_symbols & defined.keys():
                needed[defined[symbol]] = True
    if all(needed):
        return tuple(recorded)
    place: dict[int, Ref] = {}
    kept: list[Op] = []
    for at, op in enumerate(recorded):
        if needed[at]:
            place[at] = Ref(len(kept))
            kept.append(op.with_operands(lambda ref: place[ref.at]))
    return tuple(kept)
