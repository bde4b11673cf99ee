"""Training patterns with optimizers: closures, groups of parameters, schedules."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from tests_integration.training_patterns.registry import Net, Wrap, data, grads, pattern, state


@pattern
def lbfgs_with_a_closure(compiled: Wrap) -> Any:
    net, losses = Net(), []
    optimizer = torch.optim.LBFGS(net.parameters(), lr=0.5, max_iter=4, line_search_fn="strong_wolfe")
    x, y = data(0), data(1, 5, 3)

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss = F.mse_loss(net(x), y)
        loss.backward()
        losses.append(loss.item())
        return loss

    run = compiled(closure)
    return [float(optimizer.step(run)) for _ in range(2)], state(net), losses


@pattern
def lbfgs_whole_step(compiled: Wrap) -> Any:
    net = Net()
    optimizer = torch.optim.LBFGS(net.parameters(), lr=0.5, max_iter=3)
    y = data(1, 5, 3)

    def step(x: torch.Tensor) -> Any:
        def closure() -> torch.Tensor:
            optimizer.zero_grad()
            loss = F.mse_loss(net(x), y)
            loss.backward()
            return loss

        return optimizer.step(closure)

    run = compiled(step)
    return [float(run(data(0))) for _ in range(2)], state(net)


@pattern
def param_groups(compiled: Wrap) -> Any:
    net = Net()
    optimizer = torch.optim.SGD(
        [{"params": net.first.parameters(), "lr": 0.1}, {"params": net.second.parameters(), "weight_decay": 0.1}],
        lr=0.01,
    )

    def step(x: torch.Tensor) -> torch.Tensor:
        optimizer.zero_grad(set_to_none=False)
        loss = net(x).square().mean()
        loss.backward()
        optimizer.step()
        for group in optimizer.param_groups:
            group["lr"] *= 0.5
        return loss

    run = compiled(step)
    return [run(data(i)) for i in range(3)], state(net), grads(net)


@pattern
def scheduler_and_clipping(compiled: Wrap) -> Any:
    net = Net()
    optimizer = torch.optim.AdamW(net.parameters(), lr=0.01)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=0.1, total_steps=5)
    norms = []

    def step(x: torch.Tensor) -> torch.Tensor:
        optimizer.zero_grad()
        loss = net(x).square().mean()
        loss.backward()
        norms.append(nn.utils.clip_grad_norm_(net.parameters(), 0.1))
        nn.utils.clip_grad_value_(net.parameters(), 0.05)
        optimizer.step()
        scheduler.step()
        return loss

    run = compiled(step)
    return [run(data(i)) for i in range(3)], state(net), norms, scheduler.get_last_lr()
