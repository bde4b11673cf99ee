"""Kernels that a program gives to torch's own operators (`torch.library`) run in compiled code as they do in eager."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch.nn import functional as F

import capture
import meta


@pytest.fixture
def register() -> Iterator[Callable[..., list[str]]]:
    """Registers a kernel for the test; what it gives grows with the calls of it."""
    with torch.library._scoped_library("aten", "IMPL") as library:

        def give(name: str, kernel: Callable[..., Any], key: str = "CPU") -> list[str]:
            calls: list[str] = []

            def counting(*args: Any, **kwargs: Any) -> Any:
                calls.append(name)
                return kernel(*args, **kwargs)

            library.impl(name, counting, key)
            return calls

        yield give


def compared(function: Callable[..., Any], *inputs: torch.Tensor, calls: list[str], gradients: bool = True) -> None:
    """Assert eager's results, and gradients, and that the kernel runs as often."""
    capture.reset()
    run = meta.compile(function)
    answers = []
    for each in (function, run, run):
        given = [t.clone().requires_grad_(gradients) for t in inputs]
        calls.clear()
        result = each(*given)
        found = torch.autograd.grad(result.square().sum(), given) if gradients else ()
        answers.append(([result.detach(), *found], len(calls)))
    for found, count in answers[1:]:
        torch.testing.assert_close(found, answers[0][0])
        assert count == answers[0][1]


X, W = torch.randn(3, 4, dtype=torch.double), torch.randn(4, 4, dtype=torch.double)


def test_an_operator_that_is_decomposed(register: Callable[..., list[str]]) -> None:
    calls = register("silu", lambda x: x * 5)
    compared(lambda x: F.silu(x) + 1, X, calls=calls)
    assert calls


def test_one_kernel_does_not_go_by_another(register: Callable[..., list[str]]) -> None:
    """Eager's softmax is a kernel that calls no exponential."""
    calls = register("exp", lambda x: x * 5)
    compared(lambda x: x.exp() + F.silu(x) + torch.softmax(x, -1) + torch.sinh(x), X, calls=calls)
    assert len(calls) == 1


def test_a_product_within_a_layer(register: Callable[..., list[str]]) -> None:
    calls = register("addmm", lambda b, x, w, *, beta=1, alpha=1: x * 5 + w.sum() + b)
    compared(lambda x, w: F.linear(x, w, w[0]) + 1, X, W, calls=calls)
    assert calls


def test_numbers_stay_numbers(register: Callable[..., list[str]]) -> None:
    calls = register("add.Tensor", lambda x, y, *, alpha=1: x * y)
    compared(lambda x, w: x + w[:3] + 1, X, W, calls=calls, gradients=False)
    compared(lambda x: (x + 2).half(), X, calls=calls, gradients=False)
    assert calls


def test_a_gradient(register: Callable[..., list[str]]) -> None:
    calls = register("silu_backward", lambda grad, x: x * 5)
    compared(lambda x: F.silu(x + 1) * 2, X, calls=calls)
    assert calls


def test_what_computes_several(register: Callable[..., list[str]]) -> None:
    def kernel(x: Any, size: Any, weight: Any, bias: Any, eps: Any) -> Any:
        return x * 5, x.mean(-1, True), x.sum(-1, True)

    calls = register("native_layer_norm", kernel)
    compared(lambda x, w: F.layer_norm(x, [4], w[0]) * 2, X, W, calls=calls)
    assert calls


def test_what_makes_a_tensor(register: Callable[..., list[str]]) -> None:
    calls = register("zeros", lambda size, **_: torch.ones(size, dtype=torch.float))
    compared(lambda x: torch.zeros(3, 4) + x, X, calls=calls)
    assert calls


def test_an_operator_that_writes_is_left_to_eager(register: Callable[..., list[str]]) -> None:
    calls = register("silu_", lambda x: x.mul_(5))
    with pytest.warns(capture.CaptureWarning, match="aten.silu_.default has a kernel of the program's own"):
        compared(lambda x: F.silu(x + 1, inplace=True) * 2, X, calls=calls)
    assert calls


def test_attention_that_is_written_out(register: Callable[..., list[str]]) -> None:
    calls = register("_softmax", lambda x, dim, to_float: x * 5)
    q = torch.randn(2, 2, 8, 16, dtype=torch.double)
    compared(lambda q: torch.softmax(q @ q.transpose(-1, -2) / 4, -1) @ q, q, calls=calls)
    assert calls


def test_a_kernel_for_another_device(register: Callable[..., list[str]]) -> None:
    compared(lambda x: F.silu(x) + 1, X, calls=register("silu", lambda x: x * 5, "CUDA"))


def test_dynamic_sizes(register: Callable[..., list[str]]) -> None:
    calls = register("silu", lambda x: x * 5)
    run = meta.compile(lambda x: F.silu(x) + 1, dynamic=True)
    for rows in (3, 5, 8):
        x = torch.randn(rows, 4)
        torch.testing.assert_close(run(x), x * 5 + 1)
    assert len(calls) == 3


def test_without_it_our_own_kernel_runs_again() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return F.silu(x) * 3

    before = meta.compile(function)(X)
    with torch.library._scoped_library("aten", "IMPL") as library:
        library.impl("silu", lambda x: x * 5, "CPU")
        capture.reset()
        torch.testing.assert_close(meta.compile(function)(X), X * 15)
    capture.reset()
    assert torch.equal(meta.compile(function)(X), before)
