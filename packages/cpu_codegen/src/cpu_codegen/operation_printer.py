"""Prints single operations: a `const` line per value, scalar where it is the same in all lanes, else a vector.

Flows in: positions of operations in the plan's body, in order. Flows out: lines, and the text each value is read by.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import torch

from cpu_codegen.index import Expr, IndexPrinter, Symbol, stride
from cpu_codegen.names import argument_names
from cpu_codegen.operations import format_of
from cpu_codegen.text import Lines
from cpu_codegen.types import MEMORY, SCALAR, VECTOR, literal
from cpu_codegen.vectorize import Plan, contiguous
from inductor import INDEX_RULES, Kernel, Op, Ref

STATUSES: dict[type[Exception], str] = {IndexError: "INDEX_ERROR", RuntimeError: "RUNTIME_ERROR"}
"""What a kernel returns, as `kernel.h` names it, for the launcher to raise."""


def print_arguments(kernel: Kernel, out: Lines, sizes_only: bool = False) -> None:
    """Declare a kernel's arguments as named pointers and sizes, from `args`."""
    names = argument_names(kernel)
    for position, arg in enumerate(kernel.args):
        name = names[arg.name]
        if arg.role == "size":
            out(f"const Index {name} = args[{position}].integer;")
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
        self._names: dict[Symbol, str] = {s: self._buffers[s.name] for s in kernel.symbols}
        indirects = {at: op for at, op in enumerate(self.body.ops) if op.name == "indirect"}
        self.has_indirect = bool(indirects)
        self._lane_symbols = frozenset(op.args[2] for at, op in indirects.items() if plan.varying[at])
        self._names.update({op.args[2]: f"indirect{k}" for k, op in enumerate(indirects.values())})
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
        return self.body.ops[at].name not in ("store", "constant", "indirect")

    def scalar(self, at: int) -> str:
        """The value as a scalar; it must be the same in all lanes."""
        return self._text[at]

    def vector(self, at: int) -> str:
        """The value as a vector."""
        if self._is_vector(at):
            return self._text[at]
        dtype = self.body.ops[at].dtype
        assert dtype is not None
        text, scalar = self._text[at], SCALAR[dtype]
        if text.startswith(f"{scalar}(") and text.endswith(")") and dtype is not torch.bool:
            return f"{VECTOR[dtype]}({text[len(scalar) + 1 : -1]})"
        return f"{VECTOR[dtype]}({text})"

    def _is_vector(self, at: int) -> bool:
        return self.plan.varying[at] and self.body.ops[at].name != "constant"

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
        if op.name == "constant":
            assert op.dtype is not None
            self._text[at] = literal(op.args[0], op.dtype)
            return
        if op.name == "store":
            self._store(op)
            return
        if op.name == "indirect":
            self._indirect(at, op)
            return
        assert op.dtype is not None
        vector = self._is_vector(at)
        text = self._vector_text(op) if vector else self._scalar_text(op)
        if keep_in is not None:
            self.out(f"{keep_in} = {text};")
            self._text[at] = keep_in
            return
        name = f"v{at}"
        self.out(f"const {(VECTOR if vector else SCALAR)[op.dtype]} {name} = {text};")
        self._text[at] = name

    def emit_as(self, at: int, place: str) -> None:
        """Print load `at` as one from another place, where its value lies in lane order."""
        dtype = self.body.ops[at].dtype
        assert dtype is not None
        self.out(f"const {VECTOR[dtype]} v{at} = load<{VECTOR[dtype]}>({place}, lanes);")
        self._text[at] = f"v{at}"

    def element(self, op: Op) -> str:
        """The one element that a load without mask reads at the current point."""
        buffer, index, _ = op.args
        return f"load({self._buffers[buffer]} + {self.index.factor(index)})"

    def _scalar_text(self, op: Op) -> str:
        assert op.dtype is not None
        if op.name == "load":
            load, mask = self.element(op), op.args[2]
            return load if mask is None else f"{self.scalar(mask.at)} ? {load} : {literal(0, op.dtype)}"
        if op.name == "index_expr":
            return f"({SCALAR[op.dtype]})({self.index(op.args[0])})"
        return self._pure_text(op, [self.scalar(ref.at) for ref in op.operands()], SCALAR)

    def _vector_text(self, op: Op) -> str:
        assert op.dtype is not None
        if op.name == "load":
            return self._vector_load(op)
        if op.name == "index_expr":
            return self._vector_index(op)
        return self._pure_text(op, [self.vector(ref.at) for ref in op.operands()], VECTOR)

    def _pure_text(self, op: Op, operands: list[str], types: dict[torch.dtype, str]) -> str:
        assert op.dtype is not None
        if op.name == "to_dtype":
            source = self.body.ops[op.args[0].at].dtype
            if op.dtype is torch.bool:
                return f"truth({operands[0]})"
            return operands[0] if source is op.dtype else f"convert<{SCALAR[op.dtype]}>({operands[0]})"
        if op.name == "round_to":
            name = {torch.bfloat16: "bfloat16_round", torch.float16: "float16_round"}.get(op.args[1])
            if name is None:
                raise NotImplementedError(f"rounding to {op.args[1]}")
            return f"{name}({operands[0]})"
        if op.name == "bitcast":
            return f"bitcast<{SCALAR[op.dtype]}>({operands[0]})"
        if op.name == "where":
            return f"select({', '.join(operands)})"
        first = op.args[0]
        assert isinstance(first, Ref)
        operand_dtype = self.body.ops[first.at].dtype
        assert operand_dtype is not None
        template = format_of(op.name, operand_dtype)
        if template is None:
            raise NotImplementedError(f"no C++ for {op.name} of {operand_dtype}")
        return template.format(*operands)

    # ---- Memory

    def _lane_address(self, buffer: str, index: Expr) -> str:
        lane = self._lane_index.factor(index)
        return f"[&](Index lane) INLINE_BODY {{ return {self._buffers[buffer]} + {lane}; }}"

    def _vector_load(self, op: Op) -> str:
        buffer, index, mask = op.args
        assert op.dtype is not None
        lanes = "lanes" if mask is None else f"active(lanes) & {self.vector(mask.at)}"
        vector = VECTOR[op.dtype]
        if contiguous(index, self.plan.vector.variable, self._lane_symbols):
            return f"load<{vector}>({self._buffers[buffer]} + {self.index.factor(index)}, {lanes})"
        if not self._varies(index):
            # One element, wanted by some lanes.
            assert mask is not None
            m = self.vector(mask.at)
            element = f"load({self._buffers[buffer]} + {self.index.factor(index)})"
            chosen = f"any_of({lanes}) ? {element} : {literal(0, op.dtype)}"
            return f"select({m}, {vector}({chosen}), {vector}({literal(0, op.dtype)}))"
        return f"gather<{vector}>({lanes}, {self._lane_address(buffer, index)})"

    def _varies(self, index: Expr) -> bool:
        symbols = index.free_symbols
        return self.plan.vector.variable in symbols or not self._lane_symbols.isdisjoint(symbols)

    def _vector_index(self, op: Op) -> str:
        assert op.dtype is not None
        (index,) = op.args
        scalar, variable = SCALAR[op.dtype], self.plan.vector.variable
        step = stride(index, variable) if self._lane_symbols.isdisjoint(index.free_symbols) else None
        if step is not None and op.dtype is not torch.bool:
            return f"ramp<{scalar}>({self.index(index)}, {self.index(step)})"
        lane = f"({scalar})({self._lane_index(index)})"
        return f"by_lane<{VECTOR[op.dtype]}>([&](Index lane) INLINE_BODY {{ return {lane}; }})"

    def _store(self, op: Op) -> None:
        buffer, index, value, mode = op.args
        if mode not in (None, "add"):
            raise NotImplementedError(f"store mode {mode!r}")
        place = f"{self._buffers[buffer]} + {self.index.factor(index)}"
        if not self._varies(index) and not self.plan.varying[value.at]:
            self.out(f"{'add_to' if mode else 'store'}({place}, {self.scalar(value.at)});")
            return
        x = self.vector(value.at)
        if mode is None and contiguous(index, self.plan.vector.variable, self._lane_symbols):
            self.out(f"store({place}, {x}, lanes);")
            return
        self.out(f"{'scatter_add' if mode else 'scatter'}({x}, lanes, {self._lane_address(buffer, index)});")

    def _indirect(self, at: int, op: Op) -> None:
        value, size, symbol, mask, rule = op.args
        name, size_text = self._names[symbol], self.index(size)
        test = "wrap" if INDEX_RULES[rule].wraps else "within"
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
        status = STATUSES[INDEX_RULES[rule].error]
        self.out(f"if ({check}) {{ status = {status}; return{self._return_value()}; }}")
        self._text[at] = f"{name}"

    def _return_value(self) -> str:
        """Inside of a lambda there is nothing to return; in the item function the status."""
        return "" if self.out.in_lambda else " status"
