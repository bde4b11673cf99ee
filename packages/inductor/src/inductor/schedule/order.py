"""The order kernels and extern calls run in.

Flows in: fused nodes. Flows out: the same nodes so that each runs after what it needs, in program order or, where that
keeps less memory alive at the worst moment, with what frees memory first and large results behind that moment.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Collection, Sequence

from inductor.ir.program import LoopOp, StridedView
from inductor.schedule.nodes import Graph, Node, writes

Rank = Callable[[int], tuple[int, ...]]

_ROUNDS = 16
"""How often results are moved behind what is the worst moment then: each time takes as long as all nodes, and there may be as many worst
moments, one after the other a little better."""


def order(graph: Graph, nodes: Sequence[Node]) -> list[Node]:
    """Topological order of `nodes`."""
    needs, users = dependencies(graph, nodes)
    plain = _topological(nodes, needs, users, lambda key: (nodes[key].order,))
    if len(nodes) < 3:
        return plain
    shrinking, smallest = (_greedy(graph, nodes, needs, users, rank) for rank in (_shrinking, _smallest))
    # The worst moment is better than its estimate where memory is taken over, and another one may be worse then: of the two orders that
    # differ little, where they tie, the one in which less is alive at all moments together.
    orders = plain, shrinking, smallest
    live = [_alive_in_turn(graph, each) for each in orders]
    found = [(max(each), sum(each)) for each in live]
    chosen = 1 if found[1] < found[0] else 0
    chosen = 2 if found[2][0] < found[chosen][0] else chosen
    free = {node.order for node, behind in zip(nodes, users, strict=True) if not behind}
    return _late(graph, orders[chosen], live[chosen], free)


def _late(graph: Graph, nodes: list[Node], live: list[int], free: Collection[int]) -> list[Node]:
    """The same order, but for results that are larger than what only they are made of from here on: those come behind the worst moment, as
    gradients of weights that a backward could compute at once.

    Args:
        live: bytes that are alive at each moment.
        free: positions in the program of those nodes that nothing waits for.
    """
    for _ in range(_ROUNDS):
        worst = max(live)
        at = len(live) - 1 - live[::-1].index(worst)
        read_last = {name: moment for moment, node in enumerate(nodes) for name in node.reads}
        moved: list[Node] = []
        for node in nodes[:at]:
            if node.order in free:
                made = sum(graph.bytes(name) for name in writes(node) if name in graph.kept)
                held = sum(graph.bytes(name) for name in node.reads if graph.ends(name) and read_last[name] < at)
                moved += [node] * (made > held)
        places = {node.order for node in moved}
        others = [node for node in nodes if node.order not in places]
        behind = at + 1 - len(moved)
        other = [*others[:behind], *moved, *others[behind:]]
        then = _alive_in_turn(graph, other)
        if max(then) >= worst:
            break
        nodes, live = other, then
    return nodes


def _alive_in_turn(graph: Graph, nodes: Sequence[Node]) -> list[int]:
    """Bytes that are alive at each moment where one node runs after the other."""
    return alive(graph, [[node] for node in nodes])


def dependencies(graph: Graph, nodes: Sequence[Node]) -> tuple[list[set[int]], list[set[int]]]:
    """For each node the places of those that have to run before it, and of those that have to run behind it."""
    home = {at: key for key, node in enumerate(nodes) for at in _positions(node.bits)}
    needs: list[set[int]] = []
    users: list[set[int]] = [set() for _ in nodes]
    for key, node in enumerate(nodes):
        mine = {home[earlier] for at in _positions(node.bits) for earlier in _positions(graph.before.get(at, 0))} - {
            key
        }
        needs.append(mine)
        for other in mine:
            users[other].add(key)
    _overwrite_last(graph, nodes, needs, users)
    return needs, users


def _overwrite_last(graph: Graph, nodes: Sequence[Node], needs: Sequence[set[int]], users: Sequence[set[int]]) -> None:
    """Put what reads an input before what may write to its memory (`Program.written`), where that needs no result of it."""
    writer = {name: key for key, node in enumerate(nodes) for name in writes(node)}
    for at, given in graph.program.written.items():
        result = graph.program.outputs[at]
        assert isinstance(result, StridedView)
        first = _first_of(graph, result.buffer)
        if first not in writer:
            continue
        home = writer[first]
        readers = {key for key, node in enumerate(nodes) if given in node.reads} - {home}
        if not readers - needs[home] or not readers.isdisjoint(_behind(home, users)):
            continue
        needs[home].update(readers)
        for key in readers:
            users[key].add(home)


def _first_of(graph: Graph, name: str) -> str:
    """The buffer that begins what `name` is, with a few elements changed by each of the calls in between."""
    while True:
        at = graph.writer.get(name)
        op = None if at is None else graph.operations[at]
        source = dict(op.initial).get(name) if isinstance(op, LoopOp) else None
        if source is None or source not in graph.writer:
            return name
        name = source


def _behind(start: int, users: Sequence[set[int]]) -> set[int]:
    """All that has to run after a node."""
    found, todo = set[int](), [start]
    while todo:
        new = users[todo.pop()] - found
        found |= new
        todo += new
    return found


def _topological(nodes: Sequence[Node], needs: Sequence[set[int]], users: Sequence[set[int]], rank: Rank) -> list[Node]:
    waiting = [len(n) for n in needs]
    ready = [(rank(key), key) for key, count in enumerate(waiting) if count == 0]
    heapq.heapify(ready)
    result: list[Node] = []
    while ready:
        _, key = heapq.heappop(ready)
        result.append(nodes[key])
        for user in users[key]:
            waiting[user] -= 1
            if waiting[user] == 0:
                heapq.heappush(ready, (rank(user), user))
    assert len(result) == len(nodes), "fusion made a cycle"
    return result


def _shrinking(growth: int) -> int:
    """What leaves less than it found goes first."""
    return int(growth >= 0)


def _smallest(growth: int) -> int:
    """What grows it least goes first."""
    return max(growth, 0)


def _greedy(
    graph: Graph,
    nodes: Sequence[Node],
    needs: Sequence[set[int]],
    users: Sequence[set[int]],
    rank: Callable[[int], int],
) -> list[Node]:
    """Of what is ready the first by how live memory grows, of bytes, as `rank` sees it, comes first; ties in program order. The growth is
    judged when a node becomes ready."""
    left = dict(_reader_counts(nodes))

    def growth(key: int) -> tuple[int, ...]:
        node = nodes[key]
        grown = sum(graph.bytes(name) for name in writes(node) if left.get(name) or name in graph.kept)
        freed = sum(graph.bytes(name) for name in node.reads if left[name] == 1 and graph.ends(name))
        return (rank(grown - freed), node.order)

    waiting = [len(n) for n in needs]
    ready = [(growth(key), key) for key, count in enumerate(waiting) if count == 0]
    heapq.heapify(ready)
    result: list[Node] = []
    while ready:
        _, key = heapq.heappop(ready)
        result.append(nodes[key])
        for name in nodes[key].reads:
            left[name] -= 1
        for user in users[key]:
            waiting[user] -= 1
            if waiting[user] == 0:
                heapq.heappush(ready, (growth(user), user))
    return result


def _reader_counts(nodes: Sequence[Node]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for node in nodes:
        for name in node.reads:
            counts[name] = counts.get(name, 0) + 1
    return counts


def alive(graph: Graph, moments: Sequence[Sequence[Node]]) -> list[int]:
    """Estimated bytes of intermediate buffers and results there are at each moment, in this order, with what the graph alone is given; nodes of
    one run at the same time."""
    left = _reader_counts([node for moment in moments for node in moment])
    live, found = sum(graph.bytes(name) for name in graph.given if name in left), []
    for moment in moments:
        filled = (name for node in moment for name in writes(node))
        live += sum(graph.bytes(name) for name in filled if name in graph.kept or left.get(name))
        found.append(live)
        for node in moment:
            for name in node.reads:
                left[name] -= 1
                if left[name] == 0 and graph.ends(name):
                    live -= graph.bytes(name)
    return found


def _positions(bits: int) -> list[int]:
    found = []
    while bits:
        low = bits & -bits
        found.append(low.bit_length() - 1)
        bits ^= low
    return found
