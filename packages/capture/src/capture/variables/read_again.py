"""What the backward of a checkpoint reads again: written to before that it holds something else, and eager refuses it, or computes with it.

In: the calls of checkpoints, writes to memory, backwards. Out: another attempt, which leaves the checkpoint to eager.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any, Protocol

import torch
from torch import fx
from torch.utils._pytree import tree_leaves

from capture._torch import inside
from capture.errors import EvaluateAgain, Unsupported


class Learnt(Protocol):
    """What a session's captures know from those before."""

    #: Whether the program writes to what a checkpoint reads again.
    writes_what_is_read_again: bool


class ReadAgain:
    """The memory that the checkpoints of one attempt have read. ``learnt`` keeps, for the attempts after it, that some was written to:
    for those at what goes on after a break, too, where the write may be in one piece of the frame and the checkpoint in another."""

    def __init__(self, learnt: Learnt) -> None:
        self._learnt = learnt
        #: Of each checkpoint whose backward is to come: what its calls are in autograd's graph, and how often what it read was written to.
        self._waiting: list[tuple[frozenset[Any], dict[object, int]]] = []

    def require(self) -> None:
        """Raise ``Unsupported`` where an earlier attempt met a write to what a checkpoint had read."""
        if self._learnt.writes_what_is_read_again:
            raise Unsupported("a checkpoint whose function reads what is written to before its backward")

    def note(self, calls: Iterable[fx.Node], written: Mapping[Any, int]) -> None:
        """These are the calls of a checkpoint, which gradients are to be had of."""
        own = set(calls)
        functions = {
            value.grad_fn
            for call in own
            for value in tree_leaves(call.meta.get("val"))
            if isinstance(value, torch.Tensor)
        }
        functions.discard(None)
        if not functions:
            return  # nothing is computed again for nobody's gradient
        read: dict[object, int] = {}
        for node in {part for call in own for part in call.all_input_nodes} - own:
            value = node.meta.get("val")
            if isinstance(value, torch.Tensor):
                key = inside(value).storage_key
                read[key] = written.get(key, 0)
        self._waiting.append((frozenset(functions), read))

    def written(self, written: Mapping[Any, int]) -> None:
        """There was a write: evaluate again if it was to memory that a backward to come reads."""
        if any(written.get(key, 0) != count for _, read in self._waiting for key, count in read.items()):
            self._learnt.writes_what_is_read_again = True
            raise EvaluateAgain("what a checkpoint reads again is written to")

    def done(self, nodes: Collection[Any]) -> None:
        """A backward went through these of autograd's nodes and kept nothing: what is written from now on, as by an optimizer, is not read
        again by the checkpoints among them."""
        self._waiting = [each for each in self._waiting if each[0].isdisjoint(nodes)]
