"""Memory that compiled graphs keep from call to call: nothing of it reaches the program, and all of it comes back."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils._pytree import tree_leaves as leaves

import capture
import meta
from cpu_codegen.launcher import in_the_pool, pool
from inductor import CompiledGraph

ROWS = 2048
"""Of 256 numbers: two mebibytes."""


@pytest.fixture(autouse=True)
def _strict(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(capture.config, "on_error", "raise")
    in_the_pool()
    gc.collect()
    before = pool()[0]
    yield
    gc.collect()
    assert pool()[0] == before


def _texts(fn: Callable[..., Any], *args: Any, **options: Any) -> tuple[list[str], Any]:
    """The generated wrappers of a call, and its result."""
    graphs: list[CompiledGraph] = []

    def backend(graph: Any, inputs: Any) -> Any:
        return meta.backends.inductor(graph, inputs, on_compiled=graphs.append, options=options)

    result = capture.compile(fn, backend)(*args)
    return [graph.source for graph in graphs], result


def _is_pooled(tensor: torch.Tensor) -> bool:
    return not tensor.untyped_storage().resizable()


def through_a_product(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return (x @ w).relu() @ w


def test_what_only_the_graph_sees_is_pooled() -> None:
    x, w = torch.randn(ROWS, 256), torch.randn(256, 256) / 16
    (text,), result = _texts(through_a_product, x, w)
    assert text.count("_pooled_cpu(") == 1
    assert not _is_pooled(result)
    torch.testing.assert_close(result, through_a_product(x, w))
    (text,), _ = _texts(through_a_product, x, w, pool_memory=False)
    assert "_pooled_cpu(" not in text


def test_small_memory_is_not() -> None:
    (text,), _ = _texts(through_a_product, torch.randn(32, 256), torch.randn(256, 256) / 16)
    assert "_pooled_cpu(" not in text


OUTPUTS: dict[str, Callable[[torch.Tensor, torch.Tensor], Any]] = {
    "a view of what is made": lambda x, w: (x @ w).relu().t(),
    "made and read": lambda x, w: ((y := (x @ w)), (y.relu() @ w).exp()),
    "memory taken over": lambda x, w: ((x @ w).sin() @ w).exp() + 1,
    "by ATen, of what is made": lambda x, w: torch.cumsum((x @ w).relu(), 1),
    "a view by ATen": lambda x, w: torch.ops.aten.unfold((x @ w).relu(), 0, 2, 3),
    "parts": lambda x, w: torch.split((x @ w).relu(), 700),
    "real and imaginary": lambda x, w: torch.view_as_real(torch.complex(x @ w, (x @ w).exp())).exp(),
    "sorted": lambda x, w: torch.sort((x @ w).relu(), dim=0),
}


@pytest.mark.parametrize("name", OUTPUTS)
def test_what_the_program_gets_is_its_own(name: str) -> None:
    x, w = torch.randn(ROWS, 256), torch.randn(256, 256) / 16
    compiled = meta.compile(OUTPUTS[name])
    found = leaves(compiled(x, w))
    before = [tensor.clone() for tensor in found]
    for _ in range(2):
        compiled(x + 1, w)  # writes where anything of the first call's was given back
    for one, other in zip(found, before, strict=True):
        assert not _is_pooled(one)
        assert torch.equal(one, other)


def test_what_is_saved_for_the_backward_is_pooled_and_comes_back() -> None:
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(256, 256), nn.GELU(), nn.Linear(256, 256), nn.Tanh(), nn.Linear(256, 8))
    x = torch.randn(ROWS, 256, requires_grad=True)
    expected = torch.autograd.grad(module(x).sum(), [x, *module.parameters()])
    compiled = meta.compile(module)
    before = pool()[0]
    for _ in range(3):
        result = compiled(x)
        assert not _is_pooled(result)
        held = pool()[0]
        assert held > before
        found = torch.autograd.grad(result.sum(), [x, *module.parameters()])
        for one, other in zip(found, expected, strict=True):
            assert not _is_pooled(one)
            torch.testing.assert_close(one, other)
        del result
        assert pool()[0] < held


def test_the_forward_given_as_a_result_too() -> None:
    def both(x: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        hidden = (x @ w).sigmoid()  # its backward reads it
        return hidden, (hidden @ w).sum()

    x, w = torch.randn(ROWS, 256, requires_grad=True), torch.randn(256, 256) / 16
    hidden, total = meta.compile(both)(x, w)
    assert not _is_pooled(hidden.detach())
    (found,) = torch.autograd.grad(total, x)
    (expected,) = torch.autograd.grad(both(x, w)[1], x)
    torch.testing.assert_close(found, expected)


def test_sizes_that_change() -> None:
    w = torch.randn(256, 256) / 16
    compiled = meta.compile(through_a_product, dynamic=True)
    for rows in (ROWS, 3, 3 * ROWS, 64, ROWS + 1, 3 * ROWS):
        x = torch.randn(rows, 256)
        torch.testing.assert_close(compiled(x, w), through_a_product(x, w))


def test_an_error_on_the_way_gives_all_back() -> None:
    def fails(x: torch.Tensor, w: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
        return ((x @ w).relu() @ w)[at]

    x, w = torch.randn(ROWS, 256), torch.randn(256, 256) / 16
    compiled = meta.compile(fails)
    compiled(x, w, torch.tensor([1]))
    with pytest.raises(IndexError):
        compiled(x, w, torch.tensor([ROWS]))
