"""capture without the rest: the graph and the guards of an unmodified function. Needs torch, symshapes and capture."""

import sys

import torch

import capture

weight = torch.randn(8, 8)


def layer(x: torch.Tensor, scale: float) -> torch.Tensor:
    if x.shape[0] > 2:
        x = x * scale
    return torch.relu(x @ weight)


trace = capture.trace(layer, torch.randn(4, 8), 0.5)
print(trace)
assert not {"aotgrad", "inductor", "cpu_codegen", "meta"} & set(sys.modules)


def count_operations(graph: torch.fx.GraphModule, inputs: list[torch.Tensor]):  # a backend is any callable like this
    print(f"a graph of {sum(n.op.startswith('call') for n in graph.graph.nodes)} calls, {len(inputs)} inputs")
    return graph.forward


compiled = capture.compile(layer, count_operations)
x = torch.randn(4, 8)
torch.testing.assert_close(compiled(x, 0.5), layer(x, 0.5))
