"""The whole step compiled (zero_grad, forward, backward, clipping, optimizer, scheduler), with every optimizer of torch."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import meta

Make = Callable[[Any], torch.optim.Optimizer]

OPTIMIZERS: dict[str, Make] = {
    "SGD": lambda p: torch.optim.SGD(p, lr=0.1),
    "SGD momentum": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.01),
    "SGD foreach": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, foreach=True),
    "SGD fused": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, fused=True),
    "Adam": lambda p: torch.optim.Adam(p, lr=0.01),
    "Adam amsgrad": lambda p: torch.optim.Adam(p, lr=0.01, amsgrad=True, maximize=True),
    "Adam foreach": lambda p: torch.optim.Adam(p, lr=0.01, foreach=True),
    "Adam fused": lambda p: torch.optim.Adam(p, lr=0.01, fused=True),
    "Adam tensor lr": lambda p: torch.optim.Adam(p, lr=torch.tensor(0.01)),
    "Adam fused amsgrad": lambda p: torch.optim.Adam(
        p, lr=0.01, fused=True, amsgrad=True, maximize=True, weight_decay=0.1
    ),
    "SGD fused nesterov": lambda p: torch.optim.SGD(
        p, lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.1, fused=True
    ),
    "Adagrad fused": lambda p: torch.optim.Adagrad(p, lr=0.1, lr_decay=0.1, weight_decay=0.1, fused=True),
    "AdamW": lambda p: torch.optim.AdamW(p, lr=0.01),
    "AdamW foreach": lambda p: torch.optim.AdamW(p, lr=0.01, foreach=True),
    "AdamW fused": lambda p: torch.optim.AdamW(p, lr=0.01, fused=True),
    "Adagrad": lambda p: torch.optim.Adagrad(p, lr=0.1),
    "Adadelta": lambda p: torch.optim.Adadelta(p),
    "Adamax": lambda p: torch.optim.Adamax(p),
    "NAdam": lambda p: torch.optim.NAdam(p),
    "RAdam": lambda p: torch.optim.RAdam(p),
    "RMSprop": lambda p: torch.optim.RMSprop(p, momentum=0.5, centered=True),
    "Rprop": lambda p: torch.optim.Rprop(p),
    "Rprop foreach": lambda p: torch.optim.Rprop(p, foreach=True),
    "ASGD": lambda p: torch.optim.ASGD(p),
    "NAdam foreach": lambda p: torch.optim.NAdam(p, foreach=True),
    "RAdam foreach": lambda p: torch.optim.RAdam(p, foreach=True),
    "Adafactor": lambda p: torch.optim.Adafactor(p),
    "Adafactor foreach": lambda p: torch.optim.Adafactor(p, foreach=True),
    "ASGD foreach": lambda p: torch.optim.ASGD(p, foreach=True),
    "Muon": lambda p: torch.optim.Muon([each for each in p if each.dim() == 2], lr=0.1),
    "LBFGS": lambda p: torch.optim.LBFGS(p, max_iter=2),
}

#: Of those whose arithmetic another does, too, what is captured and differentiated is looked at, and no kernels are made of it.
SAME_ARITHMETIC = (
    "SGD foreach", "SGD fused", "SGD fused nesterov", "Adam fused", "Adam fused amsgrad", "Adam tensor lr", "AdamW", "AdamW foreach", "Rprop foreach",
    "NAdam foreach", "RAdam foreach", "Adafactor foreach", "ASGD foreach", "Adagrad fused",
)  # fmt: skip

# Double precision: an optimizer that divides by the gradient's size makes much of the smallest difference.
_INPUTS = [torch.randn(8, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(i)) for i in range(4)]
_LABELS = torch.arange(8) % 5


def _trained(make: Make, wrap: Callable[[Any], Any]) -> tuple[Any, ...]:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 7), nn.GELU(), nn.LayerNorm(7), nn.Linear(7, 5)).double()
    optimizer = make(model.parameters())
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)

    def loss_of(x: torch.Tensor) -> torch.Tensor:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), _LABELS)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        return loss

    def step(x: torch.Tensor) -> Any:
        if isinstance(optimizer, torch.optim.LBFGS):
            loss = optimizer.step(lambda: loss_of(x))
        else:
            loss = loss_of(x)
            optimizer.step()
        scheduler.step()
        return loss

    run = wrap(step)
    losses = [run(x).detach().clone() for x in _INPUTS]
    moved = {
        f"{n}.{key}": value
        for n, (_, state) in enumerate(optimizer.state.items())
        for key, value in state.items()
        if isinstance(value, torch.Tensor)
    }
    gradients = {n: p.grad for n, p in model.named_parameters()}
    return losses, copy.deepcopy(model.state_dict()), gradients, moved, scheduler.get_last_lr()


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_whole_step(name: str) -> None:
    make = OPTIMIZERS[name]
    expected = _trained(make, lambda step: step)
    compiled: list[Any] = []

    def wrap(step: Any) -> Any:
        compiled.append(meta.compile(step, backend="aot_eager" if name in SAME_ARITHMETIC else "inductor"))
        return compiled[0]

    found = _trained(make, wrap)
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-12)
    report = meta.report(compiled[0])
    assert not report.skipped
    # L-BFGS looks whether it is done.
    assert {b.reason for b in report.breaks} == ({"branch on a tensor's value"} if name == "LBFGS" else set())
    # Once with the state to be made, once with it there and another rate.
    # L-BFGS's is in pieces, and smaller ones where torch.compile was called before: that keeps itself away from it.
    largest = max(graph.op_count for graph in report.graphs)
    assert largest > (1 if name == "LBFGS" else 8)
    # Of L-BFGS each branch is a break, and its history grows by one direction a step.
    assert report.frames <= (24 if name == "LBFGS" else 9)


@pytest.mark.parametrize("foreach", [False, True])
def test_steps_alone_with_rates_that_change(foreach: bool) -> None:
    """Compiled once for a state to be made, once for one that is there with another rate; then for good."""
    parameters = [nn.Parameter(torch.ones(3)), nn.Parameter(torch.ones(2, 2))]
    optimizer = torch.optim.Adam(parameters, lr=0.1, foreach=foreach)
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)
    step = meta.compile(optimizer.step, backend="aot_eager", fullgraph=True)
    for _ in range(10):
        for parameter in parameters:
            parameter.grad = torch.ones_like(parameter)
        step()
        scheduler.step()
    assert meta.report(step).graph_count == 2


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_counts_made_alike_are_one_number(backend: str) -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        counts = [torch.tensor(0.0) for _ in range(3)]
        torch._foreach_add_(counts, 1)
        for count in counts:
            x = x + 0.5 ** count.item()
        return x

    x = torch.rand(3)
    torch.testing.assert_close(meta.compile(program, backend=backend, fullgraph=True)(x), program(x))


@pytest.mark.parametrize("backend", ["inductor", "aot_eager"])
def test_parameters_and_gradients_in_one_memory(backend: str) -> None:
    """As cuDNN's layers keep their weights, and data-parallel training its gradients."""

    def in_one(sizes: list[tuple[int, int]]) -> list[torch.Tensor]:
        memory = torch.randn(sum(a * b for a, b in sizes))
        return [part.view(size) for part, size in zip(memory.split([a * b for a, b in sizes]), sizes, strict=True)]

    sizes = [(4, 3), (2, 5), (7, 1)]
    flat = [nn.Parameter(part) for part in in_one(sizes)]
    apart = [nn.Parameter(p.detach().clone()) for p in flat]
    ours, eager = (torch.optim.AdamW(parameters, lr=0.1) for parameters in (flat, apart))
    step = meta.compile(ours.step, backend=backend, fullgraph=True)
    for _ in range(3):
        for mine, other, gradient in zip(flat, apart, in_one(sizes), strict=True):
            mine.grad, other.grad = gradient, gradient.clone()
        step()
        eager.step()
        torch.testing.assert_close(flat, apart)
