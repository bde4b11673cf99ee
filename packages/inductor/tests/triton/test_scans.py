"""Running results by Triton kernels: rows in registers and in blocks, columns, under the interpreter and compiled for a GPU."""

from __future__ import annotations

import ast
import importlib.util
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import sympy
import torch
from inductor_dynamic import trace_dynamic
from torch import Tensor

from aotgrad import core_decompositions, trace_inference
from inductor import CompiledGraph, Options, compile_graph

pytestmark = [
    pytest.mark.skipif(
        importlib.util.find_spec("triton") is None, reason="triton is not installed in this environment"
    ),
    pytest.mark.skipif(os.environ.get("TRITON_INTERPRET") != "1", reason="runs under Triton's interpreter"),
]


def normal(*sizes: int) -> Tensor:
    return torch.randn(sizes, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def compiled(function: Callable[..., Any], *inputs: Tensor) -> CompiledGraph:
    from inductor.triton import TritonBackend

    def several(*args: Tensor) -> tuple[Tensor, ...]:
        results = function(*args)
        return tuple(results) if isinstance(results, tuple) else (results,)

    with torch.no_grad():
        traced = trace_inference(several, list(inputs), core_decompositions())
    fakes = [node.meta["val"] for node in traced.module.graph.find_nodes(op="placeholder")]
    found = compile_graph(traced.module, fakes, Options(cache=False), backends={"cpu": TritonBackend("cpu")})
    for got, want in zip(found(list(inputs)), several(*inputs), strict=True):
        assert (got.dtype, got.stride()) == (want.dtype, want.stride())
        torch.testing.assert_close(got, want, equal_nan=True)
    assert (found.stats.interpreted, found.stats.externs) == (0, 0)
    return found


def with_equals_and_nans(x: Tensor) -> Tensor:
    x = (x * 2).round() / 2
    x[0, 11], x[0, 14], x[1, 3], x[1, 30] = float("nan"), float("nan"), float("inf"), float("-inf")
    return x


X = normal(3, 45)
PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[Tensor, ...]]] = {
    "sums": (lambda x: x.cumsum(1), (X,)),
    "sums from the end": (lambda x: x.flip(1).cumsum(1).flip(1) + 1, (X,)),
    "products": (lambda x: x.cumprod(-1), (X,)),
    "largest": (lambda x: x.cummax(1), (with_equals_and_nans(X),)),
    "smallest": (lambda x: x.cummin(1), (with_equals_and_nans(X).half(),)),
    "smallest of columns": (lambda x: x.cummin(0), (with_equals_and_nans(normal(20, 40)),)),
    "logs": (lambda x: x.logcumsumexp(1), (with_equals_and_nans(X),)),
    "logs from the end": (lambda x: x.flip(1).logcumsumexp(1).flip(1), (with_equals_and_nans(X).float(),)),
    "columns": (lambda x: x.cumsum(0), (normal(50, 70),)),
    "columns from the end": (lambda x: x.flip(0).cumsum(0).flip(0), (normal(50, 70),)),
    "bools": (lambda x: (x.cumsum(1), x.cummax(1).values), (X > 0.5,)),
    "bytes": (lambda x: (x.cumsum(1, dtype=torch.int8), x.cumprod(1)), ((X * 100).to(torch.int8),)),
    "positions of a mask": (lambda x: ((x > 0).cumsum(1) - 1) * (x > 0), (X,)),
    "softmax between": (lambda x, m: torch.softmax(x, -1).cumsum(-1) * m, (X, X > 0)),
    "then reduced": (lambda x: x.cumsum(1).amax(1, keepdim=True) - x.cumsum(1), (X,)),
    "one after the other": (lambda x: x.cumsum(1).cumprod(1), (X / 9,)),
    "dimensions together": (lambda x: x.reshape(3, 3, 15).cumsum(1), (X,)),
}


@pytest.mark.parametrize("looped", [False, True])
@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name: str, looped: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if looped:
        for limit in ("HELD_LIMIT", "READ_LIMIT"):
            monkeypatch.setattr(f"inductor.triton.blocks.{limit}", 4)
        monkeypatch.setattr("inductor.triton.blocks.LOOPED", 16)
        monkeypatch.setattr("inductor.triton.blocks.TILE", 64)
    function, inputs = PROGRAMS[name]
    assert compiled(function, *inputs).stats.launches == 1


def test_few_long_columns_are_cut() -> None:
    x = normal(1 << 10, 5)
    assert compiled(lambda x: x.cumsum(0) * 2, x).stats.launches == 3
    assert compiled(lambda x: x.flip(0).cumsum(0).flip(0), x).stats.launches == 3


