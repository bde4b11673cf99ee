"""Symbolic sizes: one graph for many sizes."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

import aotgrad
from symshapes import DimPolicy, FakeMode, ShapeEnv


def fakes(*tensors: torch.Tensor):
    mode = FakeMode(ShapeEnv())
    return [
        mode.from_tensor(t, source=f"x{i}", policy=[DimPolicy.DYNAMIC] + [DimPolicy.STATIC] * (t.dim() - 1))
        for i, t in enumerate(tensors)
    ]


def pointwise(x):
    return (x * 2 + 1,)


def views(x):
    y = x * 2
    return (y.view(-1), y, y.t().contiguous())


def sizes(x):
    return (x / x.shape[0], x.shape[0] * 2 + 1, torch.zeros(x.shape[0], 2))


def floats(x):
    return (x * x.shape[0] ** -0.5 + 1 / x.shape[0], x * (x.shape[0] / 3 - 0.5))


def in_place(x):
    y = x.clone()
    y[1:].mul_(2)
    y.view(-1)[::2].add_(1)
    return (y.reshape(-1, 2).sum(1),)


def normalized(x):
    return (F.layer_norm(x, (4,)), F.softmax(x, 0), F.gelu(x))


def input_alias(x):
    return (x.view(-1), x.reshape(-1, 2), x * 1)


def joined(x):
    return (torch.cat([x, x + 1]).mean(0), torch.stack([x, x]).sum(), F.dropout(x, 0.5))


@pytest.mark.parametrize("partitioner", [aotgrad.partition_default, aotgrad.partition_min_cut])
@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize(
    "program", [pointwise, views, sizes, floats, in_place, normalized, input_alias, joined], ids=lambda p: p.__name__
)
def test_one_graph_for_many_sizes(interpreter, program, grad, partitioner):
    graphs = []

    def compiler(module, inputs):
        graphs.append(module)
        return interpreter(module, inputs)

    run = aotgrad.compile(
        program, fakes(torch.randn(6, 4).requires_grad_(grad)), inference_compiler=compiler, partitioner=partitioner
    )
    for length in (6, 3, 8, 2):
        x = torch.randn(length, 4)
        ours, theirs = (x.clone().requires_grad_(grad) for _ in range(2))
        torch.manual_seed(0)
        got = run(ours)
        torch.manual_seed(0)
        expected = program(theirs)
        for one, other in zip(got, expected, strict=True):
            if isinstance(other, torch.Tensor):
                torch.testing.assert_close(one, other)
                assert one.stride() == other.stride() and one.requires_grad == other.requires_grad
            else:
                assert one == other
        if grad:
            for out, leaf in ((got, ours), (expected, theirs)):
                sum(t.sin().sum() for t in out if isinstance(t, torch.Tensor) and t.requires_grad).backward()
            torch.testing.assert_close(ours.grad, theirs.grad)


def test_fewer_elements_than_the_correction_count_as_none(interpreter):
    def run(x):
        return (torch.var(x, 0, correction=4), torch.std(x, 0, correction=2.5))

    compiled = aotgrad.compile(run, fakes(torch.randn(6, 4)), inference_compiler=interpreter)
    for length in (7, 4, 3, 2):
        x = torch.randn(length, 4)
        torch.testing.assert_close(compiled(x), run(x), equal_nan=True)


def test_size_nodes_are_shared():
    graph = aotgrad.trace_inference(sizes, fakes(torch.randn(6, 4))).graph
    calls = [node for node in graph.nodes if node.target is torch.ops.aten.sym_size.int]
    assert len(calls) == 1


def test_equal_sizes_of_two_inputs(interpreter):
    def run(x, y):
        return (x @ y.t(), x.shape[0] + y.shape[0])

    compiled = aotgrad.compile(run, fakes(torch.randn(5, 4), torch.randn(7, 4)), inference_compiler=interpreter)
    x, y = torch.randn(3, 4), torch.randn(9, 4)
    torch.testing.assert_close(compiled(x, y)[0], x @ y.t())
    assert compiled(x, y)[1] == 12


def test_symbolic_integers_as_inputs(interpreter):
    env = ShapeEnv()
    mode = FakeMode(env)
    x = mode.from_tensor(torch.randn(3, 4))
    n = env.create_size(5, "n", DimPolicy.DYNAMIC)
    run = aotgrad.compile(lambda x, n: (x * n + 1, n + 2), [x, n], inference_compiler=interpreter)
    t = torch.randn(3, 4)
    torch.testing.assert_close(run(t, 7)[0], t * 7 + 1)
    assert run(t, 7)[1] == 9
