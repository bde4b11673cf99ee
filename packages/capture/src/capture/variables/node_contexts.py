"""The ``ctx`` of a function of autograd that runs for real: frames within its forward and backward are given it.

In: such an object, which is autograd's node. Out: what the forward tells it (what is saved, written, not differentiable), which goes
there after the graph; and of which arguments gradients are wanted.
"""

from __future__ import annotations

import types
from typing import Any

from capture import _torch
from capture.sources import Attr, Const, Source

from .base import Interpreter, Variable
from .building import builds
from .lookups import Missing, class_lookup
from .objects import Object

#: What of it was settled before the forward began.
_SETTLED = "needs_input_grad"


class NodeContext(Object):
    """One that was there before the frame."""

    reads_plainly = False

    def generic_attribute(self, m: Interpreter, name: str) -> Variable | Missing:
        put = self.attrs.get(name)
        if put is not None and self._is_told(m, name):
            return put
        if name == _SETTLED and put is None and self._is_of_node(m, name):
            return m.builder.wrap(getattr(self.value, name), Attr(self.source or Const(self.value), name))
        return super().generic_attribute(m, name)

    def generic_set(self, m: Interpreter, name: str, value: Variable) -> None:
        if not self._is_told(m, name):
            super().generic_set(m, name, value)
            return
        self.put(name, value)
        m.effects.mutated(self)

    def setter(self, m: Interpreter, name: str) -> Any:
        return setattr if self._is_told(m, name) else super().setter(m, name)

    def _is_of_node(self, m: Interpreter, name: str) -> bool:
        raw, owner = class_lookup(m, self.cls, name)
        return owner is _torch.AUTOGRAD_NODE and isinstance(raw, types.GetSetDescriptorType)

    def _is_told(self, m: Interpreter, name: str) -> bool:
        """Whether it is what a forward tells: it is kept as it is given, and looked at when the forward is over."""
        return name in _torch.TOLD_TO_NODES and self._is_of_node(m, name)


@builds(_torch.AUTOGRAD_NODE, subclasses=True)
def _build_context(m: Interpreter, value: Any, source: Source | None) -> Variable:
    m.guards.of_type(source, type(value))
    made = NodeContext(type(value), value)
    made.source = Const(value) if source is None else source
    return made
