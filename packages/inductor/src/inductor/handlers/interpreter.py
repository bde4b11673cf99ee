"""The IR's oracle: runs bodies and whole programs over torch tensors, every operation on the whole iteration space at once.

Flows in: a `LoopOp` or `Program` and tensors. Flows out: tensors. Slow and plain on purpose: the reference that kernels of
device backends are compared with.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import sympy
import torch
from torch.utils import _pytree as pytree

from inductor.ir.operations import (
    Bitcast,
    Cast,
    Constant,
    Elementwise,
    IndexExpr,
    Indirect,
    Load,
    Reduce,
    Round,
    Scan,
    Store,
    Symbol,
    Where,
)
from inductor.ir.program import Buffer, ExternOp, LoopOp, Measure, Program, StridedView
from inductor.ops import INDEX_RULES
from inductor.primitives import PRIMITIVES, REDUCTIONS, SCANS
from symshapes import FloorDiv, Mod
from symshapes import evaluate as evaluate_on_numbers

Number = Any
"""A Python int, or an int64 tensor: the value of an index expression at every point."""


def evaluate(expr: Any, symbols: Mapping[Symbol, Number]) -> Number:
    """An expression with numbers or, if it is an integer, index grids for its symbols."""
    if not isinstance(expr, sympy.Basic):
        return expr
    if expr.is_Integer:
        return int(expr)
    if expr.is_Symbol:
        return symbols[expr]
    args = [evaluate(arg, symbols) for arg in expr.args]
    if isinstance(expr, sympy.Add):
        return sum(args[1:], start=args[0])
    if isinstance(expr, sympy.Mul):
        return math.prod(args[1:], start=args[0])
    if isinstance(expr, FloorDiv):
        return args[0] // args[1]
    if isinstance(expr, Mod):
        return args[0] % args[1]
    if isinstance(expr, sympy.Pow):
        return args[0] ** args[1]
    if expr.func.__name__ in ("Max", "Min"):
        return (max if expr.func.__name__ == "Max" else min)(args)
    return evaluate_on_numbers(expr, symbols)


class Interpreter:
    """A handler for `Body.run` over one loop nest. Each loop variable is an index grid along its own dimension, outer ones
    first; values are tensors that broadcast over these dimensions.

    Args:
        memory: flat tensors by buffer name; stores write into them.
        sizes: values of the size symbols.
    """

    def __init__(self, op: LoopOp, memory: Mapping[str, torch.Tensor], sizes: Mapping[Symbol, int]) -> None:
        self.memory = memory
        self.device = op.device
        self.extent = [int(evaluate(s, sizes)) for s in (*op.outer_sizes, *op.inner_sizes)]
        self.outer = len(op.outer_sizes)
        self.symbols: dict[Symbol, Number] = dict(sizes)
        for dim, symbol in enumerate((*op.body.outer_vars, *op.body.inner_vars)):
            shape = [1] * len(self.extent)
            shape[dim] = self.extent[dim]
            self.symbols[symbol] = torch.arange(self.extent[dim], device=self.device).reshape(shape)

    def _grid(self, expr: Any, dtype: torch.dtype = torch.int64) -> torch.Tensor:
        value = evaluate(expr, self.symbols)
        return torch.as_tensor(value, dtype=dtype, device=self.device)

    def elementwise(self, op: Elementwise, *operands: torch.Tensor) -> torch.Tensor:
        """The primitive's function of its operands."""
        result = PRIMITIVES[op.primitive].function(*operands)
        assert result.dtype is op.dtype, f"{op.primitive} gave {result.dtype}, recorded as {op.dtype}"
        return result

    def constant(self, op: Constant) -> torch.Tensor:
        """A tensor of no dimensions."""
        return torch.tensor(op.value, dtype=op.dtype, device=self.device)

    def index_expr(self, op: IndexExpr) -> torch.Tensor:
        """The values of an index expression over the loops."""
        return self._grid(op.index, op.dtype if op.dtype.is_floating_point else torch.int64).to(op.dtype)

    def load(self, op: Load, mask: torch.Tensor | None = None) -> torch.Tensor:
        """Elements of a buffer, 0 where the mask is false. Raises AssertionError for an index outside of its memory."""
        flat, at = self._numbers(op.buffer), self._grid(op.index)
        if mask is None:
            self._check(op.buffer, at)
            return flat[at].to(op.dtype)
        at, mask = torch.broadcast_tensors(at, mask)
        at = torch.where(mask, at, 0)
        if not bool(mask.any()):
            return torch.zeros(at.shape, dtype=op.dtype, device=self.device)
        self._check(op.buffer, at)
        return torch.where(mask, flat[at].to(op.dtype), torch.zeros((), dtype=op.dtype, device=self.device))

    def _numbers(self, buffer: str) -> torch.Tensor:
        """The real numbers in a buffer, of complex ones their parts."""
        flat = self.memory[buffer]
        return torch.view_as_real(flat).reshape(-1) if flat.is_complex() else flat

    def _check(self, buffer: str, at: torch.Tensor) -> None:
        count = self._numbers(buffer).numel()
        if at.numel() and not (int(at.min()) >= 0 and int(at.max()) < count):
            raise AssertionError(f"{buffer}: index {int(at.min())}..{int(at.max())} in memory of {count}")

    def store(self, op: Store, value: torch.Tensor) -> None:
        """Write or add the values. Raises AssertionError for an index outside of the buffer's memory."""
        flat, at = self.memory[op.buffer], self._grid(op.index)
        shape = self.extent[: self.outer] + [1] * (len(self.extent) - self.outer)
        at, value, _ = torch.broadcast_tensors(at, value, torch.empty(shape, device=self.device))
        self._check(op.buffer, at)
        places, values = at.reshape(-1), value.reshape(-1).to(flat.dtype)
        if op.mode == "total":
            flat[places] = 0
        if op.mode in (None, "add", "total"):
            flat.index_put_((places,), values, accumulate=op.mode is not None)
        else:
            flat.scatter_reduce_(0, places, values, {"mul": "prod", "max": "amax", "min": "amin"}[op.mode])

    def to_dtype(self, op: Cast, value: torch.Tensor) -> torch.Tensor:
        """The values converted."""
        return value.to(op.dtype)

    def round_to(self, op: Round, value: torch.Tensor) -> torch.Tensor:
        """The values rounded to a narrower dtype, in the dtype that is computed in."""
        return value.to(op.to).to(op.dtype)

    def bitcast(self, op: Bitcast, value: torch.Tensor) -> torch.Tensor:
        """The same bits as another dtype of the same width."""
        return value.view(op.dtype)

    def where(self, op: Where, condition: torch.Tensor, then: torch.Tensor, otherwise: torch.Tensor) -> torch.Tensor:
        """`then` where the condition is true, else `otherwise`."""
        return torch.where(condition, then, otherwise)

    def indirect(self, op: Indirect, value: torch.Tensor, mask: torch.Tensor | None = None) -> torch.Tensor:
        """Positions read from data, for a symbol to stand for. Raises the rule's error where one is out of range."""
        rule, count = INDEX_RULES[op.rule], self._grid(op.size)
        if mask is not None:
            value = torch.where(mask, value, 0)
        outside = (value < (-count if rule.wraps else 0)) | (value >= count)
        if bool((outside if mask is None else outside & mask).any()):
            raise (rule.error or AssertionError)(f"index out of range for size {int(count)}")
        self.symbols[op.symbol] = torch.where(value < 0, value + count, value)
        return self.symbols[op.symbol]

    def reduce(self, op: Reduce, value: torch.Tensor) -> torch.Tensor:
        """The values reduced over the inner loops."""
        inner = self.extent[self.outer :]
        result = REDUCTIONS[op.kind].function(self._rows(value), op.dtype)
        assert result.dtype is op.dtype, f"{op.kind} gave {result.dtype}, recorded as {op.dtype}"
        return result.reshape((*result.shape, *([1] * len(inner))))

    def scan(self, op: Scan, value: torch.Tensor) -> torch.Tensor:
        """The running results along the inner loops."""
        inner, rows = self.extent[self.outer :], self._rows(value)
        result = SCANS[op.kind].function(rows.flip(-1) if op.backward else rows)
        result = result.flip(-1) if op.backward else result
        assert result.dtype is op.dtype, f"{op.kind} gave {result.dtype}, recorded as {op.dtype}"
        return result.reshape((*result.shape[: self.outer], *inner)) if inner else result.squeeze(-1)

    def _rows(self, value: torch.Tensor) -> torch.Tensor:
        """A value at each inner point, which are one dimension, the last."""
        inner = self.extent[self.outer :]
        if not inner:
            return value.unsqueeze(-1)
        shape = torch.broadcast_shapes(value.shape, [1] * self.outer + inner)
        return value.expand(shape).reshape((*shape[: self.outer], math.prod(inner)))


