"""Sequences of many lengths as packed rows, and back, where only the run can tell how many rows and steps there are.

In: calls of what `torch.nn.utils.rnn` packs and pads by. Out: the same by operators that take any number; the rows of a step lie one behind the
other, the longest sequence's first, and `batch_sizes` says how many each step has.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from symshapes import _torch
from symshapes.rules.layout import sure


def _begins(batch_sizes: Tensor) -> Tensor:
    """The first row of each step."""
    return batch_sizes.cumsum(0) - batch_sizes


def _lengths(batch_sizes: Tensor, batch: Any) -> Tensor:
    """How many steps each sequence has."""
    return (batch_sizes.unsqueeze(1) > torch.arange(batch, device=batch_sizes.device)).sum(0)


def _spread(data: Tensor, batch_sizes: Tensor, length: Any, batch: Any, value: Any) -> Tensor:
    """Packed rows as (length, batch, ...), with a value where a sequence has ended."""
    sizes = batch_sizes.to(data.device)
    begins, steps = _begins(sizes), torch.arange(length, device=data.device)
    if not sure(length == sizes.shape[0]):
        begins = begins.index_select(0, steps.clamp(max=sizes.shape[0] - 1))
    there = steps.unsqueeze(1) < _lengths(sizes, batch)
    rows = (begins.unsqueeze(1) + torch.arange(batch, device=data.device)) * there
    spread = data.index_select(0, rows.view(-1)).view(length, batch, *data.shape[1:])
    return spread.masked_fill(~there.view(length, batch, *[1] * (data.dim() - 1)), value)


def _gathered(spread: Tensor, batch_sizes: Tensor, rows: Any) -> Tensor:
    """The packed rows of (length, batch, ...)."""
    begins = _begins(batch_sizes.to(spread.device))
    row = torch.arange(rows, device=spread.device)
    step = torch.searchsorted(begins, row, right=True) - 1
    place = step * spread.shape[1] + row - begins.index_select(0, step)
    return spread.reshape(spread.shape[0] * spread.shape[1], *spread.shape[2:]).index_select(0, place)


class _Pack(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, input: Tensor, lengths: Tensor, batch_first: bool) -> tuple[Tensor, Tensor]:
        data, sizes = torch.ops.aten._pack_padded_sequence.default(input, lengths, batch_first)
        ctx.save_for_backward(sizes)
        ctx.mark_non_differentiable(sizes)
        ctx.size, ctx.batch_first = input.shape, batch_first
        return data, sizes

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        (sizes,) = ctx.saved_tensors
        first, second = ctx.size[:2]
        length, batch = (second, first) if ctx.batch_first else (first, second)
        found = _spread(gradients[0], sizes, length, batch, 0)
        return found.transpose(0, 1) if ctx.batch_first else found, None, None


class _Pad(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, data: Tensor, batch_sizes: Tensor, length: Any, batch: Any, value: Any) -> Tensor:
        ctx.save_for_backward(batch_sizes)
        ctx.rows = data.shape[0]
        return _spread(data, batch_sizes, length, batch, value)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        (sizes,) = ctx.saved_tensors
        return _gathered(gradients[0], sizes, ctx.rows), None, None, None, None


def pack(input: Tensor, lengths: Tensor, batch_first: bool) -> tuple[Tensor, Tensor]:
    """`torch._pack_padded_sequence`."""
    made: tuple[Tensor, Tensor] = _Pack.apply(input, lengths, batch_first)  # type: ignore[no-untyped-call]
    return made


def pad(data: Tensor, batch_sizes: Tensor, batch_first: bool, padding_value: Any, total_length: Any) -> Any:
    """`torch._pad_packed_sequence`."""
    steps, batch = batch_sizes.shape[0], batch_sizes[0].item()
    length = steps if sure(total_length <= 0) else total_length
    if sure(length < steps):
        raise RuntimeError(
            "Expected total_length to be at least the length of the longest sequence in input, "
            f"but got total_length={length} and max sequence length being {steps}"
        )
    found = _Pad.apply(data, batch_sizes, length, batch, padding_value)  # type: ignore[no-untyped-call]
    return found.transpose(0, 1) if batch_first else found, _lengths(batch_sizes, batch)


ROWS: dict[Any, Callable[..., Any]] = {_torch.PACK_PADDED: pack, _torch.PAD_PACKED: pad}
