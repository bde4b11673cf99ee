"""Graphs with other strides inside: traced, and held against eager's results and their own fake values."""

from __future__ import annotations

from typing import Any

import torch
from torch import fx

import aotgrad
from symshapes import DimPolicy, FakeMode, ShapeEnv


def traced(program: Any, *inputs: torch.Tensor, train: bool = False) -> fx.GraphModule:
    mode = FakeMode(ShapeEnv())
    fakes = [mode.from_tensor(t, source=f"x{i}", policy=[DimPolicy.STATIC] * t.dim()) for i, t in enumerate(inputs)]
    return (aotgrad.trace_joint if train else aotgrad.trace_inference)(program, fakes).module


def hold(module: fx.GraphModule, program: Any, *inputs: torch.Tensor, tolerance: float = 1e-4) -> None:
    """The graph's results are the program's in values and strides, and its fake values are true."""
    module.graph.lint()
    module.recompile()

    class Checking(fx.Interpreter):
        def run_node(self, n: fx.Node) -> Any:
            result = super().run_node(n)
            if isinstance(result, torch.Tensor):
                known = zip(result.stride(), n.meta["val"].stride(), result.shape, strict=True)
                assert all(a == b for a, b, size in known if size != 1), n.format_node()
            return result

    found, expected = Checking(module).run(*inputs), program(*inputs)
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=tolerance, atol=tolerance)
        assert one.stride() == other.stride()