@pytest.mark.parametrize("name", [name for name in PROGRAMS if "column" not in name])
def test_programs_share_long_rows(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As many parts as make several groups, and the last of neither is full."""
    monkeypatch.setattr("inductor.triton.blocks.SHARED_ROW", 16)
    for part in ("SIMPLE_PART", "PART"):
        monkeypatch.setattr(f"inductor.triton.scans.{part}", 8)
    monkeypatch.setattr("inductor.triton.scans.GROUP", 4)
    function, inputs = PROGRAMS[name]
    assert compiled(function, *inputs).stats.launches == 1


def test_what_reduces_too_is_no_row_that_programs_share() -> None:
    from inductor.ir.body import record
    from inductor.ops import ops
    from inductor.triton.scans import shared_part

    def function(outer: Any, inner: Any) -> None:
        x = ops.load("x", inner[0])
        ops.store("y", inner[0], ops.scan("sum", ops.sub(x, ops.reduce("max", x)) if reduces else x))

    r = sympy.Symbol("r0", integer=True, nonnegative=True)
    for reduces in (False, True):
        assert (shared_part(record(function, (), (r,), lambda name: torch.float32)) > 0) is not reduces


def test_sizes_that_only_a_call_tells() -> None:
    from inductor.triton import TritonBackend

    def function(x: Tensor) -> tuple[Tensor, ...]:
        return x.cumsum(1) * 2, x.flip(1).cumsum(1).flip(1), *x.cummax(0)

    graph, fakes = trace_dynamic(function, normal(3, 45))
    found = compile_graph(graph, fakes, Options(cache=False), backends={"cpu": TritonBackend("cpu")})
    # Longer rows, which loop up to a number, run on GPUs only (tests_integration/test_gpu.py).
    for size in ((3, 45), (7, 1), (1, 9), (0, 4), (4, 0)):
        x = normal(*size)
        for got, want in zip(found([x]), function(x), strict=True):
            torch.testing.assert_close(got, want)
    assert (found.stats.interpreted, found.stats.externs) == (0, 0)


@pytest.mark.parametrize("backward", [False, True])
def test_names_of_values_are_none_of_sizes(backward: bool) -> None:
    """Such as s1, the size of the second dimension of an input."""
    from inductor.device import Kernel, KernelArg
    from inductor.ir.body import record
    from inductor.ops import ops
    from inductor.triton.kernel import KernelPrinter
    from symshapes import size_symbol

    i, r = sympy.symbols("i0 r0", integer=True, nonnegative=True)
    sizes = [size_symbol(f"s{at}") for at in range(9)]

    def function(outer: Any, inner: Any) -> None:
        x = ops.load("in0", i * sizes[1] + r)
        ops.store("out0", i * sizes[1] + r, ops.scan("sum", ops.scan("max", ops.exp(x), backward), backward))

    args = [KernelArg("in0", "in", torch.float32), KernelArg("out0", "out", torch.float32)]
    args += [KernelArg(str(size), "size", torch.int64) for size in sizes]
    body = record(function, (i,), (r,), lambda name: torch.float32)
    device = torch.device("cpu")
    kernel = Kernel("kernel", device, (sizes[0],), (sizes[1],), body, tuple(args), tuple(sizes), ())
    (text,) = ast.parse(KernelPrinter(kernel).text()).body
    assigned = {one.id for one in ast.walk(text) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)}
    assert "start0" in assigned
    assert assigned.isdisjoint(arg.name for arg in args)


COMPILED = """
import torch
from aotgrad import trace_inference
from inductor import Options
from inductor.api import lowered
from inductor.backends import Devices
from inductor.triton import TritonBackend, compile_ahead
from symshapes import FakeMode
backend, mode = TritonBackend(), FakeMode()
def compiled(function, dtype, *size):
    with mode, torch.no_grad():
        fake = torch.empty(size, dtype=dtype, device="cuda")
    with torch.no_grad():
        traced = trace_inference(function, [fake])
    plan = lowered(traced.module, traced.inputs, Options(autotune=False), Devices({"cuda": backend}))
    cubins = [compile_ahead(backend.emit(kernel)) for kernel in plan.kernels]
    print(len(plan.steps), all(cubin[:4] == b"\\x7fELF" for cubin in cubins))
compiled(lambda x: (x.softmax(1).flip(1).cumsum(1).flip(1),), torch.bfloat16, 300, 9000)
compiled(lambda x: x.cummax(0), torch.bfloat16, 30, 20000)
compiled(lambda x: (x.cumsum(1),), torch.int64, 2, 1 << 20)
compiled(lambda x: (x.flip(1).cumsum(1).flip(1),), torch.float16, 2, 1 << 20)
compiled(lambda x: (x.logcumsumexp(1),), torch.float16, 300, 60)
"""


def test_they_compile_for_a_gpu(tmp_path: Path) -> None:
    environment = {**os.environ, "TRITON_CACHE_DIR": str(tmp_path), "INDUCTOR_CACHE_DIR": str(tmp_path)}
    environment.pop("TRITON_INTERPRET")
    done = subprocess.run(
        [sys.executable, "-c", COMPILED], capture_output=True, text=True, env=environment, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n")[:-1] == ["1 True"] * 5
