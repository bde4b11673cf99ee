"""Positions that were checked before a large graph's kernels run beside the call that waits for that check, in Triton kernels."""

from __future__ import annotations

import importlib
import importlib.util
import os
from pathlib import Path
from typing import Any

import pytest
import torch
from inductor_apart import compiled_apart
from inductor_tracing import trace
from torch import Tensor

from inductor import Options, compile_graph

if importlib.util.find_spec("triton") is None:
    pytest.skip("triton is not installed in this environment", allow_module_level=True)
if os.environ.get("TRITON_INTERPRET") != "1":
    pytest.skip("set TRITON_INTERPRET=1 before triton is imported", allow_module_level=True)
from inductor.triton import TritonBackend

positions = importlib.import_module("inductor.schedule.positions")
ROWS = torch.arange(24.0).view(8, 3)
NEW = -torch.arange(1.0, 13).view(4, 3)


def put(rows: Tensor, at: Tensor, new: Tensor) -> Tensor:
    return rows.index_put((at,), new)


def added(rows: Tensor, at: Tensor, new: Tensor) -> Tensor:
    return rows.index_add(0, at, new)


def scattered(rows: Tensor, at: Tensor, new: Tensor) -> Tensor:
    return rows.scatter(0, at[:, None].expand(len(at), 3), new)


@pytest.mark.parametrize("function", [put, added, scattered])
def test_nothing_is_written_where_a_position_is_none(function: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(positions, "LARGE", 0)
    monkeypatch.setattr(positions, "MANY", 0)
    at = torch.tensor([5, 2, 7, 1])
    graph, _ = trace(function, ROWS.clone(), at, NEW)
    graph.graph.output_node().meta["writes"] = {0: 0}
    compiled = compile_graph(
        graph, (ROWS.clone(), at, NEW), backends={"cpu": TritonBackend("cpu")}, options=Options(cache=False)
    )
    assert compiled.stats.launches > 1  # the check is a kernel of its own
    rows = ROWS.clone()
    compiled([rows, at, NEW])
    assert torch.equal(rows, function(ROWS, at, NEW))
    for bad in (8, -9, 2**40):
        rows, wrong, good = ROWS.clone(), at.clone(), torch.tensor([True, True, False, True])
        wrong[2] = bad
        with pytest.raises((IndexError, RuntimeError), match="out of range"):
            compiled([rows, wrong, NEW])
        assert torch.equal(rows, function(ROWS, at[good], NEW[good])), bad


def test_they_compile(tmp_path: Path) -> None:
    """The check and what relies on it, compiled for sm_90; what writes asks whether a position is one."""
    program = """
import importlib, torch, aotgrad
from inductor import Options
from inductor.api import lowered
from inductor.backends import Devices
from inductor.triton import TritonBackend, compile_ahead
from symshapes import FakeMode
positions = importlib.import_module("inductor.schedule.positions")
positions.LARGE = positions.MANY = 0
backends, mode = {"cuda": TritonBackend()}, FakeMode()
with mode, torch.no_grad():
    table, new = (torch.empty(n, 512, device="cuda") for n in (4000, 64))
    at = torch.empty(64, dtype=torch.int64, device="cuda")
with torch.no_grad():
    traced = aotgrad.trace_inference(lambda t, at, new: t.index_put((at,), t[at] * 2 + new, accumulate=True), [table, at, new])
plan = lowered(traced.module, traced.inputs, Options(autotune=False), Devices(backends))
for kernel in plan.kernels:
    source = backends["cuda"].emit(kernel)
    print(compile_ahead(source)[:4], "-1" in source.text, "_good" in source.text, "index_checks" in source.text)
"""
    compiled_apart(program, tmp_path, ["b'\\x7fELF' True True True", "b'\\x7fELF' False True False"])
