"""Gradients of products: of elements among which are zeros, infinities and what is no number, as eager's, which asks the data."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import meta

INF, NAN = float("inf"), float("nan")
ELEMENTS = [
    [1.0, 2.0, 3.0], [0.0, 2.0, 3.0], [0.0, 0.0, 3.0], [INF, 2.0, 0.0], [INF, 0.0, 0.0], [NAN, 2.0, 3.0], [NAN, 0.0, 3.0],
    [0.0, 0.0, NAN], [-INF, 0.0, INF], [INF, 2.0, 3.0], [1e30, 1e30, 2.0], [1e-30, 1e-30, 2.0], [1e30, 1e30, 0.0], [0.0], [NAN],
]  # fmt: skip
PRODUCTS: dict[str, Callable[[Tensor], Tensor]] = {
    "whole": lambda x: x.prod(),
    "rows": lambda x: x.reshape(1, -1).prod(1),
    "columns": lambda x: torch.prod(x.reshape(-1, 1).expand(-1, 2), 0, keepdim=True),
    "one row with zeros": lambda x: torch.stack([x, x.nan_to_num(1) + 3]).prod(dim=-1),
    "matrix": lambda x: torch.stack([x, x.nan_to_num(1) + 3]).prod(),
    "wider": lambda x: torch.prod(x, 0, dtype=torch.float64),
    "number": lambda x: x[0].prod(),
}


def gradient(run: Callable[..., Any], elements: list[float], dtype: torch.dtype = torch.float32) -> Tensor:
    x = torch.tensor(elements, dtype=dtype, requires_grad=True)
    run(x).sum().backward()
    assert x.grad is not None
    return x.grad


@pytest.mark.parametrize("name", PRODUCTS)
def test_gradients(name: str) -> None:
    program = PRODUCTS[name]
    compiled = meta.compile(program, fullgraph=True)
    for elements in ELEMENTS:
        for dtype in (torch.float32, torch.float64):
            found, expected = gradient(compiled, elements, dtype), gradient(program, elements, dtype)
            torch.testing.assert_close(found, expected, equal_nan=True, msg=lambda words, at=elements: f"{at}: {words}")


@pytest.mark.parametrize("name", ["whole", "rows"])
@pytest.mark.parametrize("elements", [[1.0, 2.0, 3.0], [0.0, 2.0, 3.0], [0.0, 0.0, 3.0]])
def test_second_gradients(name: str, elements: list[float]) -> None:
    def run(x: Tensor) -> Tensor:
        (first,) = torch.autograd.grad(PRODUCTS[name](x).sum(), x, create_graph=True)
        (second,) = torch.autograd.grad((first * first + first).sum(), x)
        return second

    x = torch.tensor(elements, requires_grad=True)
    torch.testing.assert_close(meta.compile(run)(x), run(x))


@pytest.mark.parametrize("elements", [[1.0, 2.0, 3.0], [0.0, 2.0, 3.0]])
def test_within_function_transforms(elements: list[float]) -> None:
    def run(x: Tensor) -> tuple[Tensor, ...]:
        def product(x: Tensor) -> Tensor:
            return x.prod(0)

        rows = torch.stack([x, x + 1])
        return torch.func.grad(product)(x), torch.func.vmap(torch.func.grad(product))(rows), torch.vmap(product)(rows)

    x = torch.tensor(elements)
    torch.testing.assert_close(meta.compile(run)(x), run(x))
    y = torch.tensor(elements, requires_grad=True)
    torch.testing.assert_close(meta.compile(run)(y), run(y))


def test_sizes_that_change() -> None:
    def run(x: Tensor) -> Tensor:
        return x.prod(1)

    compiled = meta.compile(run, dynamic=True)
    for rows, columns in ((2, 3), (3, 4), (4, 1), (5, 0), (1, 7)):
        found = []
        for each in (compiled, run):
            x = (torch.arange(rows * columns).reshape(rows, columns) % 5 + 0.5).requires_grad_()
            each(x).sum().backward()
            found.append(x.grad)
        torch.testing.assert_close(*found)
