"""The recorder of lowerings: `ir.body.Recorder` plus what lazy values need to know while they are inlined.

Flows in: loop variables with their sizes. Flows out: a `Body` and the fx nodes it computes.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Protocol

import sympy
import torch
from torch import fx

from inductor.ir.body import Recorder, kept
from inductor.ir.operations import (
    Constant,
    Elementwise,
    Expr,
    IndexExpr,
    Indirect,
    Load,
    Op,
    Ref,
    Round,
    Store,
    Symbol,
    Where,
)
from inductor.primitives import PRIMITIVES

_ARITHMETIC: dict[str, Callable[[Expr, Expr], Expr]] = {"add": operator.add, "sub": operator.sub, "mul": operator.mul}
_UNNAMED = sympy.Symbol("position", integer=True, nonnegative=True)
"""Stands for a position that has no symbol of its own yet."""


class Rewriter(Protocol):
    """What simplifies operations while they are recorded."""

    kinds: Collection[type[Op] | str]
    """The kinds of operations that it has something to say about; elementwise ones by the name of the primitive."""

    def __call__(self, operation: Op, body: LoopRecorder) -> Op | Ref | Expr | None:
        """What to record in place of an operation, or the value that it is, for an `Indirect` as an expression; None: as it is."""
        ...


class LoopRecorder(Recorder):
    """Records one loop's body.

    `ranges`: sizes of the index symbols, also of those that `indirect` defines. `inlined`: elements of pending sources
    computed so far, under the mask now in force. `origins`: the fx nodes whose sources were inlined, in order. `rewrites`:
    how often each pass of the rewriter applied, by name."""

    def __init__(
        self, dtype_of: Callable[[str], torch.dtype], ranges: Mapping[Symbol, Expr], rewriter: Rewriter | None = None
    ) -> None:
        super().__init__(dtype_of)
        self.memory_dtype = dtype_of
        self.ranges: dict[Symbol, Expr] = dict(ranges)
        self.inlined: dict[Any, Any] = {}
        self.origins: dict[fx.Node, None] = {}
        self.rewrites: dict[str, int] = {}
        self._layers: dict[Any, dict[Any, Any]] = {}
        self._rewriter = rewriter
        self._rewritten: Collection[type[Op] | str] = () if rewriter is None else rewriter.kinds

    def _append(self, op: Op) -> Ref:
        kind = op.primitive if isinstance(op, Elementwise) else type(op)
        if kind in self._rewritten and kind is not Indirect:
            assert self._rewriter is not None
            made = self._rewriter(op, self)
            if isinstance(made, Ref):
                return made
            op = op if made is None else made
        return super()._append(op)

    def indirect(self, value: Ref, size: Any, rule: str = "wrap") -> Any:
        size = sympy.sympify(size)
        if Indirect in self._rewritten:
            assert self._rewriter is not None
            made = self._rewriter(Indirect(value, size, _UNNAMED, self._mask, rule), self)
            if made is not None:
                return made
        symbol = super().indirect(value, size, rule)
        self.ranges[symbol] = size
        return symbol

    def expression(self, value: Ref, depth: int = 4) -> Expr | None:
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
                a, b = (self.expression(part, depth - 1) for part in operands)
                return None if a is None or b is None else sympy.expand(_ARITHMETIC[name](a, b))
        return None

    def is_rounded(self, value: Ref, dtype: torch.dtype, depth: int = 3) -> bool:
        """Whether a value is known to be one that memory of `dtype` can hold."""
        parts: tuple[Ref, ...]
        match self.recorded[value.at]:
            case Load(buffer):
                return self.memory_dtype(buffer) is dtype
            case Constant(number):
                return bool(torch.tensor(number, dtype=dtype).item() == number)
            case Round(to=to):
                return to is dtype
            case Where(_, then, otherwise):
                parts = (then, otherwise)
            case Elementwise(primitive, operands) if PRIMITIVES[primitive].keeps_rounding:
                parts = operands
            case _:
                return False
        return depth > 0 and all(self.is_rounded(part, dtype, depth - 1) for part in parts)

    def reads_data(self, value: Ref) -> bool:
        """Whether positions read from data, which are checked, lead to a value."""
        places = {op.symbol for op in self.recorded if isinstance(op, Indirect)}
        todo, seen = [value.at], set[int]()
        while places and todo:
            at = todo.pop()
            if at in seen:
                continue
            seen.add(at)
            if self.recorded[at].symbols() & places:
                return True
            todo.extend(ref.at for ref in self.recorded[at].operands)
        return False

    def reads(self, symbol: Symbol) -> bool:
        """Whether some index recorded so far uses `symbol`."""
        return any(symbol in index.free_symbols for op in self.recorded if (index := op.index) is not None)

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
    needed = {at for at, op in enumerate(recorded) if isinstance(op, Store)}
    for at in range(len(recorded) - 1, -1, -1):
        if at not in needed:
            continue
        op = recorded[at]
        for operand in op.operands:
            needed.add(operand.at)
        if defined and op.index is not None:
            for symbol in op.index.free_symbols & defined.keys():
                needed.add(defined[symbol])
    return tuple(recorded) if len(needed) == len(recorded) else kept(recorded, needed)[0]
