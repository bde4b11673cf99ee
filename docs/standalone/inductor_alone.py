"""inductor without cpu_codegen or capture: an ATen graph compiled for the interpreting backend.

Needs torch, symshapes, aotgrad and inductor.
"""

import sys

import torch

from aotgrad import core_decompositions, trace_inference
from inductor import ReferenceBackend, compile_graph, register_backend

register_backend(ReferenceBackend())  # a DeviceBackend for "cpu"; a new device is a class like it


def normalised(x: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor]:
    return (torch.softmax(torch.nn.functional.gelu(x @ w), dim=-1) * 2,)


x, w = torch.randn(4, 8), torch.randn(8, 16)
with torch.no_grad():
    traced = trace_inference(normalised, [x, w], core_decompositions())
examples = [node.meta["val"] for node in traced.module.graph.nodes if node.op == "placeholder"]
compiled = compile_graph(traced.module, examples)
print(compiled.source)
print(compiled.stats)
torch.testing.assert_close(compiled([x, w])[0], normalised(x, w)[0])
assert not {"capture", "cpu_codegen", "meta"} & set(sys.modules)
