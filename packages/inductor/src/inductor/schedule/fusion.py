"""Fusion: which loops become one kernel.

Flows in: `Graph`. Flows out: its nodes, fewer. Pairs that share a buffer are taken from a queue by the bytes of traffic
that fusing them saves; a fused pair goes back in with its neighbours. Two groups fuse if one iteration space can be
mapped onto the other such that whatever the later one reads of the earlier one it reads at the very point that wrote it.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import TypeGuard

import torch

from inductor.ir.operations import Reduce, Symbol
from inductor.levels import split
from inductor.options import Options
from inductor.schedule.merge import merge
from inductor.schedule.nodes import ExternNode, Graph, Group, Node, fresh_symbols
from inductor.schedule.space import Alignment, Dim, Index, Linear, align, estimate
from inductor.schedule.totals import as_totals, keeps_totals, reduces_rows
from inductor.traits import DeviceTraits, TraitsOf
from symshapes import dataclass

_NEIGHBOURS = 6
"""Readers of one buffer before and after a node that are tried for horizontal fusion."""


@dataclass
class Mapping:
    """How `other`'s variables become the frame's, and the frame's own where dims were split."""

    frame: dict[Symbol, Linear]
    other: dict[Symbol, Linear]
    outer: tuple[Dim, ...]
    inner: tuple[Dim, ...]
    splits: bool


def can_fuse(first: Group, second: Group, options: Options, traits: TraitsOf) -> Group | None:
    """The group of both, or None. `first` must not read from `second`; paths through third nodes are the caller's check."""
    if first.device != second.device or first.ahead != second.ahead:
        return None
    if first.ops + second.ops > options.max_kernel_ops:
        return None
    if len(first.loads.keys() | second.loads.keys() | first.stores.keys() | second.stores.keys()) > (
        options.max_kernel_buffers
    ):
        return None
    if len(first.directions | second.directions) > 1:
        return None  # a walk goes one way
    passed_on = first.stores.keys() & second.reads
    blocked = (first.contracts or second.contracts) and bool(traits(first.device).contractions)
    if blocked and (second.contracts or second.inner or second.opaque or not passed_on):
        # By blocks runs a product of matrices, and then what is made of each sum and stored at a place of its own.
        return None
    if not passed_on.isdisjoint(first.opaque) or not first.stores.keys().isdisjoint(second.copied):
        return None
    if not second.stores.keys().isdisjoint(first.copied):
        return None
    frame, other = (second, first) if second.inner and not first.inner else (first, second)
    shared = passed_on or (first.loads.keys() & second.loads.keys())
    for mapping in _mappings(frame, other, shared):
        if blocked and mapping.splits:
            continue
        moved_frame = frame.remapped(mapping.frame, mapping.outer, mapping.inner) if mapping.splits else frame
        moved_other = other.remapped(mapping.other, mapping.outer, mapping.inner)
        one, two = (moved_frame, moved_other) if frame is first else (moved_other, moved_frame)
        if passed_on:
            if not all(two.loads[name].keys() == {one.stores[name]} for name in passed_on):
                continue
            if blocked and not _walks_along(one, two):
                continue
        elif not _same_loops(frame, other) and all(
            one.loads[name].keys().isdisjoint(two.loads[name]) for name in shared
        ):
            continue
        group = _join(one, two, mapping.outer, mapping.inner)
        if group.totals and not keeps_totals(group):
            continue
        if _serial(group, options) and (
            passes(group) > max(passes(first), passes(second)) or not _rows_are_shared(group, traits(group.device))
        ):
            continue
        return group
    return None


def _same_loops(one: Group, two: Group) -> bool:
    """Whether both have the same loops, and walk through memory along the same one: then one launch for both is worth it,
    even where they read different memory."""
    sizes = ([d.size for d in group.outer] + [0] + [d.size for d in group.inner] for group in (one, two))
    return next(sizes) == next(sizes) and _contiguous(one) == _contiguous(two)


