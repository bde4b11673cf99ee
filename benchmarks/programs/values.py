"""What a program gives, made comparable: nested plain values in, the first difference as text out."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import torch


def plain(value: Any) -> Any:
    """Tensors (detached, dense, on the CPU), numbers and strings in lists and dictionaries.

    Raises:
        TypeError: a program returned something that cannot be compared.
    """
    if isinstance(value, torch.Tensor):
        tensor = value.detach().cpu()
        return (tensor.to_dense() if tensor.is_sparse else tensor).clone().as_subclass(torch.Tensor)
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if dataclasses.is_dataclass(value) and not isinstance(value, Mapping):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    raise TypeError(f"cannot compare a {type(value).__name__}")


def difference(left: Any, right: Any, tolerance: float, where: str = "result") -> str | None:
    """Where two plain values differ first and by how much; None where they agree within the tolerance."""
    if isinstance(left, torch.Tensor) and isinstance(right, torch.Tensor):
        return _tensor_difference(left, right, tolerance, where)
    if isinstance(left, float) and isinstance(right, float):
        return _tensor_difference(torch.tensor(left), torch.tensor(right), tolerance, where)
    if type(left) is not type(right):
        return f"{where}: {type(left).__name__} against {type(right).__name__}"
    if isinstance(left, dict):
        if list(left) != list(right):
            return f"{where}: keys {list(left)} against {list(right)}"
        return _first(difference(left[k], right[k], tolerance, f"{where}[{k!r}]") for k in left)
    if isinstance(left, list):
        if len(left) != len(right):
            return f"{where}: {len(left)} values against {len(right)}"
        return _first(
            difference(a, b, tolerance, f"{where}[{i}]") for i, (a, b) in enumerate(zip(left, right, strict=True))
        )
    return None if left == right else f"{where}: {left!r} against {right!r}"


def _first(found: Any) -> str | None:
    return next((text for text in found if text is not None), None)


def _tensor_difference(left: torch.Tensor, right: torch.Tensor, tolerance: float, where: str) -> str | None:
    if left.shape != right.shape or left.dtype != right.dtype:
        return f"{where}: {left.dtype} {tuple(left.shape)} against {right.dtype} {tuple(right.shape)}"
    if not left.is_floating_point() and not left.is_complex():
        wrong = int((left != right).sum())
        return f"{where}: {wrong} of {left.numel()} differ" if wrong else None
    wide = torch.complex128 if left.is_complex() else torch.float64
    if torch.allclose(left.to(wide), right.to(wide), rtol=tolerance, atol=tolerance, equal_nan=True):
        return None
    return f"{where}: off by {(left.to(wide) - right.to(wide)).abs().max().item():.3g}"
