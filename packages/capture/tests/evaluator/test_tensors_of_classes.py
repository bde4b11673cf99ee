"""A tensor that a class holds is an input, read anew at each call: another one in its place is no reason to capture again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import capture


class Meta(type):
    table = torch.ones(3)

    def __getattr__(cls, name: str) -> Any:
        if name == "found":
            return Held.scale
        raise AttributeError(name)


class Held:
    scale = torch.ones(3)


class Below(Held):
    def above(self) -> torch.Tensor:
        return super().scale


class Made(Held, metaclass=Meta):
    pass


class Layer(torch.nn.Module):
    scale = torch.ones(3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.scale


class Reads:
    """A descriptor that reads what another class holds."""

    def __get__(self, obj: object, owner: type | None = None) -> torch.Tensor:
        return Held.scale + 1


class Described:
    read = Reads()


@capture.disable
def aside() -> None:
    """The graph breaks here."""


OTHER = torch.ones(3)
LAYER, BELOW = Layer(), Below()


def in_a_class_of_the_frame(x: torch.Tensor) -> Any:
    class Inner(Held):
        pass

    return x * Inner.scale, x * Inner().scale


def compared(x: torch.Tensor) -> Any:
    return x * 2 if Held.scale is OTHER else x * 3


def compared_and_read(x: torch.Tensor) -> Any:
    return x * Held.scale if Held.scale is not x else x - 1


def in_two_ways(x: torch.Tensor) -> Any:
    return Below.scale is Held.scale, x * Below.scale + Held.scale


def after_a_break(x: torch.Tensor) -> Any:
    y = x * Held.scale
    Held.scale = OTHER + 4
    open("/dev/null").close()
    return y * Held.scale


PROGRAMS: list[tuple[Callable[[torch.Tensor], Any], type]] = [
    (lambda x: x * Held.scale, Held),
    (lambda x: x * Below.scale, Held),
    (lambda x: x * BELOW.scale, Held),
    (lambda x: x * Below().scale, Held),
    (lambda x: x * BELOW.above(), Held),
    (lambda x: x * getattr(Held, "scale", 0), Held),
    (lambda x: x * 2 if hasattr(Held, "scale") else x, Held),
    (lambda x: x * Made.found, Held),
    (lambda x: x * Described.read, Held),
    (lambda x: LAYER(x), Layer),
    (in_a_class_of_the_frame, Held),
    (compared, Held),
    (compared_and_read, Held),
    (in_two_ways, Held),
]


class Compiled:
    def __init__(self, fn: Callable[[torch.Tensor], Any]) -> None:
        self.fn = fn
        self.captures = 0
        self.call = capture.compile(fn, backend=self.backend)

    def backend(self, graph: torch.fx.GraphModule, inputs: Any) -> Any:
        self.captures += 1
        return graph.forward

    def check(self, x: torch.Tensor) -> None:
        expected, got = self.fn(x), self.call(x)
        torch.testing.assert_close(got, expected, rtol=0, atol=0)


@pytest.mark.parametrize(("fn", "owner"), PROGRAMS)
def test_another_tensor_in_its_place(
    fn: Callable[[torch.Tensor], Any], owner: type, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled, x = Compiled(fn), torch.arange(3.0)
    compiled.check(x)
    for i in range(5):
        monkeypatch.setattr(owner, "scale", torch.full((3,), float(i)))
        compiled.check(x)
    assert compiled.captures == 1


def test_of_a_metaclass(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled, x = Compiled(lambda x: x * Made.table), torch.arange(3.0)
    for i in range(5):
        monkeypatch.setattr(Meta, "table", torch.full((3,), float(i)))
        compiled.check(x)
    assert compiled.captures == 1


@pytest.mark.parametrize("fn", [compared, compared_and_read, in_two_ways])
def test_which_one_it_is(fn: Callable[[torch.Tensor], Any], monkeypatch: pytest.MonkeyPatch) -> None:
    compiled, x = Compiled(fn), torch.arange(3.0)
    for held in (Held.scale, OTHER, torch.zeros(3), x, OTHER, x, torch.ones(3)):
        monkeypatch.setattr(Held, "scale", held)
        compiled.check(x)
        compiled.check(held)


def test_what_comes_to_lie_before_it(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled, x = Compiled(lambda x: (x * BELOW.scale, x * Below.scale)), torch.arange(3.0)
    compiled.check(x)
    monkeypatch.setattr(Below, "scale", torch.full((3,), 5.0), raising=False)
    compiled.check(x)
    monkeypatch.setattr(Below, "scale", torch.full((3,), 6.0))
    compiled.check(x)
    monkeypatch.setattr(Held, "scale", torch.full((3,), 7.0))
    compiled.check(x)
    monkeypatch.delattr(Below, "scale")
    compiled.check(x)
    monkeypatch.setattr(Held, "scale", torch.full((3,), 8.0))
    compiled.check(x)
    monkeypatch.setattr(BELOW, "scale", torch.full((3,), 9.0), raising=False)
    compiled.check(x)


@pytest.mark.parametrize(
    "other",
    [
        torch.ones(3, dtype=torch.float64),
        torch.ones(1),
        torch.ones(3, 3),
        torch.ones(6)[::2],
        torch.ones(3, requires_grad=True),
        torch.nn.Parameter(torch.ones(3)),
        2.5,
        property(lambda self: 3.0),
    ],
)
def test_what_is_not_like_it(other: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    compiled, x = Compiled(lambda x: x * BELOW.scale), torch.arange(3.0)
    compiled.check(x)
    monkeypatch.setattr(Held, "scale", other)
    compiled.check(x)
    compiled.check(x)
    monkeypatch.undo()
    compiled.check(x)
    assert compiled.captures == 2


def test_nothing_in_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled, x = Compiled(lambda x: x * Held.scale), torch.arange(3.0)
    compiled.check(x)
    monkeypatch.delattr(Held, "scale")
    with pytest.raises(AttributeError, match="scale"):
        compiled.call(x)
    monkeypatch.undo()
    compiled.check(x)


def test_replaced_by_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled, x = Compiled(after_a_break), torch.arange(3.0)
    for i in range(4):
        monkeypatch.setattr(Held, "scale", torch.full((3,), float(i)))
        expected = after_a_break(x)
        monkeypatch.setattr(Held, "scale", torch.full((3,), float(i)))
        torch.testing.assert_close(compiled.call(x), expected, rtol=0, atol=0)
    assert compiled.captures == 2


def test_changed_in_place(monkeypatch: pytest.MonkeyPatch) -> None:
    def fn(x: torch.Tensor) -> Any:
        Held.scale.add_(x)
        return x * Held.scale

    compiled = Compiled(fn)
    for i in range(4):
        x, held = torch.arange(3.0), torch.full((3,), float(i))
        monkeypatch.setattr(Held, "scale", held.clone())
        expected = fn(x), Held.scale
        monkeypatch.setattr(Held, "scale", held.clone())
        torch.testing.assert_close((compiled.call(x), Held.scale), expected, rtol=0, atol=0)
    assert compiled.captures == 1
    shared = torch.arange(3.0)
    monkeypatch.setattr(Held, "scale", shared.clone())
    expected = fn(Held.scale)
    monkeypatch.setattr(Held, "scale", shared)
    torch.testing.assert_close(compiled.call(shared), expected, rtol=0, atol=0)


def test_a_class_made_again_by_each_call() -> None:
    def fn(x: torch.Tensor) -> Any:
        class Inner:
            scale = x * 2

        class Outer(Inner):
            pass

        aside()
        return x * Inner.scale + Outer.scale + Outer().scale

    compiled = Compiled(fn)
    for i in range(4):
        compiled.check(torch.full((3,), float(i)))
    assert compiled.captures == 3  # what follows the break is about one class, until another is met
