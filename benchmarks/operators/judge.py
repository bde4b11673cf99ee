"""Is a compiled result eager's: values, dtypes, sizes, strides. Within rounding, eager in float64 is the judge."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

SLACK = 4.0
"""How many times eager's own error against float64 a result may err."""
TOLERANCE: dict[torch.dtype, dict[str, float]] = {
    torch.float64: {"rtol": 1e-7, "atol": 1e-9},
    torch.complex128: {"rtol": 1e-7, "atol": 1e-9},
    torch.float32: {"rtol": 2e-5, "atol": 1e-5},
    torch.complex64: {"rtol": 2e-5, "atol": 1e-5},
    torch.bfloat16: {"rtol": 1.6e-2, "atol": 1e-3},
    torch.float16: {"rtol": 2e-3, "atol": 1e-4},
}
ORDER = ("raised", "values", "dtype", "sizes", "strides", "right")
"""Verdicts, the worst first."""


def judge(
    found: Sequence[Any], eager: Sequence[Any], exact: Sequence[Any] | None, *, values: bool = True
) -> tuple[str, str]:
    """A verdict of `ORDER` and what is wrong.

    Args:
        found, eager: flat results in the same order.
        exact: the same in float64, where there is such a thing.
        values: whether they say anything.
    """
    if len(found) != len(eager):
        return "sizes", f"{len(found)} results for {len(eager)}"
    answers = [
        _one(ours, theirs, exact[at] if exact is not None and len(exact) == len(eager) else None, values)
        for at, (ours, theirs) in enumerate(zip(found, eager, strict=True))
    ]
    return min(answers, key=lambda answer: ORDER.index(answer[0]), default=("right", ""))


def _one(ours: Any, eager: Any, exact: Any, values: bool) -> tuple[str, str]:
    if not isinstance(eager, torch.Tensor) or not isinstance(ours, torch.Tensor):
        same = type(ours) is type(eager) and (ours == eager or (ours != ours and eager != eager) or not values)
        return ("right", "") if same else ("values", f"{ours!r} for {eager!r}")
    if ours.dtype is not eager.dtype:
        return "dtype", f"{ours.dtype} for {eager.dtype}"
    if ours.shape != eager.shape:
        return "sizes", f"{tuple(ours.shape)} for {tuple(eager.shape)}"
    if ours.layout is not eager.layout:
        return "strides", f"{ours.layout} for {eager.layout}"
    if values and not _close(ours.detach(), eager.detach(), exact):
        return "values", _difference(ours.detach(), eager.detach(), exact)
    if eager.layout is torch.strided and eager.numel():
        known = zip(eager.shape, ours.stride(), eager.stride(), strict=True)
        if any(a != b for n, a, b in known if n != 1):
            return "strides", f"{ours.stride()} for {eager.stride()} of {tuple(eager.shape)}"
    if ours.requires_grad != eager.requires_grad:
        return "values", f"requires_grad is {ours.requires_grad}"
    return "right", ""


def _close(ours: torch.Tensor, eager: torch.Tensor, exact: Any) -> bool:
    if eager.layout is not torch.strided:
        ours, eager, exact = ours.to_dense(), eager.to_dense(), None
    if eager.dtype is torch.complex32:  # which torch compares no two of
        ours, eager = ours.to(torch.complex64), eager.to(torch.complex64)
    if torch.equal(ours, eager):
        return True
    tolerance = TOLERANCE.get(eager.dtype, {"rtol": 0, "atol": 0})
    if torch.allclose(ours, eager, equal_nan=True, **tolerance):
        return True
    if not isinstance(exact, torch.Tensor) or exact.shape != eager.shape or not eager.is_floating_point():
        return False
    truth = exact.detach().double()
    # Where eager overflows on the way to a value that its dtype holds, or to an infinity, that is as right as eager's.
    held = truth.to(eager.dtype)
    overflowed = ~eager.isfinite() & ~held.isnan()
    known = torch.isclose(ours, held, **tolerance) | torch.isclose(ours, eager, equal_nan=True)
    if not bool(known[overflowed].all()):
        return False
    ours, eager, truth = ours[~overflowed], eager[~overflowed], truth[~overflowed]
    if not ours.numel():
        return True
    if not torch.equal(ours.isfinite(), eager.isfinite()):
        return False
    both = truth.isfinite() & eager.isfinite()
    errors = [(t.double() - truth)[both].abs() for t in (ours, eager)]
    floor = tolerance["rtol"] * truth[both].abs() + tolerance["atol"]
    return bool((errors[0] <= SLACK * errors[1].max() + floor).all()) if both.any() else False


def _difference(ours: torch.Tensor, eager: torch.Tensor, exact: Any) -> str:
    if ours.layout is not torch.strided or ours.is_complex():
        return "differ"
    gap = (ours.double() - eager.double()).abs()
    said = f"{int((gap > 0).sum() + (ours.isnan() != eager.isnan()).sum())} of {gap.numel()} differ, at most by {gap.nan_to_num(0).max():.3g}"
    if isinstance(exact, torch.Tensor) and exact.shape == eager.shape and not exact.is_complex():
        errors = ", ".join(f"{(t.double() - exact.double()).abs().nan_to_num(0).max():.3g}" for t in (ours, eager))
        said += f"; errors of ours, eager: {errors}"
    return said
