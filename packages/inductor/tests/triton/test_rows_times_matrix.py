"""Products of one row or one column become sums, what stands beside them in the same kernels; others are the library's."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from inductor_tracing import trace

from inductor import Options, compile_graph
from inductor.triton import TritonBackend

pytestmark = [
    pytest.mark.skipif(
        importlib.util.find_spec("triton") is None, reason="triton is not installed in this environment"
    ),
    pytest.mark.skipif(os.environ.get("TRITON_INTERPRET") != "1", reason="runs under Triton's interpreter"),
]

GENERATOR = torch.Generator().manual_seed(0)
ROW, WEIGHT, OTHER, BIAS = (torch.randn(size, generator=GENERATOR) for size in ((1, 128), (96, 128), (96, 128), (96,)))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
@pytest.mark.parametrize(
    ("program", "externs"),
    [
        (lambda x, w, o, b: F.silu(F.linear(x, w)) * F.linear(x, o, b) + 1, 0),
        (lambda x, w, o, b: torch.addmm(b, x, w.t(), beta=0.5, alpha=2), 0),
        (lambda x, w, o, b: w @ x.t(), 0),
        (lambda x, w, o, b: torch.bmm(x[None].expand(3, 1, 128), w.t()[None].expand(3, 128, 96)), 0),
        (lambda x, w, o, b: x[:, :32] @ w[:, :32].t(), 1),  # few steps
        (lambda x, w, o, b: x[:, :96] @ w, 1),  # its rows are not what is summed
        (lambda x, w, o, b: x.expand(2, 128) @ w.t(), 1),
        (lambda x, w, o, b: x[:, :0] @ w[:, :0].t(), 1),
    ],
)
def test_one_row(program: Callable[..., torch.Tensor], externs: int, dtype: torch.dtype) -> None:
    inputs = [t.to(dtype) for t in (ROW, WEIGHT, OTHER, BIAS)]
    graph, _ = trace(program, *inputs)
    compiled = compile_graph(graph, inputs, Options(cache=False), backends={"cpu": TritonBackend("cpu")})
    assert compiled.stats.externs == externs
    (found,) = compiled(list(inputs))
    exact = program(*(t.double() for t in inputs))
    eager = program(*inputs)
    assert found.dtype is eager.dtype
    assert found.stride() == eager.stride()
    tolerance = 1e-5 if dtype is torch.float32 else 1e-2
    torch.testing.assert_close(found.double(), exact, rtol=tolerance, atol=tolerance)


def test_two_products_of_a_row_are_one_kernel() -> None:
    program = lambda x, w, o, b: F.silu(F.linear(x, w)) * F.linear(x, o, b)  # noqa: E731
    inputs = [ROW, WEIGHT, OTHER, BIAS]
    graph, _ = trace(program, *inputs)
    compiled = compile_graph(graph, inputs, Options(cache=False), backends={"cpu": TritonBackend("cpu")})
    assert compiled.stats.launches == 1
