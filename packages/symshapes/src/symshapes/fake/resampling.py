"""`interpolate` and the functions below it for symbolic sizes: torch's C++ takes ints in their signatures that take scales.

Flows in: images as fakes. Flows out: calls of the operators that take sizes, with the sizes that the C++ would compute.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from symshapes import _torch

_NEAREST = {"nearest": "upsample_nearest", "nearest-exact": "_upsample_nearest_exact"}
_SMOOTH = {
    (3, "linear"): "upsample_linear1d",
    (4, "bilinear"): "upsample_bilinear2d",
    (4, "bicubic"): "upsample_bicubic2d",
    (5, "trilinear"): "upsample_trilinear3d",
}
_ANTIALIASED = {
    "bilinear": "_upsample_bilinear2d_aa",
    "bicubic": "_upsample_bicubic2d_aa",
    "lanczos": "_upsample_lanczos2d_aa",
}
_EXACT = 1 << 16
_WHOLE = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)


def scaled_size(length: Any, scale: Any) -> Any:
    """`int(length * scale)`, computed with doubles as the C++ does; with integers where both give the same."""
    if not isinstance(length, torch.SymInt) or not isinstance(scale, (int, float)):
        return torch.sym_int(length * scale)
    above, below = float(scale).as_integer_ratio()
    if 0 < above <= _EXACT and below <= _EXACT:  # no product with a size is rounded
        return length * above // below
    return torch.sym_int(length * float(scale))


def _resized(name: str, input: Tensor, size: Sequence[Any] | None, scales: Sequence[Any] | None, *more: Any) -> Any:
    """The operator `name` with the sizes given, or those that the scales give; the kernels use the scales as well."""
    spatial = input.shape[2:]
    if scales is not None:
        size = [scaled_size(length, scale) for length, scale in zip(spatial, scales, strict=True)]
    if size is None:
        raise ValueError("either size or scale_factor should be defined")
    return getattr(torch.ops.aten, name).default(input, size, *more, *(scales or [None] * len(spatial)))


def _function(name: str, *, aligns: bool) -> Callable[..., Any]:
    """torch's function `name` that takes a size or scales."""
    original = _torch.image_function(name)

    def plain(input: Tensor, output_size: Any, scale_factors: Any = None, *more: Any, **named: Any) -> Any:
        if more or named or isinstance(scale_factors, (int, float)):  # the operator's own signature
            return original(input, output_size, scale_factors, *more, **named)
        return _resized(name, input, output_size, scale_factors)

    def aligned(
        input: Tensor, output_size: Any, align_corners: bool, scale_factors: Any = None, *more: Any, **named: Any
    ) -> Any:
        if more or named or isinstance(scale_factors, (int, float)):
            return original(input, output_size, align_corners, scale_factors, *more, **named)
        return _resized(name, input, output_size, scale_factors, align_corners)

    return aligned if aligns else plain


def interpolate(
    input: Tensor,
    size: Any = None,
    scale_factor: Any = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
) -> Any:
    """`torch.nn.functional.interpolate`. What it does not take goes to torch's, which says so."""
    spatial = input.dim() - 2
    sizes = list(size) if isinstance(size, (list, tuple)) else [size] * spatial
    if all(map(_is_whole, sizes)):  # others torch refuses
        sizes = [each.item() if isinstance(each, Tensor) else each for each in sizes]
    scales = list(scale_factor) if isinstance(scale_factor, (list, tuple)) else [scale_factor] * spatial
    name = _operator(mode, input.dim(), antialias)
    smooth = mode not in ("nearest", "nearest-exact", "area")
    refused = (
        name is None
        or (size is None) is (scale_factor is None)
        or len(sizes) != spatial
        or len(scales) != spatial
        or (align_corners is not None and not smooth)
        or (recompute_scale_factor and size is not None)
        or (smooth and not antialias and not input.is_cpu and torch.are_deterministic_algorithms_enabled())
    )
    if refused or name is None:
        return F.interpolate(
            input,
            size,
            scale_factor,
            mode,
            align_corners,
            recompute_scale_factor=recompute_scale_factor,
            antialias=antialias,
        )
    if scale_factor is not None and (recompute_scale_factor or mode == "area"):
        sizes = [scaled_size(length, scale) for length, scale in zip(input.shape[2:], scales, strict=True)]
        scale_factor = None
    if mode == "area":
        return _area(input, sizes)
    more = (bool(align_corners),) if smooth else ()
    return _resized(name, input, sizes, None if scale_factor is None else scales, *more)


def _is_whole(size: Any) -> bool:
    return not isinstance(size, Tensor) or (not size.dim() and size.dtype in _WHOLE)


def _operator(mode: str, rank: int, antialias: bool) -> str | None:
    """The operator of a mode; None where there is none for so many dimensions."""
    if not 3 <= rank <= 5:
        return None
    if antialias:
        return _ANTIALIASED.get(mode) if rank == 4 and _has(_ANTIALIASED.get(mode)) else None
    if mode in _NEAREST:
        return f"{_NEAREST[mode]}{rank - 2}d"
    return "area" if mode == "area" else _SMOOTH.get((rank, mode))


def _has(name: str | None) -> bool:
    return name is not None and hasattr(torch.ops.aten, name)


def _area(input: Tensor, sizes: list[Any]) -> Any:
    size: Any = tuple(sizes)
    if len(size) == 1:
        # One row of a plane, as the C++ does it, which takes ints there.
        return F.adaptive_avg_pool2d(input.unsqueeze(-2), (1, size[0])).squeeze(-2)
    return F.adaptive_avg_pool2d(input, size) if len(size) == 2 else F.adaptive_avg_pool3d(input, size)


RESAMPLING: dict[Any, Callable[..., Any]] = {F.interpolate: interpolate}
for _name in (*(f"{_start}{_rank}d" for _start in _NEAREST.values() for _rank in (1, 2, 3)),):
    RESAMPLING[_torch.image_function(_name)] = _function(_name, aligns=False)
for _name in (*_SMOOTH.values(), *filter(_has, _ANTIALIASED.values())):
    RESAMPLING[_torch.image_function(_name)] = _function(_name, aligns=True)
