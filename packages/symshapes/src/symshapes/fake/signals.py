"""Spectra of windows, differences along dimensions and chains of products, whose C++ works with plain ints only.

In: calls on fakes with symbolic sizes. Out: the same ops as in the C++, in the same order; what does not turn on a size's value asks nothing.
"""

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from symshapes import _torch
from symshapes.rules.layout import sure, wrap_dim

_DIVIDE = torch.ops.aten.div.Scalar


def stft(
    input: Tensor,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Tensor | None = None,
    normalized: bool = False,
    onesided: bool | None = None,
    return_complex: bool | None = None,
    align_to_window: bool | None = None,
) -> Tensor:
    """`torch.stft` of a signal that is padded already."""
    hop = n_fft >> 2 if hop_length is None else hop_length
    length = n_fft if win_length is None else win_length
    is_complex = input.is_complex() or (window is not None and window.is_complex())
    refused = (
        align_to_window is not None
        or (return_complex is None and not is_complex)
        or (onesided and is_complex)
        or not (input.is_floating_point() or input.is_complex())
        or input.dim() not in (1, 2)
        or hop <= 0
        or not 0 < length <= n_fft
        or n_fft > input.shape[-1]
        or (window is not None and (window.dim() != 1 or window.shape[0] != length))
    )
    if refused:  # in torch's words, and where it says more
        return _torch.plain_stft(
            input, n_fft, hop_length, win_length, window, normalized, onesided, return_complex, align_to_window
        )
    if length < n_fft:
        whole = torch.zeros(n_fft, dtype=input.dtype if window is None else window.dtype, device=input.device)
        part = whole.narrow(0, (n_fft - length) // 2, length)
        if window is None:
            part.fill_(1)
        else:
            part.copy_(window)
        window = whole
    frames = (input.unsqueeze(0) if input.dim() == 1 else input).unfold(1, n_fft, hop)
    if window is not None:
        frames = frames.mul(window)
    by_root = int(normalized)
    if frames.is_complex():
        found = torch.ops.aten._fft_c2c.default(frames, [2], by_root, True)
    else:
        found = torch.ops.aten._fft_r2c.default(frames, [2], by_root, onesided is not False)
    found = found.transpose(1, 2)
    found = found.squeeze(0) if input.dim() == 1 else found
    as_complex = is_complex if return_complex is None else return_complex
    return found if as_complex else torch.view_as_real(found)


def gradient(input: Tensor, *, spacing: Any = None, dim: Any = None, edge_order: int = 1) -> list[Tensor]:
    """`torch.gradient` for steps of a length along each dimension."""
    dims = list(range(input.dim())) if dim is None else [dim] if isinstance(dim, int) else list(dim)
    steps = [1.0 if spacing is None else spacing] * len(dims)
    if isinstance(spacing, (tuple, list)):
        steps = list(spacing)
    plain = len(steps) == len(dims) and all(isinstance(step, (int, float, complex)) for step in steps)
    dims = [wrap_dim(each, input.dim()) for each in dims]
    if (
        not plain
        or edge_order not in (1, 2)
        or len(set(dims)) < len(dims)
        or input.dtype is torch.uint8
        or any(input.shape[each] < edge_order + 1 for each in dims)
    ):
        named = {} if spacing is None else {"spacing": spacing}
        return list(torch.gradient(input, **named, dim=dim, edge_order=edge_order))
    return [_difference(input, at, step, edge_order) for at, step in zip(dims, steps, strict=True)]


def _difference(input: Tensor, dim: int, step: Any, edge_order: int) -> Tensor:
    def part(start: int, end: int | None = None) -> Any:
        return torch.ops.aten.slice.Tensor(input, dim, start, end)

    center = _DIVIDE(part(2) - part(0, -2), step)
    if edge_order == 1:
        before = _DIVIDE(part(1, 2) - part(0, 1), step)
        after = _DIVIDE(part(-1) - part(-2, -1), step)
    else:
        times = torch.ops.aten.mul.Scalar
        before = _DIVIDE(times(part(0, 1), -1.5) + times(part(1, 2), 2) - times(part(2, 3), 0.5), step)
        after = _DIVIDE(times(part(-3, -2), 0.5) - times(part(-2, -1), 2) + times(part(-1), 1.5), step)
    return torch.cat([before, _DIVIDE(center, 2), after], dim)


def multi_dot(tensors: Sequence[Tensor], *, out: Tensor | None = None) -> Tensor:
    """`torch.linalg.multi_dot`: in which order is decided by sizes."""
    dims = [each.dim() for each in tensors]
    refused = len(tensors) < 2 or dims[0] not in (1, 2) or dims[-1] not in (1, 2) or set(dims[1:-1]) - {2}
    pairs = () if refused else itertools.pairwise(tensors)
    if refused or out is not None or any(a.dtype is not b.dtype or sure(a.shape[-1] != b.shape[0]) for a, b in pairs):
        named = {} if out is None else {"out": out}
        return torch.linalg.multi_dot(tensors, **named)
    chain = list(tensors)
    size = [length for each, length in ((dims[0], tensors[0].shape[0]), (dims[-1], tensors[-1].shape[-1])) if each == 2]
    chain[0] = chain[0].unsqueeze(0) if dims[0] == 1 else chain[0]
    chain[-1] = chain[-1].unsqueeze(-1) if dims[-1] == 1 else chain[-1]
    return _product(chain, _first_parts(chain), 0, len(chain) - 1).view(size)


def _product(chain: list[Tensor], parts: dict[tuple[int, int], int], first: int, last: int) -> Tensor:
    if first == last:
        return chain[first]
    middle = parts[first, last]
    return _product(chain, parts, first, middle).mm(_product(chain, parts, middle + 1, last))


def _first_parts(chain: list[Tensor]) -> dict[tuple[int, int], int]:
    """Of each part of a chain, by its first and its last place: the last place of what is to be multiplied apart."""
    lengths = [*(each.shape[0] for each in chain), chain[-1].shape[1]]
    count = len(chain)
    if count == 3:  # the latter of two orders that cost the same
        a, b, c, d = lengths
        middle = 0 if a * c * (b + d) > b * d * (a + c) else 1
        return {(0, 2): middle, (0, 1): 0, (1, 2): 1}
    costs: dict[tuple[int, int], Any] = {(at, at): 0 for at in range(count)}
    parts: dict[tuple[int, int], int] = {}
    for span in range(1, count):
        for first in range(count - span):
            last = first + span
            for middle in range(first, last):
                cost = costs[first, middle] + costs[middle + 1, last]
                cost = cost + lengths[first] * lengths[middle + 1] * lengths[last + 1]
                if (first, last) not in costs or cost < costs[first, last]:
                    costs[first, last], parts[first, last] = cost, middle
    return parts


def block_diag(tensors: Sequence[Tensor]) -> Tensor:
    """`torch.block_diag`, whose backward asks for each size: rows of each tensor between zeros, one below the other."""
    if not tensors or any(each.dim() > 2 or each.device != tensors[0].device for each in tensors):
        found: Tensor = _torch.plain_block_diag(tensors)
        return found
    blocks = [each.view([1] * (2 - each.dim()) + list(each.shape)) for each in tensors]
    width, left, rows = sum(each.shape[1] for each in blocks), 0, []
    for each in blocks:
        right = width - left - each.shape[1]
        rows.append(torch.ops.aten.constant_pad_nd.default(each, [left, right], 0))
        left = left + each.shape[1]
    return torch.cat(rows)


ROWS: dict[Any, Callable[..., Any]] = {
    _torch.plain_block_diag: block_diag,
    _torch.plain_stft: stft,
    torch.gradient: gradient,
    torch.linalg.multi_dot: multi_dot,
}
