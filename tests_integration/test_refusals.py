"""What has no compiled form in training runs eagerly, between graphs; results are tensors that autograd lets be written."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import capture
import meta


@torch.library.custom_op("refusals::routed", mutates_args=())
def _op(x: torch.Tensor, weight: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
    """Rows of each group times that group's matrix."""
    parts, start = [], 0
    for group, end in enumerate(ends.tolist()):
        parts.append(x[start:end] @ weight[group])
        start = end
    return torch.cat(parts)


@_op.register_fake
def _fake(x: torch.Tensor, weight: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
    return x.new_empty(x.shape[0], weight.shape[2])


def _save(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.save_for_backward(*inputs)


def _gradients(ctx: Any, gradient: torch.Tensor) -> Any:
    """Reads the groups' ends, which a trace does not know."""
    x, weight, ends = ctx.saved_tensors
    dx, dw, start = torch.empty_like(x), torch.zeros_like(weight), 0
    for group, end in enumerate(ends.tolist()):
        dx[start:end] = gradient[start:end] @ weight[group].T
        dw[group] = x[start:end].T @ gradient[start:end]
        start = end
    return dx, dw, None


_op.register_autograd(_gradients, setup_context=_save)


def _routed(x: torch.Tensor, weight: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
    for _ in range(2):
        x = _op(torch.tanh(x) * 2, weight, ends).relu()
    return x


@pytest.mark.parametrize("captured", [True, False])
@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_an_operator_s_formula_that_reads_data_runs_as_it_is(
    backend: str, captured: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(capture.config, "capture_data_dependent", captured)
    compiled = meta.compile(_routed, backend=backend, fullgraph=True)
    weight = torch.randn(3, 4, 4, dtype=torch.float64, requires_grad=True)
    for ends in (torch.tensor([2, 2, 6]), torch.tensor([0, 5, 6])):
        x = torch.randn(6, 4, dtype=torch.float64, requires_grad=True)
        found, expected = (
            (out := run(x, weight, ends), torch.autograd.grad(out.square().sum(), (x, weight)))
            for run in (compiled, _routed)
        )
        torch.testing.assert_close(found, expected)
    assert compiled.session.report.graph_count == 1


class _Skipping(torch.autograd.Function):
    """Its backward decides by data."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x)
        return x * 2

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        (x,) = ctx.saved_tensors
        return gradient * 2 if x.sum().item() != 0 else gradient * 0


def _skipped(x: torch.Tensor) -> torch.Tensor:
    return _Skipping.apply(x.sin()).cos()


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_a_backward_that_reads_data_runs_eagerly(backend: str) -> None:
    x = torch.randn(6, 4, requires_grad=True)
    expected = torch.autograd.grad(_skipped(x).sum(), x)
    compiled = meta.compile(_skipped, backend=backend)
    out = compiled(x)
    assert compiled.session.report.break_count
    torch.testing.assert_close(torch.autograd.grad(out.sum(), x), expected)
    with pytest.raises(capture.GraphBreakError):
        meta.compile(_skipped, backend=backend, fullgraph=True)(x)


def test_a_result_that_a_compiler_returns_as_a_view_may_be_written_to() -> None:
    def product(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return x @ weight

    x, weight = torch.randn(2, 3, 4, requires_grad=True), torch.randn(4, 5, requires_grad=True)
    found, expected = meta.compile(product)(x, weight), product(x, weight)
    for y in (found, expected):
        y[:, 0] += 1
    torch.testing.assert_close(found, expected)
    for mine, eagers in zip(*(torch.autograd.grad(y.sum(), (x, weight)) for y in (found, expected)), strict=True):
        torch.testing.assert_close(mine, eagers)


def test_a_sparse_gradient_ends_the_graph_at_the_call_that_has_it() -> None:
    table, layer, at = torch.nn.Embedding(10, 4, sparse=True), torch.nn.Linear(4, 2), torch.tensor([1, 2, 1])

    def fn(at: torch.Tensor) -> torch.Tensor:
        return layer(table(at).sin() + 1).relu().sum()

    compiled = meta.compile(fn)
    gradients = [torch.autograd.grad(each(at), [table.weight, layer.weight]) for each in (fn, compiled)]
    assert all(sparse.is_sparse for sparse, _ in gradients)
    torch.testing.assert_close(*[[sparse.to_dense(), dense] for sparse, dense in gradients])
    assert meta.report(compiled).graph_count == 1
