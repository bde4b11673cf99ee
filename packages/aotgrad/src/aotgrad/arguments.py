"""Arguments of a recorded call: tensors and symbols of the program become nodes of the graph, and nodes their values.

In: arguments as an op got them. Out: arguments for a node, a key that identifies them, and whether they are exact.
"""

from __future__ import annotations

from typing import Any, Protocol

import torch
from torch import fx

from aotgrad.symbols import SymbolNodes
from aotgrad.tracked import Tracked
from symshapes import FakeTensor


class Values(Protocol):
    """What the arguments of a call are to the tracer."""

    symbols: SymbolNodes

    def tracked(self, tensor: torch.Tensor) -> Tracked:
        """What is known of a tensor."""
        ...

    def read(self, tracked: Tracked) -> fx.Node:
        """The node of the tensor's present value."""
        ...


class CallArguments:
    """Arguments of one call on their way into the graph: tensors and symbols become nodes.

    Afterwards `key` identifies them and `inexact` says whether some tensor's value has other strides than its fake.
    """

    __slots__ = ("_keys", "inexact", "tracer")

    def __init__(self, tracer: Values) -> None:
        self.tracer = tracer
        self.inexact = False
        self._keys: list[Any] = []

    @property
    def key(self) -> tuple[Any, ...]:
        """What identifies the arguments so far: equal keys, equal values."""
        return tuple(self._keys)

    def tuple(self, values: tuple[Any, ...]) -> tuple[Any, ...]:
        """Positional arguments for a node."""
        return tuple([self.value(value) for value in values])

    def dict(self, values: dict[str, Any]) -> dict[str, Any]:
        """Keyword arguments for a node."""
        return {name: self.value(value) for name, value in values.items()}

    def value(self, value: Any) -> Any:
        """One argument for a node: tensors and symbols become nodes, lists are walked, other values stay."""
        kind = type(value)
        if kind is FakeTensor or isinstance(value, torch.Tensor):
            tracked = self.tracer.tracked(value)
            node = self.tracer.read(tracked)
            if not tracked.exact:
                self.inexact = True
            self._keys.append(node)
            return node
        if kind is list or kind is tuple or kind is torch.Size:
            self._keys.append(len(value))
            return [self.value(item) for item in value]
        if isinstance(value, (torch.SymInt, torch.SymFloat)):
            recorded = self.tracer.symbols.node_of(value)
            self._keys.append(recorded)
            return recorded
        if isinstance(value, torch.SymBool):
            return self.value(bool(value))  # with a guard
        # 1, 1.0 and True are equal but not the same argument; nor are 0.0 and -0.0.
        self._keys.append(repr(value) if kind is float else value if kind is str else (kind, value))
        return value


def values_of(recorded: Any) -> Any:
    """Recorded arguments with nodes replaced by their fake values."""
    return fx.node.map_arg(recorded, lambda node: node.meta["val"])
