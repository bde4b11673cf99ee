"""Numbers beyond what a dtype or an operator takes: eager refuses them, or makes them infinite, and so does what is compiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

import meta

#: What refuses them, and what does not.
PROGRAMS: dict[str, Callable[[Tensor, float], Tensor]] = {
    "clamp": lambda x, s: x.clamp(max=s),
    "where": lambda x, s: torch.where(x > 0.5, x, s),
    "full": lambda x, s: x + torch.full((4,), s),
    "masked_fill": lambda x, s: x.masked_fill(x > 0.5, s),
    "alpha": lambda x, s: torch.add(x, x, alpha=s),
    "times": lambda x, s: x * s,
    "compared": lambda x, s: x > s,
}


def _set(x: Tensor, s: float) -> Tensor:
    y = x.clone()
    y[3] = s
    return y


def _of(run: Callable[..., Any], *args: Any) -> Any:
    try:
        return run(*args)
    except RuntimeError as error:
        assert "without overflow" in str(error)
        return ()


@pytest.mark.parametrize("name", [*PROGRAMS, "set"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_numbers_beyond_a_dtype(name: str, dtype: torch.dtype) -> None:
    program = PROGRAMS.get(name, _set)
    x = torch.rand(4).to(dtype)
    compiled = meta.compile(program)
    for at, number in enumerate((2.0, 3.0, 4.0, float("inf"), float("nan"), float("-inf"), 1e300, 5.0)):
        assert at != 6 or compiled.session.report.graph_count == 2
        torch.testing.assert_close(_of(compiled, x, number), _of(program, x, number), equal_nan=True)
    fixed = meta.compile(lambda x: program(x, 1e300), dynamic=False)
    torch.testing.assert_close(_of(fixed, x), _of(program, x, 1e300))


def cubed(x: Tensor, n: int) -> Tensor:
    return x * 2 if n * n * n > 1000 else x * 3


def test_a_condition_that_comes_to_more_than_64_bits() -> None:
    compiled = meta.compile(cubed, backend="eager")
    x = torch.ones(3)
    for n in (5, 7, 11, 2**22, 12, 2**40, -(2**30), 3, 2**21):
        torch.testing.assert_close(compiled(x, n), cubed(x, n))
    report = compiled.session.report
    assert not report.skipped and report.graph_count == 5, report


def test_a_weight_that_changes_is_compiled_once_more() -> None:
    def mixed(x: Tensor, y: Tensor, s: float) -> Tensor:
        z = torch.lerp(x, y, s) + x.lerp(end=y, weight=s)
        return z.lerp_(y, s)

    compiled = meta.compile(mixed, fullgraph=True)
    for weight in (0.1, 0.3, 0.5, 0.9, 2.0):
        found = []
        for run in (compiled, mixed):
            x, y = torch.linspace(0, 1, 4, requires_grad=True), torch.linspace(3, 1, 4, requires_grad=True)
            result = run(x, y, weight)
            found.append([result, *torch.autograd.grad(result.sin().sum(), [x, y])])
        torch.testing.assert_close(*found)
    assert compiled.session.report.graph_count == 2


@pytest.mark.parametrize("of_bias", [True, False])
def test_what_zero_scales_in_a_product_is_not_read(of_bias: bool) -> None:
    """Also where the scales change from call to call."""

    def f(x: torch.Tensor, a: torch.Tensor, alpha: float, beta: float) -> torch.Tensor:
        return torch.addmm(x, a, a.t(), alpha=alpha, beta=beta)

    compiled, x, a = meta.compile(f), torch.randn(30, 30), torch.randn(30, 40)
    (x if of_bias else a)[3] = float("nan")
    for alpha, beta in ((1, 1), (0, 1), (1, 0), (0, 0), (2, 3), (1.5, 0.0), (0.0, 1.5), (2, 1)):
        found, expected = compiled(x, a, alpha, beta), f(x, a, alpha, beta)
        torch.testing.assert_close(found, expected, equal_nan=True, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize(
    ("given", "target"),
    [([-0.5, 0.5], [0.5, 0.5]), ([0.5, 0.5], [2.0, 0.5]), ([float("nan"), 0.5], [1.0, 1.0]), ([-0.0, 1.0], [0.0, 1.0])],
)
def test_what_is_no_probability_is_refused(
    given: list[float], target: list[float], training: bool, backend: str
) -> None:
    found = []
    for run in (F.binary_cross_entropy, meta.compile(lambda x, y: F.binary_cross_entropy(x, y), backend=backend)):
        x = torch.tensor(given, requires_grad=training)
        try:
            found.append(run(x, torch.tensor(target)).item())
        except RuntimeError as error:
            found.append(str(error))
    assert found[0] == found[1]
    assert isinstance(found[0], float) == (target == [0.0, 1.0])
