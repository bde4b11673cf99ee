"""Nodes of the scheduler's graph: single extern calls, and groups of loops that will become one kernel.

Flows in: a `Program`. Flows out: `Group`s and `ExternNode`s with their reads, writes and predecessors, for fusion and
ordering. A group keeps its members apart, each with the map from its own loop variables to the group's; bodies are
merged once, when fusion is done.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import field, replace
from functools import cache, lru_cache
from itertools import count
from typing import Any

import sympy
import torch

from inductor.contractions import contraction_of
from inductor.ir.body import Body, checked_symbols
from inductor.ir.operations import (
    Cast,
    Constant,
    Elementwise,
    Expr,
    IndexExpr,
    Load,
    Op,
    Reduce,
    Ref,
    Scan,
    Store,
    Symbol,
    Where,
    symbols_in,
)
from inductor.ir.program import Buffer, ExternOp, LoopOp, Program, StridedView
from inductor.primitives import REDUCTIONS
from inductor.schedule.space import Dim, Index, Number, Remap, estimate, index_of, number, product, remap_index
from symshapes import SYMBOLIC, dataclass, facts_if_operator, require


@dataclass
class Member:
    """One loop of a group, by its position in the program."""

    at: int
    loop: LoopOp
    remap: Remap
    """The loop's own variables in terms of the group's."""


@dataclass
class Group:
    """Loops that run as one nest: for each point of `outer`, all of `inner`."""

    members: list[Member]
    outer: tuple[Dim, ...]
    inner: tuple[Dim, ...]
    loads: dict[str, dict[Index, None]]
    """Every index each buffer is read at, over the group's variables (as keys: their order is the same in every run)."""
    stores: dict[str, Index]
    opaque: set[str]
    """Written buffers that can't be read in the same kernel: scattered, accumulated or partly written."""
    copied: set[str]
    """Buffers copied as a whole before the kernel runs (`LoopOp.initial`)."""
    ops: int
    keep_inner_order: bool
    """A reduction yields a position, or there are scans, so the inner loops have to keep their order."""
    indirect: bool
    bits: int
    """The members' positions, as a bit set."""
    contracts: bool = False
    """Whether one of its members is a contraction."""
    directions: frozenset[bool] = frozenset()
    """Which ways its scans go: whether backward."""
    ahead: bool = False
    """It does nothing but check positions, which runs before all else."""
    totals: frozenset[str] = frozenset()
    """Written buffers that are sums over some of its outer dims (stores of mode "total")."""

    @property
    def device(self) -> torch.device:
        """The device that all its members run on."""
        return self.members[0].loop.device

    @property
    def order(self) -> int:
        """Position of the first member in the program."""
        return self.members[0].at

    @property
    def reads(self) -> set[str]:
        """Buffers that it reads."""
        return self.loads.keys() | self.copied

    @property
    def dims(self) -> tuple[Dim, ...]:
        """Its dimensions, outer before inner."""
        return self.outer + self.inner

    def variables(self) -> frozenset[Symbol]:
        """The variables of its loops."""
        return frozenset(d.var for d in self.dims)

    def points(self) -> tuple[Number, Number]:
        """Points of the outer and of the inner space."""
        return product(d.size for d in self.outer), product(d.size for d in self.inner)

    def remapped(self, remap: Remap, outer: tuple[Dim, ...], inner: tuple[Dim, ...]) -> Group:
        """The same loops over other variables."""
        variables = frozenset(d.var for d in (*outer, *inner))
        sizes = {d.var: d.size for d in (*outer, *inner)}

        def move(index: Index) -> Index:
            return remap_index(index, remap, variables, sizes)

        def compose(old: Remap) -> Remap:
            return {var: _compose(linear, remap) for var, linear in old.items()}

        return Group(
            members=[Member(m.at, m.loop, compose(m.remap)) for m in self.members],
            outer=outer,
            inner=inner,
            loads={name: {move(i): None for i in indices} for name, indices in self.loads.items()},
            stores={name: move(i) for name, i in self.stores.items()},
            opaque=self.opaque,
            copied=self.copied,
            ops=self.ops,
            keep_inner_order=self.keep_inner_order,
            indirect=self.indirect,
            bits=self.bits,
            contracts=self.contracts,
            directions=self.directions,
            ahead=self.ahead,
            totals=self.totals,
        )


