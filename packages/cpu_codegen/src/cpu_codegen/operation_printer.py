"""Prints single operations: a `const` line per value, scalar where it is the same in all lanes, else a vector.

Flows in: positions of operations in the plan's body, in order. Flows out: lines, and the text each value is read by.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

import sympy
import torch

from cpu_codegen.index import Expr, IndexPrinter, Symbol, stride
from cpu_codegen.names import argument_names
from cpu_codegen.operations import format_of
from cpu_codegen.pairs import is_alternate, is_pair
from cpu_codegen.text import Lines
from cpu_codegen.types import MEMORY, SCALAR, VECTOR, literal
from cpu_codegen.vectorize import Plan, contiguous
from inductor import (
    INDEX_RULES,
    Bitcast,
    Cast,
    Constant,
    Elementwise,
    IndexExpr,
    Indirect,
    Kernel,
    Load,
    Op,
    Ref,
    Round,
    Store,
    Where,
    is_checked,
)

STATUSES: dict[type[Exception], str] = {IndexError: "INDEX_ERROR", RuntimeError: "RUNTIME_ERROR"}
"""What a kernel returns, as `kernel.h` names it, for the launcher to raise."""


def print_arguments(kernel: Kernel, out: Lines, sizes_only: bool = False) -> None:
    """Declare a kernel's arguments as named pointers and sizes, from `args`."""
    names = argument_names(kernel)
    for position, arg in enumerate(kernel.args):
        name = names[arg.name]
        if arg.role == "size":
            kind, field = ("double", "number") if arg.dtype.is_floating_point else ("Index", "integer")
            out(f"const {kind} {name} = args[{position}].{field};")
        elif not sizes_only:
            kind = ("const " if arg.role == "in" else "") + MEMORY[arg.dtype]
            out(f"{kind}* const {name} = ({kind}*)args[{position}].pointer;")


