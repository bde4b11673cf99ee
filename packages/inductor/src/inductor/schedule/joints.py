"""Joint kernels out of kernels that run at the same time: equal but for their numbers, or small.

Flows in: calls of kernels that need not wait for each other. Flows out: `JointLaunch`es, each of which takes the place of many.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import replace

import sympy
import torch

from inductor.device import JointKernel, JointPart, Kernel, KernelArg
from inductor.ir.body import Body
from inductor.ir.operations import Expr, Load, Store, Symbol
from inductor.schedule.kernels import KernelCallSite, size_symbols
from inductor.schedule.space import Index, index_of
from symshapes import dataclass

MOST_PARTS = 256
"""Of a launch."""
MOST_BODIES = 8
"""Kernels that differ in more than their numbers, of a launch."""
SMALL = 1 << 22
"""Bytes that a kernel moves which is put beside others of any kind: while it runs a good part of a GPU is idle."""


@dataclass(frozen=True)
class JointLaunch:
    """A call of a joint kernel."""

    kernel: JointKernel
    steps: tuple[int, ...]
    """The place in the schedule of each part's own call."""
    buffers: tuple[tuple[str, ...], ...]
    """Of each part, in the order of its arguments; behind them come its numbers."""
    numbers: tuple[tuple[Expr, ...], ...]


@dataclass(frozen=True)
class Call:
    """A kernel's call at a place in a schedule. `bytes`: what it moves, about."""

    at: int
    site: KernelCallSite
    bytes: int


def joint_launches(calls: Sequence[Call], least: int, name: Callable[[], str]) -> Iterator[JointLaunch]:
    """What runs kernels together; each call is in at most one launch.

    Args:
        calls: on one device; all may run at the same time.
        least: parts that a launch has at least.
        name: one that no kernel has yet.
    """
    alike: dict[Hashable, list[_Alike]] = {}
    for call in filter(_gains, calls):
        pattern, holes = _pattern(call.site.kernel)
        alike.setdefault(pattern, []).append(_Alike(call, holes))
    chunks = [group[at : at + MOST_PARTS] for group in alike.values() for at in range(0, len(group), MOST_PARTS)]
    launches: list[list[list[_Alike]]] = []
    small: list[list[_Alike]] = []
    for chunk in chunks:
        light = [each for each in chunk if each.call.bytes <= SMALL]
        if len(light) == len(chunk) or len(chunk) < least:
            small += [light] if light else []
        else:
            launches.append([chunk])
    for bodies in _packed(small):
        if launches and sum(map(len, launches[-1] + bodies)) <= MOST_PARTS:
            launches[-1] = launches[-1] + bodies
        elif sum(map(len, bodies)) >= least:
            launches.append(bodies)
    return (_joint(launch, name()) for launch in launches)


def _gains(call: Call) -> bool:
    """Not what is known too late: by itself a kernel is compiled for sizes as they come, among others for whatever comes."""
    kernel = call.site.kernel
    unknown = {symbol for size in (*kernel.outer_sizes, *kernel.inner_sizes) for symbol in size.free_symbols}
    return not unknown or (call.bytes <= SMALL and all(size.is_Integer for size in kernel.inner_sizes))


def _packed(chunks: Sequence[list[_Alike]]) -> Iterator[list[list[_Alike]]]:
    """The chunks by launches that have room for them."""
    packed: list[list[_Alike]] = []
    for chunk in chunks:
        if len(packed) == MOST_BODIES or sum(map(len, packed)) + len(chunk) > MOST_PARTS:
            yield packed
            packed = []
        packed.append(chunk)
    if packed:
        yield packed


_Holes = tuple[Expr, ...]
"""The numbers in a kernel's sizes, and by which its loads and stores move: where kernels alike may differ."""


@dataclass(frozen=True)
class _Alike:
    """A call of a kernel among others of its pattern."""

    call: Call
    holes: _Holes


