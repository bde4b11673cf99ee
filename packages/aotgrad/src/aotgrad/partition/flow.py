"""Maximum flow and the minimum cut nearest to the sink (Dinic's algorithm).

In: a network of numbered vertices with capacities. Out: which vertices lie on the sink's side of a minimum cut.
"""

from __future__ import annotations

import math
from collections import deque


class Network:
    """A directed network. Edges are stored in pairs: edge `e` and its reverse `e ^ 1`."""

    def __init__(self) -> None:
        self.edges: list[list[int]] = []
        self._heads: list[int] = []
        self._capacities: list[float] = []

    def vertex(self) -> int:
        """A new vertex."""
        self.edges.append([])
        return len(self.edges) - 1

    def edge(self, tail: int, head: int, capacity: float = math.inf) -> None:
        """An edge that carries at most `capacity`."""
        for one, other, amount in ((tail, head, capacity), (head, tail, 0.0)):
            self.edges[one].append(len(self._heads))
            self._heads.append(other)
            self._capacities.append(amount)

    def sink_side(self, source: int, sink: int) -> set[int]:
        """The vertices behind the minimum cut nearest to `sink`.

        Raises ValueError if the flow is unlimited: some path from source to sink has no capacity that can be cut.
        """
        while True:
            levels = self._levels(source)
            if levels[sink] < 0:
                break
            progress = [0] * len(self.edges)
            while self._push(source, sink, levels, progress):
                pass
        behind = {sink}
        waiting = [sink]
        while waiting:
            vertex = waiting.pop()
            for edge in self.edges[vertex]:
                # The edge into `vertex` is the reverse of the one out of it.
                tail = self._heads[edge]
                if self._capacities[edge ^ 1] > 0 and tail not in behind:
                    behind.add(tail)
                    waiting.append(tail)
        return behind

    def _levels(self, source: int) -> list[int]:
        levels = [-1] * len(self.edges)
        levels[source] = 0
        waiting = deque([source])
        while waiting:
            vertex = waiting.popleft()
            for edge in self.edges[vertex]:
                head = self._heads[edge]
                if self._capacities[edge] > 0 and levels[head] < 0:
                    levels[head] = levels[vertex] + 1
                    waiting.append(head)
        return levels

    def _push(self, source: int, sink: int, levels: list[int], progress: list[int]) -> bool:
        """Send flow along one path of the level graph; False if there is none left."""
        path: list[int] = []
        vertex = source
        while vertex != sink:
            while progress[vertex] < len(self.edges[vertex]):
                edge = self.edges[vertex][progress[vertex]]
                head = self._heads[edge]
                if self._capacities[edge] > 0 and levels[head] == levels[vertex] + 1:
                    path.append(edge)
                    vertex = head
                    break
                progress[vertex] += 1
            else:
                if not path:
                    return False
                vertex = self._heads[path.pop() ^ 1]
                progress[vertex] += 1
        amount = min(self._capacities[edge] for edge in path)
        if amount == math.inf:
            raise ValueError("an unlimited flow")
        for edge in path:
            self._capacities[edge] -= amount
            self._capacities[edge ^ 1] += amount
        return True
