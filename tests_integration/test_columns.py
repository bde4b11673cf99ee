"""unfold and fold of torch.nn.functional through the whole compiler, with gradients."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F

import capture
import meta

WINDOWS = [(3, 1, 1, 1), (4, 1, 1, 2), (3, 2, 3, 2), (4, 1, 0, 4), ((2, 3), (2, 1), (0, 2), (1, 3))]


@pytest.mark.parametrize("window", WINDOWS, ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
@pytest.mark.parametrize("dynamic", [False, True])
def test_values_and_gradients(window: Any, dtype: torch.dtype, dynamic: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capture.config, "on_error", "raise")

    def function(x: Any) -> Any:
        return F.fold(F.unfold(x, *window) * 2, x.shape[-2:], *window)

    compiled = meta.compile(function, dynamic=dynamic)
    for size in ((2, 3, 8, 20), (1, 3, 16, 12), (0, 3, 8, 12)):
        x = torch.randn(size, dtype=dtype)
        results = []
        for call in (function, compiled):
            leaf = x.clone().requires_grad_()
            y = call(leaf)
            (gradient,) = torch.autograd.grad(y, leaf, torch.ones_like(y))
            results.append((y, gradient))
        for want, got in zip(*results, strict=True):
            torch.testing.assert_close(got, want)
            assert got.stride() == want.stride()


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("size", [(27, 98), (26, 99)])
def test_columns_of_another_image_are_refused(size: tuple[int, int], dynamic: bool | None) -> None:
    with pytest.raises(RuntimeError, match=r"Given output_size|divisible"):
        meta.compile(lambda x: F.fold(x, (11, 13), 3), dynamic=dynamic)(torch.randn(size))
