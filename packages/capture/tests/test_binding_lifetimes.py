"""Bindings, what is shared and sessions go when what they are about goes."""

from __future__ import annotations

import functools
import gc
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from equal_blocks import WAYS, Block, Counting, made, own_graphs
from torch import nn

import capture
from capture import _native


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest) -> Any:
    return request.param


def programs() -> list[Any]:
    gc.collect()
    return [each for each in gc.get_objects() if type(each) is _native.GuardProgram]


def bindings() -> int:
    return sum(program.bindings for program in programs())


@pytest.fixture
def _nothing_captured() -> Iterator[None]:
    capture.reset()
    yield
    capture.reset()


@pytest.mark.usefixtures("_nothing_captured")
def test_bindings_go_with_their_modules() -> None:
    def call(block: nn.Module, x: torch.Tensor) -> torch.Tensor:
        return block(x)

    compiled, x = capture.compile(call), torch.randn(2, 4)
    compiled(Block(), x)
    gc.collect()
    before, programs_before, watches = bindings(), len(programs()), _native.stats()["watches"]
    references = []
    for _ in range(1000):
        block = Block()
        references.append(weakref.ref(block))
        compiled(block, x)
        del block
    assert bindings() == before == 0
    assert _native.stats()["watches"] == watches
    assert len(programs()) == programs_before
    assert not any(reference() for reference in references)


@pytest.mark.usefixtures("_nothing_captured")
def test_bindings_of_living_modules_stay_until_they_die() -> None:
    def call(first: nn.Module, second: nn.Module, x: torch.Tensor) -> torch.Tensor:
        return second(first(x))

    compiled, x, blocks = capture.compile(call), torch.randn(2, 4), made(False, 12)
    pairs = [(a, b) for a in blocks for b in blocks if a is not b]
    for _ in range(2):
        for a, b in pairs:
            torch.testing.assert_close(compiled(a, b, x), b(a(x)), rtol=0, atol=0)
    (program,) = [each for each in programs() if each.bindings]
    assert program.bindings == program.verified == len(pairs)
    del blocks[:6], pairs, a, b
    gc.collect()
    assert program.bindings == 6 * 5


def test_a_module_at_the_address_of_a_dead_one() -> None:
    def call(block: Any, x: torch.Tensor) -> torch.Tensor:
        return x * block.factor

    class Scale(nn.Module):
        def __init__(self, factor: int) -> None:
            super().__init__()
            self.factor = factor

    compiled, x = capture.compile(call), torch.ones(1)
    addresses = set()
    for i in range(64):
        module = Scale(i % 2)
        addresses.add(id(module))
        assert compiled(module, x).item() == i % 2
        del module
    assert len(addresses) < 64


def test_a_backend_that_leads_to_what_it_compiled_goes_with_it() -> None:
    class Holder:
        def backend(self, graph: torch.fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
            return graph.forward

    holder = Holder()
    holder.compiled = capture.compile(lambda x: x + 1, holder.backend)  # type: ignore[attr-defined]
    holder.partial = capture.compile(lambda x: x - 1, functools.partial(holder.backend))  # type: ignore[attr-defined]
    gone = weakref.ref(holder)
    del holder
    gc.collect()
    assert gone() is None


def test_a_backend_that_reaches_what_is_compiled_with_it_is_not_kept() -> None:
    class Trainer:
        def __init__(self) -> None:
            self.step = capture.compile(Block(), self.backend)
            self.again = capture.compile(Block(), functools.partial(Trainer.backend, self))

        def backend(self, graph: torch.fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
            return graph.forward

    trainer = Trainer()
    trainer.step(torch.randn(2, 4))
    trainer.again(torch.randn(2, 4))
    gone = weakref.ref(trainer)
    del trainer
    gc.collect()
    assert gone() is None


@pytest.mark.usefixtures("_nothing_captured")
def test_sessions_go_from_a_code_that_stays(way: Any) -> None:
    def references() -> int:
        gc.collect()
        return sum(type(each) is weakref.ref and each() is None for each in gc.get_objects())

    backend, x = Counting(), torch.randn(2, 4, requires_grad=True)
    kept: list[nn.Module] = [Block(), Block()]
    run = way(kept, backend)
    run(x)
    before = references()
    for _ in range(64):
        way([Block(), Block()], backend)(x)
    assert references() - before < 8
    assert backend.graphs == 1 + own_graphs(way)


@pytest.mark.usefixtures("_nothing_captured")
def test_graphs_go_with_their_sessions() -> None:
    def call(x: torch.Tensor) -> torch.Tensor:
        return x + 1

    graphs: list[weakref.ref[Any]] = []

    def backend(graph: torch.fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
        graphs.append(weakref.ref(graph))
        return graph.forward

    many = [capture.compile(call, lambda *args: backend(*args)) for _ in range(9)]
    for compiled in many:
        compiled(torch.ones(2))
    assert len(graphs) == 9
    del many, compiled
    gc.collect()
    assert [each() for each in graphs] == [None] * 9


@pytest.mark.usefixtures("_nothing_captured")
def test_a_pair_of_which_one_dies_is_forgotten_alone() -> None:
    def call(first: nn.Module, second: nn.Module, x: torch.Tensor) -> torch.Tensor:
        return second(first(x))

    compiled, x, blocks = capture.compile(call), torch.randn(2, 4), made(False, 9)
    for first in blocks:
        for second in blocks:
            if first is not second:
                compiled(first, second, x)
    (program,) = [each for each in programs() if each.bindings]
    while len(blocks) > 1:
        del first, second, blocks[len(blocks) // 2]
        first, second = blocks[0], blocks[-1]
        assert program.bindings == len(blocks) * (len(blocks) - 1)


def test_what_is_undone_is_not_verified_anew() -> None:
    class Scaled(nn.Module):
        by = ""

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * len(self.by)

    module, x = Scaled(), torch.ones(1)
    capture.reset()
    compiled = capture.compile(module)
    for _ in range(2):
        for by in ("aa", "aaa"):
            module.by = by
            assert compiled(x).item() == len(by)
    made = [program for program in programs() if program.bindings]
    before = [program.verified for program in made]
    for _ in range(10):
        for by in ("aa", "aaa"):
            module.by = by
            assert compiled(x).item() == len(by)
    # Each time the program that does not fit is asked, and the one that does is known to.
    assert [program.verified - n for program, n in zip(made, before, strict=True)] == [10, 10]
    assert [program.bindings for program in made] == [1, 1]
