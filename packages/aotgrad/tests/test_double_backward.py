"""Second derivatives through compiled graphs whose outputs are views, which write to what they are given, or check it."""

from __future__ import annotations

import gc
import weakref

import pytest
import torch
from torch import fx

import aotgrad
import aotgrad.double_backward as double_backward


def chunks(x, state):
    return torch.chunk(torch.exp(x), 2)


def rows(x, state):
    return torch.unbind((x * x).t())


def views_of_written(x, state):
    y = torch.sin(x)
    y.mul_(x)
    return y[1], y.t()


def views_and_sum(x, state):
    y = torch.exp(x)
    return y[1], torch.sin(y).sum(), y[2:]


def counting(x, state):
    state.add_(1)
    return (torch.sin(x) / state,)


def power_iteration(x, state):
    with torch.no_grad():
        state.copy_(torch.nn.functional.normalize(torch.mv(x.detach(), state), dim=0))
    u = state.clone()
    return (torch.sin(x) / torch.dot(u, torch.mv(x, u)),)


def counting_apart(x, state):
    state.mul_(2)
    first = torch.sin(x * state)
    return first, torch.exp(first) * state, torch.cos(x).sum()


def into(x, state):
    state.copy_(x[0].exp())
    return (x.cos(),)


def into_what_is_given_back(x, state):
    return (state.copy_(x[0].exp()),)


def inverse(x, state):
    return (torch.linalg.inv(x),)


PROGRAMS = [
    chunks,
    rows,
    views_of_written,
    views_and_sum,
    counting,
    counting_apart,
    into,
    into_what_is_given_back,
    inverse,
]


def given(nonleaf):
    torch.manual_seed(3)
    x = (torch.eye(4) * 2 + torch.rand(4, 4)).double().requires_grad_()
    return x, [x * 1 if nonleaf else x, torch.rand(4).double() + 1]


def twice(run, x, inputs):
    """Two calls, since what one writes the next one reads; then the derivatives of the first one's gradient last."""
    answers, steps = [], []
    for _ in range(2):
        outputs = [*run(*inputs), inputs[1]]
        outputs = [t for t in outputs if t.requires_grad]
        total = sum((t * torch.arange(t.numel()).reshape(t.shape).cos()).pow(2).sum() for t in outputs)
        steps.append(torch.autograd.grad(total, x, create_graph=True, retain_graph=True)[0])
        answers += [*(t.detach().clone() for t in outputs), inputs[1].detach().clone()]
        inputs = [inputs[0], inputs[1].detach().clone()]
    seconds = [torch.autograd.grad(g.square().sum(), x, retain_graph=True)[0] for g in (steps[1], steps[0], steps[1])]
    return [*answers, *steps, *seconds]


@pytest.mark.parametrize("nonleaf", [False, True], ids=["leaf", "computed"])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_second_derivatives(interpreter, program, nonleaf):
    graph = fx.symbolic_trace(program)
    run = aotgrad.compile(graph, given(nonleaf)[1], inference_compiler=interpreter)
    for ours, theirs in zip(twice(run, *given(nonleaf)), twice(program, *given(nonleaf)), strict=True):
        torch.testing.assert_close(ours, theirs)


def test_second_derivatives_by_running_vectors(interpreter):
    """As spectral norm has them, in a graph that switches grad mode."""
    graph = fx.Graph()
    x, state = graph.placeholder("x"), graph.placeholder("state")
    off = graph.call_function(torch._C._set_grad_enabled, (False,))
    held = graph.call_method("detach", (x,))
    product = graph.call_function(torch.mv, (held, state))
    graph.call_method("copy_", (state, graph.call_function(torch.nn.functional.normalize, (product,), {"dim": 0})))
    graph.call_function(torch._C._set_grad_enabled, (True,))
    u = graph.call_method("clone", (state,))
    size = graph.call_function(torch.dot, (u, graph.call_function(torch.mv, (x, u))))
    graph.output((graph.call_function(torch.div, (graph.call_function(torch.sin, (x,)), size)),))
    assert off.op == "call_function"
    module = fx.GraphModule({}, graph)
    run = aotgrad.compile(module, given(False)[1], inference_compiler=interpreter)
    for ours, theirs in zip(twice(run, *given(False)), twice(power_iteration, *given(False)), strict=True):
        torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("program", [counting, into_what_is_given_back])
def test_what_is_kept_dies_with_the_results(interpreter, program):
    inputs = given(False)[1]
    run = aotgrad.compile(fx.symbolic_trace(program), inputs, inference_compiler=interpreter)
    gc.collect()
    gc.disable()
    try:
        (out,) = run(*inputs)
        nodes = [out.grad_fn, *(node for node, _ in out.grad_fn.next_functions)]
        node = weakref.ref(next(node for node in nodes if type(node).__name__ == "CompiledBackward"))
        del nodes
        del out, inputs
        assert node() is None
    finally:
        gc.enable()


def test_much_memory_that_is_written_to_is_not_copied(interpreter, monkeypatch):
    monkeypatch.setattr(double_backward, "COPIED", 8)
    x, inputs = given(False)
    run = aotgrad.compile(fx.symbolic_trace(counting), inputs, inference_compiler=interpreter)
    (gradient,) = torch.autograd.grad(run(*inputs)[0].sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match=r"differentiated twice .* writes to an input that it computes with"):
        gradient.sum().backward()
