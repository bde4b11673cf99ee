"""Residuals that the backward makes of what its kernels read anyway."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

import aotgrad

ROWS, COLUMNS = 256, 128


def leaf(*size: int) -> torch.Tensor:
    return torch.randn(*size, dtype=torch.float64).requires_grad_()


def gradients(results, inputs):
    return torch.autograd.grad(sum(result.square().sum() for result in results), inputs)


def saved(program, *inputs) -> list[str]:
    """The names of the large values that the forward keeps; the gradients are eager's."""
    partition = aotgrad.partition_default(aotgrad.trace_joint(program, list(inputs)))
    results = partition.forward.graph.output_node().args[0]
    chosen = [results[each.result] for each in partition.saved if each.result is not None]
    compiled = aotgrad.compile(
        program, inputs, inference_compiler=lambda graph, given: lambda args: graph.forward(*args)
    )
    for one, other in zip(gradients(compiled(*inputs), inputs), gradients(program(*inputs), inputs), strict=True):
        torch.testing.assert_close(one, other)
    return [node.name for node in chosen if node.meta["val"].numel() == ROWS * COLUMNS]


def block(x, w, gamma, scale, bias):
    """The half of a layer whose branch is scaled: its gradient reads the branch, a norm's what is added up."""
    return x + gamma * (F.layer_norm(x, (COLUMNS,), scale, bias) @ w)


def layers(*inputs):
    (*first,) = inputs
    x = first[0]
    for at in range(3):
        x = block(x, *first[1 + 4 * at : 5 + 4 * at])
    return (F.layer_norm(x, (COLUMNS,)),)


def parameters(count: int) -> list[torch.Tensor]:
    return [each for _ in range(count) for each in (leaf(COLUMNS, COLUMNS), *(leaf(COLUMNS) for _ in range(3)))]


def test_residuals_of_scaled_branches_are_made_again_every_other_one():
    names = saved(layers, leaf(ROWS, COLUMNS), *parameters(3))
    # Norms' results and products, and one of the three sums: those around it are made of it and of the input.
    assert len([name for name in names if name.startswith("add")]) == 4


def test_a_batch_norm_reads_what_it_norms_twice():
    def program(x, w, gamma, scale, bias):
        y = x + gamma * (x @ w)
        return (F.batch_norm(y, None, None, scale, bias, training=True),)

    names = saved(program, leaf(ROWS, COLUMNS), leaf(COLUMNS, COLUMNS), *(leaf(COLUMNS) for _ in range(3)))
    assert len(names) == 2, names  # the product, and the sum


@pytest.mark.parametrize("kept", [False, True])
def test_what_is_returned_is_there_anyway(kept):
    def program(x, *given):
        y = block(x, *given)
        return (F.layer_norm(y, (COLUMNS,)), y)[: 1 + kept]

    names = saved(program, leaf(ROWS, COLUMNS), *parameters(1))
    assert len(names) == 2 + kept, names  # what the norm gives, and the product
