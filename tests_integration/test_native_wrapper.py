"""`Options.native_wrapper`: graphs as one native function give what eager gives, and raise what it raises."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import meta


def native(
    fn: Any, *args: Any, dynamic: bool | None = None, others: tuple[tuple[Any, ...], ...] = ()
) -> meta.Explanation:
    """Compile with the native wrapper and compare with eager, twice; what was compiled."""
    graphs: list[Any] = []

    def backend(graph: Any, inputs: Any) -> Any:
        return meta.backends.inductor(graph, inputs, options={"native_wrapper": True}, on_compiled=graphs.append)

    compiled = meta.compile(fn, backend=backend, dynamic=dynamic)
    with torch.no_grad():
        for each in (args, args, *others):
            torch.testing.assert_close(compiled(*each), fn(*each), rtol=1e-4, atol=1e-5)
    assert graphs and all("_native(" in graph.source for graph in graphs)
    return compiled


def test_pointwise_and_products():
    w = torch.randn(8, 4)
    native(lambda x: (x + 1, torch.addmm(x[0, :4], x, w).relu(), (x @ w).T.softmax(-1)), torch.randn(3, 8))


def test_layers():
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(8 * 15 * 15, 4)
    ).eval()
    native(model, torch.randn(2, 3, 32, 32))


def test_attention():
    def f(q: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return F.scaled_dot_product_attention(q, q + 1, q * 2, attn_mask=mask)

    native(f, torch.randn(2, 2, 8, 16), torch.randn(8, 8))


def test_changing_sizes():
    def f(x: torch.Tensor, n: int, s: float) -> Any:
        return x @ x.t() * n + s, x.shape[0] * 2, x.sum(0)

    args = [(torch.randn(k, 4), k + 3, 0.5 * k) for k in (5, 7, 9)]
    native(f, *args[0], dynamic=True, others=tuple(args[1:]))


def test_writes_views_and_what_is_there():
    table = torch.arange(12.0).view(3, 4)

    def f(x: torch.Tensor, y: torch.Tensor) -> Any:
        y.add_(x)
        return y[1:], x, x.clone().index_put((torch.tensor([0, 1]),), table[:2]), torch.topk(x, 2)

    compiled = native(f, torch.randn(3, 4), torch.zeros(3, 4))
    x, y = torch.randn(3, 4), torch.randn(3, 4)
    before = y.clone()
    result = compiled(x, y)
    torch.testing.assert_close(y, before + x)
    assert result[1] is x and result[0].data_ptr() == y[1:].data_ptr()


def test_gradients():
    model = nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Linear(8, 2))
    compiled = meta.compile(model, options={"native_wrapper": True})
    x = torch.randn(3, 4)
    compiled(x).square().sum().backward()
    found = [p.grad.clone() for p in model.parameters()]
    model.zero_grad()
    model(x).square().sum().backward()
    torch.testing.assert_close(found, [p.grad for p in model.parameters()])


def test_what_eager_raises():
    table = torch.randn(10, 4)

    def f(ids: torch.Tensor) -> torch.Tensor:
        return F.embedding(ids, table) + 1

    compiled = native(f, torch.tensor([1, 2]))
    with pytest.raises(IndexError, match="index out of range in self"), torch.no_grad():
        compiled(torch.tensor([1, 10]))
    torch.testing.assert_close(compiled(torch.tensor([3, 2])), f(torch.tensor([3, 2])))


def test_what_has_no_native_form_keeps_python():
    def f(x: torch.Tensor) -> Any:
        return torch._foreach_norm([x, x + 1])[1]

    x = torch.randn(3)
    torch.testing.assert_close(meta.compile(f, options={"native_wrapper": True})(x), f(x))

    def of_complex(x: torch.Tensor) -> Any:
        return x * 2  # ATen's operator takes the number as a tensor

    z = torch.randn(3, dtype=torch.complex64)
    torch.testing.assert_close(meta.compile(of_complex, options={"native_wrapper": True})(z), of_complex(z))


def test_from_the_disk_cache(tmp_path: Any):
    options = {"native_wrapper": True, "cache_dir": str(tmp_path)}
    model, x = nn.Linear(4, 3), torch.randn(2, 4)
    stats = []
    for _ in range(2):
        meta.reset()

        def backend(graph: Any, inputs: Any) -> Any:
            return meta.backends.inductor(
                graph, inputs, options=options, on_compiled=lambda g: stats.append(g.stats.cache)
            )

        with torch.no_grad():
            torch.testing.assert_close(meta.compile(model, backend=backend)(x), model(x))
    assert stats == ["miss", "hit"]
