"""Complex numbers, in programs that read them as real ones, and inputs that are conjugates or negatives only by a flag."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import meta


def llama(q: Any, k: Any, freqs: Any) -> Any:
    freqs = freqs.view(1, freqs.shape[0], 1, freqs.shape[1])
    a, b = (torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2)) * freqs for x in (q, k))
    return torch.view_as_real(a).flatten(3).type_as(q), torch.view_as_real(b).flatten(3).type_as(k)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("dynamic", [False, True])
def test_rotary_embeddings_and_their_gradients(dtype: torch.dtype, dynamic: bool) -> None:
    compiled = meta.compile(llama, dynamic=dynamic)
    for length, width in ((5, 8), (19, 70)):
        freqs = torch.polar(torch.ones(length, width // 2), torch.randn(length, width // 2))
        given = torch.randn(2, length, 4, width, dtype=dtype), torch.randn(2, length, 2, width, dtype=dtype)
        found = []
        for function in (compiled, llama):
            q, k = (x.clone().requires_grad_() for x in given)
            results = function(q, k, freqs)
            sum((each.float() ** 2 * torch.arange(width) / width).sum() for each in results).backward()
            found.append((*results, q.grad, k.grad))
        for got, want in zip(*found, strict=True):
            torch.testing.assert_close(got, want)
            assert got.stride() == want.stride()


def test_a_gradient_of_the_frequencies() -> None:
    given = torch.randn(2, 5, 4, 8), torch.randn(2, 5, 2, 8), torch.randn(5, 4, dtype=torch.complex64)
    found = []
    for function in (meta.compile(llama), llama):
        inputs = [x.clone().requires_grad_() for x in given]
        sum((each**2).sum() for each in function(*inputs)).backward()
        found.append([x.grad for x in inputs])
    torch.testing.assert_close(*found)


@pytest.mark.parametrize(
    "function",
    [
        lambda a: torch.view_as_real(a * 2) + 1,
        lambda a: a.conj() * 2,
        lambda a: a[1:],
        lambda a: a.imag * 2,
        lambda a: (a.imag + 1).sum(),
    ],
)
def test_inputs_that_are_conjugates_by_a_flag(function: Callable[..., Any]) -> None:
    compiled, plain = meta.compile(function), torch.randn(3, 4, dtype=torch.complex64)
    for given in (plain.conj(), plain, plain.t().conj()):
        got, want = compiled(given), function(given)
        torch.testing.assert_close(got, want)
        assert (got.is_conj(), got.is_neg(), got.stride()) == (want.is_conj(), want.is_neg(), want.stride())


def test_inputs_that_are_negatives_by_a_flag() -> None:
    compiled = meta.compile(lambda x: x * 2 + 1)
    negative = torch.randn(4, dtype=torch.complex64).conj().imag
    assert negative.is_neg()
    torch.testing.assert_close(compiled(negative), negative * 2 + 1)
    torch.testing.assert_close(compiled(negative.resolve_neg()), negative * 2 + 1)


def test_what_follows_pairs_in_a_row_stays_in_their_loop() -> None:
    def f(q: Any, freqs: Any) -> Any:
        return torch.view_as_real(torch.view_as_complex(q.unflatten(-1, (-1, 2))) * freqs).flatten(-2).bfloat16() * 2

    for length, width in ((3, 6), (7, 96)):
        given = torch.randn(2, length, width), torch.randn(length, width // 2, dtype=torch.complex64)
        torch.testing.assert_close(meta.compile(f)(*given), f(*given))
        assert len(meta.explain(f, *given).kernels) == 1


VALUES_READ_TWICE = {
    "a view": lambda x, y: ((z := (x * 2).reshape(-1)).sum(), torch.view_as_real(z) + 1),
    "a slice that is returned": lambda x, y: ((z := (x * 2)[1:]), torch.view_as_real(z) + 1),
    "a size": lambda x, y: (torch.view_as_real(z := (x * y).unsqueeze(0)).flatten(1), z.abs()),
    "free behind free": lambda x, y: ((z := torch.view_as_complex(torch.view_as_real(x) * 2)[1:]).abs(), z.imag + 1),
    "beside": lambda x, y: ((z := x * 2)[1:], torch.view_as_real(z)),
}


@pytest.mark.parametrize("program", VALUES_READ_TWICE.values(), ids=list(VALUES_READ_TWICE))
def test_in_parts_and_whole(program: Any) -> None:
    given = [torch.randn(4, 3, dtype=torch.complex64) for _ in range(2)]
    torch.testing.assert_close(meta.compile(program)(*given), program(*given))


@pytest.mark.parametrize("flagged", [lambda x: x.conj(), lambda x: (x * 2).conj().imag], ids=["conjugate", "negative"])
def test_inputs_with_flags_that_are_no_leaves(flagged: Any) -> None:
    x = torch.randn(4, dtype=torch.complex64, requires_grad=True)

    def program(x: torch.Tensor) -> torch.Tensor:
        return x * 3 + 1

    found, expected = meta.compile(program)(flagged(x)), program(flagged(x))
    torch.testing.assert_close(found, expected)
    mine, theirs = (torch.autograd.grad(out.abs().sum(), x)[0] for out in (found, expected))
    torch.testing.assert_close(mine, theirs)


def test_a_frozen_buffer_that_is_negative_by_a_flag() -> None:
    class Scaled(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("scale", torch.randn(4, dtype=torch.complex64).conj().imag)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * self.scale + 1

    module, x = Scaled().eval(), torch.randn(3, 4)
    assert module.scale.is_neg()
    with torch.no_grad():
        for options in ({}, {"freezing": True}):
            meta.reset()
            torch.testing.assert_close(meta.compile(module, options=options)(x), module(x))
