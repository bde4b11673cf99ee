"""The graph that a trace records: each call once, with its value, the user's line and whether it is the backward's.

In: calls with nodes for arguments. Out: `Recorder.graph`.
"""

from __future__ import annotations

import operator
from bisect import bisect_right
from typing import Any

import torch
from torch import fx

from aotgrad import _torch
from aotgrad.symbols import SymbolNodes
from symshapes import Checkpoint

aten = torch.ops.aten


class Recorder:
    """Nodes of one graph, calls with equal keys merged. `source`: the user's line that the program is at."""

    def __init__(self) -> None:
        self.graph = fx.Graph()
        self.symbols = SymbolNodes(self.graph)
        self.source: str | None = None
        #: What the program's call is a part of, and whether what is recorded is kept all the same.
        self.checkpoint: Checkpoint | None = None
        self.kept = False
        self.backward = False
        self._merged: dict[Any, fx.Node] = {}
        self._numbers: list[int] = []
        self._calls: list[fx.Node] = []

    def start_backward(self) -> None:
        """From here on nodes belong to the backward: forward's are not merged with them, so that cheap ones recompute."""
        self.backward = True
        self.checkpoint = None
        self._merged = {}

    def enter_call(self, call: fx.Node) -> None:
        """The program's next ops come from this call of its graph, and from the user's line that it names."""
        self.source = call.meta.get("source")
        self.checkpoint = call.meta.get("checkpoint")
        self._numbers.append(_torch.next_autograd_number())
        self._calls.append(call)

    def record(
        self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], key: tuple[Any, ...] | None, value: Any
    ) -> fx.Node:
        """A node for the call; one that has the same `key` if there is one."""
        if key is not None:
            key = (func, *key)
            try:
                known = self._merged.get(key)
            except TypeError:
                key = None  # a generator among the arguments, say
            else:
                if known is not None:
                    return known
        # Arguments are set afterwards because `create_node` looks through them for what cannot be there.
        node = self.graph.create_node("call_function", func, (), {}, func.overloadpacket.__name__)
        node.args = args
        if kwargs:
            node.kwargs = kwargs
        self.describe(node, value, self._line())
        if key is not None:
            self._merged[key] = node
        return node

    def item(self, node: fx.Node, index: int) -> fx.Node:
        """The node of result `index` of a call with several."""
        key = (operator.getitem, node, index)
        made = self._merged.get(key)
        if made is None:
            made = self._merged[key] = self.graph.create_node(
                "call_function", operator.getitem, (node, index), {}, "item"
            )
            self.describe(made, node.meta["val"][index], node.meta.get("source"))
        return made

    def describe(self, node: fx.Node, value: Any, source: str | None) -> None:
        """Note a node's fake value, the user's line it comes from, and whether it belongs to the backward."""
        meta = node.meta
        meta["val"] = value
        if source is not None:
            meta["source"] = source
        if self.backward:
            meta["backward"] = True
        elif self.checkpoint is not None and not self.kept:
            meta["checkpoint"] = self.checkpoint

    def _line(self) -> str | None:
        if not self.backward:
            return self.source
        call = self.running_call()
        return None if call is None else call.meta.get("source")

    def running_call(self) -> fx.Node | None:
        """The call of the program's graph that is being traced, or whose backward is."""
        if not self.backward:
            return self._calls[-1] if self._calls else None
        number = _torch.running_autograd_number()
        return None if number is None else self.call_of(number)

    def call_of(self, number: int) -> fx.Node | None:
        """The call of the program's graph that made the autograd node of that number."""
        position = bisect_right(self._numbers, number) - 1
        return self._calls[position] if position >= 0 else None
