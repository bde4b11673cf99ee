"""Which constants the backward makes again, and which it is handed."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

import aotgrad

SMALL, LARGE = (4, 8), (1 << 10, 1 << 10)


@torch.library.custom_op("constants::network", mutates_args=())
def network(x: Tensor, state: Tensor) -> Tensor:
    return x * (state + 1)


@network.register_fake
def _(x: Tensor, state: Tensor) -> Tensor:
    return x * state


@torch.library.custom_op("constants::backward", mutates_args=())
def network_backward(gradient: Tensor, state: Tensor) -> Tensor:
    return gradient * (state + 1)


@network_backward.register_fake
def _(gradient: Tensor, state: Tensor) -> Tensor:
    return gradient * state


def _keep(ctx: Any, inputs: Any, output: Tensor) -> None:
    ctx.save_for_backward(inputs[1])


def _gradients(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
    return network_backward(gradient, *ctx.saved_tensors), None


network.register_autograd(_gradients, setup_context=_keep)


def saved(program: Any, size: tuple[int, ...]) -> list[Any]:
    """The operators whose results are kept, of a program of one tensor."""
    partition = aotgrad.partition_default(aotgrad.trace_joint(program, [torch.ones(size, requires_grad=True)]))
    results = partition.forward.graph.find_nodes(op="output")[0].args[0]
    return [results[each.result].target for each in partition.saved if each.result is not None]


@pytest.mark.parametrize("size, kept", [(SMALL, 1), (LARGE, 0)])
def test_a_small_one_that_operators_read_in_both_is_handed_over(size: tuple[int, ...], kept: int) -> None:
    """It lies in memory in the forward: to make it again is a launch."""
    found = saved(lambda x: (network(x, torch.zeros(size)),), size)
    assert found == [torch.ops.aten.full.default] * kept


def test_what_kernels_make_part_of_themselves_is_made_again() -> None:
    assert saved(lambda x: (x.sin() * torch.full(SMALL, 2.0),), SMALL) == []
    # The forward has no memory of it.
    assert torch.ops.aten.full.default not in saved(lambda x: (network(x, x) * torch.full(SMALL, 2.0),), SMALL)
