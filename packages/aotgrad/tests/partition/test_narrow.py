"""What is saved in a narrower dtype than it is read in."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

import aotgrad

ROWS, COLUMNS = 256, 128


def leaf(*size: int) -> torch.Tensor:
    return torch.randn(*size).requires_grad_()


def saved(program, *inputs, partitioner=aotgrad.partition_default) -> list[torch.dtype]:
    """Dtypes of what the forward keeps for the backward, besides inputs, in order."""
    partition = partitioner(aotgrad.trace_joint(program, list(inputs)))
    results = partition.forward.graph.output_node().args[0]
    values = [results[s.result].meta["val"] for s in partition.saved if s.result is not None]
    return sorted((v.dtype for v in values if v.numel() >= ROWS * COLUMNS), key=str)


def dropped(x, w):
    return (F.dropout(x @ w, 0.3),)


def rectified(x, w, v):
    return (F.dropout((x @ w).relu(), 0.5) @ v,)


def pooled(x, w):
    return (F.max_pool2d(F.conv2d(x, w), 3, 2),)


def sorted_rows(x, w):
    return ((x @ w).sort(dim=-1)[0],)


def between(x, w):
    return ((x @ w).clamp(-1.0, 2.0) * 2,)


def between_and_itself(x, w):
    product = x @ w
    return (product.clamp(-1.0, 2.0) * product.sin(),)


DROPPED = leaf(ROWS, 8), leaf(8, COLUMNS)
PROGRAMS = {
    "a mask of dropout": (dropped, DROPPED, [torch.bool]),
    "what ReLU let through": (rectified, (*DROPPED, leaf(COLUMNS, 2)), [torch.bool, torch.bool, torch.float32]),
    "what lies between two numbers": (between, DROPPED, [torch.bool]),
    "what is read for other reasons, too": (between_and_itself, DROPPED, [torch.float32]),
    "positions in a plane": (pooled, (leaf(2, 3, 66, 66), leaf(32, 3, 3, 3)), [torch.float32, torch.int16]),
    "places in a row": (sorted_rows, DROPPED, [torch.uint8]),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_numbers_are_saved_as_narrow_as_they_are(name):
    program, inputs, dtypes = PROGRAMS[name]
    assert saved(program, *inputs) == dtypes


@pytest.mark.parametrize("partitioner", [aotgrad.partition_default, aotgrad.partition_min_cut])
@pytest.mark.parametrize("name", PROGRAMS)
def test_gradients_and_random_numbers(check, name, partitioner):
    program, inputs, _ = PROGRAMS[name]
    check(program, *inputs, partitioner=partitioner)


def test_a_mask_that_is_a_result_is_that_one(check):
    def run(x, w):
        mask = torch.empty(ROWS, COLUMNS).bernoulli_(0.5)
        return x @ w * mask, mask

    assert saved(run, *DROPPED) == [torch.float32]
    check(run, *DROPPED)


def test_several_backwards_read_one_mask(check):
    def run(x, w):
        first = F.dropout(x @ w, 0.5)
        return first, (first.relu() * 2).sum(-1)

    check(run, *DROPPED)


def test_more_positions_than_a_narrow_integer_counts():
    places = leaf(1, 70000)

    def run(x):
        return (x.sort(dim=-1)[0].exp(),)

    assert torch.int32 in saved(run, places)
