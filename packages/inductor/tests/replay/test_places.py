"""Where inputs lie: in Python and natively, and whether memory is shared."""

from __future__ import annotations

import importlib.util

import pytest
import torch

from inductor.replay.places import Reader, reader, shared

READERS = ["python", "native"] if importlib.util.find_spec("triton") else ["python"]


@pytest.fixture(params=READERS)
def read_of(request: pytest.FixtureRequest):
    if request.param == "python":
        return reader
    from inductor.triton.places import reader as native

    return native


class Sub(torch.Tensor):
    """A subclass, whose metadata is its own to tell."""


def test_what_moves_is_noticed(read_of) -> None:
    x, w = torch.randn(4), torch.nn.Parameter(torch.randn(4))
    sub = torch.randn(4).as_subclass(Sub)
    inputs = [3, x, w, sub, torch.empty(0)]
    read: Reader = read_of((1, 2, 3, 4))
    before = read(inputs)
    assert read(list(inputs)) == before
    assert read([4, x[:2], w, sub, torch.empty(0)]) == before
    for at in (1, 2, 3):
        moved = [*inputs]
        moved[at] = inputs[at].detach().clone()  # type: ignore[attr-defined]
        assert read(moved) != before
    w.data = torch.randn(4)
    assert read(inputs) != before


def test_the_same_address_of_another_storage(read_of) -> None:
    read = read_of((0,))
    base = torch.randn(8)
    alone = torch.empty(0).set_(base.untyped_storage(), 4, (4,))
    cut = torch.frombuffer(bytearray(32), dtype=torch.float32)
    assert read([base[4:]]) == read([alone])
    assert read([base[4:]]) != read([base[3:]])
    assert read([cut]) == read([cut[:]])


def test_none_and_many(read_of) -> None:
    many = [torch.randn(2) for _ in range(40)]
    assert read_of(())(many) == read_of(())([])
    at = tuple(range(0, 40, 3))
    read = read_of(at)
    before = read(many)
    for k in range(40):
        moved = [*many]
        moved[k] = torch.randn(2)
        assert (read(moved) == before) == (k not in at)
    with pytest.raises(IndexError):
        read(many[:30])
    with pytest.raises((TypeError, AttributeError)):
        read([None] * 40)


def test_shared_memory() -> None:
    x, y, w = torch.randn(4), torch.randn(4), torch.randn(8)
    assert not shared([x, 1, y, w], (0, 2))
    assert shared([x, 1, x, w], (0,))
    assert shared([x, x[2:]], (1,))
    assert not shared([x, w[:2], w[4:]], (0,))
    assert not shared([x, w[:2], w[4:]], (2,))  # side by side
    assert shared([x, w[:5], w[4:]], (2,)) and shared([x, w[:5], w[4:]], (1,))
    assert not shared([x, w[:5], w[4:]], (0,))
    assert not shared([torch.empty(0), torch.empty(0)], (0,))
    assert not shared([x, x], ())
