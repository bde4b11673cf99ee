"""What gradients reach: from each result back through autograd's graph to the inputs.

In: the results of a traced program and the leaves that stand for its inputs. Out: for each result, which of them; and
which results share what a backward uses up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch.autograd.graph import get_gradient_edge


def reached_inputs(results: Sequence[torch.Tensor], leaves: Sequence[torch.Tensor]) -> tuple[frozenset[int], ...]:
    """For each result, the numbers of the leaves that its gradient flows to."""
    numbers = {get_gradient_edge(leaf).node: 1 << number for number, leaf in enumerate(leaves)}
    masks: dict[Any, int] = {}
    for result in results:
        _collect(result.grad_fn, numbers, masks)
    return tuple(
        frozenset(number for number in range(len(leaves)) if masks[result.grad_fn] >> number & 1) for result in results
    )


def _collect(start: Any, numbers: dict[Any, int], masks: dict[Any, int]) -> None:
    """Set the mask of every node from `start` on; a node comes after those it leads to."""
    waiting = [(start, False)]
    while waiting:
        node, seen = waiting.pop()
        if node in masks:
            continue
        following = [each for each, _ in node.next_functions if each is not None]
        if not seen:
            waiting.append((node, True))
            waiting.extend((each, False) for each in following if each not in masks)
            continue
        mask = numbers.get(node, 0)
        for each in following:
            mask |= masks[each]
        masks[node] = mask


Onward = Callable[[Any], Iterable[Any]]


def onward(node: Any) -> Iterable[Any]:
    """The nodes that a node leads to."""
    return (each for each, _ in node.next_functions if each is not None)


def separate_groups(starts: Sequence[Any], onward: Onward = onward) -> tuple[tuple[int, ...], ...]:
    """The numbers of `starts` (nodes), those together that eager does not differentiate one after the other.

    A backward lets go of what the nodes on its way have saved; results whose ways share no such node are apart.
    """
    group = list(range(len(starts)))

    def root(number: int) -> int:
        while group[number] != number:
            number = group[number]
        return number

    owners: dict[Any, int] = {}
    for number, start in enumerate(starts):
        waiting = [start]
        while waiting:
            node = waiting.pop()
            owner = owners.setdefault(node, number)
            if owner == number:
                waiting.extend(each for each in onward(node) if owners.get(each) != number)
            elif root(owner) != root(number) and _saves(node, onward):
                group[root(number)] = root(owner)
    members: dict[int, list[int]] = {}
    for number in range(len(starts)):
        members.setdefault(root(number), []).append(number)
    return tuple(map(tuple, members.values()))


def _saves(start: Any, onward: Onward) -> bool:
    """Whether the node or one that it leads to has saved something."""
    waiting, seen = [start], set()
    while waiting:
        node = waiting.pop()
        if node in seen:
            continue
        seen.add(node)
        if any(name.startswith("_raw_saved") for name in dir(type(node))):
            return True
        waiting.extend(onward(node))
    return False
