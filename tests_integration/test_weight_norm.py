"""Weights of a given norm: the norms that eager's kernel keeps for the backward are float32 where weights are halves."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

import meta


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("dim", [0, 2])
def test_results_and_gradients_are_eagers(dtype: torch.dtype, dim: int) -> None:
    torch.manual_seed(0)
    eager = nn.utils.parametrizations.weight_norm(nn.Conv1d(4, 6, 3), dim=dim).to(dtype)
    module = copy.deepcopy(eager)
    compiled = meta.compile(module, fullgraph=True)
    x = torch.randn(2, 4, 9, dtype=dtype)
    rough = {"rtol": 2e-2, "atol": 2e-2} if dtype.itemsize == 2 else {}
    expected, found = eager(x), compiled(x)
    torch.testing.assert_close(found, expected, **rough)
    expected.sum().backward()
    found.sum().backward()
    for ours, theirs in zip(module.parameters(), eager.parameters(), strict=True):
        torch.testing.assert_close(ours.grad, theirs.grad, **rough)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_norms_have_the_strides_of_what_they_were_asked_for(dtype: torch.dtype) -> None:
    v, g = torch.randn(4, 3, 2, dtype=dtype), torch.rand(2, 4, 1, dtype=dtype)[:1].permute(1, 0, 2)

    def fn(v: torch.Tensor, g: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.ops.aten._weight_norm_interface(v, g, 0)

    for ours, theirs in zip(meta.compile(fn, fullgraph=True)(v, g), fn(v, g), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-2, atol=1e-2)
        assert (ours.dtype, ours.stride()) == (theirs.dtype, theirs.stride())
