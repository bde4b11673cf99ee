"""Packed rows: the same numbers, layouts and errors as eager's."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from symshapes.fake.packing import pack, pad


def outcome(function: Any, *args: Any) -> Any:
    try:
        return [(tensor.tolist(), tensor.stride(), tensor.dtype) for tensor in function(*args)]
    except RuntimeError as error:
        return str(error).partition("\n")[0]


@pytest.mark.parametrize("lengths", [[4, 2, 1], [4, 4, 4], [1, 2, 4], [4, 2, 0], [5, 2, 1], [3, 2]], ids=str)
def test_pack(lengths: list[int]) -> None:
    args = torch.randn(4, 3, 2), torch.tensor(lengths), False
    assert outcome(pack, *args) == outcome(torch._pack_padded_sequence, *args)


@pytest.mark.parametrize("total_length", [4, 6, 0, -1, 2])
@pytest.mark.parametrize("batch_first", [False, True])
def test_pad(total_length: int, batch_first: bool) -> None:
    data, sizes = torch._pack_padded_sequence(torch.randn(4, 3, 2), torch.tensor([4, 2, 1]), False)
    args = data, sizes, batch_first, -1.5, total_length
    assert outcome(pad, *args) == outcome(torch._pad_packed_sequence, *args)
