"""What a session's captures learnt: calls that the backend refused, where the next one breaks without asking again.

In: the node that a backend blamed. Out: for a call about to be recorded, why it is refused, if it is.
"""

from __future__ import annotations

from types import CodeType
from typing import Any

import torch
from torch import fx
from torch.utils._pytree import tree_leaves

from capture.identity_map import IdentityMap
from symshapes import ControlFlow


class Refusals:
    """What one session's backend refused: by target, and dtype, rank and need of a gradient of each tensor.

    And whether the program does: ``fails_traced`` once it raised where it was told that a compiler traces it. And that it
    ``writes_what_is_read_again``, by the backward of a checkpoint.
    """

    def __init__(self) -> None:
        self._reasons: dict[Any, str] = {}
        self.fails_traced = False
        #: By code, the places of jumps of which an arm was seen to do more than to compute.
        self.impure: IdentityMap[CodeType, set[int]] = IdentityMap()
        self.writes_what_is_read_again = False

    def note(self, call: fx.Node, reason: str) -> None:
        """A backend refused a graph because of `call`."""
        args, kwargs = fx.node.map_arg((call.args, call.kwargs), lambda node: node.meta.get("val"))
        target = type(call.target) if isinstance(call.target, ControlFlow) else call.target
        self._reasons[_key(target, args, kwargs, call.meta.get("val"))] = reason

    def reason(self, target: Any, args: Any, kwargs: Any, result: Any) -> str | None:
        """Why a call like this was refused; None if none was."""
        return self._reasons.get(_key(target, args, kwargs, result)) if self._reasons else None


def _key(target: Any, args: Any, kwargs: Any, result: Any) -> Any:
    given = [_kind(leaf) for leaf in tree_leaves([list(args), kwargs])]
    return target, tuple(given), tuple(_kind(leaf) for leaf in tree_leaves([result]))


def _kind(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.dtype, value.dim(), value.requires_grad
    return type(value)
