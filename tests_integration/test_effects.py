"""Operators that return nothing act: they run once a call, in order, whoever reads nothing of them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

import meta

SEEN: list[str] = []


@torch.library.custom_op("effects::note", mutates_args=())
def note(x: torch.Tensor, text: str) -> None:
    """Remember the text and the sum."""
    SEEN.append(f"{text} {float(x.sum()):g}")


@note.register_fake
def _(x: torch.Tensor, text: str) -> None:
    return None


@pytest.fixture(autouse=True)
def _nothing_seen() -> None:
    SEEN.clear()


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
def test_effects_run_in_order_and_once_a_call(backend: str) -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        torch.ops.effects.note(x, "first")
        y = x * 2
        torch.ops.effects.note(y, "second")
        dropped = y.exp()
        torch.ops.effects.note(dropped * 0, "third")
        torch.ops.effects.note(x, "first")
        return y + 1

    compiled = meta.compile(program, backend=backend, fullgraph=True)
    for _ in range(2):
        SEEN.clear()
        torch.testing.assert_close(compiled(torch.ones(3)), torch.full((3,), 3.0))
        assert SEEN == ["first 3", "second 6", "third 0", "first 3"]


def test_a_call_that_does_nothing_else() -> None:
    compiled = meta.compile(lambda x: torch.ops.effects.note(x + 1, "only"), fullgraph=True)
    for _ in range(2):
        assert compiled(torch.ones(3)) is None
    assert SEEN == ["only 6", "only 6"]


def test_effects_in_training() -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        y = x.sin()
        torch.ops.effects.note(y.detach(), "forward")
        return y.sum()

    x = torch.zeros(3, requires_grad=True)
    meta.compile(program, fullgraph=True)(x).backward()
    assert SEEN == ["forward 0"]
    assert x.grad is not None and torch.equal(x.grad, torch.ones(3))


@pytest.mark.parametrize("read", [False, True])
def test_assertions_about_data(read: bool) -> None:
    def program(x: torch.Tensor) -> torch.Tensor | None:
        torch._assert_async(x.sum() > 0, "not positive")
        return x + 1 if read else None

    compiled = meta.compile(program, fullgraph=True)
    compiled(torch.ones(3))
    with pytest.raises(RuntimeError, match="not positive"):
        compiled(-torch.ones(3))
    compiled(torch.ones(3))


def test_a_program_that_only_draws_moves_the_generator_on() -> None:
    def program(x: torch.Tensor) -> None:
        torch.rand_like(x)

    torch.manual_seed(0)
    program(torch.ones(3))
    expected = torch.rand(2)
    compiled = meta.compile(program, fullgraph=True)
    for _ in range(2):
        torch.manual_seed(0)
        compiled(torch.ones(3))
        assert torch.equal(torch.rand(2), expected)


def test_writes_are_known_whatever_the_name() -> None:
    def program(x: torch.Tensor) -> None:
        torch.add(x, 1, out=x)

    compiled = meta.compile(program)
    with torch.no_grad():
        x = torch.zeros(3)
        compiled(x)
        compiled(x)
    assert torch.equal(x, torch.full((3,), 2.0))


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
@pytest.mark.parametrize("change", [lambda t: t.t_(), lambda t: t.resize_(2, 2), lambda t: t.unsqueeze_(0)])
def test_an_input_that_is_written_and_then_laid_out_anew(backend: str, change: Callable[..., torch.Tensor]) -> None:
    """What the graph is compiled for is the input as the call brings it."""

    def fn(x: torch.Tensor, kept: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
        kept[index] += x
        change(kept)
        return x + 1

    ours, theirs = torch.zeros(4, 3), torch.zeros(4, 3)
    x, index = torch.randn(2, 3), torch.tensor([0, 2])
    torch.testing.assert_close(meta.compile(fn, backend=backend)(x, ours, index), fn(x, theirs, index))
    torch.testing.assert_close(ours, theirs)
    assert ours.stride() == theirs.stride()