def _walks_along(product: Group, reader: Group) -> bool:
    """Whether what is made of a product's sums goes through memory as its results do. Blocks end in vectors of columns: rows of a
    few lanes, far apart, are slower than turning all around in tiles of a loop of its own."""
    columns = {var for index in product.stores.values() for var, stride in index.coefficients if stride == 1}
    indices = (*reader.stores.values(), *(index for indices in reader.loads.values() for index in indices))
    return all(stride == 1 for index in indices for var, stride in index.coefficients if var in columns)


def _contiguous(group: Group) -> int | None:
    """Which of the group's dims most traffic is contiguous in; None if none is."""
    sizes = {d.var: estimate(d.size) for d in group.dims}
    votes: dict[Symbol, int] = {}
    for index in (*group.stores.values(), *(i for indices in group.loads.values() for i in indices)):
        elements = math.prod(sizes[var] for var, _ in index.coefficients)
        for var, stride in index.coefficients:
            if stride == 1:
                votes[var] = votes.get(var, 0) + elements
    return max(((votes[var], place) for place, var in enumerate(sizes) if var in votes), default=(0, None))[1]


def _is_of_columns(group: Group) -> bool:
    """Whether a group reduces what lies beside each other in memory for different outer points."""
    place = _contiguous(group)
    return bool(group.inner) and place is not None and place < len(group.outer)


def _serial(group: Group, options: Options) -> bool:
    rows, row = (estimate(p) for p in group.points())
    return row > options.max_serial_row and rows < options.min_rows


def _rows_are_shared(group: Group, traits: DeviceTraits) -> bool:
    """Whether the device's processors can work on one row together. On some only on reductions, which are split before, and on
    scans alone; another loop that stores each element would come down to one processor a row."""
    inner = {d.var for d in group.inner}
    reduces = any(isinstance(op, Reduce) for member in group.members for op in member.loop.body.ops)
    return (
        traits.shares_rows
        or (bool(group.directions) and not reduces)
        or all(var not in inner for index in group.stores.values() for var, _ in index.coefficients)
    )


def passes(group: Group) -> int:
    """Walks over the inner space that the group's kernel would need."""
    return len(split(merge(group, lambda name: torch.float32)).passes)


def _join(one: Group, two: Group, outer: tuple[Dim, ...], inner: tuple[Dim, ...]) -> Group:
    loads = {name: dict(indices) for name, indices in one.loads.items()}
    for name, indices in two.loads.items():
        if name not in one.stores:  # else it is handed on without a load
            loads.setdefault(name, {}).update(indices)
    return Group(
        # Program order is an order of dependence.
        members=sorted([*one.members, *two.members], key=lambda member: member.at),
        outer=outer,
        inner=inner,
        loads=loads,
        stores={**one.stores, **two.stores},
        opaque=one.opaque | two.opaque,
        copied=one.copied | two.copied,
        ops=one.ops + two.ops,
        keep_inner_order=one.keep_inner_order or two.keep_inner_order,
        indirect=one.indirect or two.indirect,
        bits=one.bits | two.bits,
        contracts=one.contracts or two.contracts,
        directions=one.directions | two.directions,
        ahead=one.ahead and two.ahead,
        totals=one.totals | two.totals,
    )


def _mappings(frame: Group, other: Group, shared: set[str]) -> Iterator[Mapping]:
    """Candidate correspondences of the two spaces: loops as they are, then loops ordered by stride in a shared buffer."""
    for order_frame, order_other in _orders(frame, other, shared):
        if not other.inner:
            # `other` walks over all points, or only over the outer ones.
            if frame.inner:
                mapping = _map_flat(frame, frame.outer, other, order_frame, order_other)
                if mapping is not None:
                    yield mapping
            mapping = _map_flat(frame, frame.dims, other, order_frame, order_other)
            if mapping is not None:
                yield mapping
        else:
            mapping = _map_nested(frame, other, order_frame, order_other)
            if mapping is not None:
                yield mapping


