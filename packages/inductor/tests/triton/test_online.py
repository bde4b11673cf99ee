"""Two walks over a row that are one: results under Triton's interpreter, also of what is not finite, and which walks are."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from inductor_apart import compiled_apart
from inductor_tracing import trace
from torch import Tensor

from inductor import Options, lower, schedule
from inductor.device import Kernel

if importlib.util.find_spec("triton") is None:
    pytest.skip("triton is not installed in this environment", allow_module_level=True)
if os.environ.get("TRITON_INTERPRET") != "1":
    pytest.skip("runs under Triton's interpreter", allow_module_level=True)
from inductor.triton import TritonBackend
from inductor.triton.blocks import Blocks
from inductor.triton.kernel import KernelPrinter

STEPS = Blocks(x=1, r=16, persistent=False, warps=1, wide=False)
OWN = Options(cache=False, autotune=False)
INF, NAN = float("inf"), float("nan")


def kernel_of(fn: Callable[..., Any], *inputs: Tensor) -> Kernel:
    graph, _ = trace(fn, *inputs)
    backend = TritonBackend("cpu")
    program = lower(graph, inputs, OWN, lambda device: backend.traits)
    (kernel,) = schedule(program, OWN, traits=lambda _: backend.traits).kernels
    return kernel


def run(kernel: Kernel, step: int, rows: int, *tensors: Tensor) -> str:
    """By blocks of so many rows and steps; gives the text."""
    from inductor.triton.building import make_function

    blocks = Blocks(x=rows, r=step, persistent=False, warps=1, wide=False)
    text = KernelPrinter(kernel, blocks).text()
    programs = -(-int(kernel.outer_sizes[0]) // rows)
    make_function(text, kernel.name)[(programs,)](*tensors, XBLOCK=rows, RBLOCK=step)
    return text


def rows_with(*numbers: float) -> Tensor:
    """Rows of normal numbers, in each one of these at the first, the last and a place between."""
    x = torch.randn(3 * len(numbers), 100, generator=torch.Generator().manual_seed(1)) * 4
    for at, number in enumerate(numbers):
        for k, place in enumerate((0, 99, 41)):
            x[3 * at + k, place] = number
    return x


PROGRAMS: dict[str, tuple[Callable[[Tensor], Any], int]] = {
    "softmax": (lambda x: torch.softmax(x, 1), 2),
    "scaled softmax": (lambda x: torch.softmax(x * 0.5, 1), 2),
    "logarithms": (lambda x: torch.log_softmax(x, 1), 2),
    "logarithm of the sum": (lambda x: torch.log(torch.exp(x - x.amax(1, True)).sum(1)), 1),
    "mean and variance": (lambda x: (x.mean(1), x.var(1)), 1),
    "norm": (lambda x: F.layer_norm(x, (100,)), 2),
}


@pytest.mark.parametrize("step", [16, 64, 128])
@pytest.mark.parametrize("name", PROGRAMS)
def test_results(name: str, step: int) -> None:
    fn, walks = PROGRAMS[name]
    x = rows_with(1e4, -1e4, INF, -INF, NAN)
    x = torch.cat([x, torch.full((1, 100), -INF), torch.full((1, 100), 3.0), torch.linspace(9, 11, 100)[None]])
    expected = fn(x)
    expected = list(expected) if isinstance(expected, tuple) else [expected]
    kernel = kernel_of(fn, x)
    found = {arg.name: torch.empty(0) for arg in kernel.args}
    results = [arg.name for arg in kernel.args if arg.role == "out"]
    found |= {arg.name: x for arg in kernel.args if arg.role == "in"}
    found |= {name: torch.full_like(like, 7) for name, like in zip(results, expected, strict=True)}
    text = run(kernel, step, 2, *(found[arg.name] for arg in kernel.args))
    assert text.count("for start") == walks
    for name, wanted in zip(results, expected, strict=True):
        torch.testing.assert_close(found[name], wanted, equal_nan=True, rtol=2e-5, atol=2e-5)


def test_the_cache_keeps_what_is_read_again() -> None:
    """And neither what is read the last time nor what is written; a walk that reads what no other one does says nothing."""
    twice = KernelPrinter(kernel_of(lambda x: torch.softmax(x, 1), rows_with(1.0)), STEPS).text()
    first, second = twice.split("for start")[1:]
    assert first.count("evict_last") == 1 and "evict_first" not in first
    assert second.count("evict_first") == 2 and "evict_last" not in second
    once = KernelPrinter(kernel_of(lambda x: (x.mean(1), x.var(1)), rows_with(1.0)), STEPS).text()
    assert "evict" not in once


@pytest.mark.parametrize(
    "fn",
    [
        lambda x: ((x - x.amax(1, True)).exp() * 2).sum(1),
        lambda x: (x * 2 - x.amax(1, True)).exp().sum(1),
        lambda x: ((x - x.sum(1, True) / 99) ** 2).sum(1),
        lambda x: (x - x.amin(1, True)).exp().sum(1),
        lambda x: (x.amax(1), x.sum(1), (x - x.amax(1, True)).exp().sum(1)),
    ],
)
def test_others_walk_twice(fn: Callable[[Tensor], Any]) -> None:
    x = rows_with(1.0)
    text = KernelPrinter(kernel_of(fn, x), STEPS).text()
    assert text.count("for start") == 2


@pytest.mark.parametrize(
    "fn",
    [
        lambda x: x[:, None].expand(10, 100).contiguous().var(1),
        lambda x: torch.full((10, 100), 2.0).var(1) + x,
        lambda x: torch.arange(100.0)[None].expand(10, 100).contiguous().var(1) + x,
    ],
    ids=["of a row", "of all", "of a column"],
)
@pytest.mark.parametrize("rows", [1, 4])
def test_what_many_points_share(rows: int, fn: Callable[[Tensor], Any]) -> None:
    x, found = torch.randn(10), torch.empty(10)
    kernel = kernel_of(fn, x)
    assert [arg.role for arg in kernel.args] == ["in", "out"]
    assert "add_squares" in run(kernel, 16, rows, x, found)
    torch.testing.assert_close(found, fn(x), rtol=2e-5, atol=2e-5)


def test_several_such_walks_one_after_the_other(tmp_path: Path) -> None:
    program = f"import sys; sys.path[:0] = {sys.path}"
    program += """
import torch
from inductor_tracing import trace
from inductor import Options, lower, schedule
from inductor.triton import TritonBackend, compile_ahead
options, backend = Options(cache=False, autotune=False), TritonBackend("cpu")
given = [torch.randn(300, 9000)]
graph, _ = trace(lambda x: torch.layer_norm(x, (9000,)).softmax(1), *given)
(kernel,) = schedule(lower(graph, given, options, lambda _: backend.traits), options, traits=lambda _: backend.traits).kernels
source = backend.emit(kernel)
print(source.text.count("for start"), compile_ahead(source)[:4])
"""
    compiled_apart(program, tmp_path, ["3 b'\\x7fELF'"])
