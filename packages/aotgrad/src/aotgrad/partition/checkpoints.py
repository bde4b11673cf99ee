"""What a checkpoint has the backward compute again: all that was computed in it, but for what cannot be had again.

In: nodes of a joint graph, of whose calls some are marked (`meta["checkpoint"]`). Out: which of them are made again.
"""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch import fx

from aotgrad.cleanup import stays
from aotgrad.partition.compared import is_compared
from symshapes import facts_if_operator


def is_made_again(node: fx.Node) -> bool:
    """Whether the backward computes a forward value again, since it belongs to a checkpoint, and nothing else in the forward reads it.

    Random numbers are kept, or the seeds that they are made of; what is found by its bits is kept, too (see `is_compared`).
    """
    if not is_within(node) or stays(node) or not isinstance(node.meta.get("val"), (torch.Tensor, tuple, list)):
        return False
    if node.target is operator.getitem:
        if not is_made_again(node.all_input_nodes[0]):
            return False
    elif (facts := facts_if_operator(node.target)) is None or not facts.pure:
        return False
    whole = node.meta["checkpoint"].outermost
    readers = (user for user in node.users if not user.meta.get("backward"))
    return all(is_within(user) and user.meta["checkpoint"].outermost is whole for user in readers) and not is_compared(
        node
    )


def is_within(node: fx.Node) -> bool:
    """Whether a checkpoint has the node, of a joint graph's forward."""
    return "checkpoint" in node.meta and node.op == "call_function" and not node.meta.get("backward")


def when_needed(nodes: list[fx.Node], wanted: set[fx.Node], there: dict[fx.Node, Any]) -> list[fx.Node]:
    """The nodes of a backward, what is made again right before what reads it first: not all at once, before everything else."""
    if not any(node in wanted and is_made_again(node) for node in nodes):
        return nodes
    done, found = set(there), []
    for root in [node for node in nodes if node in wanted and node not in done and not is_made_again(node)]:
        path = [root]
        while path:
            node = path[-1]
            missing = [part for part in node.all_input_nodes if part not in done and is_made_again(part)]
            if missing and node in wanted:
                path.extend(missing)
                continue
            path.pop()
            if node not in done:
                done.add(node)
                found.append(node)
    return found
