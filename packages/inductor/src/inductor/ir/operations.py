"""The operations of the loop IR: one frozen dataclass a kind, and `Op`, the union of them.

Flows in: what a recorder or a pass makes. Flows out: the lines of a `Body`, visited by `match`, or with one method a kind
(`Body.run`, which calls the method named `opcode`). Values are `Ref`s, indices sympy expressions over loop variables and
sizes, in elements.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from functools import lru_cache
from typing import ClassVar, Literal, Self, TypeAlias

import torch
from sympy import Expr as Expr
from sympy import Symbol as Symbol

from symshapes import dataclass

Number: TypeAlias = float | int | bool
StoreMode: TypeAlias = Literal["add", "mul", "max", "min", "total"] | None
"""None overwrites; others combine with what is there: a sum, a product, the larger, the smaller (NaN if one is). But for "total": the sum of
what all points store to a place, whatever was there."""


@lru_cache(maxsize=1 << 14)
def symbols_in(expr: Expr) -> frozenset[Symbol]:
    """The symbols of an expression, found once: the same few indices stand in thousands of operations."""
    return frozenset(expr.free_symbols)


@dataclass(frozen=True, slots=True)
class Ref:
    """A value of a body, by the position of the operation that defines it."""

    at: int


Place: TypeAlias = Callable[[Ref], Ref]
"""Where a value went when operations moved."""
Rewrite: TypeAlias = Callable[[Expr], Expr]


class _Operation:
    """What all kinds have in common: the values and the expression that they read, and copies with others."""

    __slots__ = ()
    opcode: ClassVar[str]
    """The kind's name, as in `ops`: in printed bodies, and of a handler's method."""

    @property
    def operands(self) -> tuple[Ref, ...]:
        """The values it reads, a mask last."""
        return ()

    @property
    def index(self) -> Expr | None:
        """The expression over loop variables that it reads, where it has one."""
        return None

    def symbols(self) -> set[Symbol]:
        """The symbols in its own expressions, but for the one that it defines."""
        return set() if self.index is None else set(symbols_in(self.index))

    def with_operands(self, place: Place) -> Self:
        """The same operation of other values."""
        return self

    def with_index(self, rewrite: Rewrite) -> Self:
        """The same operation at another index, where it has one."""
        return self


class _OfOneValue(_Operation):
    """The kinds that read one value."""

    __slots__ = ()
    value: Ref

    @property
    def operands(self) -> tuple[Ref, ...]:
        return (self.value,)


@dataclass(frozen=True, slots=True, eq=False)
class Constant(_Operation):
    """A number. Equal to another of the same text and dtype: 0.0 is not -0.0, and NaN is itself."""

    opcode = "constant"
    value: Number
    dtype: torch.dtype

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Constant) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> tuple[str, torch.dtype]:
        return repr(self.value), self.dtype


@dataclass(frozen=True, slots=True)
class IndexExpr(_Operation):
    """An integer expression as a value; or, without loop variables, one that is a float to Python."""

    opcode = "index_expr"
    index: Expr = field()
    dtype: torch.dtype

    def with_index(self, rewrite: Rewrite) -> IndexExpr:
        return IndexExpr(rewrite(self.index), self.dtype)


@dataclass(frozen=True, slots=True)
class Load(_Operation):
    """The element of `buffer` at `index`. Where the bool value `mask` is false nothing is read and the result is zero."""

    opcode = "load"
    buffer: str
    index: Expr = field()
    mask: Ref | None
    dtype: torch.dtype

    @property
    def operands(self) -> tuple[Ref, ...]:
        return () if self.mask is None else (self.mask,)

    def with_operands(self, place: Place) -> Load:
        return self if self.mask is None else Load(self.buffer, self.index, place(self.mask), self.dtype)

    def with_index(self, rewrite: Rewrite) -> Load:
        return Load(self.buffer, rewrite(self.index), self.mask, self.dtype)


@dataclass(frozen=True, slots=True)
class Store(_OfOneValue):
    """Writes `value` to the element of `buffer` at `index`, rounded to the buffer's dtype."""

    opcode = "store"
    dtype: ClassVar[None] = None
    buffer: str
    index: Expr = field()
    value: Ref
    mode: StoreMode

    def with_operands(self, place: Place) -> Store:
        return Store(self.buffer, self.index, place(self.value), self.mode)

    def with_index(self, rewrite: Rewrite) -> Store:
        return Store(self.buffer, rewrite(self.index), self.value, self.mode)


