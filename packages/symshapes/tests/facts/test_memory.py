"""Which tensors have memory in common."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from symshapes import FakeMode, ShapeEnv, share_memory
from symshapes.facts.memory import spans_meet

BASE = torch.arange(24.0)
PAIRS: dict[str, tuple[Callable[[], list[torch.Tensor]], bool]] = {
    "side by side": (lambda: [BASE[:6], BASE[6:12]], False),
    "the other way round": (lambda: [BASE[6:12], BASE[:6]], False),
    "with a gap": (lambda: [BASE[:4], BASE[6:12]], False),
    "one element": (lambda: [BASE[:6], BASE[5:12]], True),
    "one within the other": (lambda: [BASE[:12], BASE[4:6]], True),
    "one and the same": (lambda: [BASE[:6], BASE[:6]], True),
    "nothing": (lambda: [BASE[:0], BASE[:6]], False),
    "between each other": (lambda: [BASE[::2], BASE[1::2]], True),
    "rows": (lambda: list(BASE.view(4, 6).split(2)), False),
    "expanded": (lambda: [BASE[:1].expand(9), BASE[1:6]], False),
    "of other widths": (lambda: [BASE.view(torch.uint8)[:8], BASE[2:4]], False),
    "of other widths, in common": (lambda: [BASE.view(torch.uint8)[:9], BASE[2:4]], True),
    "two storages": (lambda: [BASE[:6], BASE[:6].clone()], False),
}


def storages(tensors: list[torch.Tensor]) -> list[int]:
    return [tensor.untyped_storage().data_ptr() for tensor in tensors]


@pytest.mark.parametrize("name", PAIRS)
def test_written_tensors_share_memory(name: str) -> None:
    tensors, expected = PAIRS[name][0](), PAIRS[name][1]
    for written in ([0], [1], [0, 1]):
        assert share_memory(tensors, written, storages(tensors)) is expected
    assert share_memory(tensors, [], storages(tensors)) is False


def test_what_holds_nothing_shares_nothing() -> None:
    tensors = [torch.empty(0), torch.empty(0), BASE]
    assert share_memory(tensors, [0, 1, 2], storages(tensors)) is False


def test_what_is_only_read_may_be_one() -> None:
    for tensors, expected in (([BASE[:6], BASE[:6], BASE[6:]], False), ([BASE[:6], BASE[:12], BASE[6:]], True)):
        assert share_memory(tensors, [2], storages(tensors)) is expected


def test_spans_of_symbols_may_be_anywhere() -> None:
    env = ShapeEnv()
    with FakeMode(env):
        known: Any = torch.empty(24)
        size = env.create_unbacked_size()
        assert not spans_meet([known[:6], known[6:]], [0])
        assert spans_meet([known[:6], known[6 : 6 + size]], [0])
