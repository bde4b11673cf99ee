"""Compiles functions with their attention fused, and tells what was."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

import aotgrad
import capture
from aotgrad.attention import Fused, fused_attentions
from symshapes import facts_if_operator


class Compiled:
    """A function compiled with attention fused wherever there is a kernel for it; `found` is what was, `ran` the operators left."""

    def __init__(self, function: Any, dynamic: bool | None = None) -> None:
        self.found: list[Fused] = []
        self.ran: list[str] = []
        self.asked: list[aotgrad.Attention] = []
        self.call = capture.compile(function, backend=self._backend, dynamic=dynamic)

    def _backend(self, module: torch.fx.GraphModule, inputs: Any) -> Callable[..., Any]:
        self.found += fused_attentions(module.graph, self._wanted).values()
        return aotgrad.compile(module, inputs, inference_compiler=self._compiler, attention=self._wanted)

    def _wanted(self, attention: aotgrad.Attention) -> bool:
        self.asked.append(attention)
        return True

    def _compiler(self, module: torch.fx.GraphModule, inputs: Any) -> Callable[..., Any]:
        self.ran += [n.target.name() for n in module.graph.nodes if facts_if_operator(n.target) is not None]
        return lambda args: module.forward(*args)


def run(function: Callable[..., Any], args: tuple[torch.Tensor, ...], grad: bool) -> list[torch.Tensor]:
    """The result and the gradients."""
    given = [a.detach().requires_grad_(grad and a.is_floating_point() and a.dim() > 2) for a in args]
    with torch.set_grad_enabled(grad):
        out = function(*given)
    if not grad:
        return [out]
    torch.manual_seed(1)
    leaves = [a for a in given if a.requires_grad]
    return [out.detach(), *torch.autograd.grad(out, leaves, torch.randn_like(out), allow_unused=True)]
