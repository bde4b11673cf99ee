"""Gradients of running products: eager's, zeros or none, in a number of kernels that does not grow with the length."""

from __future__ import annotations

import functools

import pytest
import torch

import capture
import inductor
import meta


@pytest.mark.parametrize("dim", [0, -1])
@pytest.mark.parametrize("zeros", [0.0, 0.2, 0.6, 1.0])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
def test_gradients(dtype: torch.dtype, zeros: float, dim: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capture.config, "on_error", "raise")
    torch.manual_seed(0)
    x = torch.randn(5, 9, dtype=dtype).masked_fill(torch.rand(5, 9) < zeros, 0.0).requires_grad_()

    def program(x: torch.Tensor) -> torch.Tensor:
        return x.cumprod(dim) * x + torch.cumprod(x, dim=dim)

    found, expected = meta.compile(program)(x), program(x)
    torch.testing.assert_close(found, expected)
    slope = torch.randn_like(expected)
    mine, theirs = (torch.autograd.grad(out, x, slope)[0] for out in (found, expected))
    torch.testing.assert_close(mine, theirs)


def test_steps_do_not_grow_with_the_length(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capture.config, "on_error", "raise")
    graphs: list[inductor.CompiledGraph] = []
    backend = functools.partial(meta.backends.inductor, on_compiled=graphs.append)
    x = torch.randn(3, 100, requires_grad=True)
    meta.compile(lambda x: x.cumprod(1), backend=backend)(x).sum().backward()
    assert sum(graph.stats.externs + graph.stats.launches for graph in graphs) < 12


@pytest.mark.parametrize(
    "x", [torch.tensor(3.0), torch.arange(4), torch.tensor([1j, 2.0])], ids=["0-d", "int", "complex"]
)
def test_others_are_eagers(x: torch.Tensor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capture.config, "on_error", "raise")
    if x.dtype.is_floating_point or x.is_complex():
        x = x.clone().requires_grad_()
    torch.testing.assert_close(meta.compile(lambda x: x.cumprod(0))(x), x.cumprod(0))


@pytest.mark.parametrize("dim", [0, -1])
@pytest.mark.parametrize(
    "values",
    [[1.0, 2.0, 3.0, 0.5], [1.0, 0.0, 2.0, 0.0], [0.0, float("nan"), 2.0, 0.0], [1.0, float("inf"), 2.0, 0.0]],
    ids=["plain", "zeros", "NaN", "infinite"],
)
def test_within_transforms(values: list[float], dim: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capture.config, "on_error", "raise")
    grad, vmap = torch.func.grad, torch.func.vmap

    def once(x: torch.Tensor) -> torch.Tensor:
        return (x.view(2, 2).cumprod(dim) * torch.arange(1, 5).view(2, 2)).sum()

    def twice(x: torch.Tensor) -> torch.Tensor:
        return (grad(once)(x) ** 2).sum()

    def program(x: torch.Tensor) -> list[torch.Tensor]:
        rows = vmap(grad(lambda y: torch.cumprod(y, 0).sum()))(torch.stack([x, x + 1]))
        return [grad(once)(x), grad(twice)(x), rows, torch.func.jacrev(lambda y: y.cumprod(0))(x)]

    x = torch.tensor(values)
    torch.testing.assert_close(meta.compile(program)(x), program(x), equal_nan=True)
