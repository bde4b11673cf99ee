"""Numbers that the dtype of a tensor does not hold: what eager refuses, compiled code refuses; what it wraps around or promotes, so does that."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

import meta
from tests_integration.outcomes import outcome

#: What is done with a number.
PROGRAMS: dict[str, Callable[[Tensor, Any], Any]] = {
    "full_like": lambda x, n: torch.full_like(x, n),
    "full": lambda x, n: torch.full((2,), n, dtype=x.dtype),
    "new_full": lambda x, n: x.new_full((2,), n),
    "scalar_tensor": lambda x, n: torch.scalar_tensor(n, dtype=x.dtype),
    "fill_": lambda x, n: x.clone().fill_(n),
    "fill": lambda x, n: torch.fill(x, n),
    "fill_diagonal": lambda x, n: (x[:, None] * x).fill_diagonal_(n),
    "masked_fill": lambda x, n: x.masked_fill(x > 1, n),
    "masked_fill_": lambda x, n: x.clone().masked_fill_(x > 1, n),
    "where": lambda x, n: torch.where(x > 1, x, n),
    "where first": lambda x, n: torch.where(x > 1, n, x),
    "index_fill": lambda x, n: x.index_fill(0, torch.tensor([0]), n),
    "scatter": lambda x, n: x.scatter(0, torch.tensor([0]), n),
    "index_add": lambda x, n: x.index_add(0, torch.tensor([0]), x[:1], alpha=n),
    "pad": lambda x, n: F.pad(x, (1, 1), value=n),
    "threshold": lambda x, n: F.threshold(x, 2, n),
    "above": lambda x, n: F.threshold(x, n, 2),
    "//": lambda x, n: x // n,
    "%": lambda x, n: x % n,
    "fmod": lambda x, n: torch.fmod(x, n),
    "div": lambda x, n: torch.div(x, n, rounding_mode="trunc"),
    "**": lambda x, n: x**n,
    "clamp min": lambda x, n: x.clamp(min=n),
    "clamp max": lambda x, n: x.clamp(max=n),
    "clamp_min": lambda x, n: x.clamp_min(n),
    "clamp both": lambda x, n: x.clamp(0, n),
    "+": lambda x, n: x + n,
    "of -": lambda x, n: n - x,
    "*": lambda x, n: x * n,
    "alpha": lambda x, n: torch.add(x, x, alpha=n),
    "sub alpha": lambda x, n: torch.sub(x, x, alpha=n),
    "sub_ alpha": lambda x, n: x.clone().sub_(x, alpha=n),
    "addcmul": lambda x, n: torch.addcmul(x, x, x, value=n),
    "==": lambda x, n: x == n,
    "<": lambda x, n: x < n,
    "foreach add": lambda x, n: list(torch._foreach_add([x, x], n)),
    "foreach clamp": lambda x, n: list(torch._foreach_clamp_max([x, x], n)),
}


def program(name: str, n: Any) -> Callable[[Tensor], Any]:
    """One with code of its own, so that the number is a constant."""
    named: dict[str, Any] = {"do": PROGRAMS[name], "n": n}
    exec("def run(x): return do(x, n)", named)
    made: Callable[[Tensor], Any] = named["run"]
    return made


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize(
    ("dtype", "numbers"),
    [
        (torch.uint8, [-0.5, 255, 300, 256, -1, -256, 1.5, float("nan"), 1j, 3 + 0j, True]),
        (torch.int8, [127, -128, 128, -129.0, float("inf"), 0.5]),
        (torch.int32, [2**31, -(2**31), 2**40, 1e300, 2j]),
        (torch.int64, [-(2**63), 2**63, 1e300, float("nan")]),
        (torch.float16, [70000, 1j, 3 + 0j, 3]),
    ],
    ids=str,
)
def test_a_constant(name: str, dtype: torch.dtype, numbers: list[Any]) -> None:
    x = torch.tensor([1, 2, 100]).to(dtype)
    for n in numbers:
        run = program(name, n)
        assert outcome(meta.compile(run), x) == outcome(run, x), n


def test_a_mask_is_filled_with_any_number_and_compared_with_none_that_is_complex() -> None:
    x = torch.tensor([True, False])
    for n in (300, -0.5, 1j, float("inf")):
        for name in ("full_like", "fill_", "masked_fill", "<", "=="):
            run = program(name, n)
            assert outcome(meta.compile(run), x) == outcome(run, x), (name, n)


def test_what_only_unsigned_integers_hold_does_not_promote_with_masks() -> None:
    x = torch.tensor([True, False])
    for n in (2**63 - 1, 2**63, 2**64 - 1):
        for name in ("+", "*", "//", "%", "**", "==", "<", "full_like", "masked_fill", "fmod", "foreach add"):
            run = program(name, n)
            assert outcome(meta.compile(run), x) == outcome(run, x), (name, n)


@pytest.mark.parametrize("name", ["full_like", "masked_fill", "where", "clamp max", "//", "alpha", "+", "==", "pad"])
def test_one_that_changes(name: str) -> None:
    x, run = torch.tensor([1, 2, 100], dtype=torch.uint8), PROGRAMS[name]
    compiled = meta.compile(lambda x, n: run(x, n))
    for n in (2, 3, 4, 300, 5, 2**40, 255, 256, -300, 7, -1):
        assert outcome(compiled, x, n) == outcome(run, x, n), n


def test_one_that_a_tensor_holds() -> None:
    def run(x: Tensor, n: Tensor) -> Tensor:
        return torch.full_like(x, n.item())

    compiled = meta.compile(run)
    x = torch.zeros(3, dtype=torch.uint8)
    for n in (2, 255, 300, -1, -256, 7):
        assert outcome(compiled, x, torch.tensor(n)) == outcome(run, x, torch.tensor(n)), n


def test_one_that_the_program_handles() -> None:
    def run(x: Tensor) -> Tensor:
        try:
            return x.masked_fill(x > 1, 300) + 1
        except RuntimeError:
            return x - 1

    x = torch.tensor([1, 2, 100], dtype=torch.uint8)
    assert torch.equal(meta.compile(run)(x), run(x))


@pytest.mark.parametrize("bound", [float("nan"), 1.5])
@pytest.mark.parametrize("dynamic", [False, True])
def test_bounds_that_are_no_number(bound: float, dynamic: bool) -> None:
    def run(x: Tensor, n: float) -> list[Tensor]:
        return [x.clamp_min(n), x.clamp_max(n), x.clamp(min=n), x.clamp(max=n), x.clamp(n, n)]

    compiled = meta.compile(run, dynamic=dynamic)
    for x in (torch.tensor([1.0, 2.0, float("nan")]), torch.tensor([1, 2])):
        assert outcome(compiled, x, bound) == outcome(run, x, bound)
