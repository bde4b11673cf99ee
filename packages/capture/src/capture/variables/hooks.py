"""Hooks on tensors that the frame computed: what a hook makes of gradients is a graph of its own, unless it has effects.

In: a call of ``Tensor.register_hook``. Out: a call in the graph, and the handle that takes it away again; of a hook with effects its
calls, in the middle of a backward within the frame.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import fx
from torch.utils.hooks import RemovableHandle

from capture._torch import inside
from capture.errors import EvaluateAgain, Unsupported

from .autograd_history import Act, Behind, behind
from .autograd_state import called, set_gradients
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
    """A hook that does no more than change gradients is a graph; one with effects waits for a backward within the frame."""
    m.recorder.note_places(tensor)
    (hook,) = [*args, *kwargs.values()] if len(args) + len(kwargs) == 1 else [None]
    if hook is None or not kwargs.keys() <= {"hook"} or not tensor.fake.requires_grad:
        raise Unsupported("Tensor.register_hook() with these arguments")
    acts = m.recorder.autograd.acts
    waits = ("hook with effects", m.state.step, len(acts))
    node, later = None, waits in m.effects.ran_ahead
    if not later:
        try:
            node = m.custom_gradients.hook(tensor, lambda gradients: _called(m, hook, gradients))
        except Unsupported as problem:
            if tensor.fake.grad_fn is None:
                raise
            m.effects.ran_ahead.add(waits)
            raise EvaluateAgain(problem.reason) from problem
    if any((act.waits is None) is later for act in acts if act.tensor is tensor and act.hook is not None):
        raise Unsupported("Tensor.register_hook() of hooks with and without effects")
    handle: Handle = m.effects.created(Handle(node))
    m.recorder.autograd.note(
        Act(m.state.step, tensor, "a hook", hook=handle, waits=hook if later else None, then=tensor.fake)
    )
    return handle


def _called(m: Interpreter, hook: Variable, gradients: Sequence[Variable]) -> Variable:
    """What a hook gives instead of a gradient: a tuple of that, or an empty one."""
    made = m.calls.call(hook, list(gradients), {}).realize(m)
    if not (isinstance(made, Tensor) or m.builder.is_none(made)):
        raise Unsupported("a hook that gives no gradient")
    result: Variable = m.builder.new_tuple([made] if isinstance(made, Tensor) else [])
    return result


def call_waiting(
    m: Interpreter,
    found: Behind,
    asked: Sequence[Tensor],
    gradient_of: Callable[[Tensor], Variable],
    create: bool,
) -> list[fx.Node]:
    """Call the hooks with effects that a backward comes by on its way to `asked`, in the order in which autograd does.

    `gradient_of` gives the gradient of a tensor, as hooks before have made it. What a hook gives replaces it, by hooks that the
    caller removes after the backward.
    """
    acts = [act for act in m.recorder.autograd.acts if act.waits is not None and not act.is_over]
    goals = {id(tensor.fake) for tensor in asked}
    tensors = [tensor for tensor in dict.fromkeys(act.tensor for act in acts) if tensor.fake.grad_fn in found.nodes]
    nodes: list[fx.Node] = []
    m.recorder.autograd.accumulating = [*asked]
    before = torch.is_grad_enabled()
    try:
        for tensor in sorted(tensors, key=lambda t: -t.fake.grad_fn._sequence_nr()):
            if not _leads_to(tensor, asked, goals):
                continue
            given = value = gradient_of(tensor)
            if m.builder.is_none(given):
                continue
            set_gradients(m, create)
            logged = len(m.recorder.fake_mode.write_log)
            for act in acts:
                if act.tensor is tensor:
                    (value,) = _called(m, act.waits, [value]).items or [value]  # type: ignore[attr-defined]
            set_gradients(m, before)
            memory = inside(given.fake).storage_key  # type: ignore[attr-defined]
            if memory in m.recorder.fake_mode.write_log[logged:]:
                # Autograd goes on with it, and may be about to give the same memory to others.
                raise Unsupported("a hook that writes to the gradient it is given")
            if value is not given:
                nodes.append(m.custom_gradients.replace(tensor, value))
    finally:
        m.recorder.autograd.accumulating = []
    return nodes


def _leads_to(tensor: Tensor, asked: Sequence[Tensor], goals: set[int]) -> bool:
    reached = behind([tensor.fake])
    return (
        id(tensor.fake) in goals
        or any(id(leaf) in goals for leaf in reached.leaves)
        or any(each.fake.grad_fn in reached.nodes for each in asked if each.fake.grad_fn is not None)
    )