def _compose(linear: Any, remap: Remap) -> Any:
    total: dict[Symbol, Number] = {}
    for var, coefficient in linear:
        for new, factor in remap.get(var, ((var, 1),)):
            total[new] = number(total.get(new, 0) + coefficient * factor)
    return tuple((v, c) for v, c in total.items() if c != 0)


@dataclass
class ExternNode:
    """A call of an ATen kernel."""

    at: int
    op: ExternOp
    reads: set[str]
    bits: int

    @property
    def order(self) -> int:
        """Its position in the program."""
        return self.at

    @property
    def writes(self) -> set[str]:
        """Buffers that the call's results are."""
        return {name for name in self.op.writes if name is not None}


Node = Group | ExternNode


def writes(node: Node) -> Iterable[str]:
    """Buffers that `node` fills."""
    return node.stores.keys() if isinstance(node, Group) else node.writes


def fresh_symbols(group: Group) -> Iterator[Symbol]:
    """Loop variables that `group` does not have. (Groups may share names: it is one group's that replace another's. That
    way equal layers of a model have equal index expressions, which sympy then computes once.)"""
    taken = group.variables()
    for at in count():
        symbol = _variable(at)
        if symbol not in taken:
            yield symbol


@cache
def _variable(at: int) -> Symbol:
    return sympy.Symbol(f"v{at}", integer=True, nonnegative=True)


def group_of(at: int, loop: LoopOp) -> Group:
    """A group of one loop, over the loop's variables."""
    loop = without_trivial_reductions(loop)
    body = loop.body
    outer = tuple(Dim(var, number(size)) for var, size in zip(body.outer_vars, loop.outer_sizes, strict=True))
    inner = tuple(Dim(var, number(size)) for var, size in zip(body.inner_vars, loop.inner_sizes, strict=True))
    variables = frozenset((*body.outer_vars, *body.inner_vars))
    indirects = set(body.indirects())

    loads: dict[str, dict[Index, None]] = {}
    stores: dict[str, Index] = {}
    opaque = {name for name, _ in loop.initial}
    for op in body.ops:
        match op:
            case Load(name, index):
                loads.setdefault(name, {})[_own(index_of(index, variables), indirects, at)] = None
            case Store(name, index, mode=mode):
                if mode is not None or name in stores or not indirects.isdisjoint(symbols_in(index)):
                    opaque.add(name)
                stores[name] = _own(index_of(index, variables), indirects, at)
    for name in loop.writes:
        if name not in stores:  # nothing but its initial content
            stores[name] = Index(frozenset(), 0)
            opaque.add(name)
    return Group(
        members=[Member(at, loop, {var: ((var, 1),) for var in variables})],
        outer=outer,
        inner=inner,
        loads=loads,
        stores=stores,
        opaque=opaque,
        copied={source for _, source in loop.initial},
        ops=len(body.ops),
        keep_inner_order=any(map(_needs_order, body.ops)),
        indirect=bool(indirects),
        bits=1 << at,
        contracts=contraction_of(body) is not None,
        directions=frozenset(op.backward for op in body.ops if isinstance(op, Scan)),
        ahead=_only_checks(body),
    )


def _only_checks(body: Body) -> bool:
    """Whether a loop does nothing but check positions, and leave them."""
    symbols = checked_symbols(body.ops)
    stored = [body.ops[store.value.at] for store in body.stores()]
    stored = [body.ops[value.value.at] if isinstance(value, Cast) else value for value in stored]
    left = [body.ops[value.then.at] if isinstance(value, Where) else value for value in stored]
    return bool(symbols) and all(isinstance(value, IndexExpr) and value.index in symbols for value in left)


def _needs_order(op: Op) -> bool:
    return isinstance(op, Scan) or (isinstance(op, Reduce) and REDUCTIONS[op.kind].finds_position)


