"""Printed graphs of small programs: what tracing, decomposing and partitioning make of them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F

import aotgrad


def mlp(x, w, b):
    return (F.gelu(F.linear(x, w, b)),)


def views_and_writes(x):
    y = x.clone()
    y[0].mul_(2)
    y.t()[1].zero_()
    return (y.view(-1), y)


def batch_norm(x, mean, var):
    return (F.batch_norm(x, mean, var, training=True),)


def leaf(*size: int) -> torch.Tensor:
    return torch.ones(*size).requires_grad_()


PROGRAMS = {
    "mlp": (mlp, [torch.ones(2, 3), leaf(4, 3), leaf(4)]),
    "views_and_writes": (views_and_writes, [leaf(3, 4)]),
    "batch_norm": (batch_norm, [leaf(4, 3), torch.zeros(3), torch.ones(3)]),
}


def printed(module: torch.fx.GraphModule) -> str:
    lines = []
    for node in module.graph.nodes:
        value = node.meta.get("val")
        shown = f"  # {tuple(value.shape)} {tuple(value.stride())}" if isinstance(value, torch.Tensor) else ""
        lines.append(f"{node.format_node() if node.op != 'output' else f'return {node.args[0]}'}{shown}")
    return "\n".join(lines)


@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_graphs(name: str, golden: Callable[[str, str], None]) -> None:
    program, inputs = PROGRAMS[name]
    partition = aotgrad.partition_default(aotgrad.trace_joint(program, inputs))
    text = f"forward\n{printed(partition.forward)}\n\nbackward\n{printed(partition.backward)}\n"
    golden(name, text)
