"""Which graphs are not recorded, and what is said of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from inductor_tracing import trace
from torch import fx

import aotgrad
from inductor.replay.refusals import refusal
from symshapes import FakeMode, ShapeEnv, register_launches

aten = torch.ops.aten


def graph_of(program: Callable[..., Any], *inputs: torch.Tensor) -> fx.Graph:
    """The ATen graph, with values."""
    return trace(program, *inputs)[0].graph


@pytest.fixture
def operator() -> Iterator[Any]:
    library = torch.library.Library("replay_tests", "FRAGMENT")
    library.define("told(Tensor x) -> Tensor")
    library.impl("told", lambda x: x + 1, "CompositeExplicitAutograd")
    yield torch.ops.replay_tests.told.default
    library._destroy()


def test_what_may_be_recorded() -> None:
    def program(x: torch.Tensor) -> Any:
        return (
            torch.bernoulli(x.sigmoid()),
            x.view(2, 2),
            x.split(2)[1],
            aten._unsafe_view(x, [2, 2]),
            torch.addmm(x[:2], x.view(2, 2), x.view(2, 2)),
        )

    assert refusal(graph_of(program, torch.randn(4))) is None


@pytest.mark.parametrize("program", [lambda x: x[x > 0], lambda x: x.nonzero() + 1, lambda x: x * x.sum().item()])
def test_what_the_host_waits_for(program: Callable[..., Any]) -> None:
    graphs: list[fx.Graph] = []

    def compiler(module: fx.GraphModule, inputs: list[Any]) -> Callable[[list[Any]], Any]:
        graphs.append(module.graph)
        return lambda args: module.forward(*args)

    aotgrad.compile(
        program, [FakeMode(ShapeEnv(), data_dependent=True).from_tensor(torch.randn(4))], inference_compiler=compiler
    )
    (graph,) = graphs
    assert "waits" in (refusal(graph) or "")


def test_what_others_define(operator: Any) -> None:
    assert "may do more" in (refusal(graph_of(lambda x: operator(x), torch.randn(4))) or "")


def test_what_others_define_and_launches_only(operator: Any) -> None:
    register_launches(operator)
    assert refusal(graph_of(lambda x: operator(x), torch.randn(4))) is None


def test_what_becomes_a_loop() -> None:
    assert (
        refusal(
            graph_of(
                lambda s: torch.ops.in_kernel.uniform(s, 0, [4], dtype=torch.float32), torch.zeros(1, dtype=torch.int64)
            )
        )
        is None
    )


def test_what_is_written_to() -> None:
    assert "may do more" in (refusal(graph_of(lambda x: x.add_(1), torch.randn(4))) or "")


def test_the_programs_own_generator() -> None:
    graph = fx.Graph()
    x = graph.placeholder("x")
    x.meta["val"] = torch.randn(3)
    y = graph.call_function(torch.ops.aten.bernoulli.default, (x,), {"generator": torch.Generator()})
    y.meta["val"] = torch.randn(3)
    graph.output((y,))
    assert "generator" in (refusal(graph) or "")


def test_several_devices() -> None:
    graph = fx.Graph()
    for at, device in enumerate(("cpu", "meta")):
        graph.placeholder(f"x{at}").meta["val"] = torch.empty(3, device=device)
    graph.output(())
    assert refusal(graph) == "it works on cpu and meta"
