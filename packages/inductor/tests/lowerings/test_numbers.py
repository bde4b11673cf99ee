"""Numbers among a graph's inputs, and sizes that are told from composed ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sympy
import torch
from inductor_schedules import run
from inductor_tracing import read_back
from torch import fx

from inductor import Options, lower, schedule
from inductor.cache.key import Surroundings, graph_key
from inductor.codegen.wrapper import generate
from symshapes import DimPolicy, FakeMode, ShapeEnv, ambient

aten = torch.ops.aten


def graph_of(inputs: Sequence[Any], calls: Sequence[tuple[Any, Any]]) -> fx.GraphModule:
    """A graph of calls, arguments and outputs given by number: inputs first. Its outputs are all calls."""
    graph = fx.Graph()
    nodes = []
    for at, value in enumerate(inputs):
        nodes.append(graph.placeholder(f"a{at}"))
        nodes[-1].meta["val"] = value
    for target, (places, value) in calls:
        nodes.append(graph.call_function(target, tuple(nodes[at] for at in places)))
        nodes[-1].meta["val"] = value
    graph.output(tuple(nodes[len(inputs) :]))
    return fx.GraphModule({}, graph)


def key(module: fx.GraphModule) -> str:
    return graph_key(module, [], Surroundings.of(ambient(), Options(), ()))


def test_a_size_that_only_a_composed_one_tells() -> None:
    env = ShapeEnv()
    with FakeMode(env) as mode:
        size = env.create_size(4, "x", DimPolicy.DYNAMIC)
        x = mode.from_tensor(torch.randn(11)).new_empty((2 * size + 3,))  # as a part of a model sees it
        module = graph_of([x], [(aten.sum.default, ([0], x.sum())), (float, ([], size / 4))])
    program = lower(module, [x])
    read_back(program)
    plan = schedule(program, Options())
    for length in (4, 9):
        given = torch.randn(2 * length + 3)
        total, quarter = run(plan, given)
        torch.testing.assert_close(total, given.sum())
        assert quarter == length / 4


def test_equal_expressions_are_computed_once() -> None:
    mode = FakeMode(ShapeEnv())
    x = mode.from_tensor(torch.randn(9, 9, 9), source="x", policy=DimPolicy.DYNAMIC)
    with mode:
        half = x.shape[0] // 2
        numbers: list[tuple[Any, Any]] = [(int, ([], value)) for value in (half * half, half * x.shape[1], half * 5)]
        module = graph_of([x], numbers)
    plan = schedule(lower(module, [x]), Options())
    text = generate(plan).text
    assert text.count("// 2") == 1
    assert list(run(plan, torch.randn(7, 7, 7))) == [9, 21, 15]


def test_the_key_knows_what_is_known_of_symbols_and_not_how_numbers_came_about() -> None:
    keys = set()
    for positive in (True, False):
        env = ShapeEnv()
        with FakeMode(env):
            number: Any = env.create_unbacked_int(min=2 if positive else None)
            module = graph_of([number], [(lambda n: n // 2, ([0], number // 2))])
        keys.add(key(module))
        keys.add(key(graph_of([number], [(lambda n: n >> 1, ([0], number // 2))])))
    assert len(keys) == 2


def test_a_symbol_of_the_floats_is_told_by_its_bits() -> None:
    env = ShapeEnv()
    with FakeMode(env):
        f = env.create_float(0.5, "f")
        one, other = (key(graph_of([f], [(float, ([0], f * c))])) for c in (0.1, 0.1 + 2**-56))
    assert one != other
    assert sympy.Symbol("f0", real=True) in lower(graph_of([f], [(float, ([0], f * 2.0))]), [f]).symbols