def run_loop(op: LoopOp, memory: Mapping[str, torch.Tensor], sizes: Mapping[Symbol, int]) -> None:
    """Run one loop nest over flat memory; the written buffers are there already."""
    for target, earlier in op.initial:
        memory[target].copy_(memory[earlier])
    handler = Interpreter(op, memory, sizes)
    if 0 not in handler.extent[: handler.outer]:  # a reduction of nothing has a result, too
        op.body.run(handler)


def run_program(program: Program, inputs: Sequence[Any]) -> list[Any]:
    """Run a lowered graph on its inputs (tensors, and ints for symbols) and return its outputs.

    Raises:
        AssertionError: if an ATen kernel's result has another layout than the program says, or an index leaves a buffer.
        IndexError: where a kernel would raise it, for an index tensor out of range.
    """
    sizes: dict[Symbol, int] = {}
    memory: dict[str, torch.Tensor] = {name: flat_view(t) for name, t in program.constants.items()}
    for name, value in zip(program.inputs, inputs, strict=True):
        if isinstance(name, str):
            memory[name] = flat_view(value)
        else:
            sizes[name] = value
    tensors = dict(zip(program.inputs, inputs, strict=True))
    computed = []
    for symbol, place in program.symbols.items():
        if isinstance(place, Measure):
            sizes[symbol] = getattr(tensors[place.buffer], place.what)(place.dim)
        elif place is not None:
            computed.append((symbol, place))
    while computed:  # each in its turn, whatever their order
        symbol, place = computed.pop(0)
        if place.free_symbols <= sizes.keys():
            sizes[symbol] = evaluate(place, sizes)
        else:
            computed.append((symbol, place))

    def resolve(arg: Any) -> Any:
        if isinstance(arg, StridedView):
            size, stride = ([int(evaluate(e, sizes)) for e in part] for part in (arg.size, arg.stride))
            flat = memory[arg.buffer]
            # torch counts offsets from the start of the storage, the program from the start of the buffer.
            return flat.as_strided(size, stride, flat.storage_offset() + int(evaluate(arg.offset, sizes)))
        if isinstance(arg, sympy.Basic):
            return evaluate(arg, sizes)
        if isinstance(arg, tuple | list):
            return type(arg)(resolve(a) for a in arg)
        if isinstance(arg, dict):
            return {k: resolve(v) for k, v in arg.items()}
        return arg

    for op in program.operations:
        if isinstance(op, LoopOp):
            for name in op.writes:
                if name not in memory:
                    memory[name] = _allocate(program.buffers[name], sizes)
            run_loop(op, memory, sizes)
        else:
            _run_extern(op, program, memory, sizes, resolve)
    return [resolve(output) for output in program.outputs]


