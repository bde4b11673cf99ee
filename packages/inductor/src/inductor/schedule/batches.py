"""Kernels that need not wait for each other come one behind the other, so that one launch can run them.

Flows in: fused nodes in the order they run. Flows out: the same nodes in batches. A node comes earlier for the sake of its batch, as
long as no more memory is alive at the worst moment.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import torch

from inductor.ir.body import checks_positions
from inductor.schedule.nodes import Graph, Group, Node
from inductor.schedule.order import alive, dependencies, written_bytes
from inductor.traits import TraitsOf

REACH = 64
"""After so many nodes that don't belong to a batch no more of it are looked for."""


def in_batches(graph: Graph, nodes: Sequence[Node], traits: TraitsOf) -> list[list[int]]:
    """The nodes' positions, each in its batch, in the order that these run; most are alone.

    Args:
        traits: those that say from how many kernels on a device gains by a batch (`DeviceTraits.joins`).
    """
    devices = {node.device for node in nodes if isinstance(node, Group)}
    least = {device: traits(device).joins for device in devices}
    if not any(least.values()):
        return [[at] for at in range(len(nodes))]
    needs, _ = dependencies(graph, nodes)
    room = _Room(graph, nodes)
    placed: set[int] = set()
    found = []
    for at, node in enumerate(nodes):
        if at in placed:
            continue
        batch = [at]
        count = least[node.device] if isinstance(node, Group) else None
        if isinstance(node, Group) and count is not None and _joins(node):
            batch = _batch(at, nodes, needs, node.device, room, placed)
            if len(batch) < count:
                batch = [at]
            room.take(batch)
        placed.update(batch)
        found.append(batch)
    return found


def _joins(node: Group) -> bool:
    """Not what checks positions: it may be waited for while later kernels run."""
    return not node.contracts and not any(checks_positions(member.loop.body.ops) for member in node.members)


def _batch(
    first: int,
    nodes: Sequence[Node],
    needs: Sequence[set[int]],
    device: torch.device,
    room: _Room,
    placed: Collection[int],
) -> list[int]:
    """What can run together with the node at `first`: nothing that waits for what comes behind it."""
    batch, behind, idle = [first], {first}, 0
    most = room.alive[first]
    for at in range(first + 1, len(nodes)):
        if at in placed:
            continue
        node, bytes = nodes[at], room.written[at]
        belongs = isinstance(node, Group) and node.device == device and _joins(node)
        if belongs and needs[at].isdisjoint(behind) and most + bytes <= room.most:
            batch.append(at)
            most, idle = most + bytes, 0
        elif (idle := idle + 1) == REACH:
            break
        behind.add(at)
        most = max(most, room.alive[at])
    return batch


class _Room:
    """Bytes alive while each node runs, and at most."""

    def __init__(self, graph: Graph, nodes: Sequence[Node]) -> None:
        readers = {name: 1 for node in nodes for name in node.reads}
        self.alive = alive(graph, nodes)
        self.written = [written_bytes(graph, node, readers) for node in nodes]
        self.most = max(self.alive, default=0)

    def take(self, batch: Sequence[int]) -> None:
        """What a batch writes is there from the place of its first node on."""
        for at in batch[1:]:
            for earlier in range(batch[0], at):
                self.alive[earlier] += self.written[at]
