"""Autograd's graph of the fakes of one capture: what is behind a tensor, what of it a backward gave up, where it is acted on.

In: fakes, as calls are recorded. Out: their leaves, and whether gradients can still be asked of what leaves the graph.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any

import torch
from torch.autograd.graph import GradientEdge

from capture._torch import saved_tensor_hooks
from symshapes import dataclass

#: What stands in a capture's graph for history that is not in it: of inputs that were computed before, and of control flow.
_OUTSIDE = frozenset({"_ComputedBackward"})
_UNKNOWN = frozenset({"_ConnectedBackward", "_LateBackward", "_LateOnceBackward"})


def watched() -> bool:
    """Whether somebody watches what autograd does: hooks on what is saved, or the mode that looks for anomalies."""
    return torch.is_anomaly_enabled() or saved_tensor_hooks(False) is not None


def hooked() -> bool:
    """Whether the program has hooks on what is saved. Torch's own (checkpoints, offloading) look at none of it."""
    hooks = saved_tensor_hooks(False)
    return hooks is not None and not (getattr(hooks[0], "__module__", None) or "").startswith("torch.")


@dataclass(frozen=True)
class Behind:
    """What autograd's graph has behind some tensors: its nodes, the leaves that it ends at, and what is not told there.

    `outside`: the nodes of inputs that were computed before the frame. `unknown`: some node stands for others.
    """

    nodes: frozenset[Any]
    leaves: tuple[torch.Tensor, ...]
    outside: frozenset[Any]
    unknown: bool


def behind(tensors: Iterable[torch.Tensor]) -> Behind:
    """Follow autograd's graph of these tensors; one that requires grad and was not computed is a leaf."""
    leaves: dict[int, torch.Tensor] = {}
    nodes: dict[Any, None] = {}
    outside: set[Any] = set()
    waiting: list[Any] = []
    unknown = False
    for tensor in tensors:
        if tensor.grad_fn is not None:
            waiting.append(tensor.grad_fn)
        elif tensor.requires_grad:
            leaves[id(tensor)] = tensor
    while waiting:
        node = waiting.pop()
        if node in nodes:
            continue
        nodes[node] = None
        name = node.name()
        if name in _OUTSIDE:
            outside.add(node)
            continue
        unknown = unknown or name in _UNKNOWN
        leaf = getattr(node, "variable", None)
        if leaf is not None:
            leaves[id(leaf)] = leaf
        waiting += [following for following, _ in node.next_functions if following is not None]
    return Behind(frozenset(nodes), tuple(leaves.values()), frozenset(outside), unknown)


@dataclass(frozen=True)
class Act:
    """The program acts on the place of a tensor in autograd's graph: at which step, of which variable, and what it is."""

    step: int
    tensor: Any
    what: str
    keeps: bool = False
    """Whether its gradient is kept (`Tensor.retain_grad`)."""
    made: bool = False
    """Whether it is a leaf that was made in the frame."""
    hook: Any = None
    """The hook that was hung on it, which counts until it is removed."""
    waits: Any = None
    """What that hook calls, where it is to be called in a backward within the frame."""
    then: Any = None
    """The tensor's fake at that step, where it may be another one by now (`Tensor.data` was set)."""

    @property
    def is_over(self) -> bool:
        """Whether nothing is left of it."""
        return self.hook is not None and self.hook.removed


class AutogradHistory:
    """What the program did to autograd's graph so far.

    `given_up`: nodes that a backward went through and did not keep. `acts`: leaves made in the frame, hooks, kept gradients.
    """

    def __init__(self) -> None:
        self.given_up: set[Any] = set()
        self.acts: list[Act] = []
        #: The tensors whose gradients a backward is about to accumulate, while hooks are called.
        self.accumulating: list[Any] = []
        #: Before evaluation hides it from the fakes.
        self.is_watched = watched()
        self.is_hooked = hooked()

    def __bool__(self) -> bool:
        return bool(self.given_up or self.acts)

    def release(self) -> None:
        """Let go of autograd's graph."""
        self.given_up.clear()
        self.acts.clear()

    def note(self, act: Act) -> None:
        """Note an act."""
        self.acts.append(act)

    def keeps_gradient(self, tensor: Any) -> bool:
        """Whether the gradient of what was computed is kept for it."""
        return any(act.keeps and act.tensor is tensor for act in self.acts)

    def has_hooks(self, tensor: Any) -> bool:
        """Whether hooks hang on it."""
        return any(act.hook is not None and not act.is_over and act.tensor is tensor for act in self.acts)

    def keeping_gradients(self, nodes: Collection[Any]) -> list[Any]:
        """The variables of those that were computed by these nodes and whose gradients are kept."""
        return [act.tensor for act in self.acts if act.keeps and act.tensor.fake.grad_fn in nodes]

    def is_spent(self, tensor: torch.Tensor) -> bool:
        """Whether a backward from a tensor raises, since what it needs was given up."""
        found = behind([tensor])
        if self.given_up.isdisjoint(found.nodes):
            return False
        asked: list[Any] = [*found.leaves, *(GradientEdge(node, 0) for node in found.outside)]
        try:
            torch.autograd.grad([tensor], asked, [torch.empty_like(tensor)], retain_graph=True, allow_unused=True)
        except RuntimeError as error:
            if "backward through the graph a second time" not in str(error):
                raise
            return True
        return False

    def hindrance(self, tensors: Sequence[torch.Tensor], seen: Collection[Any]) -> Act | None:
        """The first act behind these tensors to which a backward may still come where it counts: the graph cannot give them so.

        A leaf that was made in the frame and is not among the variables `seen` outside of it gets its gradient unseen; so does
        what was computed there.
        """
        if not self.acts:
            return None
        unseen = {id(act.tensor.fake): act for act in self.acts if act.made and act.tensor not in seen}
        others = [
            act
            for act in self.acts
            if not (act.keeps or (act.hook and not act.waits) or act.is_over) and id(act.tensor.fake) not in unseen
        ]
        for tensor in tensors:
            found = behind([tensor])
            leaves = {id(leaf) for leaf in found.leaves}
            for act in others:
                if id(act.tensor.fake) in leaves or id(act.then) in leaves or act.tensor.fake.grad_fn in found.nodes:
                    return act
            if not found.outside and leaves <= unseen.keys():
                return unseen[next(iter(leaves))]  # nothing else says that it requires grad
        return None
