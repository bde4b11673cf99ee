"""Checks of distributions' arguments that return early by what is in a tensor, said again without the branch.

A distribution raises unless all that a check gives holds; which elements are told to fail is the same, too.
"""

from __future__ import annotations

from typing import Any

import torch

from .polyfills import stands_for


@stands_for("torch.distributions.constraints._PositiveDefinite.check")
def _positive_definite(self: Any, value: torch.Tensor) -> torch.Tensor:
    batch = value.shape[:-2]
    if value.shape[-2] != value.shape[-1] and batch.numel():
        return torch.full(batch, False, dtype=torch.bool, device=value.device)
    symmetric = torch.isclose(value, value.mT, atol=1e-6).all(-2).all(-1)
    return torch.where(symmetric.all(), torch.linalg.cholesky_ex(value).info.eq(0), symmetric)
