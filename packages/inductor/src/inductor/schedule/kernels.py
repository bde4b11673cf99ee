"""Kernels out of loops: arguments with names of their own, so that equal loops over other buffers are one kernel.

Flows in: a `LoopOp` (merged) and its in-place pairs. Flows out: `Kernel`, and the buffers to call it with.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Literal

import sympy
import torch
from torch import fx

from inductor.device import Kernel, KernelArg
from inductor.ir.body import Body
from inductor.ir.operations import Expr, IndexExpr, Load, Op, Ref, Store, Symbol
from inductor.ir.program import LoopOp, Program
from inductor.schedule.merge import without_dead
from symshapes import IntFunction, dataclass

_NAME_LENGTH = 60


@dataclass(frozen=True)
class KernelCallSite:
    """A kernel with its arguments here: buffers, and behind them what its symbols stand for."""

    kernel: Kernel
    buffers: tuple[str, ...]
    numbers: tuple[Expr, ...]


class KernelTable:
    """Kernels of a graph by content."""

    def __init__(self, program: Program) -> None:
        self.kernels: dict[str, Kernel] = {}
        self._by_content: dict[Any, Kernel] = {}
        self._program = program

    def call(self, loop: LoopOp, inplace: Mapping[str, str] | None = None) -> KernelCallSite:
        """The kernel of `loop`, made or found, with its buffers.

        Args:
            inplace: written buffer to the input buffer whose memory it takes.
        """
        draft = draft_kernel(self._program, loop, inplace or {})
        content = kernel_content(draft.kernel)
        kernel = self._by_content.get(content)
        if kernel is None:
            name = f"{_name(loop)}_{len(self.kernels)}"
            kernel = self.kernels[name] = self._by_content[content] = replace(draft.kernel, name=name)
        return KernelCallSite(kernel, draft.buffers, draft.numbers)


def kernel_content(kernel: Kernel) -> Any:
    """What tells two kernels apart, but for their names and origins."""
    body = kernel.body
    return kernel.device, kernel.args, kernel.outer_sizes, kernel.inner_sizes, body.inner_vars, body.ops


def draft_kernel(program: Program, loop: LoopOp, inplace: Mapping[str, str]) -> KernelCallSite:
    """A nameless kernel for one loop."""
    body = without_dead(loop.body)
    partial = {name for name, _ in loop.initial}
    overwritten = {read: written for written, read in inplace.items()}
    ins: dict[str, str] = {}
    outs: dict[str, str] = {}
    inouts: dict[str, str] = {}
    for store in body.stores():
        if store.buffer in partial or store.buffer in inplace or store.mode not in (None, "total"):
            inouts.setdefault(store.buffer, f"io{len(inouts)}")
        else:
            outs.setdefault(store.buffer, f"out{len(outs)}")
    for load in body.loads():
        if load.buffer not in overwritten:
            ins.setdefault(load.buffer, f"in{len(ins)}")
    local = {**ins, **outs, **inouts}
    local.update({read: local[written] for read, written in overwritten.items()})
    renamed = (replace(op, buffer=local[op.buffer]) if isinstance(op, Load | Store) else op for op in body.ops)
    body = Body(body.outer_vars, body.inner_vars, tuple(renamed))
    if inplace:
        body = stores_last(body)
    body, sizes, numbers = _numbers_apart(body, (loop.outer_sizes, loop.inner_sizes))
    symbols = size_symbols(body, itertools.chain(*sizes))
    roles: tuple[tuple[Literal["in", "out", "inout"], dict[str, str]], ...] = (
        ("in", ins),
        ("inout", inouts),
        ("out", outs),
    )
    args = [
        KernelArg(short, role, program.buffers[name].loaded_dtype)
        for role, table in roles
        for name, short in table.items()
    ]
    args += [KernelArg(str(symbol), "size", torch.int64 if symbol.is_integer else torch.float64) for symbol in symbols]
    kernel = Kernel(
        name="kernel",
        device=loop.device,
        outer_sizes=sizes[0],
        inner_sizes=sizes[1],
        body=body,
        args=tuple(args),
        symbols=symbols,
        origins=origins(loop.origins),
    )
    return KernelCallSite(kernel, (*ins, *inouts, *outs), tuple(numbers.get(symbol, symbol) for symbol in symbols))


Sizes = tuple[Expr, ...]


def _numbers_apart(body: Body, sizes: tuple[Sizes, Sizes]) -> tuple[Body, tuple[Sizes, Sizes], dict[Symbol, Expr]]:
    """The body and sizes with a symbol for each number that is the same at all points, and what these stand for: Python
    computes them, with its own rounding and integers of any size, once a call. Of sizes and places these are the integers that
    floats become, which no backend has text for."""
    own = {*body.outer_vars, *body.inner_vars, *body.indirects()}
    names: dict[Expr, Symbol] = {}

    def named(expr: Expr) -> Symbol:
        assumption = {"integer": True} if expr.is_integer else {"real": True}
        return names.setdefault(expr, sympy.Symbol(f"number{len(names)}", **assumption))

    def without_floats(expr: Expr) -> Expr:
        found = sorted(expr.atoms(IntFunction), key=str) if expr.args else []
        return expr.xreplace({part: named(part) for part in found if own.isdisjoint(part.free_symbols)})

    ops: list[Op] = []
    for op in body.ops:
        if isinstance(op, IndexExpr) and op.index.args and own.isdisjoint(op.index.free_symbols):
            op = IndexExpr(named(op.index), op.dtype)
        ops.append(op)
    if size_symbols(body, itertools.chain(*sizes)):
        outer, inner = sizes
        ops = [op.with_index(without_floats) for op in ops]
        sizes = tuple(map(without_floats, outer)), tuple(map(without_floats, inner))
    apart = Body(body.outer_vars, body.inner_vars, tuple(ops))
    return apart, sizes, {symbol: expr for expr, symbol in names.items()}


def stores_last(body: Body) -> Body:
    """The body with its stores behind everything else, so that what is overwritten in place has been read."""
    order = [at for at, op in enumerate(body.ops) if not isinstance(op, Store)]
    order += [at for at, op in enumerate(body.ops) if isinstance(op, Store)]
    place = {old: Ref(new) for new, old in enumerate(order)}
    ops = tuple(body.ops[at].with_operands(lambda ref: place[ref.at]) for at in order)
    return Body(body.outer_vars, body.inner_vars, ops)


def size_symbols(body: Body, sizes: Iterable[Expr]) -> tuple[Symbol, ...]:
    """Symbols a loop of these sizes needs the values of, by name."""
    used = body.free_symbols()
    for size in sizes:
        used |= sympy.sympify(size).free_symbols
    return tuple(sorted(used, key=lambda s: s.name))


def origins(nodes: Iterable[fx.Node]) -> tuple[str, ...]:
    """Nodes for a comment: their names by the user's line."""
    lines: dict[str, list[str]] = {}
    for node in nodes:
        lines.setdefault(node.meta.get("source") or "", []).append(node.name)
    return tuple(f"{line}: {', '.join(names)}" if line else ", ".join(names) for line, names in lines.items())


def _name(loop: LoopOp) -> str:
    words: dict[str, None] = {}
    for node in loop.origins:
        packet = getattr(node.target, "overloadpacket", node.target)
        words[re.sub(r"\W+", "_", str(getattr(packet, "__name__", packet))).strip("_")] = None
    name = f"{loop.device.type}_fused"
    for word in words:
        if len(name) + len(word) > _NAME_LENGTH:
            break
        name += f"_{word}"
    return name
