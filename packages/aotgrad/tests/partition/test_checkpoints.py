"""What a checkpoint holds is computed again by the backward, from what the checkpoint was given, whoever cuts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch import fx

import aotgrad
from symshapes import Checkpoint

PARTITIONERS = [aotgrad.partition_default, aotgrad.partition_min_cut]
parametrised = pytest.mark.parametrize("partitioner", PARTITIONERS, ids=["default", "min_cut"])


def graph_of(steps: Sequence[tuple[Callable[..., Any], Checkpoint | None]], weight: torch.Tensor) -> fx.GraphModule:
    """A chain of calls of the input (and a weight), each maybe in a checkpoint."""
    graph = fx.Graph()
    value = graph.placeholder("x")
    held = graph.placeholder("weight")
    for function, checkpoint in steps:
        value = graph.call_function(function, (value, held) if function is torch.mm else (value,))
        if checkpoint is not None:
            value.meta["checkpoint"] = checkpoint
    graph.output((value,))
    return fx.GraphModule(torch.nn.Module(), graph)


def cut(
    steps: Sequence[tuple[Callable[..., Any], Checkpoint | None]], partitioner: aotgrad.Partitioner
) -> tuple[list[str], list[str]]:
    """Names of what is saved besides inputs, and of the calls of the backward; results and gradients are as without checkpoints."""
    weight = torch.randn(8, 8) / 3
    found: list[aotgrad.Partition] = []

    def keep(joint: aotgrad.JointGraph) -> aotgrad.Partition:
        found.append(partitioner(joint))
        return found[-1]

    def run(f: Callable[..., Any]) -> list[torch.Tensor]:
        torch.manual_seed(0)
        x = torch.linspace(-1, 1, 32).reshape(4, 8).requires_grad_()
        torch.manual_seed(1)
        out = f(x, weight)[0]
        out.sum().backward()
        assert x.grad is not None
        return [out.detach(), x.grad]

    module = graph_of(steps, weight)
    inputs = [torch.randn(4, 8, requires_grad=True), weight]
    compiled = aotgrad.compile(module, inputs, inference_compiler=lambda g, _: lambda args: g(*args), partitioner=keep)
    for one, other in zip(run(compiled), run(module), strict=True):
        torch.testing.assert_close(one, other)
    (partition,) = found
    names = [node.name for node in partition.backward.graph.nodes if node.op == "placeholder"]
    results = {name for name, saved in zip(names, partition.saved, strict=False) if saved.result is not None}
    return sorted(results), [node.name for node in partition.backward.graph.nodes if node.op == "call_function"]


@parametrised
def test_nothing_of_a_checkpoint_is_saved(partitioner: aotgrad.Partitioner) -> None:
    region = Checkpoint()
    steps = [(torch.mm, region), (torch.exp, region), (torch.mm, region), (torch.sin, region), (torch.sum, None)]
    saved, calls = cut(steps, partitioner)
    assert saved == []
    assert "mm_1" in calls
    assert cut([(function, None) for function, _ in steps], partitioner)[0] != []


@parametrised
def test_what_passes_between_checkpoints_is_saved_and_each_made_again_when_needed(
    partitioner: aotgrad.Partitioner,
) -> None:
    first, second = Checkpoint(), Checkpoint()
    steps = [(f, region) for region in (first, second) for f in (torch.mm, torch.sin, torch.mm, torch.sin)]
    saved, calls = cut([*steps, (torch.sum, None)], partitioner)
    assert saved == ["saved_sin_1"]
    # The second one's values are read before the first one's are made.
    assert calls.index("mm_2") < calls.index("cos") < calls.index("mm") < calls.index("cos_2")


@parametrised
def test_of_checkpoints_in_one_another_the_outer_one_counts(partitioner: aotgrad.Partitioner) -> None:
    outer = Checkpoint()
    inner = Checkpoint(around=outer)
    steps = [(torch.mm, inner), (torch.sin, inner), (torch.mm, outer), (torch.sin, outer), (torch.sum, None)]
    assert cut(steps, partitioner)[0] == []


@parametrised
def test_a_policy_keeps_what_it_names(partitioner: aotgrad.Partitioner) -> None:
    region = Checkpoint(lambda op, args, kwargs: op is torch.ops.aten.mm.default)
    steps = [(torch.mm, region), (torch.exp, region), (torch.sin, region), (torch.sum, None)]
    saved, calls = cut(steps, partitioner)
    assert saved == ["saved_mm"]
    assert "exp" in calls


@parametrised
def test_random_numbers_are_not_drawn_again(partitioner: aotgrad.Partitioner) -> None:
    region = Checkpoint()

    def dropped(x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.dropout(x, 0.5)

    steps = [(torch.mm, region), (dropped, region), (torch.exp, region), (torch.sin, region), (torch.sum, None)]
    saved, calls = cut(steps, partitioner)
    assert len(saved) == 1
    assert not any("bernoulli" in name or "rand" in name for name in calls)
