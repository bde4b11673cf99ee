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
FEW = 64
"""Of so few elements eager's error says little of its rounding: that of one may be 0 because two roundings happen to be alike."""
ORDER = ("raised", "values", "dtype", "sizes", "strides", "right")
"""Verdicts, the worst first."""


def judge(
    found: Sequence[Any],
    eager: Sequence[Any],
    exact: Sequence[Any] | None,
    *,
    values: bool = True,
    elsewhere: Sequence[float] | None = None,
) -> tuple[str, str]:
    """A verdict of `ORDER` and what is wrong.

    Args:
        found, eager: flat results in the same order.
        exact: the same in float64, where there is such a thing.
        values: whether they say anything.
        elsewhere: eager's error (see `errors`) in each of the results for arguments like these, which counts where they have few elements.
    """
    elsewhere = elsewhere or [0.0] * len(eager)
    if len(found) != len(eager):
        return "sizes", f"{len(found)} results for {len(eager)}"
    answers = [
        _one(ours, theirs, exact[at] if exact is not None and len(exact) == len(eager) else None, values, elsewhere[at])
        for at, (ours, theirs) in enumerate(zip(found, eager, strict=True))
    ]
    return min(answers, key=lambda answer: ORDER.index(answer[0]), default=("right", ""))


def errors(eager: Sequence[Any], exact: Sequence[Any]) -> list[float]:
    """Eager's largest error against float64 in each result, of what is finite in both; 0 where there is none."""
    return [_error(*pair) for pair in zip(eager, exact, strict=True)]


def _error(eager: Any, exact: Any) -> float:
    if not all(
        isinstance(t, torch.Tensor) and t.layout is torch.strided and t.is_floating_point() for t in (eager, exact)
    ):
        return 0.0
    if eager.shape != exact.shape:
        return 0.0
    gap = (eager.detach().double() - exact.detach().double()).abs()
    return float(gap[gap.isfinite()].max()) if gap.isfinite().any() else 0.0


def _one(ours: Any, eager: Any, exact: Any, values: bool, elsewhere: float) -> tuple[str, str]:
    if not isinstance(eager, torch.Tensor) or not isinstance(ours, torch.Tensor):
        same = type(ours) is type(eager) and (ours == eager or (ours != ours and eager != eager) or not values)
        return ("right", "") if same else ("values", f"{ours!r} for {eager!r}")
    if ours.dtype is not eager.dtype:
        return "dtype", f"{ours.dtype} for {eager.dtype}"
    if ours.shape != eager.shape:
        return "sizes", f"{tuple(ours.shape)} for {tuple(eager.shape)}"
    if ours.layout is not eager.layout:
        return "strides", f"{ours.layout} for {eager.layout}"
    if values and not _close(ours.detach(), eager.detach(), exact, elsewhere):
        return "values", _difference(ours.detach(), eager.detach(), exact)
    if eager.layout is torch.strided and eager.numel():
        known = zip(eager.shape, ours.stride(), eager.stride(), strict=True)
        if any(a != b for n, a, b in known if n != 1):
            return "strides", f"{ours.stride()} for {eager.stride()} of {tuple(eager.shape)}"
    if ours.requires_grad != eager.requires_grad:
        return "values", f"requires_grad is {ours.requires_grad}"
    return "right", ""


def _close(ours: torch.Tensor, eager: torch.Tensor, exact: Any, elsewhere: float) -> bool:
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
    # Where eager overflows on the way to a value that its dtype holds, or to an infinity, that is as right as eager's; so is
    # NaN where eager's rounding on the way led to a number (a negative one to the power of what is no integer before it is rounded).
    held = truth.to(eager.dtype)
    overflowed = ~eager.isfinite() & ~held.isnan()
    undefined = eager.isfinite() & held.isnan()
    known = torch.isclose(ours, held, **tolerance, equal_nan=True) | torch.isclose(ours, eager, equal_nan=True)
    decided = overflowed | undefined
    if not bool(known[decided].all()):
        return False
    ours, eager, truth = ours[~decided], eager[~decided], truth[~decided]
    if not ours.numel():
        return True
    if not torch.equal(ours.isfinite(), eager.isfinite()):
        return False
    both = truth.isfinite() & eager.isfinite()
    if not both.any():
        return False
    error, of_eager = ((t.double() - truth)[both].abs() for t in (ours, eager))
    floor = tolerance["rtol"] * truth[both].abs() + tolerance["atol"]
    most = max(float(of_eager.max()), elsewhere if exact.numel() <= FEW else 0.0)
    return bool((error <= SLACK * most + floor).all())


def _difference(ours: torch.Tensor, eager: torch.Tensor, exact: Any) -> str:
    if ours.layout is not torch.strided or ours.is_complex():
        return "differ"
    gap = (ours.double() - eager.double()).abs()
    said = f"{int((gap > 0).sum() + (ours.isnan() != eager.isnan()).sum())} of {gap.numel()} differ, at most by {gap.nan_to_num(0).max():.3g}"
    if isinstance(exact, torch.Tensor) and exact.shape == eager.shape and not exact.is_complex():
        errors = ", ".join(f"{(t.double() - exact.double()).abs().nan_to_num(0).max():.3g}" for t in (ours, eager))
        said += f"; errors of ours, eager: {errors}"
    return said
