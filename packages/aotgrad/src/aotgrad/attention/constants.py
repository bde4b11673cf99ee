"""Values of a graph that hang on no input (masks made of ranges and sizes), computed while it is compiled."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import fx
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import _disable_current_modes

from aotgrad.attention.calls import IN_PLACE, value_of
from symshapes import FakeTensor

MOST_ELEMENTS = 1 << 26
"""Of one value: what would take longer is not looked at."""

_EXACT_FLOATS = frozenset(
    {
        *(torch.full, torch.zeros, torch.ones, torch.where, torch.triu, torch.tril, torch.masked_fill, torch.tensor),
        *("masked_fill", "triu", "tril", "expand", "view", "reshape", "where"),
        *("to", "float", "half", "bfloat16", "type", "type_as", "unsqueeze", "contiguous", "clone", "new_full"),
        *("new_zeros", "new_ones", "sqrt", torch.sqrt, torch.full_like, torch.zeros_like, torch.ones_like),
    }
)
"""What gives the same floating-point numbers on every device. Anything may give integers and truth values."""


class Constants:
    """The constants of one graph, by node."""

    def __init__(self, graph: fx.Graph) -> None:
        self._known: dict[fx.Node, Any] = {}
        # What some call may write to: such a value need not be what it was made as.
        self._written = {key for node in graph.nodes if "effect" in node.meta for key in storages_of(node)}

    def of(self, node: Any) -> Any:
        """The value of a node, a tensor of the CPU; None for one that is no constant. Anything else is itself."""
        if not isinstance(node, fx.Node):
            return None if isinstance(node, torch.SymInt | torch.SymFloat | torch.SymBool) else node
        if node not in self._known:
            self._known[node] = None  # while it is looked for
            self._known[node] = self._computed(node)
        return self._known[node]

    def is_written(self, node: fx.Node) -> bool:
        """Whether some call may write to the memory of a node's value."""
        value = value_of(node)
        return not isinstance(value, FakeTensor) or value.storage_key in self._written

    def number(self, value: Any) -> float | None:
        """A number, given as one or as a tensor without dimensions; None for what is neither, or known only later."""
        found = self.of(value)
        if isinstance(found, torch.Tensor):
            return float(found) if found.dim() == 0 and not found.is_complex() else None
        return float(found) if type(found) in (int, float) else None

    def _computed(self, node: fx.Node) -> Any:
        value = value_of(node)
        if not node.op.startswith("call_") or not self._is_plain(node, value):
            return None
        if any(self.of(read) is None for read in node.all_input_nodes):
            return None

        def on_host(argument: Any) -> Any:
            named = isinstance(argument, str) and argument.partition(":")[0] == value.device.type
            return torch.device("cpu") if named or isinstance(argument, torch.device) else argument

        args, kwargs = fx.node.map_aggregate(
            (node.args, dict(node.kwargs)), lambda a: self.of(a) if isinstance(a, fx.Node) else on_host(a)
        )
        with _disable_current_modes(), torch.no_grad(), torch.device("cpu"):
            run = getattr(args[0], node.target) if isinstance(node.target, str) else node.target
            made = run(*(args[1:] if isinstance(node.target, str) else args), **kwargs)
        if not isinstance(made, torch.Tensor) or made.device.type != "cpu":
            return None
        return made if (made.dtype, [*made.shape]) == (value.dtype, [*value.shape]) else None

    def _is_plain(self, node: fx.Node, value: Any) -> bool:
        """Whether the call gives a tensor of known sizes that is the same wherever it is computed, and nobody writes to it later."""
        if not isinstance(value, FakeTensor) or value.layout is not torch.strided or value.dtype.is_complex:
            return False
        if not all(type(size) is int for size in value.shape) or value.numel() > MOST_ELEMENTS:
            return False
        if value.dtype.is_floating_point and node.target not in _EXACT_FLOATS and not _is_subscript(node):
            return False
        arguments = (node.args, tuple(node.kwargs.values()))
        found: list[Any] = []
        fx.node.map_aggregate(arguments, found.append)
        if any(isinstance(one, torch.SymInt | torch.SymFloat | torch.SymBool | torch.Tensor) for one in found):
            return False
        return "effect" not in node.meta and value.storage_key not in self._written


def _is_subscript(node: fx.Node) -> bool:
    return getattr(node.target, "__name__", None) == "getitem"


def storages_of(node: fx.Node) -> Iterator[object]:
    """What identifies the memory of each fake tensor that a call with an effect may write to: any that it reads, if not known better."""
    for read in node.all_input_nodes if node.target not in IN_PLACE else node.args[:1]:
        for value in pytree.tree_leaves(value_of(read)):
            if isinstance(value, FakeTensor):
                yield value.storage_key
