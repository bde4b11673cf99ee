"""The function put together for a graph does what FX's does, lets go of what that does, and is shown as text."""

import gc
import linecache
import operator
import traceback
import weakref

import pytest
import torch
from torch import fx

from capture.graph_code import GraphCodeModule, forward_code


def graph_of(build, *inputs):
    graph = fx.Graph()
    found = build(graph, *[graph.placeholder(name) for name in inputs])
    graph.output(found if isinstance(found, tuple) else (found,))
    return graph


def calls(graph, x, y):
    """A call of every kind, and arguments of every kind."""
    call = graph.call_function
    found = [call(op, (x, y)) for op in (operator.add, operator.sub, operator.mul, operator.truediv, operator.matmul)]
    found.append(call(operator.sub, (-1.5, x)))
    found.append(call(operator.mul, (x, float("inf"))))
    found.append(call(operator.getitem, (x, (slice(None, 2), None, ..., slice(None, None, 2)))))
    found.append(call(operator.getitem, (x, slice(1, None))))
    found.append(call(getattr, (x, "T")))
    found.append(call(operator.iadd, (found[0], 1)))
    found.append(call(torch.zeros, ((2,),), {"dtype": torch.float64, "device": torch.device("cpu")}))
    found.append(call(torch.cat, ([x, y], 0)))
    found.append(call(torch.nn.functional.gelu, (x,), {"approximate": "tanh"}))
    found.append(call(torch.ops.aten.add.Tensor, (x, y), {"alpha": 3}))
    found.append(graph.call_method("sum", (x, (0,)), {"keepdim": True}))
    found.append(graph.call_method("view", (x, torch.Size([9]))))
    found.append(graph.call_method("contiguous", (y,)))
    count = graph.call_method("size", (x, 0))
    found.append(graph.call_method("reshape", (x, (count, call(operator.neg, (1,))))))
    found.append(call(operator.getitem, (x, slice(0, count))))
    return tuple(found)


def test_does_what_fx_does():
    inputs = [torch.randn(3, 3) for _ in range(2)]
    graph = graph_of(calls, "x", "y")
    assert forward_code(graph) is not None
    expected = fx.GraphModule({}, graph)(*[each.clone() for each in inputs])
    found = GraphCodeModule({}, graph)(*[each.clone() for each in inputs])
    torch.testing.assert_close(found, expected, rtol=0, atol=0)
    hash(forward_code(graph))  # as tools ask for it


def test_many_values():
    """More of them than one byte counts."""

    def build(graph, x):
        values = [graph.call_function(operator.add, (x, number)) for number in range(300)]
        return graph.call_method("sum", (graph.call_function(torch.stack, (values,)), 0))

    graph = graph_of(build, "x")
    x = torch.arange(3.0)
    assert torch.equal(GraphCodeModule({}, graph)(x)[0], fx.GraphModule({}, graph)(x)[0])


def test_parts_of_results():
    def nested(graph, x, y):
        return ([x, (y,)], graph.call_function(operator.neg, (x,)), None, True, 0.5, "text")

    module = GraphCodeModule({}, graph_of(nested, "x", "y"))
    expected = ([1, (2,)], -1, None, True, 0.5, "text")
    assert module(1, 2) == expected
    module(1, 2)[0].append(3)
    assert module(1, 2) == expected


def test_attributes():
    graph = graph_of(lambda graph, x: graph.call_function(torch.add, (x, graph.get_attr("held"))), "x")
    assert forward_code(graph) is not None
    assert torch.equal(GraphCodeModule({"held": torch.ones(2)}, graph)(torch.ones(2))[0], torch.full((2,), 2.0))


def of_a_module(graph, x):
    return graph.call_module("inner", (x,))


def of_a_dictionary(graph, x):
    return graph.call_function(lambda entries: entries["a"], ({"a": x},))


@pytest.mark.parametrize("build", [of_a_module, of_a_dictionary])
def test_what_is_left_to_text(build):
    graph = graph_of(build, "x")
    assert forward_code(graph) is None
    if build is of_a_module:
        module = GraphCodeModule({"inner": torch.nn.ReLU()}, graph)
        assert torch.equal(module(-torch.ones(2))[0], torch.zeros(2))


def test_what_is_read_no_more_goes():
    alive = []

    def made(x):
        result = x + 1
        alive.append(weakref.ref(result))
        return result

    def counted(x):
        gc.collect()
        return sum(each() is not None for each in alive)

    def build(graph, x):
        first = graph.call_function(made, (x,))
        second = graph.call_function(made, (first,))
        graph.call_function(made, (second,))
        return graph.call_function(counted, (second,))

    assert GraphCodeModule({}, graph_of(build, "x"))(torch.ones(2)) == (1,)


def test_is_shown_line_by_line():
    def refused(x):
        raise ValueError("refused")

    def build(graph, x):
        return graph.call_function(refused, (graph.call_function(operator.neg, (x,)),))

    module = GraphCodeModule({}, graph_of(build, "x"))
    with pytest.raises(ValueError, match="refused") as caught:
        module(torch.ones(2))
    shown = "".join(traceback.format_tb(caught.value.__traceback__))
    assert "refused_(neg)" in shown
    name = module.forward.__code__.co_filename
    assert name in linecache.cache
    del caught, module
    gc.collect()
    assert name not in linecache.cache


def test_a_changed_graph_is_run_as_it_is():
    graph = graph_of(lambda graph, x: graph.call_function(operator.neg, (x,)), "x")
    module = GraphCodeModule({}, graph)
    assert module(2) == (-2,)
    next(node for node in module.graph.nodes if node.op == "call_function").target = operator.pos
    module.recompile()
    assert module(2) == (2,)


def test_torch_finds_itself_under_a_mode():
    """Where a mode sees torch's functions C imports torch, by the builtins of who called it."""

    class Mode(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            seen.append(func)
            return func(*args, **(kwargs or {}))

    def build(graph, x):
        graph.call_function(torch._C._set_grad_enabled, (False,))
        found = graph.call_function(operator.mul, (x, 2))
        graph.call_function(torch._C._set_grad_enabled, (True,))
        return found

    seen = []
    module = GraphCodeModule({}, graph_of(build, "x"))
    with Mode():
        (found,) = module.forward(torch.ones(2))
    assert found.tolist() == [2, 2]
    assert torch._C._set_grad_enabled in seen
