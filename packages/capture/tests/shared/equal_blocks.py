"""Modules that equal each other, the ways to call them compiled, and a backend that counts."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

import capture

LAYERS = 24


class Counting:
    """A backend that counts the graphs it is given."""

    def __init__(self) -> None:
        self.graphs = 0

    def __call__(self, graph: torch.fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
        self.graphs += 1
        return graph.forward


class Block(nn.Module):
    def __init__(self, scale: float = 0.5) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(4)
        self.first = nn.Linear(4, 4)
        self.second = nn.Linear(4, 4)
        self.act = lambda x: torch.relu(x) * scale

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.second(self.act(self.first(self.norm(x))))


@capture.disable
def pause() -> None:
    pass


class Parent(nn.Module):
    def __init__(self, blocks: list[nn.Module]) -> None:
        super().__init__()
        self.layers = nn.ModuleList(blocks)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x)
            pause()
        return x


Run = Callable[[torch.Tensor], torch.Tensor]


def in_turn(calls: list[Any]) -> Run:
    def run(x: torch.Tensor) -> torch.Tensor:
        for call in calls:
            x = call(x)
        return x

    return run


def one_by_one(blocks: list[nn.Module], backend: Counting) -> Run:
    return in_turn([capture.compile(block, backend) for block in blocks])


def as_an_argument(blocks: list[nn.Module], backend: Counting) -> Run:
    def call(block: nn.Module, x: torch.Tensor) -> torch.Tensor:
        return block(x)

    compiled = capture.compile(call, backend)
    return in_turn([lambda x, block=block: compiled(block, x) for block in blocks])


def forward_replaced(blocks: list[nn.Module], backend: Counting) -> Run:
    for block in blocks:
        block.forward = capture.compile(block.forward, backend)  # type: ignore[method-assign]
    return in_turn(blocks)


def in_a_parents_loop(blocks: list[nn.Module], backend: Counting) -> Run:
    return capture.compile(Parent(blocks), backend)


def own_graphs(way: Any) -> int:
    """How many blocks have a graph that no other uses: in a parent's loop the first is one with what comes before it."""
    return int(way is in_a_parents_loop)


WAYS = (one_by_one, as_an_argument, forward_replaced, in_a_parents_loop)


def made(copied: bool, count: int = LAYERS) -> list[nn.Module]:
    if not copied:
        return [Block() for _ in range(count)]
    first = Block()
    return [copy.deepcopy(first) for _ in range(count)]


def results(blocks: list[nn.Module], run: Run, x: torch.Tensor) -> tuple[torch.Tensor, list[torch.Tensor]]:
    """What a call gives, and the gradients that it leaves."""
    for block in blocks:
        block.zero_grad()
    y = run(x)
    y.sum().backward()
    return y, [p.grad for block in blocks for p in block.parameters() if p.grad is not None]
