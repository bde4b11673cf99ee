"""On a GPU: running results (cumsum and its like) of rows in registers, in blocks and in parts, and of columns. Elsewhere skipped.

`TRITON_INTERPRET=0 pytest tests_integration/test_gpu_scans.py` runs them.
"""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

import meta

pytestmark = pytest.mark.skipif(
    not torch.cuda.is_available() or os.environ["TRITON_INTERPRET"] != "0",
    reason="needs a CUDA GPU, and Triton's compiler in place of its interpreter (TRITON_INTERPRET=0)",
)

SIZES = {
    "in registers": ((300, 1000), 1),
    "in blocks": ((300, 9001), 1),
    "in parts": ((2, 1 << 16), 1),
    "columns": ((500, 20000), 0),
    "columns in parts": ((1 << 13, 70), 0),
}
FUNCTIONS: dict[str, Callable[[Tensor, int], tuple[Tensor, ...]]] = {
    "cumsum": lambda x, dim: (x.cumsum(dim),),
    "from the end": lambda x, dim: (x.flip(dim).cumsum(dim).flip(dim) * 2,),
    "cumprod": lambda x, dim: ((x / 100).exp().cumprod(dim),),
    "logcumsumexp": lambda x, dim: (x.logcumsumexp(dim),),
    "after softmax": lambda x, dim: (torch.softmax(x, dim).cumsum(dim) * (x > 0),),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_as_near_as_eager(name: str, size: str, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    shape, dim = SIZES[size]
    x = torch.randn(shape, device="cuda").to(dtype)
    expected, eager = FUNCTIONS[name](x.double(), dim), FUNCTIONS[name](x, dim)
    found = meta.compile(lambda x: FUNCTIONS[name](x, dim))(x)
    for got, near, want in zip(found, eager, expected, strict=True):
        assert (got.dtype, got.stride()) == (near.dtype, near.stride())
        bound = 2 * (near.double() - want).abs().max() + 1e-6 * want.abs().max()
        assert (got.double() - want).abs().max() <= bound


@pytest.mark.parametrize("size", SIZES)
def test_extremes_and_their_places(size: str) -> None:
    torch.manual_seed(0)
    shape, dim = SIZES[size]
    x = (torch.randn(shape, device="cuda") * 8).round()
    x.view(-1)[5::70001] = float("nan")
    for function in (torch.cummax, torch.cummin):
        for got, want in zip(meta.compile(function)(x, dim), function(x, dim), strict=True):
            torch.testing.assert_close(got, want, rtol=0, atol=0, equal_nan=True)


def test_lengths_that_only_a_call_tells() -> None:
    compiled = meta.compile(lambda x: (x.cumsum(1), x.flip(1).cumsum(1).flip(1)), dynamic=True)
    for shape in ((300, 700), (20, 9001), (7, 1), (5, 70000)):
        x = torch.randint(-9, 9, shape, device="cuda")
        for got, want in zip(compiled(x), (x.cumsum(1), x.flip(1).cumsum(1).flip(1)), strict=True):
            assert torch.equal(got, want)


def test_the_same_in_every_run() -> None:
    x = torch.randn(1, 1 << 20, device="cuda")
    compiled = meta.compile(lambda x: x.cumsum(1))
    first = compiled(x)
    assert all(torch.equal(compiled(x), first) for _ in range(20))