def _pattern(kernel: Kernel) -> tuple[Hashable, _Holes]:
    """What kernels alike have in common, and what each has of its own."""
    body = kernel.body
    ops: list[Hashable] = []
    holes: list[Expr] = [*kernel.outer_sizes, *kernel.inner_sizes]
    for op in body.ops:
        index = _linear(op.index, body) if isinstance(op, Load | Store) else None
        if index is None:
            ops.append(op)
            continue
        steps = _steps(index)
        ops.append((op.with_index(lambda _: sympy.Integer(0)), tuple(var for var, _ in steps)))
        holes += [*(step for _, step in steps), sympy.sympify(index.rest)]
    others = tuple(arg for arg in kernel.args if arg.role != "size" or arg.dtype.is_floating_point)
    lengths = len(kernel.outer_sizes), len(kernel.inner_sizes)
    return (kernel.device, others, lengths, body.outer_vars, body.inner_vars, tuple(ops)), tuple(holes)


def _linear(index: Expr, body: Body) -> Index | None:
    """An index as a sum of loop variables times numbers, if it is one."""
    own = frozenset((*body.outer_vars, *body.inner_vars))
    found = index_of(index, own)
    rest = sympy.sympify(found.rest)
    return None if rest.free_symbols & {*own, *body.indirects()} else found


def _steps(index: Index) -> list[tuple[Symbol, Expr]]:
    return [(var, sympy.sympify(step)) for var, step in sorted(index.coefficients, key=lambda pair: pair[0].name)]


def _filled(kernel: Kernel, holes: Iterator[Expr], name: str) -> Kernel:
    """A kernel with other numbers in the holes, in `_pattern`'s order. Its arguments of role "size" are what they need."""
    outer = tuple(itertools.islice(holes, len(kernel.outer_sizes)))
    inner = tuple(itertools.islice(holes, len(kernel.inner_sizes)))
    ops = []
    for op in kernel.body.ops:
        index = _linear(op.index, kernel.body) if isinstance(op, Load | Store) else None
        if index is not None:
            moved = sympy.Add(*(next(holes) * var for var, _ in _steps(index)), next(holes))
            op = op.with_index(lambda _, moved=moved: moved)  # type: ignore[misc]
        ops.append(op)
    body = Body(kernel.body.outer_vars, kernel.body.inner_vars, tuple(ops))
    symbols = size_symbols(body, (*outer, *inner))
    args = [arg for arg in kernel.args if arg.role != "size"]
    args += [KernelArg(str(symbol), "size", torch.int64 if symbol.is_integer else torch.float64) for symbol in symbols]
    return replace(
        kernel, name=name, outer_sizes=outer, inner_sizes=inner, body=body, args=tuple(args), symbols=symbols
    )


def _joint(groups: Sequence[Sequence[_Alike]], name: str) -> JointLaunch:
    """One launch of groups of kernels alike."""
    kernels: list[Kernel] = []
    parts: list[JointPart] = []
    numbers: list[tuple[Expr, ...]] = []
    for at, group in enumerate(groups):
        sites = [each.call.site for each in group]
        columns = list(zip(*(each.holes for each in group), strict=True))
        symbols = _symbols(columns)
        filled = (symbols.get(column, column[0]) for column in columns)
        kernel = _filled(sites[0].kernel, filled, f"{name}_part{at}")
        kernels.append(kernel)
        for row, site in enumerate(sites):
            given: dict[Symbol, Expr] = dict(zip(site.kernel.symbols, site.numbers, strict=True))
            own = {symbol: column[row].xreplace(given) for column, symbol in symbols.items()}
            values = tuple({**given, **own}[symbol] for symbol in kernel.symbols)
            numbers.append(values)
            parts.append(JointPart(at, tuple(int(value) if value.is_Integer else None for value in values)))
    calls = [each.call for group in groups for each in group]
    return JointLaunch(
        JointKernel(name, calls[0].site.kernel.device, tuple(kernels), tuple(parts)),
        tuple(call.at for call in calls),
        tuple(call.site.buffers for call in calls),
        tuple(numbers),
    )


def _symbols(columns: Sequence[tuple[Expr, ...]]) -> dict[tuple[Expr, ...], Symbol]:
    """A symbol for each hole that holds different numbers, or one that only the call tells; one for all that hold the same."""
    found: dict[tuple[Expr, ...], Symbol] = {}
    for column in columns:
        if column not in found and not (column[0].is_Integer and len(set(column)) == 1):
            found[column] = sympy.Symbol(f"part{len(found)}", integer=True)
    return found
