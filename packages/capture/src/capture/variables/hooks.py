"""Hooks on tensors that the frame computed: what a hook makes of gradients is a graph of its own.

In: a call of ``Tensor.register_hook``. Out: a call in the graph, and the handle that takes it away again.
"""

from __future__ import annotations

from torch import fx
from torch.utils.hooks import RemovableHandle

from capture.errors import Unsupported

from .autograd_history import Act
from .autograd_state import called
from .base import Args, Interpreter, Kwargs, Variable
from .constants import BoundBuiltin, Constant
from .tensors import Tensor


class Handle(Variable):
    """What takes a hook away again."""

    def __init__(self, node: fx.Node | None) -> None:
        self.hook = node
        self.removed = False

    def python_type(self) -> type:
        return RemovableHandle

    def attribute(self, m: Interpreter, name: str) -> Variable:
        if name != "remove":
            raise Unsupported(f"RemovableHandle.{name}")
        return BoundBuiltin(self, name)

    def method(self, m: Interpreter, name: str, args: Args, kwargs: Kwargs) -> Variable:
        if name != "remove" or args or kwargs:
            raise Unsupported(f"RemovableHandle.{name}()")
        if self.hook is not None and not self.removed:
            m.custom_gradients.unhook(self.hook)
        self.removed = True
        m.effects.mutated(self)
        return Constant(None)


@called("register_hook")
def _register_hook(m: Interpreter, tensor: Tensor, args: Args, kwargs: Kwargs) -> Variable:
    m.recorder.note_places(tensor)
    (hook,) = [*args, *kwargs.values()] if len(args) + len(kwargs) == 1 else [None]
    if hook is None or not kwargs.keys() <= {"hook"} or not tensor.fake.requires_grad:
        raise Unsupported("Tensor.register_hook() with these arguments")

    def called_with(gradients: list[Variable]) -> Variable:
        made = m.calls.call(hook, list(gradients), {}).realize(m)
        if not (isinstance(made, Tensor) or m.builder.is_none(made)):
            raise Unsupported("a hook that gives no gradient")
        result: Variable = m.builder.new_tuple([made] if isinstance(made, Tensor) else [])
        return result

    handle: Handle = m.effects.created(Handle(m.custom_gradients.hook(tensor, called_with)))
    m.recorder.autograd.note(Act(m.state.step, tensor, "a hook", hook=handle))
    return handle
