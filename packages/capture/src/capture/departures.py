"""What leaves a graph in which the program acted on autograd's graph: leaves made there, and results whose way back was given up.

In: the results that generated code needs, at the end of an attempt. Out: what the graph gives in their place, which has no place in
autograd, and the calls that make of it what the program had. What cannot be made so has the graph end before the act.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import fx

from ._torch import neg_view, unasked, without_functions
from .bytecode import build
from .emit import Emitter
from .evaluator.machine import Machine
from .plain_tensors import as_class
from .variables.autograd_history import Act
from .variables.base import Variable
from .variables.reconstruction import CannotReconstruct
from .variables.tensors import Tensor


class Departures:
    """The results of one attempt that are not what the graph gives. `nodes` has what is to be given in place of their nodes."""

    def __init__(self, m: Machine, results: Iterable[Variable]) -> None:
        self.nodes: dict[fx.Node, fx.Node] = {}
        self._made: dict[int, Any] = {}
        self._given: list[Tensor] = []
        history = m.recorder.autograd
        given = list(results)
        tensors = [v for v in given if isinstance(v, Tensor)]
        self._given = [v for v in tensors if v.source is None and v.given]
        self._made |= {id(v): _frozen_parameter for v in tensors if v.cls is torch.nn.Parameter}
        self._classes = {
            id(v): OfClass(v.cls)
            for v in tensors
            if v.source is None and v.cls not in (torch.Tensor, torch.nn.Parameter)
        }
        if m.recorder.inference.met and not m.recorder.inference.before:
            self._made |= {id(v): made_in_inference for v in tensors if v.source is None and v.fake.is_inference()}
        self._seen = bool(m.modes.from_outside)
        if not history:
            return
        for act in history.acts:
            stays = act.keeps or (act.hook is not None and not act.is_over)
            if stays and (act.tensor.value is not None or act.tensor in given):
                raise CannotReconstruct(_At(act), f"{act.what}, of a tensor that leaves the frame")
        graph = m.recorder.graph
        computed = [
            fake
            for fake, changed in zip(graph.inputs, graph.changed_inputs(), strict=True)
            if changed and isinstance(fake, torch.Tensor) and fake.grad_fn is not None
        ]
        with m.recorder.fake_mode:
            for tensor in tensors:
                if not tensor.fake.requires_grad:
                    continue
                if tensor.fake.grad_fn is None:
                    self._made[id(tensor)] = _parameter if tensor.cls is torch.nn.Parameter else _leaf
                elif history.is_spent(tensor.fake):
                    self._made[id(tensor)] = spent
                else:
                    computed.append(tensor.fake)
                    continue
                apart = graph.call("call_method", "detach", (tensor.node,), {}, m.state.where())
                apart.meta["val"] = tensor.fake.detach()
                self.nodes[tensor.node] = apart
        hindrance = history.hindrance(computed, given)
        if hindrance is not None:
            raise CannotReconstruct(_At(hindrance), f"{hindrance.what}, which a backward may come to later")

    def write(self, e: Emitter, variable: Variable, name: str) -> None:
        """Make of what the graph gave, which is in a local, what the program had."""
        functions = [self._made.get(id(variable)), self._classes.get(id(variable))]
        if functions[0] is _leaf:  # what is given a class is made of it
            functions.reverse()
        for function in functions:
            if function is not None:
                function = unasked(function) if self._seen else function
                e.emit(build.push_callable(build.load_const(function)), build.load_fast(name), build.call(1))
                e.emit(build.store_fast(name))

    def finish(self, e: Emitter) -> None:
        """Once all of them are there: set what the program set on them."""
        for tensor in self._given:
            tensor.replay(e)


class OfClass:
    """Makes tensors of a class of the program's over the memory of those that the graph gives."""

    def __init__(self, cls: type) -> None:
        self.cls = cls

    def __call__(self, tensor: torch.Tensor) -> torch.Tensor:
        return as_class(tensor, self.cls)


class _At(Variable):
    """Stands for what made it impossible to give a value."""

    def __init__(self, act: Act) -> None:
        self.step = act.step


def _leaf(tensor: torch.Tensor) -> torch.Tensor:
    with without_functions():
        return torch.Tensor.requires_grad_(tensor)


def _frozen_parameter(tensor: torch.Tensor) -> torch.Tensor:
    return torch.nn.Parameter(tensor, requires_grad=False)


def _parameter(tensor: torch.Tensor) -> torch.Tensor:
    return torch.nn.Parameter(tensor)


def made_in_inference(tensor: torch.Tensor) -> torch.Tensor:
    """An inference tensor of the same memory."""
    if tensor.is_inference():
        return tensor
    with torch.inference_mode():
        made = torch.empty(0, dtype=tensor.dtype, device=tensor.device)
        made.set_(tensor.untyped_storage(), tensor.storage_offset(), tensor.shape, tensor.stride())
        made = made.conj() if tensor.is_conj() else made
        return neg_view(made) if tensor.is_neg() else made


class _Spent(torch.autograd.Function):
    """The same memory as the result of a computation whose way back was given up."""

    @staticmethod
    def forward(ctx: Any, anchor: torch.Tensor, tensor: torch.Tensor) -> torch.Tensor:
        return tensor.data  # no view

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        raise RuntimeError(
            "Trying to backward through the graph a second time (or directly access saved tensors after they have already "
            "been freed). Saved intermediate values of the graph are freed when you call .backward() or autograd.grad(). "
            "Specify retain_graph=True if you need to backward through the graph a second time or if you need to access "
            "saved tensors after calling backward."
        )


_ANCHOR = torch.zeros((), requires_grad=True)


def spent(tensor: torch.Tensor) -> torch.Tensor:
    """A tensor like what a backward left: it requires grad, and another backward raises as autograd does."""
    with torch.enable_grad():
        found: torch.Tensor = _Spent.apply(_ANCHOR, tensor)  # type: ignore[no-untyped-call]
    return found
