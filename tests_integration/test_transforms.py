"""`torch.func` and checkpoints through the whole compiler: results, and gradients of what they give, are eager's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.func import functional_call, grad, hessian, jacfwd, jacrev, jvp, vjp, vmap
from torch.utils.checkpoint import checkpoint

import capture
import meta

network = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Tanh(), torch.nn.Linear(3, 2))


def energy(x: torch.Tensor) -> torch.Tensor:
    return network(x).pow(2).sum()


def per_sample(x: torch.Tensor) -> Any:
    parameters = {name: p.detach() for name, p in network.named_parameters()}
    one = grad(lambda p, row: functional_call(network, p, (row[None],)).pow(2).sum())
    return vmap(one, in_dims=(None, 0))(parameters, x)


def slopes(x: torch.Tensor) -> Any:
    out, pull = vjp(network, x)
    (slope,) = pull(torch.ones_like(out))
    return out.sum() + slope.pow(2).sum()


def jacobians(x: torch.Tensor) -> Any:
    return vmap(jacrev(network))(x), vmap(jacfwd(network))(x), jvp(network, (x,), (x,))


def curvature(x: torch.Tensor) -> Any:
    return vmap(hessian(energy))(x), jvp(grad(energy), (x,), (torch.ones_like(x),))


def layers(x: torch.Tensor) -> Any:
    for _ in range(2):
        x = checkpoint(lambda v: torch.cat([network(v).sin()] * 2, 1), x, use_reentrant=False)
    return checkpoint(network, x, use_reentrant=True)


def trained(f: Callable[..., Any]) -> list[Any]:
    x = torch.linspace(-1, 1, 12).reshape(3, 4).requires_grad_()
    network.zero_grad()
    out = torch.utils._pytree.tree_leaves(f(x))
    weighted = [(i + 1) * each.square().sum() for i, each in enumerate(out) if each.requires_grad]
    if weighted:
        torch.stack(weighted).sum().backward()
    return [*(each.detach() for each in out), x.grad, *(p.grad for p in network.parameters())]


FUNCTIONS = [per_sample, slopes, jacobians, curvature, layers]
CASES = [(f, "aot_eager") for f in FUNCTIONS] + [(f, "inductor") for f in (per_sample, curvature)]


@pytest.mark.parametrize(("f", "backend"), CASES, ids=lambda each: getattr(each, "__name__", each))
def test_results_and_gradients(f: Callable[..., Any], backend: str) -> None:
    capture.reset()
    expected = trained(f)
    found = trained(meta.compile(f, backend=backend, fullgraph=True))
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize(("backend", "reentrant"), [("aot_eager", True), ("inductor", False)])
def test_what_a_checkpoint_drops_is_dropped_in_its_backward(backend: str, reentrant: bool) -> None:
    x = torch.ones(64, 64, requires_grad=True)

    def f(x: torch.Tensor) -> torch.Tensor:
        return checkpoint(lambda v: torch.nn.functional.dropout(v * 2, 0.5), x, use_reentrant=reentrant)

    out = meta.compile(f, backend=backend, fullgraph=True)(x)
    out.sum().backward()
    assert 0.8 < out.mean() / 2 < 1.2
    assert x.grad is not None
    torch.testing.assert_close(x.grad, out.detach())


def test_sizes_that_change() -> None:
    compiled = meta.compile(slopes, backend="aot_eager", fullgraph=True, dynamic=True)
    for rows in (3, 5):
        x = torch.randn(rows, 4)
        torch.testing.assert_close(compiled(x), slopes(x))


def test_no_tangent_is_zero_beside_infinity() -> None:
    """Eager has zeros without memory there, which kernels cannot read, and whose products are zeros whatever the other factor is."""
    x, factor = torch.tensor([float("inf"), 1.0]), torch.tensor([float("inf"), 2.0])

    def f(x: torch.Tensor) -> Any:
        return jvp(lambda v: v * 2.5 + v * factor, (x,), (torch.ones(2),))

    found = meta.compile(f, backend="inductor", fullgraph=True)(x)
    torch.testing.assert_close(found, f(x))
