"""Training patterns with several losses, and graphs that are used more than once."""

from __future__ import annotations

import contextlib
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from tests_integration.training_patterns.registry import Net, Wrap, data, grads, pattern, state


@pattern
def gan(compiled: Wrap) -> Any:
    generator, critic = Net(), nn.Linear(3, 1)
    for_generator = torch.optim.SGD(generator.parameters(), lr=0.1)
    for_critic = torch.optim.SGD(critic.parameters(), lr=0.1)

    def step(z: torch.Tensor, real: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        fake = generator(z)
        for_critic.zero_grad()
        one = F.binary_cross_entropy_with_logits(critic(real), torch.ones(5, 1))
        loss_c = one + F.binary_cross_entropy_with_logits(critic(fake.detach()), torch.zeros(5, 1))
        loss_c.backward()
        for_critic.step()
        for_generator.zero_grad()
        loss_g = F.binary_cross_entropy_with_logits(critic(fake), torch.ones(5, 1))
        loss_g.backward()
        for_generator.step()
        return loss_c, loss_g

    run = compiled(step)
    return [run(data(i), data(9 + i, 5, 3)) for i in range(2)], state(generator), state(critic), grads(critic)


@pattern
def retain_graph(compiled: Wrap) -> Any:
    net = Net()

    def forward(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        out = net(x)
        return out.sum(), out.square().mean()

    run = compiled(forward)
    for i in range(2):
        one, two = run(data(i))
        one.backward(retain_graph=True)
        one.backward(retain_graph=True)
        two.backward()
    return grads(net)


@pattern
def retain_graph_inside(compiled: Wrap) -> Any:
    net = Net()

    def step(x: torch.Tensor) -> torch.Tensor:
        out = net(x)
        out.sum().backward(retain_graph=True)
        loss = out.square().mean()
        loss.backward()
        return loss

    run = compiled(step)
    return [run(data(i)) for i in range(2)], grads(net)


@pattern
def module_used_twice(compiled: Wrap) -> Any:
    net = nn.Linear(4, 4)

    def step(x: torch.Tensor) -> torch.Tensor:
        loss = net(net(x).relu()).square().sum()
        loss.backward()
        return loss

    run = compiled(step)
    results = [run(data(0)), run(data(1))]
    alone = compiled(net)
    (alone(data(0)) + alone(data(1)).sin()).sum().backward()
    return results, grads(net)


@pattern
def losses_in_turn(compiled: Wrap) -> Any:
    net = Net()

    def step(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        hidden = torch.tanh(net.first(x))
        out = net.second(hidden)
        return out.square().mean(), hidden.abs().sum(), out.softmax(-1)[:, 0].log().mean()

    run = compiled(step)
    one, two, three = run(data(0))
    (one + 2 * two).backward(retain_graph=True)
    first = grads(net)
    three.backward()
    unused, used, _ = run(data(1))
    used.backward()
    return first, grads(net), unused


@pattern
def backward_on_a_slice(compiled: Wrap) -> Any:
    net = Net()
    run = compiled(net)
    out = run(data(0))
    out[1:3, ::2].sum().backward(retain_graph=True)
    out.backward(data(3, 3, 5).t(), retain_graph=True)
    torch.autograd.backward([out.sum(), run(data(1))[0, 0]])
    return grads(net)


@pattern
def gradient_accumulation(compiled: Wrap) -> Any:
    net = Net()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)

    def micro_step(x: torch.Tensor, last: bool) -> torch.Tensor:
        loss = net(x).square().mean() / 2
        loss.backward()
        if last:
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        return loss

    run = compiled(micro_step)
    return [run(data(i), i % 2 == 1) for i in range(4)], state(net), grads(net)


@pattern
def synchronising_only_at_the_end(compiled: Wrap) -> Any:
    class Wrapped(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.module, self.sync, self.synced = Net(), True, 0

        @contextlib.contextmanager
        def no_sync(self) -> Any:
            self.sync, before = False, self.sync
            try:
                yield
            finally:
                self.sync = before

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            if self.sync:
                self.synced += 1
            return self.module(x)

    net = Wrapped()

    def step(xs: list[torch.Tensor]) -> torch.Tensor:
        with net.no_sync():
            net(xs[0]).sum().backward()
        loss = net(xs[1]).sum()
        loss.backward()
        return loss

    run = compiled(step)
    return [run([data(i), data(i + 5)]) for i in range(2)], grads(net), net.synced
