"""Classes that the program makes: another at each call, one where eager makes one, and nothing is left of how they were evaluated."""

from __future__ import annotations

import gc
import time
import weakref
from collections.abc import Iterator
from typing import Any

import pytest
import torch

import capture
from capture import _native


class Base:
    def run(self, x: Any) -> Any:
        return x * 2


@pytest.fixture(autouse=True)
def uncollected() -> Iterator[None]:
    """Classes are cycles: what is gone here did not wait for the collector."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def told(base: type = Base) -> list[str]:
    return [cls.__name__ for cls in base.__subclasses__()]


def test_bases_tell_of_the_classes_that_the_program_made_alone() -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        class Made(Base):
            def run(self, x: Any) -> Any:
                return super().run(x) + 1

        return Made().run(x)

    compiled = capture.compile(program, fullgraph=True)
    for calls in range(1, 4):
        assert torch.equal(compiled(torch.ones(2)), torch.full((2,), 3.0))
        assert told() == ["Made"] * calls
    gc.collect()
    assert told() == []


def test_a_class_that_nobody_can_find_is_not_made() -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        class Unseen:
            def run(self, x: Any) -> Any:
                return x + 1

        return Unseen().run(x)

    before = len(object.__subclasses__())
    compiled = capture.compile(program, fullgraph=True)
    for _ in range(3):
        compiled(torch.ones(2))
    assert "Unseen" not in [cls.__name__ for cls in object.__subclasses__()[before:]]


def test_a_class_is_another_one_at_each_call_and_goes_with_its_last_reference() -> None:
    def program(x: torch.Tensor) -> tuple[type, torch.Tensor]:
        k = x + 1

        class Made:
            kept = k

        return Made, k

    compiled = capture.compile(program)
    first, second = compiled(torch.ones(2))[0], compiled(torch.ones(2))[0]
    assert first is not second
    assert first.__qualname__ == second.__qualname__ == f"{program.__qualname__}.<locals>.Made"
    gone = weakref.ref(first)
    del first
    gc.collect()
    assert gone() is None
    assert torch.equal(second.kept, torch.full((2,), 2.0))  # type: ignore[attr-defined]


def test_a_break_keeps_what_came_before_it() -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        class Made:
            def run(self, x: Any) -> Any:
                return x * 3

        y = Made().run(x) + 1
        time.perf_counter_ns()
        return Made().run(y)

    compiled = capture.compile(program)
    assert torch.equal(compiled(torch.ones(2)), program(torch.ones(2)))
    report = capture.report(compiled)
    assert [graph.op_count for graph in report.graphs] == [2, 1]
    assert report.break_count == 1


def test_a_hook_of_the_program_is_one_break() -> None:
    class Hooked:
        seen: list[str] = []

        def __init_subclass__(cls) -> None:
            Hooked.seen.append(cls.__name__)

    def program(x: torch.Tensor) -> torch.Tensor:
        y = x + 1

        class Plain(Hooked):
            def run(self, x: Any) -> Any:
                return x * 3

        return Plain().run(y)

    compiled = capture.compile(program)
    for calls in range(1, 4):
        assert torch.equal(compiled(torch.ones(2)), torch.full((2,), 6.0))
        assert Hooked.seen == ["Plain"] * calls
    report = capture.report(compiled)
    assert [graph.op_count for graph in report.graphs[:2]] == [1, 1]
    assert [b.reason for b in report.breaks] == ["class statement of Plain, whose base Hooked has an __init_subclass__"]


def test_a_hook_goes_on_to_the_one_above() -> None:
    class Hooked:
        seen: list[str] = []

        def __init_subclass__(cls, **kwargs: Any) -> None:
            cls.seen.append(cls.__name__)
            super().__init_subclass__(**kwargs)

    def program(x: torch.Tensor) -> torch.Tensor:
        class Plain(Hooked):
            pass

        return x + len(Plain.seen)

    compiled = capture.compile(program)
    for calls in range(1, 4):
        assert torch.equal(compiled(torch.ones(2)), torch.full((2,), 1.0 + calls))
        assert Hooked.seen == ["Plain"] * calls


def test_what_else_refers_to_is_not_taken_apart() -> None:
    class Kept(Base):
        __slots__ = ("a",)

    class Gone(Base):
        __slots__ = ("a",)

        def run(self, x: Any) -> Any:
            return x

    instance = Kept()
    assert not _native.dissolve(Kept)
    assert instance.run(1) == 2
    kept = [Kept]
    del instance, Kept
    assert not _native.dissolve(kept[0])
    assert kept[0].__mro__[1] is Base
    gone, left = weakref.ref(Gone), [Gone]
    del Gone
    dissolved = _native.dissolve(left.pop())  # an assertion would keep it
    assert dissolved
    assert gone() is None
    with pytest.raises(TypeError, match="takes a class written in Python"):
        _native.dissolve(int)
