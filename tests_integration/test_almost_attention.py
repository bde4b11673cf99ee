"""Programs that are attention but for what they write in place, round on the way, or hide by several numbers: eager's results and gradients."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch

import capture
from tests_integration.fusing import Compiled, run

B, H, T, D = 2, 4, 12, 8
LOWEST = torch.finfo(torch.float32).min


@pytest.fixture(autouse=True)
def _raises(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capture.config, "on_error", "raise")
    torch.manual_seed(0)


def scores(q: Any, k: Any) -> Any:
    return q @ k.transpose(-2, -1) * 0.3


def seen(k: Any) -> Any:
    """Keys that are, by their values."""
    return k[:, :1, None, :, 0] > -0.8


def blind(q: Any) -> Any:
    """Rows that see none, by the queries' values."""
    return q[..., :1].detach() < 0


def check(function: Callable[..., Any], found: int, *, grad: bool = True) -> None:
    args = tuple(torch.randn(B, H, T, D) for _ in range(3))
    compiled = Compiled(function)
    for made, wanted in zip(run(compiled.call, args, grad), run(function, args, grad), strict=True):
        torch.testing.assert_close(made, wanted, rtol=1e-4, atol=2e-5)
    assert len(compiled.found) == found


def mask_written_over(q: Any, k: Any, v: Any) -> Any:
    mask = torch.where(seen(k), torch.zeros(()), -math.inf)
    mask.add_(torch.arange(T) / 3)
    return torch.softmax(scores(q, k) + mask, -1) @ v


def part_of_a_mask_written_over(q: Any, k: Any, v: Any) -> Any:
    mask = torch.zeros(T).masked_fill(~seen(k), LOWEST)
    mask[..., 2:].fill_(0.0)
    return torch.softmax(scores(q, k) + mask, -1) @ v


def condition_written_over(q: Any, k: Any, v: Any) -> Any:
    sees = seen(k)
    mask = torch.where(sees, torch.zeros(()), -math.inf)
    sees.fill_(True)
    return torch.softmax(scores(q, k) + mask, -1) @ v + sees.sum()


def rows_written_over(q: Any, k: Any, v: Any) -> Any:
    bias = v.detach().mean(-1)[:, :1, None].expand(B, 1, T, T) * 1
    bias[:, :, 2] = LOWEST
    return torch.softmax(scores(q, k) + bias, -1) @ v


@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize(
    "function", [mask_written_over, part_of_a_mask_written_over, condition_written_over, rows_written_over]
)
def test_masks_that_are_written_in_place(function: Any, grad: bool) -> None:
    check(function, 0 if grad else 1, grad=grad)


def scores_rounded(q: Any, k: Any, v: Any) -> Any:
    return torch.softmax(scores(q, k).half().float(), -1) @ v


def softmax_rounded(q: Any, k: Any, v: Any) -> Any:
    return torch.softmax(scores(q, k).bfloat16(), -1).to(q.dtype) @ v


def weights_rounded(q: Any, k: Any, v: Any) -> Any:
    return torch.softmax(scores(q, k), -1).half().to(q.dtype) @ v


@pytest.mark.parametrize("function", [scores_rounded, softmax_rounded, weights_rounded])
def test_what_the_program_rounds_is_rounded(function: Any) -> None:
    check(function, 0, grad=False)


def test_bits_read_as_another_dtype() -> None:
    def attend(q: Any, k: Any, v: Any) -> Any:
        return torch.softmax(scores(q, k).view(torch.float16).to(q.dtype), -1) @ v

    args = tuple(torch.randn(B, H, T, D, dtype=torch.bfloat16) for _ in range(3))
    compiled = Compiled(attend)
    with torch.no_grad():
        torch.testing.assert_close(compiled.call(*args), attend(*args), rtol=2e-2, atol=2e-2)
    assert not compiled.found


def bias_then_hidden(q: Any, k: Any, v: Any) -> Any:
    return torch.softmax((scores(q, k) + torch.arange(T) / 4.0).masked_fill(blind(q), LOWEST), -1) @ v


def hidden_then_bias(q: Any, k: Any, v: Any) -> Any:
    return torch.softmax(scores(q, k).masked_fill(blind(q), LOWEST) + torch.arange(T) / 4.0, -1) @ v


def hidden_by_adding(q: Any, k: Any, v: Any) -> Any:
    mask = torch.where(blind(q), LOWEST, torch.zeros(()))
    return torch.softmax(scores(q, k) + mask + torch.arange(T) / 4.0, -1) @ v


@pytest.mark.parametrize("function", [bias_then_hidden, hidden_then_bias, hidden_by_adding])
def test_a_bias_is_lost_in_rows_that_see_no_key(function: Any) -> None:
    check(function, 1)


def test_the_highest_of_several_low_numbers_counts() -> None:
    def attend(q: Any, k: Any, v: Any) -> Any:
        found = scores(q, k).masked_fill(torch.ones(T, T, dtype=torch.bool).triu(1), LOWEST)
        return torch.softmax(found.masked_fill(torch.arange(T) < 3, 0.6 * LOWEST), -1) @ v

    check(attend, 0)


def result(q: Any, k: Any, v: Any) -> Any:
    out = torch.softmax(scores(q, k), -1) @ v
    out *= 2
    return out


def part_of_the_result(q: Any, k: Any, v: Any) -> Any:
    out = torch.softmax(scores(q, k), -1) @ v
    out[0].mul_(2)
    return out


def result_in_another_order(q: Any, k: Any, v: Any) -> Any:
    out = (torch.softmax(scores(q, k), -1) @ v).transpose(1, 2).reshape(B, T, H * D)
    out += 1
    return out


@pytest.mark.parametrize("function", [result, part_of_the_result, result_in_another_order])
def test_results_that_are_written_over(function: Any) -> None:
    """Eager's backward does not read them; the kernel's does."""
    check(function, 1)


def values(q: Any, k: Any, v: Any) -> Any:
    v = v * 1
    out = torch.softmax(scores(q.detach(), k.detach()), -1) @ v
    v.mul_(3)
    return out + v


def bias(q: Any, k: Any, v: Any) -> Any:
    added = v[:1, :1, :, 0].detach() * 2
    out = torch.softmax(scores(q, k) + added, -1) @ v
    added.zero_()
    return out + added.sum()


@pytest.mark.parametrize("function", [values, bias])
def test_what_goes_in_is_written_over_later(function: Any) -> None:
    """What eager's backward does not read; the kernel's does."""
    check(function, 0)