def without_trivial_reductions(loop: LoopOp) -> LoopOp:
    """A loop that reduces over one element as one that reduces nothing: in a kernel with inner loops, its `reduce`s and scans
    would combine over those."""
    if any(size != 1 for size in loop.inner_sizes) or not any(isinstance(op, Reduce | Scan) for op in loop.body.ops):
        return loop
    zero = sympy.Integer(0)
    body = loop.body.substitute(dict.fromkeys(loop.body.inner_vars, zero), loop.body.outer_vars, ())
    ops: list[Op] = []
    place: list[Ref] = []
    for op in body.ops:
        op = op.with_operands(lambda ref: place[ref.at])
        if isinstance(op, Scan):
            place.append(op.value)
            continue
        if not isinstance(op, Reduce):
            ops.append(op)
            place.append(Ref(len(ops) - 1))
            continue
        dtype = ops[op.value.at].dtype
        if REDUCTIONS[op.kind].finds_position:
            ops.append(Constant(0, torch.int64))
        elif REDUCTIONS[op.kind].of_truth and dtype is not torch.bool:
            assert dtype is not None
            ops.append(Constant(0.0 if dtype.is_floating_point else 0, dtype))
            ops.append(Elementwise("ne", (op.value, Ref(len(ops) - 1)), torch.bool))
        else:
            place.append(op.value)
            continue
        place.append(Ref(len(ops) - 1))
    return replace(loop, inner_sizes=(), body=Body(body.outer_vars, (), tuple(ops)))


def _own(index: Index, indirects: set[Symbol], at: int) -> Index:
    """Indices that hold values read from memory are like no other loop's: their symbols get the loop's number."""
    if isinstance(index.rest, int) or not indirects or indirects.isdisjoint(index.rest.free_symbols):
        return index
    return Index(index.coefficients, index.rest.xreplace({s: sympy.Symbol(f"{s}_of_{at}") for s in indirects}))


@dataclass
class Graph:
    """All nodes, and who writes and reads each buffer."""

    program: Program
    nodes: list[Node]
    operations: list[LoopOp | ExternOp]
    """The program's, but for dead ones. Positions everywhere are positions in this list."""
    kept: set[str]
    """Buffers that outlive the graph: outputs."""
    given: frozenset[str]
    """Inputs that nobody else holds, as what a forward saved."""
    users: dict[str, int] = field(default_factory=dict)
    """Per buffer a bit set of the program positions that read it."""
    writer: dict[str, int] = field(default_factory=dict)
    """Per buffer the position of what fills it."""
    before: dict[int, int] = field(default_factory=dict)
    """Per position a bit set of earlier positions it has to stay behind without reading from them (random calls)."""

    def ends(self, name: str) -> bool:
        """Whether a buffer's memory is free behind its last reader."""
        return (name in self.writer or name in self.given) and name not in self.kept

    def bytes(self, name: str) -> int:
        """Estimated size of a buffer in memory."""
        return buffer_bytes(self.program.buffers[name])


def private_inputs(program: Program) -> frozenset[str]:
    """The buffers of inputs that nobody else holds (`Program.private_inputs`)."""
    given = (program.inputs[at] for at in program.private_inputs)
    return frozenset(name for name in given if isinstance(name, str))


def buffer_bytes(buffer: Buffer) -> int:
    """Estimated size in memory."""
    total = buffer.dtype.itemsize
    for size in buffer.size:
        total *= estimate(number(size))
    return total


