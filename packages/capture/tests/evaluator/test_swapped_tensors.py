"""``torch.utils.swap_tensors``: in a captured function, and of what one was called with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import capture


def after_a_graph(a, b):
    y = a * 2
    torch.utils.swap_tensors(a, b)
    return y, a * 3, b


def with_an_attribute(a, b):
    a.mark = 1
    torch.utils.swap_tensors(a, b)
    return hasattr(a, "mark"), hasattr(b, "mark"), a.shape


def one_made_within(a, b):
    c = b * 3
    torch.utils.swap_tensors(a, c)
    return a + 1, c


def plain() -> tuple[Any, Any]:
    return torch.arange(3.0), torch.ones(2, 2)


def differentiated() -> tuple[Any, Any]:
    return torch.arange(3.0).requires_grad_(), torch.ones(3)


def parameters() -> tuple[Any, Any]:
    return torch.nn.Parameter(torch.arange(3.0)), torch.nn.Parameter(torch.ones(3))


@pytest.mark.parametrize("fn", [after_a_graph, with_an_attribute, one_made_within])
@pytest.mark.parametrize("make", [plain, differentiated, parameters])
def test_within_a_captured_function(fn: Callable[..., Any], make: Callable[[], tuple[Any, Any]]) -> None:
    compiled = capture.compile(fn)
    for _ in range(3):
        given = make(), make()
        wanted, got = fn(*given[0]), compiled(*given[1])
        for a, b in zip([*wanted, *given[0]], [*got, *given[1]], strict=True):
            assert type(a) is type(b)
            if isinstance(a, torch.Tensor):
                assert torch.equal(a, b)
                assert a.requires_grad is b.requires_grad
            else:
                assert a == b


def test_parameters_of_a_captured_module() -> None:
    model = torch.nn.Linear(3, 2)
    compiled, x = capture.compile(model), torch.ones(1, 3)
    compiled(x).sum().backward()
    model.zero_grad()
    before = torch.__future__.get_swap_module_params_on_conversion()
    torch.__future__.set_swap_module_params_on_conversion(True)
    try:
        model.double()
    finally:
        torch.__future__.set_swap_module_params_on_conversion(before)
    assert model.weight.dtype is torch.float64
    assert torch.equal(compiled(x.double()), model(x.double()))
