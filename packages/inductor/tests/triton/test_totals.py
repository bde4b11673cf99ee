"""Kernels of rows that keep totals of columns: under Triton's interpreter, and compiled for a GPU."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from inductor_apart import compiled_apart
from torch import Tensor

from aotgrad import core_decompositions, trace_inference
from inductor import Options, compile_graph

pytestmark = [
    pytest.mark.skipif(
        importlib.util.find_spec("triton") is None, reason="triton is not installed in this environment"
    ),
    pytest.mark.skipif(os.environ.get("TRITON_INTERPRET") != "1", reason="runs under Triton's interpreter"),
]

aten = torch.ops.aten


def backward(width: int) -> Callable[..., Any]:
    """Of a layer norm whose result goes through a softmax: a row's sums, and sums over columns."""

    def function(g: Tensor, x: Tensor, mean: Tensor, scale: Tensor, w: Tensor) -> tuple[Tensor, ...]:
        d = aten._softmax_backward_data(g, x, -1, g.dtype)
        return (*aten.native_layer_norm_backward(d, x, (width,), mean, scale, w, w, [True, True, True]), d.sum(0))

    return function


def inputs(rows: int, width: int, dtype: torch.dtype) -> list[Tensor]:
    torch.manual_seed(0)
    g, x, w = torch.randn(rows, width), torch.randn(rows, width), torch.randn(width)
    return [g.to(dtype) / 8, x.to(dtype) / 8, x.mean(1, keepdim=True), torch.rsqrt(x.var(1, keepdim=True)), w.to(dtype)]


@pytest.mark.parametrize(
    ("rows", "width", "dtype"),
    [
        (2048, 48, torch.float32),
        (2000, 33, torch.float32),  # parts of 20 rows, and columns that fill no block
        (1920, 300, torch.float16),
    ],
)
def test_results(rows: int, width: int, dtype: torch.dtype) -> None:
    from inductor.triton import TritonBackend

    given = inputs(rows, width, dtype)
    with torch.no_grad():
        traced = trace_inference(backward(width), given, core_decompositions())
    fakes = [node.meta["val"] for node in traced.module.graph.find_nodes(op="placeholder")]
    compiled = compile_graph(traced.module, fakes, backends={"cpu": TritonBackend("cpu")}, options=Options(cache=False))
    assert compiled.stats.interpreted == 0
    assert compiled.stats.kernels == 2
    again, wanted = compiled(list(given)), backward(width)(*(each.float() for each in given))
    tolerance = {"rtol": 1e-2, "atol": 3e-1} if dtype is torch.float16 else {"rtol": 1e-4, "atol": 1e-3}
    for found, more, expected in zip(compiled(list(given)), again, wanted, strict=True):
        torch.testing.assert_close(found, expected.to(dtype), **tolerance)
        assert torch.equal(found, more)


COMPILED = """
import torch
from aotgrad import core_decompositions, trace_inference
from inductor import Options
from inductor.api import lowered
from inductor.backends import Devices
from inductor.triton import TritonBackend, compile_ahead
from symshapes import FakeMode
aten = torch.ops.aten
backend, mode = TritonBackend(), FakeMode()
def function(g, x, mean, scale, w):
    sizes = (x.shape[-1],)
    return aten.native_layer_norm_backward(g, x, sizes, mean, scale, w, w, [True, True, True])
for rows, width, dtype in ((16384, 1024, torch.float16), (12608, 770, torch.bfloat16), (4096, 8192, torch.float32)):
    with mode, torch.no_grad():
        g, x = (torch.empty(rows, width, dtype=dtype, device="cuda") for _ in range(2))
        mean, scale = (torch.empty(rows, 1, device="cuda") for _ in range(2))
        w = torch.empty(width, dtype=dtype, device="cuda")
    with torch.no_grad():
        traced = trace_inference(function, [g, x, mean, scale, w], core_decompositions())
    plan = lowered(traced.module, traced.inputs, Options(autotune=False), Devices({"cuda": backend}))
    cubins = [compile_ahead(backend.emit(kernel)) for kernel in plan.kernels]
    kept = sum(op.mode == "total" for kernel in plan.kernels for op in kernel.body.stores())
    print(len(plan.steps), kept, all(cubin[:4] == b"\\x7fELF" for cubin in cubins))
"""


def test_they_compile_for_a_gpu(tmp_path: Path) -> None:
    compiled_apart(COMPILED, tmp_path, ["2 2 True"] * 3)