Order = Callable[[Sequence[Dim]], list[Dim]]


def _orders(frame: Group, other: Group, shared: set[str]) -> Iterator[tuple[Order, Order]]:
    yield list, list
    tried: set[tuple[tuple[Symbol, ...], tuple[Symbol, ...]]] = {
        (tuple(d.var for d in frame.dims), tuple(d.var for d in other.dims))
    }
    for name in sorted(shared)[:4]:
        for index_frame in _indices(frame, name):
            for index_other in _indices(other, name):
                by_frame, by_other = _by_stride(index_frame), _by_stride(index_other)
                key = (
                    tuple(d.var for d in by_frame(frame.dims)),
                    tuple(d.var for d in by_other(other.dims)),
                )
                if key not in tried:
                    tried.add(key)
                    yield by_frame, by_other


def _indices(group: Group, name: str) -> list[Index]:
    if name in group.stores:
        return [group.stores[name]]
    return list(group.loads.get(name, ()))[:2]


def _by_stride(index: Index) -> Order:
    strides = dict(index.coefficients)

    def order(dims: Sequence[Dim]) -> list[Dim]:
        return sorted(dims, key=lambda d: -abs(estimate(strides.get(d.var, 0))))

    return order


def _map_flat(
    frame: Group, dims: Sequence[Dim], other: Group, order_frame: Order, order_other: Order
) -> Mapping | None:
    alignment = align(order_frame(dims), order_other(other.dims), fresh_symbols(frame))
    if alignment is None:
        return None
    pieces = _pieces(order_frame(dims), alignment)
    remap = {**_identity(frame.dims), **alignment.frame}
    return Mapping(
        remap,
        {**{d.var: () for d in other.dims}, **alignment.other},
        tuple(p for d in frame.outer for p in pieces.get(d.var, (d,))),
        tuple(p for d in frame.inner for p in pieces.get(d.var, (d,))),
        alignment.splits,
    )


def _map_nested(frame: Group, other: Group, order_frame: Order, order_other: Order) -> Mapping | None:
    """Two reductions: outer loops onto outer loops, inner onto inner."""
    names = fresh_symbols(frame)
    outer = align(order_frame(frame.outer), order_other(other.outer), names)
    if outer is None:
        return None
    frame_inner, other_inner = order_frame(frame.inner), order_other(other.inner)
    moved = frame_inner != list(frame.inner) or other_inner != list(other.inner)
    if moved and (frame.keep_inner_order or other.keep_inner_order):
        return None
    inner = align(frame_inner, other_inner, names)
    if inner is None:
        return None
    pieces = {**_pieces(order_frame(frame.outer), outer), **_pieces(frame_inner, inner)}
    return Mapping(
        {**outer.frame, **inner.frame},
        {**{d.var: () for d in other.dims}, **outer.other, **inner.other},
        tuple(p for d in frame.outer for p in pieces[d.var]),
        tuple(p for d in frame.inner for p in pieces[d.var]),
        outer.splits or inner.splits,
    )


def _pieces(dims: Sequence[Dim], alignment: Alignment) -> dict[Symbol, tuple[Dim, ...]]:
    return {dim.var: piece for dim, piece in zip(dims, alignment.pieces, strict=True)}


def _identity(dims: Sequence[Dim]) -> dict[Symbol, Linear]:
    return {d.var: ((d.var, 1),) for d in dims}


def score_fusion(graph: Graph, first: Group, second: Group) -> int:
    """Estimated bytes of memory traffic saved if `first` (earlier) and `second` ran as one kernel."""
    saved = 0
    both = first.bits | second.bits
    for name in first.stores.keys() & second.loads.keys():
        size = graph.bytes(name)
        saved += size
        if name not in graph.kept and not graph.users.get(name, 0) & ~both:
            saved += size
    for name in first.loads.keys() & second.loads.keys():
        saved += graph.bytes(name)
    return saved