@dataclass(frozen=True, slots=True)
class Elementwise(_Operation):
    """A primitive of `primitives.PRIMITIVES` of values of one dtype."""

    opcode = "elementwise"
    primitive: str
    operands: tuple[Ref, ...] = field()
    dtype: torch.dtype

    def with_operands(self, place: Place) -> Elementwise:
        return Elementwise(self.primitive, tuple(map(place, self.operands)), self.dtype)


@dataclass(frozen=True, slots=True)
class Cast(_OfOneValue):
    """`value` converted to another compute dtype, as torch's `.to` does."""

    opcode = "to_dtype"
    value: Ref
    dtype: torch.dtype

    def with_operands(self, place: Place) -> Cast:
        return Cast(place(self.value), self.dtype)


@dataclass(frozen=True, slots=True)
class Round(_OfOneValue):
    """A float32 value rounded to `to` (float16 or bfloat16) and widened again."""

    opcode = "round_to"
    dtype: ClassVar[torch.dtype] = torch.float32
    value: Ref
    to: torch.dtype

    def with_operands(self, place: Place) -> Round:
        return Round(place(self.value), self.to)


@dataclass(frozen=True, slots=True)
class Bitcast(_OfOneValue):
    """The bits of `value` read as another dtype of the same width."""

    opcode = "bitcast"
    value: Ref
    dtype: torch.dtype

    def with_operands(self, place: Place) -> Bitcast:
        return Bitcast(place(self.value), self.dtype)


@dataclass(frozen=True, slots=True)
class Where(_Operation):
    """`then` where the bool value `condition` holds, else `otherwise`; both of one dtype."""

    opcode = "where"
    condition: Ref
    then: Ref
    otherwise: Ref
    dtype: torch.dtype

    @property
    def operands(self) -> tuple[Ref, ...]:
        return self.condition, self.then, self.otherwise

    def with_operands(self, place: Place) -> Where:
        return Where(place(self.condition), place(self.then), place(self.otherwise), self.dtype)


@dataclass(frozen=True, slots=True)
class Reduce(_OfOneValue):
    """`value` combined over all inner loop variables; `kind` is one of `primitives.REDUCTIONS`."""

    opcode = "reduce"
    kind: str
    value: Ref
    dtype: torch.dtype

    def with_operands(self, place: Place) -> Reduce:
        return Reduce(self.kind, place(self.value), self.dtype)


@dataclass(frozen=True, slots=True)
class Scan(_OfOneValue):
    """`value` combined over the inner points up to this one, itself among them, in the order of the flattened inner space;
    `backward`: over this one and those behind it. `kind` is one of `primitives.SCANS`."""

    opcode = "scan"
    kind: str
    value: Ref
    backward: bool
    dtype: torch.dtype

    def with_operands(self, place: Place) -> Scan:
        return Scan(self.kind, place(self.value), self.backward, self.dtype)


@dataclass(frozen=True, slots=True)
class Indirect(_Operation):
    """An int64 `value` as `symbol`, for the index expressions after it: a position below `size`, which has no loop variables.

    `rule` (a name in `ops.INDEX_RULES`) says what else is allowed. Where `mask` is false the position is not checked and 0
    is used."""

    opcode = "indirect"
    dtype: ClassVar[torch.dtype] = torch.int64
    value: Ref
    size: Expr
    symbol: Symbol
    mask: Ref | None
    rule: str

    def symbols(self) -> set[Symbol]:
        return set(symbols_in(self.size))

    @property
    def operands(self) -> tuple[Ref, ...]:
        return (self.value,) if self.mask is None else (self.value, self.mask)

    def with_operands(self, place: Place) -> Indirect:
        mask = None if self.mask is None else place(self.mask)
        return Indirect(place(self.value), self.size, self.symbol, mask, self.rule)


Op: TypeAlias = (
    Constant | IndexExpr | Load | Store | Elementwise | Cast | Round | Bitcast | Where | Reduce | Scan | Indirect
)
"""One operation of a body."""
OPERATIONS: dict[str, type[Op]] = {
    kind.opcode: kind
    for kind in (Constant, IndexExpr, Load, Store, Elementwise, Cast, Round, Bitcast, Where, Reduce, Scan, Indirect)
}
"""The kinds by opcode."""
