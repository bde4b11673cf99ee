"""Results that are computed from one another: where the ways back are cut, so that each has a place of its own in autograd.

In: the gradient edges of a traced program's results in autograd's graph. Out: `Chains`: the edges to cut at and what is
differentiated together between them. What autograd is asked at a result (hooks, `retain_grad`, `autograd.grad`) is
about the sum of all gradients that arrive there, so whatever leads on from it has to wait for that sum.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from aotgrad.routes import separate_groups
from symshapes import dataclass

Edge = tuple[Any, int]
"""A node of autograd's graph and the number of one of the tensors that it made."""


@dataclass(frozen=True)
class Chains:
    """How the ways back from results are cut.

    `seen`: places among the named edges of those that another result's way comes by. `hidden`: further edges, by which
    a way enters what such a result leads to; no result. `groups`: numbers of tangents that are differentiated together,
    in the order of the forward; tangents are those of the results, then one for each of `hidden`. `reached`: for each
    tangent, the numbers of the leaves and cuts (after the leaves; `seen`, then `hidden`) that its gradient flows to.
    `crossing`: for the nodes before a cut, which of their gradients cross it, and to which edge.
    """

    seen: tuple[int, ...]
    hidden: tuple[Edge, ...]
    groups: tuple[tuple[int, ...], ...]
    reached: tuple[frozenset[int], ...]
    crossing: Mapping[Any, Mapping[int, Edge]]


def chains(results: Sequence[Edge], named: Sequence[Edge], leaves: Mapping[Any, int], count: int) -> Chains | None:
    """Cut the ways back from `results`; None if none comes by another of the `named` edges, which users may ask about.

    `leaves`: the nodes at which ways end, and which of the `count` inputs each stands for.
    """
    order = _sorted([node for node, _ in results], leaves)
    entered = {edge for node in order for edge in _onward(node, leaves)}
    seen = tuple(place for place, edge in enumerate(named) if edge in entered)
    if not seen:
        return None
    # A node waits for the sums at all the results that it can be reached from. Where that set is one, so is the backward.
    waits: dict[Any, int] = dict.fromkeys(order, 0)
    for bit, place in enumerate(seen):
        waits[named[place][0]] |= 1 << bit
    for node in order:
        for following, _ in _onward(node, leaves):
            waits[following] |= waits[node]
    cuts = dict.fromkeys(named[place] for place in seen)
    crossing: dict[Any, dict[int, Edge]] = {}
    for node in order:
        for number, edge in enumerate(node.next_functions):
            if waits.get(edge[0], waits[node]) != waits[node]:
                cuts[edge] = None
                crossing.setdefault(node, {})[number] = edge
    hidden = tuple(cuts)[len(seen) :]
    numbers = {edge: count + number for number, edge in enumerate(cuts)}
    starts = [node for node, _ in (*results, *hidden)]

    def within(node: Any) -> Iterable[Any]:
        return (each for each, _ in _onward(node, leaves) if waits[each] == waits[node])

    groups = sorted(separate_groups(starts, within), key=lambda group: -waits[starts[group[0]]].bit_count())
    reached = tuple(_reached(start, within, leaves, crossing, numbers) for start in starts)
    return Chains(seen, hidden, tuple(groups), reached, crossing)


def _onward(node: Any, leaves: Mapping[Any, int]) -> Iterable[Edge]:
    return (edge for edge in node.next_functions if edge[0] is not None and edge[0] not in leaves)


def _sorted(starts: Sequence[Any], leaves: Mapping[Any, int]) -> list[Any]:
    """All nodes from `starts` on, without leaves, each before those that it leads to."""
    done: dict[Any, None] = {}
    waiting = [(start, False) for start in starts]
    while waiting:
        node, left = waiting.pop()
        if node in done or node in leaves:
            continue
        if left:
            done[node] = None
        else:
            waiting.append((node, True))
            waiting.extend((following, False) for following, _ in _onward(node, leaves))
    return list(done)[::-1]


def _reached(
    start: Any,
    within: Callable[[Any], Iterable[Any]],
    leaves: Mapping[Any, int],
    crossing: Mapping[Any, Mapping[int, Edge]],
    numbers: Mapping[Edge, int],
) -> frozenset[int]:
    found: set[int] = set()
    waiting, known = [start], {start}
    while waiting:
        node = waiting.pop()
        found.update(numbers[edge] for edge in crossing.get(node, {}).values())
        found.update(leaves[each] for each, _ in node.next_functions if each in leaves)
        for following in within(node):
            if following not in known:
                known.add(following)
                waiting.append(following)
    return frozenset(found)
