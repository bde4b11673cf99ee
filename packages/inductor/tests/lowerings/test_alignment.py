"""Products whose rows begin at multiples of 16 bytes, where the device asks for it: same results, strides as in eager outside."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from aotgrad import core_decompositions, trace_inference
from inductor import Options, compile_graph, lower
from inductor.handlers.reference import ReferenceBackend
from inductor.ir.program import ExternOp
from inductor.lowerings import alignment


class Aligned(ReferenceBackend):
    """The reference backend of a device that wants it of float32."""

    traits = replace(ReferenceBackend.traits, aligned_products=(torch.float32,))


def normal(*sizes: int) -> Tensor:
    return torch.randn(sizes)


PROGRAMS: dict[str, tuple[Callable[..., Any], list[Tensor]]] = {
    "aligned": (lambda x, w: x @ w, [normal(8, 16), normal(16, 12)]),
    "a result of odd rows": (lambda x, w: torch.relu(x @ w.t()), [normal(8, 16), normal(13, 16)]),
    "a result as it is": (lambda x, w: x @ w.t(), [normal(8, 16), normal(13, 16)]),
    "an odd factor": (lambda x, w: x @ w, [normal(8, 17), normal(17, 12)]),
    "an odd factor by columns": (lambda x, w: x.t() @ w, [normal(17, 9), normal(17, 12)]),
    "a factor of its own": (lambda x, w: torch.relu(x + 1) @ w, [normal(8, 17), normal(17, 12)]),
    "from the middle": (lambda x, w: x[:, 1:17] @ w, [normal(8, 20), normal(16, 12)]),
    "with a sum": (
        lambda b, x, w: torch.addmm(b, x, w, beta=2, alpha=0.5),
        [normal(13), normal(8, 16), normal(16, 13)],
    ),
    "with a number": (torch.addmm, [torch.tensor(2.0), normal(8, 17), normal(17, 13)]),
    "with a column": (torch.addmm, [normal(8, 1), normal(8, 17), normal(17, 13)]),
    "one after the other": (lambda x, w: (x @ w.t()) @ w, [normal(8, 16), normal(13, 16)]),
    "and its transpose": (lambda x, w: (torch.sin(x).t() @ torch.sin(x)) @ w, [normal(8, 13), normal(13, 5)]),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_results(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(alignment, "DEEP", 2)
    monkeypatch.setattr(alignment, "LARGE", 2)
    fn, inputs = PROGRAMS[name]
    with torch.no_grad():
        traced = trace_inference(lambda *args: (fn(*args),), inputs, core_decompositions())
    fakes = [node.meta["val"] for node in traced.module.graph.find_nodes(op="placeholder")]
    backend = Aligned()
    program = lower(traced.module, fakes, traits=lambda device: backend.traits)
    (found,) = compile_graph(traced.module, fakes, Options(cache=False), backends={"cpu": backend})(list(inputs))
    expected = fn(*inputs)
    assert found.stride() == expected.stride()
    torch.testing.assert_close(found, expected)
    products = [op for op in program.operations if isinstance(op, ExternOp)]
    assert products
    for op in products:
        (written,) = op.writes
        assert written is not None
        for stride in (program.buffers[written].stride, *(factor.stride for factor in op.args[-2:])):
            assert all(step == 1 or step % 4 == 0 for step in stride)
        assert all(factor.offset % 4 == 0 for factor in op.args[-2:])
