"""Blocks whose axes run over the variables that memory is contiguous in: which those are, and results under Triton's interpreter."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from aotgrad import core_decompositions, trace_inference
from inductor import Options, compile_graph, lower, schedule
from inductor.triton.tiles import Tile, tile_of

pytestmark = [
    pytest.mark.skipif(
        importlib.util.find_spec("triton") is None, reason="triton is not installed in this environment"
    ),
    pytest.mark.skipif(os.environ.get("TRITON_INTERPRET") != "1", reason="runs under Triton's interpreter"),
]


def normal(*sizes: int) -> Tensor:
    return torch.randn(sizes)


PROGRAMS: dict[str, tuple[Callable[..., Any], list[Tensor], set[Tile | None]]] = {
    "sum of columns": (lambda x: x.sum(0), [normal(77, 45)], {Tile(0)}),
    "sum of columns of images": (lambda x: x.sum(1), [normal(3, 33, 70)], {Tile(1)}),
    "sum of rows": (lambda x: x.sum(1), [normal(77, 45)], {None}),
    "sum of long columns by rows": (
        lambda x, y: (x * y).sum(0),
        [normal(300, 45), normal(300, 1)],
        {Tile(0)},
    ),
    "norms of rows, transposed": (
        lambda x: torch.nn.functional.layer_norm(x, (70,)).transpose(1, 2).contiguous(),
        [normal(3, 45, 70)],
        {None},
    ),
    "softmax of columns": (lambda x: torch.softmax(x, 0), [normal(50, 70)], {Tile(0)}),
    "largest of columns": (lambda x: x.argmax(0), [normal(50, 70)], {Tile(0)}),
    "transpose": (lambda x: x.t().contiguous(), [normal(130, 70)], {Tile(0, 1)}),
    "transpose of images": (lambda x: x.transpose(1, 2).contiguous() * 2, [normal(5, 20, 70)], {Tile(1, 2)}),
    "sum with a transpose": (lambda x, y: x + y.t(), [normal(70, 90), normal(90, 70)], {Tile(0, 1)}),
    "rows and columns of one": (lambda x, y: x + y.t(), [normal(1, 90), normal(90, 1)], {None}),
    "few of another order": (lambda x, y: x + y.exp(), [normal(200, 70), normal(1, 70)], {None}),
    "places": (lambda x, i: x.t()[i] + x.t()[: len(i)], [normal(70, 90), torch.arange(80) - 3], {Tile(0, 1)}),
    "outside": (
        lambda x: torch.nn.functional.pad(x.transpose(1, 2), (1, 2, 3, 4)).contiguous() + 1,
        [normal(2, 20, 30)],
        {Tile(1, 2)},
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_axes_and_results(name: str) -> None:
    from inductor.triton import TritonBackend

    fn, inputs, tiles = PROGRAMS[name]
    with torch.no_grad():
        traced = trace_inference(lambda *args: (fn(*args),), inputs, core_decompositions())
    fakes = [node.meta["val"] for node in traced.module.graph.find_nodes(op="placeholder")]
    backend = TritonBackend("cpu")
    plan = schedule(lower(traced.module, fakes, traits=lambda device: backend.traits), Options())
    assert {tile_of(kernel) for kernel in plan.kernels} == tiles
    compiled = compile_graph(traced.module, fakes, backends={"cpu": backend})
    assert compiled.stats.interpreted == 0
    (found,) = compiled(list(inputs))
    expected = fn(*inputs)
    assert found.stride() == expected.stride()
    torch.testing.assert_close(found, expected)