def _run_extern(
    op: ExternOp,
    program: Program,
    memory: dict[str, torch.Tensor],
    sizes: dict[Symbol, int],
    resolve: Callable[[Any], Any],
) -> None:
    results = pytree.tree_leaves(op.target(*resolve(op.args), **resolve(op.kwargs)))
    if op.scalar_writes:
        sizes.update({_symbol(name, program): value for name, value in zip(op.scalar_writes, results, strict=True)})
        return
    for name, result in itertools.zip_longest(op.writes, results):
        if name is None:
            continue
        buffer = program.buffers[name]
        expected = [int(evaluate(e, sizes)) for e in buffer.size], [int(evaluate(e, sizes)) for e in buffer.stride]
        actual = list(result.size()), list(result.stride())
        differs = [d for d, size in enumerate(actual[0]) if size != 1 and actual[1][d] != expected[1][d]]
        assert result.dtype is buffer.dtype, f"{op.target}: {name} is {result.dtype}, not {buffer.dtype}"
        assert actual[0] == expected[0] and (not differs or not result.numel()), (
            f"{op.target}: {name} has size and strides {actual}, not {expected}"
        )
        memory[name] = flat_view(result)


def _symbol(name: str, program: Program) -> Symbol:
    for op in program.operations:
        for arg in pytree.tree_leaves((op.args, op.kwargs) if isinstance(op, ExternOp) else op.outer_sizes):
            if isinstance(arg, sympy.Basic):
                for symbol in arg.free_symbols:
                    if symbol.name == name:
                        return symbol
    return sympy.Symbol(name)


def flat_view(tensor: torch.Tensor) -> torch.Tensor:
    """The memory a strided tensor spans, from its first element, as one dimension."""
    span = (
        0 if tensor.numel() == 0 else 1 + sum((n - 1) * s for n, s in zip(tensor.size(), tensor.stride(), strict=True))
    )
    return tensor.as_strided((span,), (1,), tensor.storage_offset())


def _allocate(buffer: Buffer, sizes: Mapping[Symbol, int]) -> torch.Tensor:
    size = [int(evaluate(e, sizes)) for e in buffer.size]
    stride = [int(evaluate(e, sizes)) for e in buffer.stride]
    return flat_view(torch.empty_strided(size, stride, dtype=buffer.dtype, device=buffer.device))
