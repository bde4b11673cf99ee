"""Training patterns with hooks: of tensors, of parameters, of modules."""

from __future__ import annotations

from typing import Any

import torch

from tests_integration.training_patterns.registry import Net, Wrap, data, grads, pattern, square_step, state


@pattern
def tensor_hook(compiled: Wrap) -> Any:
    net, seen = Net(), []

    def step(x: torch.Tensor) -> torch.Tensor:
        hidden = net.first(x)
        hidden.register_hook(lambda g: seen.append(g.sum().item()))
        hidden.register_hook(lambda g: g * 2)
        loss = net.second(hidden.relu()).square().mean()
        loss.backward()
        return loss

    run = compiled(step)
    return [run(data(i)) for i in range(2)], grads(net), seen


@pattern
def tensor_hook_that_is_removed(compiled: Wrap) -> Any:
    net = Net()

    def step(x: torch.Tensor, keep: bool) -> torch.Tensor:
        out = net(x)
        handle = out.register_hook(lambda g: g * 3)
        if not keep:
            handle.remove()
        loss = out.sum()
        loss.backward()
        return loss

    run = compiled(step)
    return run(data(0), True), run(data(0), False), grads(net)


@pattern
def hooks_on_parameters(compiled: Wrap) -> Any:
    net, seen = Net(), []
    net.first.weight.register_hook(lambda g: g.clamp(-0.01, 0.01))
    net.second.weight.register_post_accumulate_grad_hook(lambda p: seen.append(p.grad.norm().item()))

    run = compiled(square_step(net))
    return [run(data(i)) for i in range(2)], grads(net), seen


@pattern
def optimizer_in_the_backward(compiled: Wrap) -> Any:
    net = Net()
    optimizers = {p: torch.optim.SGD([p], lr=0.1) for p in net.parameters()}

    def update(p: torch.Tensor) -> None:
        optimizers[p].step()
        optimizers[p].zero_grad()

    for p in net.parameters():
        p.register_post_accumulate_grad_hook(update)

    run = compiled(square_step(net))
    return [run(data(i)) for i in range(3)], state(net)


@pattern
def module_hooks_of_every_kind(compiled: Wrap) -> Any:
    net, seen = Net(), []
    net.first.register_forward_pre_hook(lambda m, args: (args[0] * 2,))
    net.first.register_forward_hook(lambda m, args, out: out + 1)
    net.second.register_full_backward_pre_hook(lambda m, g: (g[0] * 0.5,))
    net.second.register_full_backward_hook(lambda m, gi, go: (gi[0] * 3,))
    net.register_full_backward_hook(lambda m, gi, go: seen.append(go[0].sum().item()))

    run = compiled(square_step(net))
    return [run(data(i)) for i in range(2)], grads(net), seen


@pattern
def hooked_module_compiled_alone(compiled: Wrap) -> Any:
    net, seen = Net(), []
    net.register_full_backward_pre_hook(lambda m, g: (g[0] * 0.5,))
    net.register_full_backward_hook(lambda m, gi, go: seen.append(go[0].sum().item()))
    run = compiled(net)
    for i in range(2):
        run(data(i).requires_grad_()).square().sum().backward()
    return grads(net), seen
