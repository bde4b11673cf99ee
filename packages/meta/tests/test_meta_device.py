"""Tensors of the device `meta`, which have no elements: what is computed on them is what eager says of sizes, strides and dtypes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import meta


def told(value: Any) -> Any:
    """What can be known of a result."""
    if isinstance(value, tuple | list):
        return [told(each) for each in value]
    if not isinstance(value, torch.Tensor):
        return value
    elements = None if value.is_meta else value.tolist()
    return tuple(value.shape), value.stride(), value.dtype, value.device, value.requires_grad, elements


def elementwise(x: torch.Tensor) -> Any:
    return (x * 2 + 1).relu(), x.sum(), torch.zeros_like(x), x.to(torch.int8), x.softmax(-1)


def products(x: torch.Tensor) -> Any:
    return x @ x.t(), F.linear(x, x), F.layer_norm(x, x.shape[1:]), x.t()[1:]


def random(x: torch.Tensor) -> Any:
    return F.dropout(x, 0.5), torch.rand_like(x), torch.randn(3, device="meta") * 2


def beside_others(x: torch.Tensor) -> Any:
    y = torch.arange(4.0)
    return y * 2, x + 1, torch.empty_like(x, device="cpu").fill_(3) + 1, y.to("meta") * 2


def written(x: torch.Tensor) -> Any:
    x.add_(1)
    return x.view(-1)[1:], x * 2


@pytest.mark.parametrize("mode", [None, "max-autotune"])
@pytest.mark.parametrize("fn", [elementwise, products, random, beside_others, written])
def test_one_graph(fn: Callable[..., Any], mode: str | None) -> None:
    compiled = meta.compile(fn, mode=mode, fullgraph=True)
    for size in (3, 4, 5):
        found, wanted = (each(torch.ones(size, 4, device="meta")) for each in (compiled, fn))
        assert told(found) == told(wanted)


def test_a_default_device_of_it() -> None:
    def fn() -> Any:
        return torch.ones(3) * 2

    compiled = meta.compile(fn, fullgraph=True)
    assert compiled().tolist() == [2.0] * 3
    with torch.device("meta"):
        assert told(compiled()) == told(fn())
    assert compiled().tolist() == [2.0] * 3


def test_gradients() -> None:
    with torch.device("meta"):
        model, x = torch.nn.Linear(4, 2), torch.ones(3, 4, requires_grad=True)
    meta.compile(model, fullgraph=True)(x).sum().backward()
    for each in (x, *model.parameters()):
        assert each.grad is not None
        assert told(each.grad) == told(torch.empty_like(each, requires_grad=False))
