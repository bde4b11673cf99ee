"""What the backward is told of sizes."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import fx

import aotgrad
from symshapes import DimPolicy, FakeMode, ShapeEnv, expr_of


def symbols(node: fx.Node) -> set[str]:
    value = node.meta["val"]
    numbers = [*value.shape, *value.stride()] if isinstance(value, torch.Tensor) else [value]
    return {str(s) for n in numbers if isinstance(n, torch.SymInt) for s in expr_of(n).free_symbols}


def plain(node: fx.Node) -> set[str]:
    value = node.meta["val"]
    numbers = [*value.shape] if isinstance(value, torch.Tensor) else [value]
    return {str(expr_of(n)) for n in numbers if isinstance(n, torch.SymInt) and expr_of(n).is_Symbol}


@pytest.mark.parametrize("partitioner", [aotgrad.partition_default, aotgrad.partition_min_cut])
def test_a_number_of_rows_is_told_where_only_whole_chunks_of_them_are_saved(partitioner):
    def run(x, w):
        padded = F.pad(x, (0, 0, 0, -x.shape[0] % 8))  # a result, too: nothing is cheaper to save
        return (padded, padded @ w)

    mode = FakeMode(ShapeEnv())
    x = mode.from_tensor(torch.randn(9, 4), source="x", policy=[DimPolicy.DYNAMIC, DimPolicy.STATIC])
    w = mode.from_tensor(torch.randn(4, 4).requires_grad_(), source="w", policy=[DimPolicy.STATIC] * 2)
    backward = partitioner(aotgrad.trace_joint(run, [x, w])).backward
    given = backward.graph.find_nodes(op="placeholder")
    computed = [node for node in backward.graph.nodes if node.op != "output"]
    told = set().union(*map(plain, given))
    assert told == set().union(*map(symbols, computed)) != set()


def test_a_value_that_is_made_again_from_a_size() -> None:
    def run(x, w):
        scaled = F.silu(x * w * x.shape[0])  # made again from x, w and the number of rows
        return scaled.sum()

    mode = FakeMode(ShapeEnv())
    x = mode.from_tensor(torch.randn(300, 300), source="x", policy=[DimPolicy.DYNAMIC, DimPolicy.STATIC])
    w = mode.from_tensor(torch.randn(300).requires_grad_(), source="w", policy=[DimPolicy.STATIC])
    partition = aotgrad.partition_default(aotgrad.trace_joint(run, [x, w]))
    saved = partition.backward.graph.find_nodes(op="placeholder")
    assert sum(isinstance(node.meta["val"], torch.SymInt) for node in saved) == 1