class OperationPrinter:
    """Prints operations of one kernel's body to `out`."""

    def __init__(self, kernel: Kernel, plan: Plan, out: Lines) -> None:
        self.plan = plan
        self.out = out
        self.body = plan.body
        self._text: dict[int, str] = {}
        self._buffers = argument_names(kernel)
        self._formats = {arg.name: arg.dtype for arg in kernel.args}
        self._names: dict[Symbol, str] = {s: self._buffers[s.name] for s in kernel.symbols}
        indirects = self.body.indirects()
        self.has_indirect = any(map(is_checked, self.body.ops))
        self._lane_symbols = frozenset(symbol for symbol, at in indirects.items() if plan.varying[at])
        self._computed = {symbol for symbol, at in indirects.items() if not is_checked(self.body.ops[at])}
        self._names.update({symbol: f"indirect{k}" for k, symbol in enumerate(indirects)})
        self.index = IndexPrinter(self._names)
        by_lane = {symbol: f"{self._names[symbol]}[lane]" for symbol in self._lane_symbols}
        variable = plan.vector.variable
        self._lane_index = IndexPrinter({**self._names, **by_lane, variable: f"({variable.name} + lane)"})

    # ---- Values

    @contextmanager
    def scope(self) -> Iterator[None]:
        """Values defined inside are forgotten after: their C++ block ends."""
        before = dict(self._text)
        yield
        self._text = before

    def define(self, at: int, text: str) -> None:
        """From now on value `at` is read as `text`."""
        self._text[at] = text

    def is_value(self, at: int) -> bool:
        """Whether the operation is printed as a value (rather than a literal, a store or an array of positions)."""
        return not isinstance(self.body.ops[at], Store | Constant | Indirect)

    def scalar(self, at: int) -> str:
        """The value as a scalar; it must be the same in all lanes."""
        return self._text[at]

    def vector(self, at: int) -> str:
        """The value as a vector."""
        if self._is_vector(at):
            return self._text[at]
        dtype = self.body.dtype(at)
        text, scalar = self._text[at], SCALAR[dtype]
        if text.startswith(f"{scalar}(") and text.endswith(")") and dtype is not torch.bool:
            return f"{VECTOR[dtype]}({text[len(scalar) + 1 : -1]})"
        return f"{VECTOR[dtype]}({text})"

    def _is_vector(self, at: int) -> bool:
        return self.plan.varying[at] and not isinstance(self.body.ops[at], Constant)

    def position(self, expr: Expr, vector: bool) -> str:
        """An integer expression over loop variables as a value."""
        variable = self.plan.vector.variable
        if not vector:
            return self.index(expr)
        step = stride(expr, variable)
        assert step is not None
        return f"ramp<i64>({self.index(expr)}, {self.index(step)})" if step != 0 else f"I64({self.index(expr)})"

    # ---- Operations

    def emit_all(self, positions: Iterable[int]) -> None:
        """Print several operations in order."""
        for at in positions:
            self.emit(at)

    def emit(self, at: int, keep_in: str | None = None) -> None:
        """Print operation `at`; `keep_in`: assign its value to this place instead of a new name."""
        op = self.body.ops[at]
        match op:
            case Constant(number, dtype):
                self._text[at] = literal(number, dtype)
            case Store():
                self._store(at, op)
            case Indirect():
                self._indirect(at, op)
            case _:
                vector = self._is_vector(at)
                text = self._vector_text(op) if vector else self._scalar_text(op)
                name = f"v{at}" if keep_in is None else keep_in
                declared = f"const {(VECTOR if vector else SCALAR)[op.dtype]} " if keep_in is None else ""
                self.out(f"{declared}{name} = {text};")
                self._text[at] = name

    def emit_as(self, at: int, place: str) -> None:
        """Print load `at` as one from another place, where its value lies in lane order."""
        vector = VECTOR[self.body.dtype(at)]
        self.out(f"const {vector} v{at} = load<{vector}>({place}, lanes);")
        self._text[at] = f"v{at}"

    def address(self, op: Load, at: Mapping[Symbol, str] | None = None) -> str:
        """Where in memory a load reads at the current point, or where the variables of `at` have these values."""
        if at is None:
            return f"{self._buffers[op.buffer]} + {self.index.factor(op.index)}"
        return f"{self._buffers[op.buffer]} + {IndexPrinter({**self._names, **at}).factor(op.index)}"

    def element(self, op: Load) -> str:
        """The one element that a load without mask reads at the current point."""
        return f"load({self.address(op)})"

    def _scalar_text(self, op: Op) -> str:
        match op:
            case Load(mask=None):
                return self.element(op)
            case Load(mask=Ref(mask), dtype=dtype):
                return f"{self.scalar(mask)} ? {self.element(op)} : {literal(0, dtype)}"
            case IndexExpr(index, dtype):
                return f"({SCALAR[dtype]})({self.index(index)})"
        return self._pure_text(op, [self.scalar(ref.at) for ref in op.operands])

    def _vector_text(self, op: Op) -> str:
        match op:
            case Load():
                return self._vector_load(op)
            case IndexExpr():
                return self._vector_index(op)
        return self._pure_text(op, [self.vector(ref.at) for ref in op.operands])

    def _pure_text(self, op: Op, operands: list[str]) -> str:
        match op:
            case Cast(value, dtype):
                if dtype is torch.bool:
                    return f"truth({operands[0]})"
                return operands[0] if self.body.dtype(value.at) is dtype else f"convert<{SCALAR[dtype]}>({operands[0]})"
            case Round(to=to):
                name = {torch.bfloat16: "bfloat16_round", torch.float16: "float16_round"}.get(to)
                if name is None:
                    raise NotImplementedError(f"rounding to {to}")
                return f"{name}({operands[0]})"
            case Bitcast(dtype=dtype):
                return f"bitcast<{SCALAR[dtype]}>({operands[0]})"
            case Where():
                return f"select({', '.join(operands)})"
            case Elementwise(primitive, (first, *_)):
                dtype = self.body.dtype(first.at)
                template = format_of(primitive, dtype)
                if template is None:
                    raise NotImplementedError(f"no C++ for {primitive} of {dtype}")
                return template.format(*operands)
        raise AssertionError(f"{op.opcode} is no expression")

    # ---- Memory

    def _lane_address(self, buffer: str, index: Expr) -> str:
        lane = self._lane_index.factor(index)
        return f"[&](Index lane) INLINE_BODY {{ return {self._buffers[buffer]} + {lane}; }}"

    def _vector_load(self, op: Load) -> str:
        buffer, index, mask = op.buffer, op.index, op.mask
        lanes = "lanes" if mask is None else f"active(lanes) & {self.vector(mask.at)}"
        vector = VECTOR[op.dtype]
        if mask is not None and not self.plan.varying[mask.at] and self._varies(index):
            # All lanes or none.
            whole = self._vector_load(replace(op, mask=None))
            return f"{self.scalar(mask.at)} ? {whole} : {vector}({literal(0, op.dtype)})"
        if contiguous(index, self.plan.vector.variable, self._lane_symbols):
            return f"load<{vector}>({self._buffers[buffer]} + {self.index.factor(index)}, {lanes})"
        if mask is None and self._alternates(op):
            return f"load_alternate<{vector}>({self._buffers[buffer]} + {self.index.factor(index)}, lanes)"
        if not self._varies(index):
            # One element, wanted by some lanes.
            assert mask is not None
            m = self.vector(mask.at)
            element = f"load({self._buffers[buffer]} + {self.index.factor(index)})"
            chosen = f"any_of({lanes}) ? {element} : {literal(0, op.dtype)}"
            return f"select({m}, {vector}({chosen}), {vector}({literal(0, op.dtype)}))"
        symbol = self._computed_place(index)
        if mask is None and symbol is not None:
            row = self.index.factor(index.xreplace({symbol: sympy.S.Zero}))
            return f"pick<{vector}>({self._names[symbol]}, {self._buffers[buffer]} + {row}, lanes)"
        return f"gather<{vector}>({lanes}, {self._lane_address(buffer, index)})"

    def _computed_place(self, index: Expr) -> Symbol | None:
        """The computed position that alone says where a lane reads, in a row of neighbours; lanes' are near each other, then."""
        symbols = index.free_symbols & self._lane_symbols
        if len(symbols) != 1 or self.plan.vector.variable in index.free_symbols:
            return None
        (symbol,) = symbols
        return symbol if symbol in self._computed and stride(index, symbol) == 1 else None

    def _alternates(self, op: Load) -> bool:
        """Whether lanes are every other element in memory."""
        by_lane = not self._lane_symbols.isdisjoint(op.index.free_symbols)
        return not by_lane and is_alternate(op.index, self.plan.vector.variable, op.dtype)

    def _varies(self, index: Expr) -> bool:
        symbols = index.free_symbols
        return self.plan.vector.variable in symbols or not self._lane_symbols.isdisjoint(symbols)

    def _vector_index(self, op: IndexExpr) -> str:
        index, scalar, variable = op.index, SCALAR[op.dtype], self.plan.vector.variable
        step = stride(index, variable) if self._lane_symbols.isdisjoint(index.free_symbols) else None
        if step is not None and op.dtype is not torch.bool:
            return f"ramp<{scalar}>({self.index(index)}, {self.index(step)})"
        lane = f"({scalar})({self._lane_index(index)})"
        return f"by_lane<{VECTOR[op.dtype]}>([&](Index lane) INLINE_BODY {{ return {lane}; }})"

    def _store(self, at: int, op: Store) -> None:
        buffer, index, value, mode = op.buffer, op.index, op.value, op.mode
        place = f"{self._buffers[buffer]} + {self.index.factor(index)}"
        if not self.plan.varying[at]:
            self.out(f"{f'{mode}_to' if mode else 'store'}({place}, {self.scalar(value.at)});")
            return
        x = self._stored(op)
        if contiguous(index, self.plan.vector.variable, self._lane_symbols):
            self.out(f"{f'{mode}_to' if mode else 'store'}({place}, {x}, lanes);")
            return
        variable = self.plan.vector.variable
        if is_pair(self.body, self.plan.levels, at, variable):
            return  # with the next one
        if is_pair(self.body, self.plan.levels, at - 1, variable):
            first = self.body.ops[at - 1]
            assert isinstance(first, Store)
            place = f"{self._buffers[buffer]} + {self.index.factor(first.index)}"
            self.out(f"store_pairs({place}, {self._stored(first)}, {x}, lanes);")
            return
        self.out(f"{f'scatter_{mode}' if mode else 'scatter'}({x}, lanes, {self._lane_address(buffer, index)});")

    def _stored(self, op: Store) -> str:
        """The vector to store: what is rounded to the format in memory, storing rounds."""
        at = op.value.at
        rounded = self.body.ops[at]
        if op.mode is None and isinstance(rounded, Round) and rounded.to is self._formats[op.buffer]:
            (operand,) = rounded.operands
            if operand.at in self._text and self.plan.varying[operand.at]:
                return self.vector(operand.at)
        return self.vector(at)

    def _indirect(self, at: int, op: Indirect) -> None:
        value, mask, rule = op.value, op.mask, INDEX_RULES[op.rule]
        name, size_text = self._names[op.symbol], self.index(op.size)
        if rule.error is None:
            self._place(at, op)
            return
        test = "wrap" if rule.wraps else "within"
        if self.plan.varying[at]:
            lanes = "lanes" if mask is None else f"active(lanes) & {self.vector(mask.at)}"
            self.out(f"Index {name}[LANES];")
            check = f"!{test}({name}, {self.vector(value.at)}, {size_text}, {lanes})"
        elif mask is None:
            self.out(f"Index {name} = {self.scalar(value.at)};")
            check = f"!{test}({name}, {size_text})"
        else:
            m = self.scalar(mask.at)
            self.out(f"Index {name} = {m} ? {self.scalar(value.at)} : 0;")
            check = f"{m} && !{test}({name}, {size_text})"
        status = STATUSES[rule.error]
        self.out(f"if ({check}) {{ status = {status}; return{self._return_value()}; }}")
        self._text[at] = f"{name}"

    def _place(self, at: int, op: Indirect) -> None:
        """A position that is certain to be one wherever something is read."""
        name, mask = self._names[op.symbol], op.mask
        if self.plan.varying[at]:
            made = self.body.ops[op.value.at]
            # 32 bits say all there is to say, and are twice as many lanes to the processor.
            narrow = isinstance(made, Cast) and self.body.dtype(made.value.at) is torch.int32
            given = made.value if isinstance(made, Cast) and narrow else op.value
            self.out(f"const auto {name} = places({self.vector(given.at)}, lanes);")
        else:
            value = self.scalar(op.value.at)
            self.out(f"const Index {name} = {value if mask is None else f'{self.scalar(mask.at)} ? {value} : 0'};")
        self._text[at] = name

    def _return_value(self) -> str:
        """Inside of a lambda there is nothing to return; in the item function the status."""
        return "" if self.out.in_lambda else " status"
