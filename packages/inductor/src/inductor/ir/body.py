"""A recorded IR body: what one loop computes at one point, as a flat list of operations.

Flows in: a Python function over `ops` (from a lowering). Flows out: `Body`, which the scheduler merges, the interpreter
runs and device backends print. Recording happens once per loop; everything after works on the record, since running
a body again would repeat all of its symbolic index arithmetic.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from typing import Any

import sympy
import torch

from inductor.ir.operations import (
    Bitcast,
    Cast,
    Constant,
    Elementwise,
    Expr,
    IndexExpr,
    Indirect,
    Load,
    Op,
    Reduce,
    Ref,
    Round,
    Scan,
    Store,
    StoreMode,
    Symbol,
    Where,
)
from inductor.ir.text import print_body
from inductor.ops import INDEX_RULES, compute_dtype, install
from inductor.primitives import PRIMITIVES, REDUCTIONS, SCANS
from symshapes import dataclass


@dataclass(frozen=True)
class Body:
    """`ops` in an order where each value is defined before use, over these loop variables."""

    outer_vars: tuple[Symbol, ...]
    inner_vars: tuple[Symbol, ...]
    """The variables `reduce` combines over; empty where nothing is reduced."""
    ops: tuple[Op, ...]

    def loads(self) -> Iterable[Load]:
        """What it reads, in order."""
        return (op for op in self.ops if isinstance(op, Load))

    def stores(self) -> Iterable[Store]:
        """What it writes, in order."""
        return (op for op in self.ops if isinstance(op, Store))

    def indirects(self) -> dict[Symbol, int]:
        """The symbols that stand for positions read from data, with the operation that defines each."""
        return {op.symbol: at for at, op in enumerate(self.ops) if isinstance(op, Indirect)}

    def dtype(self, at: int) -> torch.dtype:
        """Compute dtype of the value at a position."""
        dtype = self.ops[at].dtype
        assert dtype is not None, "a store has no value"
        return dtype

    def reduction(self, at: int) -> Reduce:
        """The operation at a position where `Levels` has a reduction."""
        op = self.ops[at]
        assert isinstance(op, Reduce)
        return op

    def free_symbols(self) -> set[Symbol]:
        """The symbols whose value comes from outside: sizes."""
        used = {symbol for op in self.ops for symbol in op.symbols()}
        return used - {*self.outer_vars, *self.inner_vars, *self.indirects()}

    def substitute(
        self, values: Mapping[Symbol, Expr], outer_vars: Sequence[Symbol], inner_vars: Sequence[Symbol]
    ) -> Body:
        """The same body over other loop variables: each old variable replaced by an expression of new ones."""
        replaced = dict(values)
        ops = tuple(op.with_index(lambda index: index.xreplace(replaced)) for op in self.ops)
        return Body(tuple(outer_vars), tuple(inner_vars), ops)

    def run(self, handler: Any) -> None:
        """Run the body on `handler`: its method named as the operation's opcode gets the operation and what the methods
        returned for its operands."""
        values: list[Any] = []
        for op in self.ops:
            values.append(getattr(handler, op.opcode)(op, *(values[ref.at] for ref in op.operands)))

    def __str__(self) -> str:
        return print_body(self.outer_vars, self.inner_vars, self.ops)


def kept(ops: Sequence[Op], needed: Container[int]) -> tuple[tuple[Op, ...], dict[int, Ref]]:
    """The operations at `needed` positions, which need no others, with references renumbered; and where each one went."""
    place: dict[int, Ref] = {}
    made: list[Op] = []
    for at, op in enumerate(ops):
        if at in needed:
            place[at] = Ref(len(made))
            made.append(op.with_operands(lambda ref: place[ref.at]))
    return tuple(made), place


def checks_positions(ops: Iterable[Op]) -> bool:
    """Whether positions are read from data, each of which may be out of range."""
    return any(is_checked(op) for op in ops)


def checked_symbols(ops: Iterable[Op]) -> set[Symbol]:
    """The symbols that stand for positions which are checked where they come from."""
    return {op.symbol for op in ops if isinstance(op, Indirect) and is_checked(op)}


def left_symbols(ops: Iterable[Op]) -> set[Symbol]:
    """The symbols that stand for positions which a kernel before has checked, or left as none."""
    return {op.symbol for op in ops if isinstance(op, Indirect) and INDEX_RULES[op.rule].checked_before}


def is_checked(op: Op) -> bool:
    """Whether it is a position that may be out of range."""
    return isinstance(op, Indirect) and INDEX_RULES[op.rule].error is not None


class Recorder:
    """The handler that records: methods return `Ref`; equal pure operations are recorded once.

    Args:
        dtype_of: memory dtype of a buffer by name.
    """

    def __init__(self, dtype_of: Callable[[str], torch.dtype], indirect_prefix: str = "indirect") -> None:
        self.recorded: list[Op] = []
        self._dtype_of = dtype_of
        self._known: dict[Op, Ref] = {}
        self._mask: Ref | None = None
        self._prefix = indirect_prefix
        self._indirects = 0

    def dtype(self, value: Ref) -> torch.dtype:
        """Compute dtype of a recorded value."""
        dtype = self.recorded[value.at].dtype
        assert dtype is not None
        return dtype

    def _new(self, op: Op) -> Ref:
        self.recorded.append(op)
        return Ref(len(self.recorded) - 1)

    def _append(self, op: Op) -> Ref:
        found = self._known.get(op)
        if found is None:
            found = self._known[op] = self._new(op)
        return found

    def __getattr__(self, name: str) -> Callable[..., Ref]:
        primitive = PRIMITIVES.get(name)
        if primitive is None:
            raise AttributeError(f"no primitive operation is named {name!r}")

        def call(*operands: Ref) -> Ref:
            if len(operands) != primitive.arity:
                raise TypeError(f"ops.{name} takes {primitive.arity} values, got {len(operands)}")
            dtypes = {self.dtype(x) for x in operands}
            if len(dtypes) != 1:
                raise TypeError(f"ops.{name} got operands of several dtypes: {sorted(map(str, dtypes))}")
            return self._append(Elementwise(name, operands, primitive.result_dtype(dtypes.pop())))

        return call

    def constant(self, value: float | int | bool, dtype: torch.dtype) -> Ref:
        """Record a number of a compute dtype; a whole one beyond its range wraps around, as torch's numbers beside tensors do."""
        dtype = compute_dtype(dtype)
        kind: type = bool if dtype is torch.bool else float if dtype.is_floating_point else int
        op = Constant(_wrapped(int(value), dtype) if kind is int else kind(value), dtype)
        # Zeros and NaN are recorded anew each time, as merging bodies joins them.
        return self._new(op) if kind is float and (value == 0 or value != value) else self._append(op)

    def index_expr(self, expr: Any, dtype: torch.dtype) -> Ref:
        """Record an integer expression over loop variables and sizes as a value; as float64 one that is a float to Python."""
        return self._append(IndexExpr(sympy.sympify(expr), dtype))

    def load(self, buffer: str, index: Any) -> Ref:
        """Record a read at an index, in elements from the buffer's start, under the mask that is in force."""
        dtype = compute_dtype(self._dtype_of(buffer))
        return self._append(Load(buffer, _expression(index), self._mask, dtype))

    def store(self, buffer: str, index: Any, value: Ref, mode: StoreMode = None) -> None:
        """Record a write, converted to the buffer's dtype; with a `mode` combined with what is there."""
        want = compute_dtype(self._dtype_of(buffer))
        self._new(Store(buffer, _expression(index), self.to_dtype(value, want), mode))

    def to_dtype(self, value: Ref, dtype: torch.dtype) -> Ref:
        """Record a conversion, if the value has another dtype; to a half type that is a rounding."""
        if dtype in (torch.float16, torch.bfloat16):
            return self.round_to(value, dtype)
        return value if self.dtype(value) is dtype else self._append(Cast(value, dtype))

    def round_to(self, value: Ref, dtype: torch.dtype) -> Ref:
        """Record that a value is rounded to a half type; it stays float32."""
        return self._append(Round(self.to_dtype(value, torch.float32), dtype))

    def bitcast(self, value: Ref, dtype: torch.dtype) -> Ref:
        """Record the same bits as another dtype."""
        return self._append(Bitcast(value, dtype))

    def where(self, condition: Ref, a: Ref, b: Ref) -> Ref:
        """Record a choice. Raises TypeError for branches of two dtypes."""
        if self.dtype(a) is not self.dtype(b):
            raise TypeError(f"ops.where got branches of {self.dtype(a)} and {self.dtype(b)}")
        return self._append(Where(condition, a, b, self.dtype(a)))

    def reduce(self, kind: str, value: Ref) -> Ref:
        """Record a reduction of `REDUCTIONS` over the inner loops."""
        return self._append(Reduce(kind, value, REDUCTIONS[kind].result or self.dtype(value)))

    def scan(self, kind: str, value: Ref, backward: bool = False) -> Ref:
        """Record a running result of `SCANS` along the inner loops."""
        return self._append(Scan(SCANS[kind].name, value, backward, self.dtype(value)))

    def indirect(self, value: Ref, size: Any, rule: str = "wrap") -> Any:
        """Record that a value is a position below `size`; returns the symbol that stands for it in indices."""
        value, size = self.to_dtype(value, torch.int64), sympy.sympify(size)
        for op in self.recorded:
            if isinstance(op, Indirect) and (op.value, op.size, op.mask, op.rule) == (value, size, self._mask, rule):
                return op.symbol
        symbol = sympy.Symbol(f"{self._prefix}{self._indirects}", integer=True, nonnegative=True)
        self._indirects += 1
        self._append(Indirect(value, size, symbol, self._mask, rule))
        return symbol

    def masked(self, mask: Ref, body: Callable[[], Ref], other: float | int | bool) -> Ref:
        """Record what `body` computes, where `mask` is true; elsewhere it is `other`, and nothing is read."""
        before = self._mask
        self._mask = mask if before is None else self.logical_and(before, mask)
        try:
            value = body()
        finally:
            self._mask = before
        return self.where(mask, value, self.constant(other, self.dtype(value)))


def record(
    function: Callable[[Sequence[Symbol], Sequence[Symbol]], None],
    outer_vars: Sequence[Symbol],
    inner_vars: Sequence[Symbol],
    dtype_of: Callable[[str], torch.dtype],
) -> Body:
    """Run `function(outer_vars, inner_vars)`, an IR body that ends in `ops.store`, and return its record."""
    recorder = Recorder(dtype_of)
    with install(recorder):
        function(outer_vars, inner_vars)
    return Body(tuple(outer_vars), tuple(inner_vars), tuple(recorder.recorded))


def _wrapped(number: int, dtype: torch.dtype) -> int:
    """The number that a dtype has in place of one beyond its range: printers and devices differ in what they make of that."""
    info = torch.iinfo(dtype)
    return (number - info.min) % (1 << info.bits) + info.min


def _expression(index: Any) -> Expr:
    return index if isinstance(index, sympy.Basic) else sympy.sympify(index)
