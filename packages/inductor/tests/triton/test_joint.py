"""Joint kernels of the Triton backend against eager, and what they are compiled to."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch
from inductor_dynamic import trace_dynamic
from inductor_joining import SIZES, adam, moments, tensors
from inductor_tracing import default_tolerance, trace

from inductor import CompiledGraph, compile_graph

if importlib.util.find_spec("triton") is None:
    pytest.skip("triton is not installed in this environment", allow_module_level=True)
if os.environ.get("TRITON_INTERPRET") != "1":
    pytest.skip(
        "set TRITON_INTERPRET=1 before triton is imported, as the repository's conftest.py does",
        allow_module_level=True,
    )
from inductor.triton import TritonBackend


@pytest.fixture(autouse=True)
def _loops_to_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    """Triton's interpreter takes the number that a loop ends at for an array of one element, which NumPy 2.4 makes no index of."""
    from triton.runtime import interpreter

    patch = interpreter._patch_lang_tensor

    def patched(tensor: Any, scope: Any) -> None:
        patch(tensor, scope)
        scope.set_attr(tensor, "__index__", lambda self: self.handle.data.item())

    monkeypatch.setattr(interpreter, "_patch_lang_tensor", patched)


def check(function: Callable[..., Any], *inputs: torch.Tensor, writes: dict[int, int] | None = None) -> CompiledGraph:
    graph, expected = trace(function, *inputs)
    graph.graph.output_node().meta["writes"] = writes or {}
    given = [value.clone(memory_format=torch.preserve_format) for value in inputs]
    compiled = compile_graph(graph, inputs, backends={"cpu": TritonBackend("cpu")})
    for at, (got, want) in enumerate(zip(compiled(list(given)), expected, strict=True)):
        torch.testing.assert_close(got, want, equal_nan=True, **default_tolerance(want.dtype))
        assert not want.numel() or (at in compiled.written_results) == any(got is value for value in given)
    return compiled


def test_a_step_of_many_parameters_is_one_launch() -> None:
    inputs = [t for seed in range(4) for t in tensors(SIZES, seed=seed)]
    compiled = check(adam(len(SIZES)), *inputs, writes=moments(len(SIZES)))
    assert compiled.stats.launches == 1
    assert compiled.kernel_source.count("libdevice.sqrt") == 3, "multiples of 16, others, and what has one element"


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_mixed_dtypes(dtype: torch.dtype) -> None:
    inputs = [t for seed in range(4) for t in tensors(SIZES, torch.float32, dtype, seed=seed)]
    assert check(adam(len(SIZES)), *inputs).stats.launches == 1


def test_norms_of_many_sizes() -> None:
    def f(*xs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        norms = torch._foreach_norm(list(xs))
        scale = torch.clamp(1 / (torch.stack(norms).square().sum().sqrt() + 1e-6), max=1.0)
        return tuple(torch._foreach_mul(list(xs), scale))

    assert check(f, *tensors([(300, 70), (5,), (9, 9), (2000,), (33,)])).stats.launches < 8


def test_rows_and_transposes() -> None:
    def rows(*xs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return tuple(x.softmax(-1) for x in xs)

    compiled = check(rows, *tensors([(5, 33), (9, 40), (4, 700), (3, 5000), (7, 2), (6, 64)]))
    assert compiled.stats.launches == 1

    def turned(*xs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return tuple(x.t().contiguous() * 2 for x in xs)

    assert check(turned, *tensors([(70, 33), (5, 90), (64, 48), (3, 3), (130, 2)])).stats.launches == 1


def test_addresses_that_are_not_aligned() -> None:
    whole = tensors([(1 + 64,)] * 5)
    inputs = [x[1:] if at % 2 else x[:64] for at, x in enumerate(whole)]
    graph, expected = trace(lambda *xs: tuple(x[: 64 - 3 * k] * 2 for k, x in enumerate(xs)), *inputs)
    compiled = compile_graph(graph, inputs, backends={"cpu": TritonBackend("cpu")})
    assert compiled.stats.launches == 1
    for got, want in zip(compiled(list(inputs)), expected, strict=True):
        torch.testing.assert_close(got, want)


def test_dynamic_sizes() -> None:
    def f(*xs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return tuple(x * 2 + x.shape[0] for x in xs)

    sizes = [(6, 8), (5,), (4, 3), (32,), (3, 50), (2, 7)]
    graph, fakes = trace_dynamic(f, *tensors(sizes))
    compiled = compile_graph(graph, fakes, backends={"cpu": TritonBackend("cpu")})
    assert compiled.stats.launches == 1
    for given in (
        sizes,
        [(2, 3), (9,), (50, 70), (16,), (2, 9000), (5, 5)],
        [(2, 2), (0,), (3, 3), (2,), (2, 2), (3, 4)],
    ):
        inputs = tensors(given)
        for got, want in zip(compiled(list(inputs)), f(*inputs), strict=True):
            torch.testing.assert_close(got, want)


def test_numbers_of_a_call() -> None:
    """Positions that are not multiples, and floats with all their bits, come by the table, too."""

    def f(*xs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return tuple(x[at + 1 :: at + 2].double() * 0.1 for at, x in enumerate(xs))

    assert check(f, *tensors([(40,), (41,), (64,), (100,)])).stats.launches == 1


PROGRAM = """
import torch
from inductor_joining import SIZES, adam, moments, tensors
from inductor_tracing import trace
from inductor import lower, schedule
from inductor.triton import TritonBackend
from inductor.triton.ahead import compile_joint_ahead

def rows(*xs):
    return tuple(x.softmax(-1).sum(0) for x in xs)

backend = TritonBackend("cpu")

def compiled(function, inputs, writes):
    graph, _ = trace(function, *inputs)
    plan = schedule(lower(graph, inputs, writes=writes), None, backend.supports, lambda device: backend.traits)
    for kernel in plan.joint_kernels:
        print(len(kernel.parts), compile_joint_ahead(backend.emit_joint(kernel))[:4])

for dtype in (torch.float32, torch.bfloat16, torch.float16):
    inputs = [t for seed in range(4) for t in tensors([*SIZES, (5, 6), (4096, 2)], dtype, seed=seed)]
    compiled(adam(len(inputs) // 4), inputs, moments(len(inputs) // 4))
compiled(rows, tensors([(5, 33), (9, 40), (4, 700), (3, 5000), (7, 64)]), {})
"""


def test_cubins() -> None:
    environment = {**os.environ, "TRITON_INTERPRET": "0", "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n")[:3] == ["10 b'\\x7fELF'"] * 3
    assert done.stdout.count("ELF") >= 4
