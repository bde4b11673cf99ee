"""Operators that eager has no kernel for of some dtype: compiled code refuses them in the same words, and computes where there is one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

import capture
import meta
from tests_integration.outcomes import outcome

PROGRAMS: dict[str, Callable[[Tensor], Any]] = {
    "elu": F.elu,
    "celu": F.celu,
    "leaky_relu": F.leaky_relu,
    "softplus": F.softplus,
    "hardshrink": F.hardshrink,
    "softshrink": F.softshrink,
    "softshrink by a bool": lambda x: F.softshrink(x, True),
    "glu": lambda x: F.glu(x, 0),
    "gelu": lambda x: F.gelu(x) > 0.5,
    "lerp": lambda x: torch.lerp(x, x, 0.5),
    "threshold": lambda x: F.threshold(x, 1, 0),
    "addcmul": lambda x: torch.addcmul(x, x, x),
    "in place": lambda x: F.elu(x.clone(), inplace=True),
    "foreach": lambda x: list(torch._foreach_clamp_max([x, x], 1)),
    "mse_loss": lambda x: F.mse_loss(x, x),
    "logits": lambda x: F.binary_cross_entropy_with_logits(x, x) > 0,
    "mse_loss of bools": lambda x: F.mse_loss(torch.zeros(4), x > 1) if x.dtype is torch.uint8 else x,
    "logits of bools": lambda x: F.binary_cross_entropy_with_logits(torch.zeros(4), x == 1),
    "nll_loss": lambda x: F.nll_loss(torch.zeros(4, 4), x) if x.dtype in (torch.uint8, torch.int64) else x,
    "argmax": lambda x: x.argmax(),
    "arange": lambda x: torch.arange(0, 2, dtype=x.dtype),
    "no bound": lambda x: torch.clamp(x),
    "filled by several": lambda x: torch.fill(x, x),
    "diag_embed": lambda x: torch.diag_embed(x) if x.dtype is not torch.uint16 else x,
    "tril": lambda x: x[:, None].tril() if x.dtype is not torch.uint16 else x,
    "sum": lambda x: x.sum(),
    "+": lambda x: x + x,
    "-": lambda x: 1 - x,
    "//": lambda x: x // 2,
    "<": lambda x: x < 2,
    "where": lambda x: torch.where(x == 1, x, x),
    "index": lambda x: x[(x == 1).nonzero()],
}
DTYPES = [
    torch.bool,
    torch.uint8,
    torch.int16,
    torch.int64,
    torch.uint16,
    torch.complex64,
    torch.float16,
    torch.float32,
]


@pytest.mark.parametrize("name", PROGRAMS)
def test_each_dtype(name: str) -> None:
    for dtype in DTYPES:
        x, program = torch.tensor([1, 2, 0, 3]).to(dtype), PROGRAMS[name]
        assert outcome(meta.compile(lambda x, program=program: program(x)), x) == outcome(program, x), dtype


@pytest.mark.parametrize("dtype", [torch.float32, torch.uint8, torch.uint16, torch.bool], ids=str)
def test_numbers_that_are_complex(dtype: torch.dtype) -> None:
    x = torch.tensor([1, 2, 0, 3]).to(dtype)
    programs: list[Callable[[Tensor], Any]] = [
        lambda x: F.celu(x, 1j),
        lambda x: F.elu(x, 1j),
        lambda x: F.leaky_relu(x, 1j),
        lambda x: torch.norm(x.float(), 1j),  # type: ignore[arg-type]
        lambda x: x // 1j,
        lambda x: x * 1j,
    ]
    for program in programs:
        assert outcome(meta.compile(program), x) == outcome(program, x)


def test_sizes_that_vary_and_others_operators_made_of_such() -> None:
    """What a decomposition calls has no kernel, and needs none."""

    def program(x: Tensor) -> Any:
        return [torch.diag_embed(x), x.tril(), x.t().triu(1)]

    compiled = meta.compile(program, dynamic=True)
    for size in (3, 4, 5):
        x = torch.arange(size * size, dtype=torch.uint8).view(size, size)
        assert outcome(compiled, x) == outcome(program, x)
    assert capture.report(compiled).graph_count == 1


def test_a_handler_gets_the_error() -> None:
    def program(x: Tensor) -> Tensor:
        try:
            return F.elu(x)
        except NotImplementedError:
            return x + 1

    x = torch.tensor([1, 2], dtype=torch.uint8)
    assert torch.equal(meta.compile(program)(x), program(x))
