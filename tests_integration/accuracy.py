"""When is a compiled result right: as close to eager as rounding allows, or as close to the truth as eager is."""

from __future__ import annotations

from collections.abc import Sequence

import torch

SLACK = 2.0
"""How much farther from the float64 result than eager's own error ours may be: sums run in another order."""


def assert_as_accurate(
    found: Sequence[torch.Tensor | None],
    eager: Sequence[torch.Tensor | None],
    exact: Sequence[torch.Tensor | None],
    what: str = "",
) -> None:
    """Each tensor equals eager's by `torch.testing.assert_close`, or errs against the float64 result at most `SLACK`
    times what eager errs, in the largest and the mean error. Metadata must be equal always.

    Args:
        found: compiled results.
        eager: the same in eager mode, same dtype.
        exact: the same computed in float64.
    """
    assert len(found) == len(eager) == len(exact), f"{what}: {len(found)}, {len(eager)}, {len(exact)} tensors"
    for i, (ours, theirs, truth) in enumerate(zip(found, eager, exact, strict=True)):
        place = f"{what} tensor {i}"
        if ours is None or theirs is None or truth is None:
            assert ours is None and theirs is None, place
            continue
        assert ours.dtype == theirs.dtype, f"{place}: {ours.dtype} for {theirs.dtype}"
        assert ours.shape == theirs.shape, f"{place}: {tuple(ours.shape)} for {tuple(theirs.shape)}"
        assert _steps(ours) == _steps(theirs), f"{place}: strides {ours.stride()} for {theirs.stride()}"
        try:
            torch.testing.assert_close(ours, theirs)
        except AssertionError as difference:
            our_error, their_error = ((t.double() - truth).abs() for t in (ours, theirs))
            floor = torch.finfo(ours.dtype).eps * truth.abs().max().item()
            for name, reduce in (("largest", torch.Tensor.max), ("mean", torch.Tensor.mean)):
                mine, eagers = reduce(our_error).item(), reduce(their_error).item()
                assert mine <= SLACK * eagers + floor, f"{place}: {name} error {mine} for {eagers}\n{difference}"


def _steps(tensor: torch.Tensor) -> list[int]:
    """The strides that address anything: a dimension of size 1 may have any, in eager mode too."""
    return [stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True) if size > 1]
