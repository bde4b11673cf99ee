"""A bias of the library's convolution is added where its result is read, on devices where the library adds it by a kernel of its own."""

from __future__ import annotations

import importlib.util
import os

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


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize("transposed", [False, True])
def test_what_reads_the_result_adds_the_bias(layout: torch.memory_format, transposed: bool) -> None:
    x = torch.randn(2, 6, 7, 5).to(memory_format=layout)
    weight = torch.randn(*((6, 4) if transposed else (4, 6)), 3, 3).to(memory_format=layout)
    bias = torch.randn(4)

    def program(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = (F.conv_transpose2d if transposed else F.conv2d)(x, w, b, padding=1)
        return F.gelu(y), y

    inputs = [x, weight, bias]
    graph, expected = trace(program, *inputs)
    compiled = compile_graph(graph, inputs, Options(cache=False), backends={"cpu": TritonBackend("cpu")})
    assert (compiled.stats.externs, compiled.stats.launches) == (1, 1)
    for found, wanted in zip(compiled(list(inputs)), expected, strict=True):
        torch.testing.assert_close(found, wanted)
        assert found.stride() == wanted.stride()
    assert ", None, " in compiled.source.split("convolution(")[1].split("\n")[0]
