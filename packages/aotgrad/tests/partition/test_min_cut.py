"""What the minimum cut saves."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

import aotgrad

aten = torch.ops.aten


def saved_targets(program, *inputs) -> list[str]:
    partition = aotgrad.partition_min_cut(aotgrad.trace_joint(program, list(inputs)))
    results = partition.forward.graph.find_nodes(op="output")[0].args[0]
    return sorted(str(results[s.result].target) for s in partition.saved if s.result is not None)


def leaf(*size: int) -> torch.Tensor:
    return torch.randn(*size).requires_grad_()


def saved_bytes(partition: aotgrad.Partition) -> int:
    results = partition.forward.graph.find_nodes(op="output")[0].args[0]
    values = [results[s.result].meta["val"] for s in partition.saved if s.result is not None]
    return sum(v.numel() * v.element_size() for v in values)


def test_pointwise_chains_are_computed_again():
    assert saved_targets(lambda x, w: (F.gelu(F.linear(x, w)).sin() * 2,), leaf(8, 4), leaf(4, 4)) == [
        "aten.mm.default"
    ]


def test_inputs_are_preferred():
    assert saved_targets(lambda x: (x.exp().sin().cos(),), leaf(8)) == []


def test_random_numbers_are_saved():
    assert saved_targets(lambda x: (F.dropout(x, 0.5) * 2,), leaf(8)) == ["aten.div.Scalar"]


def test_the_nearest_of_equal_cuts():
    # Either sum or both products: the sum is nearer to where it is used.
    targets = saved_targets(lambda x, w: ((x @ w + x @ w.t()).sin(),), leaf(4, 4), leaf(4, 4))
    assert targets == ["aten.add.Tensor"]


def test_a_written_input_is_kept_as_a_copy(check):
    def run(x, w):
        y = x.exp() * w
        x.zero_()
        return (y,)

    check(run, torch.randn(3, 4), leaf(3, 4), partitioner=aotgrad.partition_min_cut)


def test_never_more_bytes_than_the_default():
    class Net(nn.Sequential):
        pass

    model = Net(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.SiLU(), nn.Conv2d(8, 8, 3), nn.GroupNorm(2, 8), nn.ReLU())
    joint = aotgrad.trace_joint(torch.fx.symbolic_trace(model), [torch.randn(2, 3, 10, 10)])
    default, least = aotgrad.partition_default(joint), aotgrad.partition_min_cut(joint)
    assert saved_bytes(least) < 0.7 * saved_bytes(default)


def test_gradients(check):
    model = nn.Sequential(
        nn.Linear(6, 8), nn.LayerNorm(8), nn.SiLU(), nn.Dropout(0.2), nn.Linear(8, 3), nn.LogSoftmax(-1)
    )
    names = [name for name, _ in model.named_parameters()]

    def run(x, *parameters):
        return (torch.func.functional_call(model, dict(zip(names, parameters)), (x,)),)

    check(run, leaf(5, 6), *model.parameters(), partitioner=aotgrad.partition_min_cut)


def test_a_copy_of_an_input_is_saved_since_the_input_may_change(interpreter):
    w, queue = leaf(4, 4), torch.randn(4, 3)
    expected = (torch.ones(2, 3) @ queue.t()).t() @ torch.ones(2, 4)
    run = aotgrad.compile(
        lambda x, w, queue: (x @ w @ queue.t().clone().t(),),
        [torch.ones(2, 4), w, queue],
        inference_compiler=interpreter,
    )
    (out,) = run(torch.ones(2, 4), w, queue)
    queue.add_(1)
    out.sum().backward()
    torch.testing.assert_close(w.grad, expected.t())
