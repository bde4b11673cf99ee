"""A recorded IR body: what one loop computes at one point, as a flat list of primitive operations.

Flows in: a Python function over `ops` (from a lowering). Flows out: `Body`, which the scheduler merges, the interpreter
runs and device backends print. Recording happens once per loop; everything after works on the record, since running
a body again would repeat all of its symbolic index arithmetic.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import sympy
import torch
from sympy import Expr as Expr
from sympy import Symbol as Symbol

from inductor.ops import PRIMITIVES, ResultType, compute_dtype, install


@dataclass(frozen=True, slots=True)
class Ref:
    """A value of a body, by the position of the operation that defines it."""

    at: int


@dataclass(frozen=True, slots=True)
class Op:
    """One operation of a body.

    `name` and `args`, by kind (value operands are `Ref`, indices sympy expressions):

    - a name in `ops.PRIMITIVES`: its value operands;
    - "constant": (python scalar,); "index_expr": (expr,);
    - "load": (buffer, index, mask or None), where mask is a bool value: where it is false nothing is read and the result
      is zero;
    - "store": (buffer, index, value, mode), mode None or "add";
    - "to_dtype", "bitcast": (value,), to this operation's dtype; "round_to": (value, dtype);
    - "where": (condition, a, b); "reduce": (kind, value);
    - "indirect": (value, size, symbol, mask or None, name of an `ops.IndexRule`): defines `symbol` for the index expressions after it; where the
      mask is false the position is not checked (and 0 is used).
    """

    name: str
    args: tuple[Any, ...]
    dtype: torch.dtype | None
    """Compute dtype of the result; None for a store."""

    def operands(self) -> Iterable[Ref]:
        return (a for a in self.args if isinstance(a, Ref))

    def index(self) -> Expr | None:
        """The index expression of a load, store or index_expr."""
        if self.name in ("load", "store"):
            return self.args[1]
        return self.args[0] if self.name == "index_expr" else None


@dataclass(frozen=True)
class Body:
    """`ops` in an order where each value is defined before use, over these loop variables."""

    outer_vars: tuple[Symbol, ...]
    inner_vars: tuple[Symbol, ...]
    """The variables `reduce` combines over; empty where nothing is reduced."""
    ops: tuple[Op, ...]

    def loads(self) -> Iterable[Op]:
        return (op for op in self.ops if op.name == "load")

    def stores(self) -> Iterable[Op]:
        return (op for op in self.ops if op.name == "store")

    def substitute(
        self, values: Mapping[Symbol, Expr], outer_vars: Sequence[Symbol], inner_vars: Sequence[Symbol]
    ) -> Body:
        """The same body over other loop variables: each old variable replaced by an expression of new ones."""

        def rewrite(arg: Any) -> Any:
            return arg.xreplace(dict(values)) if isinstance(arg, sympy.Basic) else arg

        ops = tuple(replace(op, args=tuple(map(rewrite, op.args))) for op in self.ops)
        return Body(tuple(outer_vars), tuple(inner_vars), ops)

    def run(self, handler: Any) -> None:
        """Run the body on `handler`: its method per operation name gets the arguments with each `Ref` replaced by what
        the method returned for it, and `dtype=` the operation's dtype."""
        values: list[Any] = []
        for op in self.ops:
            args = [values[a.at] if isinstance(a, Ref) else a for a in op.args]
            values.append(getattr(handler, op.name)(*args, dtype=op.dtype))

    def __str__(self) -> str:
        def text(arg: Any) -> str:
            return f"%{arg.at}" if isinstance(arg, Ref) else str(arg)

        head = f"body({', '.join(map(str, self.outer_vars))} | {', '.join(map(str, self.inner_vars))})"
        lines = [f"  %{i} = {op.name}({', '.join(map(text, op.args))}) : {op.dtype}" for i, op in enumerate(self.ops)]
        return "\n".join([head, *lines])


def checks_positions(ops: Iterable[Op]) -> bool:
    """Whether positions are read from data, each of which may be out of range."""
    return any(op.name == "indirect" for op in ops)


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

    def _append(self, op: Op) -> Ref:
        if op.name != "store" and op in self._known:
            return self._known[op]
        self.recorded.append(op)
        ref = Ref(len(self.recorded) - 1)
        if op.name != "store":
            self._known[op] = ref
        return ref

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
            dtype = torch.bool if primitive.result is ResultType.BOOL else dtypes.pop()
            return self._append(Op(name, operands, dtype))

        return call

    def constant(self, value: float | int | bool, dtype: torch.dtype) -> Ref:
        dtype = compute_dtype(dtype)
        kind: type = bool if dtype is torch.bool else float if dtype.is_floating_point else int
        # repr in the key keeps 0.0 and -0.0, and NaN with itself, apart.
        op = Op("constant", (kind(value),), dtype)
        if kind is float and (value == 0 or value != value):
            self.recorded.append(op)
            return Ref(len(self.recorded) - 1)
        return self._append(op)

    def index_expr(self, expr: Any, dtype: torch.dtype) -> Ref:
        return self._append(Op("index_expr", (sympy.sympify(expr),), dtype))

    def load(self, buffer: str, index: Any) -> Ref:
        dtype = compute_dtype(self._dtype_of(buffer))
        return self._append(Op("load", (buffer, sympy.sympify(index), self._mask), dtype))

    def store(self, buffer: str, index: Any, value: Ref, mode: str | None = None) -> None:
        want = compute_dtype(self._dtype_of(buffer))
        self._append(Op("store", (buffer, sympy.sympify(index), self.to_dtype(value, want), mode), None))

    def to_dtype(self, value: Ref, dtype: torch.dtype) -> Ref:
        if dtype in (torch.float16, torch.bfloat16):
            return self.round_to(value, dtype)
        return value if self.dtype(value) is dtype else self._append(Op("to_dtype", (value,), dtype))

    def round_to(self, value: Ref, dtype: torch.dtype) -> Ref:
        value = self.to_dtype(value, torch.float32)
        return self._append(Op("round_to", (value, dtype), torch.float32))

    def bitcast(self, value: Ref, dtype: torch.dtype) -> Ref:
        return self._append(Op("bitcast", (value,), dtype))

    def where(self, condition: Ref, a: Ref, b: Ref) -> Ref:
        if self.dtype(a) is not self.dtype(b):
            raise TypeError(f"ops.where got branches of {self.dtype(a)} and {self.dtype(b)}")
        return self._append(Op("where", (condition, a, b), self.dtype(a)))

    def reduce(self, kind: str, value: Ref) -> Ref:
        dtype = {"argmax": torch.int64, "argmin": torch.int64, "any": torch.bool, "all": torch.bool}.get(
            kind, self.dtype(value)
        )
        return self._append(Op("reduce", (kind, value), dtype))

    def indirect(self, value: Ref, size: Any, rule: str = "wrap") -> Any:
        value, size = self.to_dtype(value, torch.int64), sympy.sympify(size)
        for op in self.recorded:
            if op.name == "indirect" and op.args[:2] == (value, size) and op.args[3:] == (self._mask, rule):
                return op.args[2]
        symbol = sympy.Symbol(f"{self._prefix}{self._indirects}", integer=True, nonnegative=True)
        self._indirects += 1
        self._append(Op("indirect", (value, size, symbol, self._mask, rule), torch.int64))
        return symbol

    def masked(self, mask: Ref, body: Callable[[], Ref], other: float | int | bool) -> Ref:
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