def build(program: Program) -> Graph:
    """Nodes and dependencies of a program. What nothing needs has no effect on the others and is left out."""
    alive = live(program)
    kept = {out.buffer for out in program.outputs if isinstance(out, StridedView)}
    graph = Graph(program, [], [], kept, private_inputs(program) - kept)
    chained = 0
    touched: dict[str, int] = {}
    scalars: dict[str, int] = {}
    barrier = 0
    mentioned = symbol_names([[b.size, b.stride] for b in program.buffers.values()])
    for at, op in enumerate(op for op, needed in zip(program.operations, alive, strict=True) if needed):
        graph.operations.append(op)
        node: Node
        if isinstance(op, LoopOp):
            node = group_of(at, op)
        else:
            node = ExternNode(at, op, {view.buffer for view in views(op)}, 1 << at)
            if ordered(op):
                graph.before[at] = chained
                chained = 1 << at
            for name in mutated(op):
                # Behind everything that saw the old content; and everything later that sees the buffer stays behind it.
                graph.before[at] = graph.before.get(at, 0) | touched.get(name, 0)
                graph.writer[name] = at
        graph.nodes.append(node)
        if scalars:
            # A place in a buffer may be there if its size is, which the place need not name.
            sizes = [program.buffers[name].size for name in node.reads if name in program.buffers]
            for name in (symbols_of(op, program) | symbol_names(sizes)) & scalars.keys():
                graph.before[at] = graph.before.get(at, 0) | scalars[name]
        graph.before[at] = graph.before.get(at, 0) | barrier
        if isinstance(op, ExternOp):
            scalars.update(dict.fromkeys(op.scalar_writes, 1 << at))
            if op.target is require:
                # What relies on the check comes behind it: what has its symbols, all else where they may have been put in.
                for name in symbols_of(op, program):
                    scalars[name] = scalars.get(name, 0) | 1 << at
                if op.args[0].has(sympy.Eq) or not all(name in mentioned for name in symbols_of(op, program)):
                    barrier |= 1 << at
        for name in node.reads:
            graph.users[name] = graph.users.get(name, 0) | 1 << at
            touched[name] = touched.get(name, 0) | 1 << at
            if (writer := graph.writer.get(name, at)) != at:
                graph.before[at] = graph.before.get(at, 0) | 1 << writer
        for name in writes(node):
            graph.writer[name] = at
            touched[name] = touched.get(name, 0) | 1 << at
    return graph


def live(program: Program) -> list[bool]:
    """For each operation whether an output, or an effect, needs it."""
    wanted = {out.buffer for out in program.outputs if isinstance(out, StridedView)}
    result = [False] * len(program.operations)
    for at in range(len(program.operations) - 1, -1, -1):
        op = program.operations[at]
        effect = isinstance(op, ExternOp) and (ordered(op) or op.scalar_writes or any(True for _ in mutated(op)))
        if effect or not wanted.isdisjoint(op.writes):
            result[at] = True
            if isinstance(op, LoopOp):
                wanted.update(load.buffer for load in op.body.loads())
                wanted.update(source for _, source in op.initial)
            else:
                wanted.update(view.buffer for view in views(op))
    return result


def symbols_of(op: LoopOp | ExternOp, program: Program) -> set[str]:
    """Names of all symbols that running `op` needs a value for."""
    todo: list[Any] = [program.buffers[name].size + program.buffers[name].stride for name in op.writes if name]
    if isinstance(op, LoopOp):
        todo += [op.outer_sizes, op.inner_sizes, *(e for o in op.body.ops for e in o.symbols())]
    else:
        todo += [op.args, op.kwargs]
    return symbol_names(todo)


def symbol_names(value: Any) -> set[str]:
    """Names of the symbols in a nest of expressions, SymInts and SymFloats, views, lists and dicts."""
    found: set[str] = set()
    todo = [value]
    while todo:
        value = todo.pop()
        if isinstance(value, SYMBOLIC):
            value = value.node.expr
        if isinstance(value, sympy.Basic):
            if not value.is_Number:
                found |= _names(value)
        elif isinstance(value, StridedView):
            todo += [value.size, value.stride, value.offset]
        elif isinstance(value, dict):
            todo.extend(value.values())
        elif isinstance(value, list | tuple):
            todo.extend(value)
    return found


@lru_cache(maxsize=1 << 14)
def _names(expr: Expr) -> frozenset[str]:
    return frozenset(s.name for s in expr.free_symbols)


def views(op: ExternOp) -> Iterator[StridedView]:
    """The tensor arguments."""
    todo: list[Any] = [op.args, op.kwargs]
    while todo:
        value = todo.pop()
        if isinstance(value, StridedView):
            yield value
        elif isinstance(value, dict):
            todo.extend(value.values())
        elif isinstance(value, list | tuple):
            todo.extend(value)


def ordered(op: ExternOp) -> bool:
    """Whether calls of this kind keep their order among themselves: they draw random numbers, or have effects that
    their results do not show."""
    facts = facts_if_operator(op.target)
    return facts is None or facts.random or not facts.returns_written


def mutated(op: ExternOp) -> Iterator[str]:
    """Buffers whose content the call changes."""
    facts = facts_if_operator(op.target)
    for argument in () if facts is None else facts.written:
        value = argument.of(op.args, op.kwargs)
        for one in value if isinstance(value, list | tuple) else (value,):
            if isinstance(one, StridedView):
                yield one.buffer
