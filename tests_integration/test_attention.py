"""Attention on the CPU: printed as loops where its weights fit a cache, ATen's kernel elsewhere; whole layers of `torch.nn`."""

from __future__ import annotations

import functools
import math
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.functional import scaled_dot_product_attention as attention

import capture
import inductor
import meta

Q, K = 37, 70


@pytest.fixture(autouse=True)
def raises(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capture.config, "on_error", "raise")
    torch.manual_seed(0)


def compiled(function: Any, *args: Any, **kwargs: Any) -> tuple[Any, list[inductor.CompiledGraph]]:
    graphs: list[inductor.CompiledGraph] = []
    backend = functools.partial(meta.backends.inductor, on_compiled=graphs.append)
    return meta.compile(function, backend=backend)(*args, **kwargs), graphs


def heads(batch: int, length: int, width: int = 16) -> torch.Tensor:
    """(batch, 3 heads, length, width), heads side by side in memory."""
    return torch.randn(batch, length, 3, width).transpose(1, 2)


NO_KEY = torch.rand(2, 1, Q, K) > 0.3
NO_KEY[:, :, 5] = False
MASKS = {
    "none": {},
    "causal": {"is_causal": True},
    "added": {"attn_mask": torch.randn(1, 3, Q, K)},
    "of keys": {"attn_mask": torch.zeros(2, 1, 1, K).masked_fill(torch.rand(2, 1, 1, K) > 0.5, -math.inf)},
    "a row that sees no key": {"attn_mask": NO_KEY},
    "scaled": {"scale": 0.3},
}


@pytest.mark.parametrize("mask", MASKS)
def test_written_out(mask: str) -> None:
    query, key, value = heads(2, Q), heads(2, K), heads(2, K)
    with torch.no_grad():
        found, graphs = compiled(lambda *of: attention(*of, **MASKS[mask]), query, key, value)
    assert graphs[0].stats.externs == 0
    expected = attention(query, key, value, **MASKS[mask])
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)
    assert found.stride() == expected.stride()


@pytest.mark.parametrize("dtype, length", [(torch.float32, 700), (torch.float64, 40), (torch.bfloat16, 40)], ids=str)
def test_left_to_aten(dtype: torch.dtype, length: int) -> None:
    given = [heads(1, length).to(dtype) for _ in range(3)]
    with torch.no_grad():
        found, graphs = compiled(attention, *given)
    assert graphs[0].stats.externs == 1
    torch.testing.assert_close(found, attention(*given))


def test_in_training() -> None:
    given = [heads(2, 40).requires_grad_() for _ in range(3)]
    found, _ = compiled(attention, *given)
    expected = attention(*given)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)
    grads = (torch.autograd.grad(out.square().sum(), given) for out in (found, expected))
    for mine, theirs in zip(*grads, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-4)


def test_sizes_that_change() -> None:
    graphs: list[inductor.CompiledGraph] = []
    backend = functools.partial(meta.backends.inductor, on_compiled=graphs.append)
    run = meta.compile(attention, backend=backend, dynamic=True)
    with torch.no_grad():
        for length in (40, 57, 900):
            given = [heads(2, length) for _ in range(3)]
            torch.testing.assert_close(run(*given), attention(*given), rtol=1e-5, atol=1e-5)
    (graph,) = graphs
    assert graph.stats.externs == 1  # of any length there may be more weights than memory


@pytest.mark.parametrize("need_weights", [True, False])
def test_multihead_attention_at_inference(need_weights: bool) -> None:
    layer, x = nn.MultiheadAttention(32, 4, batch_first=True).eval(), torch.randn(3, 30, 32)
    nn.init.normal_(layer.in_proj_bias)
    mask = torch.ones(30, 30, dtype=torch.bool).triu(1)
    with torch.no_grad():
        found, graphs = compiled(layer, x, x, x, attn_mask=mask, need_weights=need_weights)
        expected = layer(x, x, x, attn_mask=mask, need_weights=need_weights)
    assert graphs[0].stats.externs == 0
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("norm_first", [True, False])
def test_an_encoder_at_inference(norm_first: bool) -> None:
    layer = nn.TransformerEncoderLayer(32, 4, 64, activation="gelu", norm_first=norm_first, batch_first=True)
    encoder, x = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).eval(), torch.randn(3, 30, 32)
    hidden = torch.zeros(3, 30, dtype=torch.bool)
    hidden[0, 20:] = True
    with torch.no_grad():
        found, graphs = compiled(encoder, x, src_key_padding_mask=hidden)
        expected = encoder(x, src_key_padding_mask=hidden)
    assert graphs[0].stats.externs == 0
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


def test_heads_of_queries_that_share_keys() -> None:
    given = heads(2, 33).repeat(1, 2, 1, 1), heads(2, K), heads(2, K)
    program = functools.partial(attention, enable_gqa=True)
    with torch.no_grad():
        found, graphs = compiled(lambda *of: program(*of), *given)
    assert graphs[0].stats.externs == 1  # else positions were beyond the end of the keys
    torch.testing.assert_close(found, program(*given))


def test_scores_that_overflow() -> None:
    query = torch.full((1, 1, 32, 16), 1e20)
    with torch.no_grad():
        found, graphs = compiled(attention, query, -query, query)
    assert graphs[0].stats.externs == 0
    torch.testing.assert_close(found, attention(query, -query, query))


@pytest.mark.parametrize("scale", [0.0, -0.3])
def test_what_lies_ahead_is_hidden_before_scaling(scale: float) -> None:
    x = heads(1, 30)
    program = functools.partial(attention, is_causal=True, scale=scale)
    with torch.no_grad():
        found, _ = compiled(lambda x: program(x, x, x), x)
    torch.testing.assert_close(found, program(x, x, x), equal_nan=True)


@pytest.mark.parametrize("size", [(3, 0, 32), (0, 9, 32)])
@pytest.mark.parametrize("need_weights", [True, False])
def test_nothing_to_attend_to(size: tuple[int, ...], need_weights: bool) -> None:
    layer, x = nn.MultiheadAttention(32, 4, batch_first=True).eval(), torch.zeros(size)
    with torch.no_grad():
        found, _ = compiled(layer, x, x, x, need_weights=need_weights)
        expected = layer(x, x, x, need_weights=need_weights)
    torch.testing.assert_close(found[0], expected[0])
    assert found[1] is None and expected[1] is None
