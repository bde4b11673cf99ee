"""The function written for a graph does what FX's does; what is not plain is left to FX."""

import gc
import operator
import weakref

import pytest
import torch
from torch import fx

from symshapes import LazyGraphModule
from symshapes.graph_text import forward_text


def graph_of(build, *inputs):
    graph = fx.Graph()
    found = build(graph, *[graph.placeholder(name) for name in inputs])
    graph.output(found if isinstance(found, tuple) else (found,))
    return graph


def calls(graph, x, y):
    """A call of every kind that is written, and arguments of every kind."""
    call = graph.call_function
    found = [call(op, (x, y)) for op in (operator.add, operator.sub, operator.mul, operator.truediv, operator.matmul)]
    found += [call(op, (x, 2)) for op in (operator.floordiv, operator.mod, operator.lt, operator.le, operator.gt)]
    found += [call(op, (found[5], found[6])) for op in (operator.ge, operator.eq, operator.ne)]
    found += [call(op, (found[7], found[8])) for op in (operator.and_, operator.or_, operator.xor)]
    found.append(call(operator.sub, (-1.5, x)))
    found.append(call(operator.getitem, (x, (slice(None, 2), None, ..., slice(None, None, 2)))))
    found.append(call(getattr, (x, "T")))
    found.append(call(operator.iadd, (found[0], 1)))
    found.append(call(torch.zeros, ((2,),), {"dtype": torch.float64, "device": torch.device("cpu")}))
    found.append(call(torch.cat, ([x, y], 0)))
    found.append(call(torch.nn.functional.gelu, (x,), {"approximate": "tanh"}))
    found.append(call(torch.ops.aten.add.Tensor, (x, y), {"alpha": 3}))
    found.append(graph.call_method("sum", (x, (0,)), {"keepdim": True}))
    found.append(graph.call_method("view", (x, torch.Size([9]))))
    return tuple(found)


def nested(graph, x, y):
    return ([x, (y,)], graph.call_function(operator.neg, (x,)), None, True, 0.5, "text")


def test_parts_of_results():
    graph = graph_of(nested, "x", "y")
    assert forward_text(graph) is not None
    assert LazyGraphModule({}, graph)(1, 2) == ([1, (2,)], -1, None, True, 0.5, "text")


def test_does_what_fx_does():
    inputs = [torch.randn(3, 3) for _ in range(2)]
    graph = graph_of(calls, "x", "y")
    assert forward_text(graph) is not None
    expected = fx.GraphModule({}, graph)(*[each.clone() for each in inputs])
    found = LazyGraphModule({}, graph)(*[each.clone() for each in inputs])
    torch.testing.assert_close(found, expected, rtol=0, atol=0)


def test_code_is_what_fx_writes():
    graph = graph_of(calls, "x", "y")
    module = LazyGraphModule({}, graph)
    assert callable(module.forward)  # made apart
    assert module.code == fx.GraphModule({}, graph).code


def test_attributes():
    graph = graph_of(lambda graph, x: graph.call_function(torch.add, (x, graph.get_attr("held"))), "x")
    assert forward_text(graph) is not None
    assert torch.equal(LazyGraphModule({"held": torch.ones(2)}, graph)(torch.ones(2))[0], torch.full((2,), 2.0))


def test_functions_of_one_name():
    def scaled(x):
        return x * 2

    def another(x):
        return x * 3

    another.__name__ = "scaled"

    def build(graph, x):
        return graph.call_function(another, (graph.call_function(scaled, (x,)),))

    graph = graph_of(build, "scaled")
    assert LazyGraphModule({}, graph)(5) == (30,)


@pytest.mark.parametrize("name", ["\ufb01", "\u017fcaled", "class"])
def test_functions_whose_names_python_reads_otherwise(name):
    def function(x):
        return x * 2

    function.__name__ = name
    graph = graph_of(lambda graph, x: graph.call_function(function, (x,)), "x")
    assert LazyGraphModule({}, graph)(5) == fx.GraphModule({}, graph)(5) == (10,)


@pytest.mark.parametrize("name", ["class", "\ufb01"])
def test_attributes_whose_names_python_reads_otherwise(name):
    held = torch.nn.Module()
    setattr(held, name, 3)
    graph = graph_of(lambda graph, x: graph.call_function(getattr, (x, name)), "x")
    assert LazyGraphModule({}, graph)(held) == (3,)


def test_inputs_that_are_called_like_functions():
    graph = graph_of(lambda graph, x: graph.call_function(torch.relu, (x,)), "torch_relu")
    assert torch.equal(LazyGraphModule({}, graph)(torch.tensor([-1.0, 1.0]))[0], torch.tensor([0.0, 1.0]))


def _first(entries):
    return next(iter(entries.values()))


def infinite(graph, x):
    return graph.call_function(operator.mul, (x, float("inf")))


def of_a_number(graph, x):
    return graph.call_function(operator.add, (x, graph.call_method("bit_length", (5,))))


def of_a_module(graph, x):
    return graph.call_module("inner", (x,))


def of_a_dictionary(graph, x):
    return graph.call_function(_first, ({"a": x},))


@pytest.mark.parametrize("build", [infinite, of_a_number, of_a_module, of_a_dictionary])
def test_what_fx_writes(build):
    graph = graph_of(build, "x")
    assert forward_text(graph) is None
    if build is not of_a_number:  # which FX does not write either
        module = LazyGraphModule({"inner": torch.nn.ReLU()}, graph)
        assert torch.equal(
            module(torch.ones(2))[0], fx.GraphModule({"inner": torch.nn.ReLU()}, graph)(torch.ones(2))[0]
        )


def test_what_is_read_no_more_goes():
    alive = []

    def made(x):
        result = x + 1
        alive.append(weakref.ref(result))
        return result

    def look(x):
        gc.collect()
        assert [each() is None for each in alive] == [True, False]
        return x * 1

    def build(graph, x):
        first = graph.call_function(made, (x,))
        second = graph.call_function(made, (first,))
        return graph.call_function(look, (second,))

    LazyGraphModule({}, graph_of(build, "x"))(torch.ones(2))
