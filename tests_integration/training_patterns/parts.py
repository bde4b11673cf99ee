"""Training patterns that train parts, share them, or change them on the way."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from tests_integration.training_patterns.registry import Net, Wrap, data, grads, pattern, square_step, state


@pattern
def frozen_parts(compiled: Wrap) -> Any:
    net = Net()
    net.first.requires_grad_(False)

    run = compiled(square_step(net))
    results = [run(data(0))]
    before = grads(net)
    net.first.requires_grad_(True)
    net.second.bias.requires_grad_(False)
    return [*results, run(data(1))], before, grads(net)


@pattern
def frozen_by_no_grad(compiled: Wrap) -> Any:
    net = Net()

    def step(x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            hidden = net.first(x).relu()
        loss = net.second(hidden).square().sum()
        loss.backward()
        return loss

    run = compiled(step)
    return [run(data(i)) for i in range(2)], grads(net)


@pattern
def in_place_on_outputs(compiled: Wrap) -> Any:
    net = Net()
    run = compiled(net)
    out = run(data(0))
    out.mul_(2).add_(1)
    out[0] = 0
    out.square().sum().backward()
    return grads(net), out


@pattern
def in_place_inside(compiled: Wrap) -> Any:
    net = Net()

    def step(x: torch.Tensor, total: torch.Tensor) -> torch.Tensor:
        hidden = net.first(x)
        hidden.relu_()
        hidden = hidden * 2
        hidden[:, 0] *= 2
        out = net.second(hidden)
        total += out.detach().sum()
        out += 1
        loss = out.square().sum()
        loss.backward()
        return loss

    run, total = compiled(step), torch.zeros(())
    return [run(data(i), total) for i in range(2)], total, grads(net)


@pattern
def detach_between(compiled: Wrap) -> Any:
    net = Net()

    def step(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        hidden = net.first(x)
        target = (hidden * 2).detach()
        loss = (net.second(hidden.detach()) - 1).square().sum() + (hidden - target).abs().sum()
        loss.backward()
        return loss, target

    run = compiled(step)
    return [run(data(i)) for i in range(2)], grads(net)


@pattern
def tied_weights(compiled: Wrap) -> Any:
    embedding, head = nn.Embedding(7, 4), nn.Linear(4, 7, bias=False)
    head.weight = embedding.weight
    optimizer = torch.optim.Adam([embedding.weight], lr=0.05)

    def step(tokens: torch.Tensor) -> torch.Tensor:
        optimizer.zero_grad()
        loss = F.cross_entropy(head(embedding(tokens)), (tokens + 1) % 7)
        loss.backward()
        optimizer.step()
        return loss

    run = compiled(step)
    return [run(torch.arange(5) + i % 2) for i in range(3)], head.weight, embedding.weight.grad


@pattern
def parametrized(compiled: Wrap) -> Any:
    net = nn.Sequential(
        nn.utils.parametrizations.weight_norm(nn.Linear(4, 6)), nn.utils.parametrizations.orthogonal(nn.Linear(6, 6))
    )
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)

    def step(x: torch.Tensor) -> torch.Tensor:
        optimizer.zero_grad()
        loss = net(x).square().sum()
        loss.backward()
        optimizer.step()
        return loss

    run = compiled(step)
    return [run(data(i)) for i in range(2)], state(net)


@pattern
def spectral_norm(compiled: Wrap) -> Any:
    net = nn.utils.parametrizations.spectral_norm(nn.Linear(4, 6))
    run = compiled(net)
    for i in range(2):
        run(data(i)).square().sum().backward()
    return grads(net), state(net)


@pattern
def moving_average(compiled: Wrap) -> Any:
    net = Net()
    ema = torch.optim.swa_utils.AveragedModel(net, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.9))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)

    def step(x: torch.Tensor) -> torch.Tensor:
        optimizer.zero_grad()
        loss = net(x).square().sum()
        loss.backward()
        optimizer.step()
        ema.update_parameters(net)
        return loss

    run = compiled(step)
    return [run(data(i)) for i in range(3)], state(ema.module), int(ema.n_averaged)


@pattern
def moving_average_by_hand(compiled: Wrap) -> Any:
    net = Net()
    ema = copy.deepcopy(net).requires_grad_(False)

    def step(x: torch.Tensor) -> torch.Tensor:
        net.zero_grad()
        loss = F.mse_loss(net(x), ema(x))
        loss = loss + net(x).square().mean()
        loss.backward()
        with torch.no_grad():
            for p, q in zip(net.parameters(), ema.parameters(), strict=True):
                p -= 0.1 * p.grad
                q.lerp_(p, 0.1)
        return loss

    run = compiled(step)
    return [run(data(i)) for i in range(3)], state(net), state(ema)


@pattern
def batch_statistics_and_dropout(compiled: Wrap) -> Any:
    net = nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Dropout(0.5), nn.Linear(6, 2))

    run = compiled(square_step(net))
    torch.manual_seed(3)
    results = [run(data(i)) for i in range(2)]
    net.eval()
    return [*results, run(data(7))], grads(net), state(net)
