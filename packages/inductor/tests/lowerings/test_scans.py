"""Running results as loops, on the IR's interpreter: what eager gives, where kernels begin and end, what is left to ATen."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from inductor_tracing import trace
from torch import Tensor

from inductor import CompiledGraph, DeviceTraits, Options, ReferenceBackend, compile_graph


class Scanning(ReferenceBackend):
    """The interpreter, as a device that scans."""

    def __init__(self, **facts: Any) -> None:
        super().__init__()
        self.traits = replace(DeviceTraits(scans=True), **facts)


def compiled(function: Callable[..., Any], *inputs: Tensor, cut: bool = False, **facts: Any) -> CompiledGraph:
    graph, expected = trace(function, *inputs)
    options = Options(cache=False, split_reductions=cut)
    found = compile_graph(graph, inputs, options, backends={"cpu": Scanning(**facts)})
    for got, want in zip(found(list(inputs)), expected, strict=True):
        assert (got.dtype, got.stride()) == (want.dtype, want.stride())
        torch.testing.assert_close(got, want, equal_nan=True)
    return found


def kernels_of(graph: CompiledGraph) -> tuple[int, int]:
    assert graph.stats.interpreted == 0
    return graph.stats.launches, graph.stats.externs


FUNCTIONS: dict[str, Callable[[Tensor, int], Any]] = {
    "cumsum": lambda x, dim: x.cumsum(dim),
    "cumprod": lambda x, dim: x.cumprod(dim),
    "cummax": lambda x, dim: x.cummax(dim),
    "cummin": lambda x, dim: x.cummin(dim),
}
DTYPES = (torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)
FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


def numbers(dtype: torch.dtype, *size: int) -> Tensor:
    generator = torch.Generator().manual_seed(0)
    if dtype is torch.bool:
        return torch.rand(size, generator=generator) > 0.5
    if dtype.is_floating_point:
        return (torch.randn(size, generator=generator) * 4).round().div(4).to(dtype)
    return torch.randint(0, 100, size, generator=generator).to(dtype)


@pytest.mark.parametrize("dtype", DTYPES + FLOATS, ids=str)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_dtypes(name: str, dtype: torch.dtype) -> None:
    x = numbers(dtype, 4, 9)
    assert kernels_of(compiled(lambda x: FUNCTIONS[name](x, -1), x)) == (1, 0)
    assert kernels_of(compiled(lambda x: FUNCTIONS[name](x, 0), x)) == (1, 0)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_logs_of_sums_of_exponentials(dtype: torch.dtype) -> None:
    x = numbers(dtype, 4, 9)
    x[1, 3], x[1, 5], x[2, 4], x[3] = float("-inf"), float("inf"), float("nan"), float("-inf")
    assert kernels_of(compiled(lambda x: x.logcumsumexp(1), x)) == (1, 0)
    assert kernels_of(compiled(lambda x: (x + 1).logcumsumexp(0) * 2, x)) == (1, 0)


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("name", ["cummax", "cummin"])
def test_the_last_of_equals_and_every_nan_has_its_place(name: str, dtype: torch.dtype) -> None:
    x = torch.tensor([[1.0, 1.0, 2.0, 2.0, -1.0, -1.0, 2.0], [3.0, float("nan"), 9.0, float("nan"), 1.0, -4.0, 0.0]])
    x = torch.cat([x, torch.full((1, 7), float("inf")), torch.full((1, 7), float("-inf"))]).to(dtype)
    compiled(lambda x: FUNCTIONS[name](x, 1), x)
    compiled(lambda x: FUNCTIONS[name](x / 3, 1), x)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_sizes(name: str) -> None:
    function = FUNCTIONS[name]
    for x, dim in (
        (torch.tensor(3.0), 0),
        (torch.tensor(3.0), -1),
        (torch.randn(1), 0),
        (torch.randn(3, 1, 2), 1),
        (torch.randn(2, 3, 4), 1),
        (torch.randn(2, 3, 4).permute(2, 0, 1), -2),
        (torch.randn(5, 6)[:, ::2], 1),
    ):
        assert kernels_of(compiled(lambda x, dim=dim: function(x, dim), x)) == (1, 0)
    assert kernels_of(compiled(lambda x: function(x, 0), torch.randn(0, 3)))[0] == 0


def test_a_dtype_that_is_asked_for_is_that_of_what_is_combined() -> None:
    x = numbers(torch.float32, 3, 40) * 300
    compiled(lambda x: x.cumsum(1, dtype=torch.int8), x.long())
    compiled(lambda x: x.cumprod(1, dtype=torch.uint8), x.long() | 1)
    compiled(lambda x: x.cumsum(1, dtype=torch.float64), x)
    assert kernels_of(compiled(lambda x: (x / 7).cumsum(1, dtype=torch.float16), x / 100)) == (1, 0)


def test_neighbours_are_one_kernel_with_it() -> None:
    x, mask = torch.randn(5, 70), torch.rand(5, 70) > 0.5
    assert kernels_of(compiled(lambda x, m: torch.softmax(x, -1).cumsum(-1) * m, x, mask)) == (1, 0)
    assert kernels_of(compiled(lambda x: (x.exp().cumsum(1) / x.exp().sum(1, keepdim=True)).amax(1), x)) == (1, 0)
    assert kernels_of(compiled(lambda x: x.cumsum(1).cumsum(1) + x.cummax(1).values, x)) == (1, 0)
    assert kernels_of(compiled(lambda m: (m.cumsum(1) - 1).clamp(min=0) * m, mask)) == (1, 0)
    # What a scan goes along is no loop that others may have in another order.
    assert kernels_of(compiled(lambda x: x.cumsum(1).cumsum(0), x))[0] == 2
    assert kernels_of(compiled(lambda x: (x.view(5, 7, 10).cumsum(1), x.sum(1)), x))[1] == 0


def test_what_is_read_from_its_end_is_combined_from_its_end() -> None:
    x = torch.randn(5, 70)

    def gradient(x: Tensor) -> Tensor:
        return (x * 2).flip(1).cumsum(1).flip(1).exp()

    assert kernels_of(compiled(gradient, x)) == (1, 0)
    assert kernels_of(compiled(lambda x: x.flip(0).logcumsumexp(0).flip(0), x)) == (1, 0)
    assert kernels_of(compiled(lambda x: x.cumsum(1).flip(0), x)) == (2, 0)
    # A walk goes one way.
    assert kernels_of(compiled(lambda x: (x.cumsum(1), gradient(x)), x)) == (2, 0)
    compiled(lambda x: (y := x.cumsum(1), y.flip(1)), x)


def test_gradients() -> None:
    def differentiated(function: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Any]:
        def both(x: Tensor) -> Any:
            with torch.enable_grad():
                x = x.detach().requires_grad_()
                y = function(x)
                return y.detach(), *torch.autograd.grad(y.square().sum(), x)

        return both

    x = torch.randn(4, 9)
    for function in (
        lambda x: x.cumsum(1),
        lambda x: x.logcumsumexp(1),
        lambda x: x.cummax(0).values,
    ):
        compiled(differentiated(function), x)


LONG: dict[str, tuple[Callable[[Tensor], Any], tuple[int, ...], int]] = {
    "columns": (lambda x: x.cumsum(0), (1 << 11, 40), 3),
    "columns from the end": (lambda x: x.flip(1).cumsum(1).flip(1), (2, 1 << 11, 17), 3),
    "neighbours": (lambda x: (x.abs() + 1).cumsum(0).log() * x, (1 << 10, 7), 3),
    "extremes": (lambda x: x.cummax(0), (1 << 10, 7), 6),
    "logs": (lambda x: x.logcumsumexp(0), (1 << 10, 7), 3),
    "products": (lambda x: (x / 100).exp().cumprod(0), (1 << 10, 7), 3),
    "integers": (lambda x: (x * 100).int().cumsum(0), (1 << 10, 7), 3),
    "no part is long enough": (lambda x: x.cumsum(0), (1031, 2), 1),
    "rows": (lambda x: x.cumsum(-1), (2, 1 << 15), 1),
}


@pytest.mark.parametrize("name", LONG)
def test_few_long_columns_are_cut(name: str) -> None:
    function, size, count = LONG[name]
    x = torch.randn(size, dtype=torch.float64)
    assert kernels_of(compiled(function, x, cut=True)) == (count, 0)
    if count > 1:
        assert kernels_of(compiled(function, x, cut=False)) == (1, 0)


def test_few_long_rows_take_what_is_around_them_but_no_second_walk() -> None:
    x, options = torch.randn(2, 1 << 10), Options(cache=False, max_serial_row=1 << 8, split_reductions=False)

    def launches(function: Callable[[Tensor], Any]) -> int:
        graph, _ = trace(function, x)
        return compile_graph(graph, [x], options, backends={"cpu": Scanning(shares_rows=False)}).stats.launches

    assert launches(lambda x: (x.exp() + 1).cumsum(1).log()) == 1
    assert launches(lambda x: (x.cumsum(1), x.cummax(1).values)) == 1
    assert launches(lambda x: (x.cumsum(1), x.sum(1))) == 2
    assert launches(lambda x: torch.softmax(x, 1).cumsum(1)) > 1


def test_halves_are_combined_in_float32() -> None:
    x = torch.randn(1 << 11, 2).half()
    for cut in (False, True):
        graph, _ = trace(lambda x: x.cumsum(0), x)
        options = Options(cache=False, split_reductions=cut)
        (found,) = compile_graph(graph, [x], options, backends={"cpu": Scanning()})([x])
        torch.testing.assert_close(found, x.double().cumsum(0).half(), rtol=2e-3, atol=2e-3)


def test_without_scans_they_are_atens() -> None:
    assert kernels_of(compiled(lambda x: x.cumsum(1) * 2, torch.randn(3, 4), scans=False)) == (1, 1)