class Fuser:
    """The queue of candidate pairs and the groups so far."""

    def __init__(self, graph: Graph, options: Options, traits: TraitsOf) -> None:
        self.graph = graph
        self.totals = False
        """Whether sums over columns may become totals of kernels of rows."""
        self.options = options
        self.traits = traits
        self.nodes: dict[int, Node] = dict(enumerate(graph.nodes))
        self.readers: dict[str, list[int]] = {}
        self.home: dict[int, int] = {at: at for at in self.nodes}
        """Program position to the id of the node that holds it."""
        self.behind: dict[int, int] = {}
        """Node id to the bit set of positions that have to run before it, directly or not."""
        self.direct: dict[int, int] = {}
        self._queue: list[tuple[int, int, int, int]] = []
        self._next = len(graph.nodes)
        for at, node in self.nodes.items():
            direct = graph.before.get(at, 0)
            self.direct[at] = direct
            self.behind[at] = direct | self._union(direct)
            for name in node.reads:
                self.readers.setdefault(name, []).append(at)

    def _union(self, bits: int) -> int:
        result = 0
        for at in _positions(bits):
            result |= self.behind[self.home[at]]
        return result

    def run(self) -> list[Node]:
        """Fuse the best pair until none is left. Returns the nodes by their place in the program."""
        self._drain(list(self.nodes))
        # Only what is left: sums over columns had better be part of what is no kernel of rows without them.
        self.totals = True
        self._drain([key for key, node in self.nodes.items() if self._keeps_totals(node) and _is_of_columns(node)])
        return sorted(self.nodes.values(), key=lambda node: node.order)

    def _keeps_totals(self, node: Node) -> TypeGuard[Group]:
        return isinstance(node, Group) and self.traits(node.device).keeps_totals

    def _drain(self, keys: Sequence[int]) -> None:
        """Fuse what begins with these nodes."""
        for key in keys:
            if key in self.nodes:
                self._push_neighbours(key)
        while self._queue:
            _, _, a, b = heapq.heappop(self._queue)
            if a in self.nodes and b in self.nodes:
                self._try(a, b)

    def _push_neighbours(self, key: int) -> None:
        node = self.nodes[key]
        if isinstance(node, ExternNode):
            return
        found: set[int] = set()
        for name in node.loads:
            writer = self.graph.writer.get(name)
            if writer is not None:
                found.add(self.home[writer])
        for name in node.stores:
            found.update(self.home[at] for at in self.readers.get(name, ()))
        if self.options.horizontal:
            for name in node.loads:
                found.update(self._near(name, node.order))
                writer = self.graph.writer.get(name)
                sibling = None if writer is None else self.nodes[self.home[writer]]
                if isinstance(sibling, Group):
                    for other_name in sibling.stores:
                        found.update(self._near(other_name, node.order))
            if node.inner:
                found |= self._beside(node)
            self._push_siblings(node)
        for other in found:
            self._push(key, other)

    def _beside(self, node: Group) -> set[int]:
        """For sums over what some kernel is made of those over what it makes, and the other way around. Only what inputs and externs
        give counts as what it is made of: beside sums over what a kernel before made others would have to wait, and memory with them.
        No more do sums wait over an input that gets a new content: it could not be written into the input's memory before."""
        found: set[int] = set()
        replaced = set(self.graph.program.written.values())
        for name in node.loads:
            writer = self.graph.writer.get(name)
            source = None if writer is None else self.nodes[self.home[writer]]
            if isinstance(source, Group):
                given = [each for each in source.loads if not self._is_made_by_loops(each) and each not in replaced]
            elif name in replaced:
                continue
            else:
                readers = (self.nodes[key] for key in self._near(name, node.order))
                given = [each for one in readers if isinstance(one, Group) for each in one.stores]
            for each in given:
                found.update(self._near(each, node.order))
        return {key for key in found if isinstance(other := self.nodes[key], Group) and _same_loops(node, other)}

    def _is_made_by_loops(self, name: str) -> bool:
        writer = self.graph.writer.get(name)
        return writer is not None and isinstance(self.nodes[self.home[writer]], Group)

    def _push_siblings(self, node: Group) -> None:
        """Pairs of those that read from `node`."""
        readers = {self.home[at] for name in node.stores for at in self.readers.get(name, ())[: 2 * _NEIGHBOURS]}
        ordered = sorted(readers, key=lambda key: self.nodes[key].order)
        for a, b in pairwise(ordered):
            self._push(a, b)

    def _push(self, a: int, b: int) -> None:
        """Queue a pair, if there is anything to gain."""
        one, two = self.nodes[a], self.nodes[b]
        if a == b or isinstance(one, ExternNode) or isinstance(two, ExternNode):
            return
        score = score_fusion(self.graph, *self._in_order(a, b))
        if score > 0 or _same_loops(one, two):
            heapq.heappush(self._queue, (-score, abs(one.order - two.order), min(a, b), max(a, b)))

    def _near(self, name: str, order: int) -> set[int]:
        """Nodes next to `order` among those that read the buffer."""
        readers = self.readers.get(name, [])
        if len(readers) > 2 * _NEIGHBOURS:
            at = next((k for k, reader in enumerate(readers) if reader >= order), len(readers))
            readers = readers[max(0, at - _NEIGHBOURS) : at + _NEIGHBOURS + 1]
        return {self.home[at] for at in readers}

    def _in_order(self, a: int, b: int) -> tuple[Group, Group]:
        first, second = self.nodes[a], self.nodes[b]
        assert isinstance(first, Group) and isinstance(second, Group)
        if self.behind[a] & second.bits or (not self.behind[b] & first.bits and second.order < first.order):
            return second, first
        return first, second

    def _with_totals(self, first: Group, second: Group) -> Group | None:
        """The group of sums over columns and of what reduces the rows."""
        for columns, rows in ((second, first), (first, second)):
            totals = as_totals(columns) if _is_of_columns(columns) and reduces_rows(rows) else None
            if totals is not None:
                pair = (first, totals) if columns is second else (totals, second)
                group = can_fuse(*pair, self.options, self.traits)
                if group is not None:
                    return group
        return None

    def _try(self, a: int, b: int) -> None:
        first, second = self._in_order(a, b)
        if first is self.nodes[b]:
            a, b = b, a
        # A path from first to second through a third node would become a cycle.
        for at in _positions(self.direct[b] & ~first.bits):
            if self.behind[self.home[at]] & first.bits:
                return
        group = can_fuse(first, second, self.options, self.traits)
        if group is None and self.totals and self._keeps_totals(first):
            group = self._with_totals(first, second)
        if group is None:
            return
        key, self._next = self._next, self._next + 1
        for old in (a, b):
            del self.nodes[old]
        self.nodes[key] = group
        for at in _positions(group.bits):
            self.home[at] = key
        self.direct[key] = (self.direct[a] | self.direct[b]) & ~group.bits
        self.behind[key] = (self.behind[a] | self.behind[b]) & ~group.bits
        # Everything behind a part is now behind all of it, and behind what that was behind.
        more = self.behind[key] | group.bits
        for other in self.nodes:
            if self.behind[other] & group.bits:
                self.behind[other] |= more
        self._push_neighbours(key)


def _positions(bits: int) -> Iterator[int]:
    while bits:
        low = bits & -bits
        yield low.bit_length() - 1
        bits ^= low


def fuse(graph: Graph, options: Options, traits: TraitsOf) -> list[Node]:
    """The graph's nodes with loops fused, in program order of their first members (not yet an order to run in)."""
    if not options.fuse:
        return list(graph.nodes)
    return Fuser(graph, options, traits).run()
