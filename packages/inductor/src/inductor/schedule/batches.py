"""Kernels that need not wait for each other come one behind the other, so that one launch can run them.

Flows in: fused nodes in the order they run. Flows out: the same nodes in batches. A node comes earlier or later for the sake of its
batch, as long as no more memory to speak of is alive at the worst moment.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from inductor.ir.body import checks_positions
from inductor.schedule.nodes import Graph, Group, Node
from inductor.schedule.order import alive, dependencies
from inductor.traits import TraitsOf

REACHES = (64, 8)
"""After so many nodes that don't belong to a batch no more of it are looked for; after fewer if it would need more memory."""
NEGLIGIBLE = 1 << 20
"""Bytes."""
MOST_REFUSED = 16
"""Of a graph's batches that need more memory; then no more are tried."""


def in_batches(graph: Graph, nodes: Sequence[Node], traits: TraitsOf) -> list[list[int]]:
    """The nodes' positions, each in its batch, in the order that these run; most are alone.

    Args:
        traits: those that say from how many kernels on a device gains by a batch (`DeviceTraits.joins`).
    """
    devices = {node.device for node in nodes if isinstance(node, Group)}
    least = {device: traits(device).joins for device in devices}
    rest = list(range(len(nodes)))
    if not any(least.values()):
        return [[at] for at in rest]
    needs, _ = dependencies(graph, nodes)
    most = max(alive(graph, [[node] for node in nodes]))
    refused = 0
    found: list[list[int]] = []
    while rest:
        node = nodes[rest[0]]
        parts = None
        count = least[node.device] if isinstance(node, Group) and _joins(node) else None
        for reach in REACHES if count is not None and refused < MOST_REFUSED else ():
            around = _around(rest, nodes, needs, reach)
            if count is None or len(around.batch) < count:
                break
            order = [*found, *_alone(around.before), around.batch, *_alone(around.behind)]
            if max(alive(graph, [[nodes[at] for at in batch] for batch in order])) <= most + NEGLIGIBLE:
                parts = around
                break
            refused += 1
        if parts is None:
            found.append([rest.pop(0)])
        else:
            found += [*_alone(parts.before), parts.batch]
            rest = parts.behind
    return found


def _alone(nodes: Sequence[int]) -> list[list[int]]:
    return [[at] for at in nodes]


def _joins(node: Group) -> bool:
    """Not what checks positions: it may be waited for while later kernels run. What keeps totals has few programs, which are all there is room for."""
    return (
        not node.contracts
        and not node.totals
        and not any(checks_positions(member.loop.body.ops) for member in node.members)
    )


class _Around(NamedTuple):
    """A batch, and the nodes that run before it and behind it."""

    before: list[int]
    batch: list[int]
    behind: list[int]


def _around(rest: Sequence[int], nodes: Sequence[Node], needs: Sequence[set[int]], reach: int) -> _Around:
    """The first node of `rest` with those that can run at the same time: none of them waits for another one, also not by way of
    others. What does not wait for the batch runs before it."""
    first = nodes[rest[0]]
    assert isinstance(first, Group)
    around = _Around([], [], [])
    waits: set[int] = set()
    """For the batch; and the batch itself."""
    last = idle = 0
    for place, at in enumerate(rest):
        node = nodes[at]
        if not needs[at].isdisjoint(waits):
            waits.add(at)
        elif isinstance(node, Group) and node.device == first.device and _joins(node):
            waits.add(at)
            around.batch.append(at)
            last, idle = place, 0
            continue
        idle += 1
        if idle == reach:
            break
    batch = set(around.batch)
    for at in rest[: last + 1]:
        if at not in batch:
            (around.behind if at in waits else around.before).append(at)
    around.behind.extend(rest[last + 1 :])
    return around
