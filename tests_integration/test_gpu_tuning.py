"""`mode="max-autotune"` on a GPU: forms of kernels are timed where they are first launched. Elsewhere skipped.

`TRITON_INTERPRET=0 pytest tests_integration/test_gpu_tuning.py` runs them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import capture
import meta
from inductor.triton import tuning

pytestmark = pytest.mark.skipif(
    not torch.cuda.is_available() or os.environ["TRITON_INTERPRET"] != "0",
    reason="needs a CUDA GPU, and Triton's compiler in place of its interpreter (TRITON_INTERPRET=0)",
)


@pytest.fixture(autouse=True)
def _raising() -> Iterator[None]:
    before, capture.config.on_error = capture.config.on_error, "raise"
    meta.reset()
    yield
    capture.config.on_error = before


@pytest.fixture
def timed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Grows by how many forms a kernel has, for each that is timed."""
    found: list[int] = []
    seconds = tuning.seconds

    def counted(calls: Any, device: torch.device) -> list[float]:
        figures = seconds(calls, device)
        assert len(calls) > 1 and all(0 < figure < 1 for figure in figures)
        found.append(len(calls))
        return figures

    monkeypatch.setattr(tuning, "seconds", counted)
    return found


def written(x: Tensor, y: Tensor) -> Tensor:
    x.add_(y)
    return x.t().contiguous()


PROGRAMS: dict[str, tuple[Callable[..., Any], list[tuple[int, ...]]]] = {
    "elementwise": (lambda x, y: F.gelu(x) * y, [(2000, 1000), (2000, 1000)]),
    "written": (written, [(2000, 1000), (2000, 1000)]),
    "softmax": (lambda x: torch.softmax(x, -1), [(3000, 384)]),
    "norm": (lambda x, w: F.layer_norm(x, (384,), w), [(3000, 384), (384,)]),
    "long rows": (lambda x: torch.log_softmax(x, -1), [(64, 30522)]),
    "positions": (lambda x: x.argmax(-1), [(64, 9000)]),
    "columns": (lambda x: x.sum(0), [(9000, 500)]),
    "row by matrix": (lambda x, w: F.linear(x, w), [(1, 14336), (4096, 14336)]),
}


@torch.no_grad()
@pytest.mark.parametrize("name", PROGRAMS)
def test_results_and_figures(name: str, timed: list[int], tmp_path: Path) -> None:
    program, sizes = PROGRAMS[name]
    inputs = [torch.randn(size, device="cuda") for size in sizes]
    options = {"cache_dir": str(tmp_path)}
    run = meta.compile(program, mode="max-autotune-no-cudagraphs", options=options)
    for _ in range(3):
        ours, theirs = ([each.clone() for each in inputs] for _ in range(2))
        torch.testing.assert_close(run(*ours), program(*theirs), atol=2e-3, rtol=1e-3)
        torch.testing.assert_close(ours, theirs)
    count = len(timed)
    assert count
    meta.reset()
    again = meta.compile(program, mode="max-autotune", options=options)
    found = again(*(each.clone() for each in inputs))
    torch.testing.assert_close(found, program(*inputs), atol=2e-3, rtol=1e-3)
    assert len(timed) == count, "what is known is not timed again"


@torch.no_grad()
def test_recorded_after_it_was_timed(timed: list[int], tmp_path: Path) -> None:
    run = meta.compile(
        lambda x, w: F.layer_norm(x.sin(), (1000,), w), mode="max-autotune", options={"cache_dir": str(tmp_path)}
    )
    w = torch.randn(1000, device="cuda")
    for _ in range(5):
        x = torch.randn(500, 1000, device="cuda")
        torch.testing.assert_close(run(x, w), F.layer_norm(x.sin(), (1000,), w))
    assert len(timed) == 1


def test_training_with_gradients_that_accumulate(timed: list[int], tmp_path: Path) -> None:
    table = torch.randn(500, 256, device="cuda", requires_grad=True)
    places = torch.randint(0, 500, (3000,), device="cuda")

    def loss(table: Tensor) -> Tensor:
        return F.layer_norm(F.embedding(places, table), (256,)).square().mean()

    run = meta.compile(loss, mode="max-autotune", options={"cache_dir": str(tmp_path)})
    (expected,) = torch.autograd.grad(loss(table), table)
    for _ in range(3):
        (found,) = torch.autograd.grad(run(table), table)
        torch.testing.assert_close(found, expected)
    assert timed


@torch.no_grad()
def test_sizes_that_change(timed: list[int], tmp_path: Path) -> None:
    run = meta.compile(
        lambda x: torch.softmax(x * 2, -1),
        mode="max-autotune-no-cudagraphs",
        dynamic=True,
        options={"cache_dir": str(tmp_path)},
    )
    for rows, columns in ((2000, 384), (300, 1000), (2000, 384), (2001, 384), (7, 20000)):
        x = torch.randn(rows, columns, device="cuda")
        torch.testing.assert_close(run(x), torch.softmax(x * 2, -1))
    assert len(timed) == 4
