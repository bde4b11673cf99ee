"""aotgrad without the rest: forward and backward ATen graphs for a backend of one's own. Needs torch, symshapes and aotgrad."""

import sys

import torch
from torch import fx

import aotgrad
from symshapes import FakeMode


class Scaled(torch.nn.Module):
    def forward(self, x: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor]:
        return (torch.nn.functional.gelu(x @ w).sum(),)


def printing_compiler(graph: fx.GraphModule, inputs):  # called for the forward graph and for the backward graph
    print(graph.graph)
    return lambda args: graph.forward(*args)


x, w = torch.randn(4, 8), torch.randn(8, 8, requires_grad=True)
mode = FakeMode()
graph = fx.symbolic_trace(Scaled())
compiled = aotgrad.compile(
    graph,
    [mode.from_tensor(x, source="x"), mode.from_tensor(w, source="w")],
    inference_compiler=printing_compiler,
    forward_compiler=printing_compiler,
    backward_compiler=printing_compiler,
    decompositions=aotgrad.core_decompositions(),
)
(loss,) = compiled(x, w)
loss.backward()
expected = torch.autograd.grad(Scaled()(x, w)[0], w)[0]
torch.testing.assert_close(w.grad, expected)
assert not {"capture", "inductor", "cpu_codegen", "meta"} & set(sys.modules)
