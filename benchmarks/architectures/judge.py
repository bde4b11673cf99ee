"""Is a compiled result right: within what eager's own float32 rounding leaves open, with eager in float64 as the judge."""

from __future__ import annotations

from collections.abc import Sequence

import torch

SLACK = 4.0
"""How many times eager's own error a compiled result may err: sums run in another order."""
FLOOR = 2e-5
"""Relative to a tensor's norm: an error below it is rounding even where eager happens to err less."""
NOISY = 1e-2
"""Relative error of eager in float32 above which a tensor says nothing about the compiler."""

Tensors = Sequence["torch.Tensor | None"]


def verdict(found: Tensors, eager: Tensors, exact: Tensors | None, others: Sequence[Tensors] = ()) -> str:
    """ "right", "right (k of n undecided)", "undecided", or "wrong: ..." with the first tensor that is.

    Args:
        found, eager: results in float32, in the same order.
        exact: the same computed in float64; None where the model does not run so: then eager's must be met to 1e-3.
        others: more of eager's results, from inputs that differ by rounding; its error is the largest of all.
    """
    if len(found) != len(eager):
        return f"wrong: {len(found)} tensors for {len(eager)}"
    undecided = judged = 0
    # A tensor that is small beside the others (a bias before a normalisation has no gradient but noise) is judged by the largest.
    scale = max((float(t.double().norm()) for t in eager if t is not None and t.is_floating_point()), default=0.0)
    for i, (ours, theirs) in enumerate(zip(found, eager, strict=True)):
        truth = exact[i] if exact is not None and len(exact) == len(eager) else None
        if ours is None or theirs is None:
            if ours is not theirs:
                return f"wrong: tensor {i}: {'missing' if ours is None else 'not in eager'}"
            continue
        if ours.shape != theirs.shape or ours.dtype != theirs.dtype:
            return f"wrong: tensor {i}: {ours.dtype} {tuple(ours.shape)} for {theirs.dtype} {tuple(theirs.shape)}"
        judged += 1
        answer = _one(ours, theirs, truth, scale, [t for other in others if (t := other[i]) is not None])
        if answer is None:
            undecided += 1
        elif answer:
            return f"wrong: tensor {i} {tuple(ours.shape)}: {answer}"
    if judged and undecided == judged:
        return "undecided"
    return f"right ({undecided} of {judged} undecided)" if undecided else "right"


def _one(
    ours: torch.Tensor, eager: torch.Tensor, truth: torch.Tensor | None, scale: float, others: Sequence[torch.Tensor]
) -> str | None:
    """Empty if right, None if undecided, else what is wrong."""
    if torch.equal(ours, eager):
        return ""
    if not (ours.is_floating_point() or ours.is_complex()):
        if truth is None or not torch.equal(truth, eager.to(truth.dtype)):
            return None
        return f"{int((ours != eager).sum())} of {ours.numel()} elements differ"
    kind = torch.complex128 if ours.is_complex() else torch.float64
    a, b = ours.to(kind), eager.to(kind)
    unusual = ~torch.isfinite(b)
    if not torch.equal(torch.isfinite(a), ~unusual) or not _same(a[unusual], b[unusual]):
        return "other infinities or NaNs than eager"
    keep = ~unusual
    a, b = a[keep], b[keep]
    if truth is None or truth.shape != eager.shape:
        off = float((a - b).norm() / max(float(b.norm()), 1e-3 * scale, 1e-30))
        return "" if off < 1e-3 else f"off by {off:.1e} of eager's norm; no float64 judge"
    c = truth.to(kind)[keep]
    if not bool(torch.isfinite(c).all()):
        return None
    size = max(float(c.norm()), 1e-3 * scale, 1e-30)
    mine = float((a - c).norm()) / size
    eagers = max(
        float((t - c).norm()) / size for t in (b, *(o.to(kind)[keep] for o in others if o.shape == eager.shape))
    )
    if eagers > NOISY:
        return None
    if mine <= SLACK * eagers + FLOOR:
        return ""
    return f"error {mine:.1e} of its norm, eager's {eagers:.1e}"


def _same(a: torch.Tensor, b: torch.Tensor) -> bool:
    return bool(((a == b) | (torch.isnan(a.abs()) & torch.isnan(b.abs()))).all())
