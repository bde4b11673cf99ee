"""What gradients reach: from each result back through autograd's graph to the inputs.

In: the results of a traced program and the leaves that stand for its inputs. Out: for each result, which of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.autograd.graph import get_gradient_edge


def reached_inputs(results: Sequence[torch.Tensor], leaves: Sequence[torch.Tensor]) -> tuple[frozenset[int], ...]:
    """For each result, the numbers of the leaves that its gradient flows to."""
    if len(results) == 1:
        return (frozenset(range(len(leaves))),)
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
