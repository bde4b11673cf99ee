"""`flex_attention` with the program's own functions of scores and positions is part of the graph: torch's values and gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn.attention import flex_attention as flex

import aotgrad
import capture
from aotgrad.attention import fused_attentions

B, H, Q, K, D = 2, 4, 24, 40, 8
SLOPES = torch.tensor([0.5, 0.25, 0.125, 0.0625])
BIAS = torch.randn(H, Q, K)
DOCUMENTS = torch.arange(K).div(9, rounding_mode="floor").expand(B, K).contiguous()


@pytest.fixture(autouse=True)
def _raises(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capture.config, "on_error", "raise")
    monkeypatch.setattr(
        flex, "_FLEX_ATTENTION_DISABLE_COMPILE_DEBUG", True
    )  # torch's own then runs without torch.compile
    torch.manual_seed(0)


def captured(function: Any) -> tuple[Callable[..., Any], list[int]]:
    calls: list[int] = []

    def backend(module: torch.fx.GraphModule, inputs: Any) -> Any:
        calls.append(len(module.graph.nodes))
        return module.forward

    return capture.compile(function, backend=backend, fullgraph=True), calls


def check(function: Any, *args: torch.Tensor) -> None:
    compiled, calls = captured(function)
    for made, wanted in zip(run(compiled, args), run(function, args), strict=True):
        torch.testing.assert_close(made, wanted, rtol=1e-4, atol=1e-5)
    assert len(calls) == 1


def run(function: Any, args: tuple[torch.Tensor, ...]) -> list[torch.Tensor]:
    with torch.no_grad():
        return [function(*args)]


def qkv(heads: int = H) -> tuple[torch.Tensor, ...]:
    return torch.randn(B, H, Q, D), torch.randn(B, heads, K, D), torch.randn(B, heads, K, D)


def alibi(score: Any, b: Any, h: Any, q: Any, k: Any) -> Any:
    return score + SLOPES[h] * (q - k)


def table(score: Any, b: Any, h: Any, q: Any, k: Any) -> Any:
    return score + BIAS[h, q, k]


def soft_cap(score: Any, b: Any, h: Any, q: Any, k: Any) -> Any:
    return 3.0 * torch.tanh(score / 3.0)


def lost(score: Any, b: Any, h: Any, q: Any, k: Any) -> Any:
    return torch.where(q < 3, -float("inf"), score)


@pytest.mark.parametrize("score_mod", [None, alibi, table, soft_cap, lost])
def test_functions_of_scores(score_mod: Any) -> None:
    check(lambda q, k, v: flex.flex_attention(q, k, v, score_mod), *qkv())


def causal(b: Any, h: Any, q: Any, k: Any) -> Any:
    return q >= k


def window(b: Any, h: Any, q: Any, k: Any) -> Any:
    return (q - k).abs() < 5


def documents(b: Any, h: Any, q: Any, k: Any) -> Any:
    return (DOCUMENTS[b, q] == DOCUMENTS[b, k]) & (h != 1)


@pytest.mark.parametrize("mask_mod", [causal, window, documents, flex.and_masks(causal, window), flex.noop_mask])
def test_masks(mask_mod: Any) -> None:
    """Rows that see no key are zeros."""
    mask = flex.create_block_mask(mask_mod, B, H, Q, K, device="cpu")
    check(lambda q, k, v: flex.flex_attention(q, k, v, soft_cap, mask, scale=0.2), *qkv())


def test_groups_of_heads() -> None:
    check(lambda q, k, v: flex.flex_attention(q, k, v, alibi, enable_gqa=True), *qkv(2))


@pytest.mark.parametrize("width", [D, 12])
@pytest.mark.parametrize("order", [(0, 2, 1, 3), (1, 2, 0, 3), (2, 0, 1, 3), (0, 1, 3, 2)])
def test_the_result_lies_as_queries_do(order: tuple[int, ...], width: int) -> None:
    q, k, _ = qkv()
    inverse = [order.index(dim) for dim in range(4)]
    args = q.permute(order).contiguous().permute(inverse), k, torch.randn(B, H, K, width)
    compiled, _ = captured(lambda q, k, v: flex.flex_attention(q, k, v))
    with torch.no_grad():
        made, wanted = compiled(*args), flex.flex_attention(*args)
    torch.testing.assert_close(made, wanted, rtol=1e-4, atol=1e-5, check_stride=True)


def test_lengths_that_change() -> None:
    compiled, calls = captured(lambda q, k, v: flex.flex_attention(q, k, v, alibi))
    for length in (K, 30, 27):
        args = [x[:, :, :length] for x in qkv()]
        torch.testing.assert_close(compiled(*args), flex.flex_attention(*args, alibi), rtol=1e-4, atol=1e-5)
    assert len(calls) == 2


def test_gradients() -> None:
    """As of the same written out: torch's own has none outside of torch.compile."""

    def attend(q: Any, k: Any, v: Any) -> Any:
        return flex.flex_attention(q, k, v, table)

    def written(q: Any, k: Any, v: Any) -> Any:
        return torch.softmax(q @ k.transpose(-2, -1) / D**0.5 + BIAS, -1) @ v

    compiled, _ = captured(attend)
    args = [x.requires_grad_() for x in qkv()]
    results = [torch.autograd.grad(f(*args).sin().sum(), args) for f in (compiled, written)]
    for made, wanted in zip(*results, strict=True):
        torch.testing.assert_close(made, wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("mask_mod", [causal, window, documents])
def test_masks_of_half_precision_are_torchs_one_kernel(mask_mod: Any) -> None:
    found: list[Any] = []

    def backend(module: torch.fx.GraphModule, inputs: Any) -> Any:
        found.extend(fused_attentions(module.graph, lambda _: True).values())
        run = lambda graph, _: lambda args: graph.forward(*args)  # noqa: E731
        return aotgrad.compile(module, inputs, inference_compiler=run, attention=lambda _: True)

    mask = flex.create_block_mask(mask_mod, B, H, Q, K, device="cpu")

    def attend(q: Any, k: Any, v: Any) -> Any:
        return flex.flex_attention(q, k, v, block_mask=mask, enable_gqa=True)

    args = [x.bfloat16() for x in qkv(2)]
    compiled = capture.compile(attend, backend=backend, fullgraph=True)
    wide = [x.float().requires_grad_() for x in args]
    exact, _ = captured(attend)
    wanted = exact(*wide)
    for x in args:
        x.requires_grad_()
    made = compiled(*args)
    torch.testing.assert_close(made.float(), wanted, rtol=2e-2, atol=2e-2)
    (one,) = found
    assert one.mask.causal == (mask_mod is causal) and one.repeated == (mask_mod is not documents)
    slope = torch.randn_like(wanted)
    gradients = torch.autograd.grad(made, args, slope.bfloat16()), torch.autograd.grad(wanted, wide, slope)
    for mine, other in zip(*gradients, strict=True):
        torch.testing.assert_close(mine.float(), other, rtol=3e-2, atol=3e-2)


def of_rows(score: Any, b: Any, h: Any, q: Any, k: Any) -> Any:
    return score + BIAS[h][q][k]


def of_all(score: Any, b: Any, h: Any, q: Any, k: Any) -> Any:
    return score - score.mean()


def of_a_wide_scale(score: Any, b: Any, h: Any, q: Any, k: Any) -> Any:
    return score * torch.tensor(2.0, dtype=torch.float64)


@pytest.mark.parametrize("score_mod", [of_rows, of_all, of_a_wide_scale])
def test_what_is_not_done_element_by_element_breaks_the_graph(score_mod: Any) -> None:
    compiled, _ = captured(lambda q, k, v: flex.flex_attention(q, k, v, score_mod))
    with pytest.raises(capture.GraphBreakError, match="score_mod of flex_attention"):
        compiled(*qkv())
