"""Training patterns as people write them: each a function that trains for a few steps and says what came of it.

A pattern takes `compiled` (what wraps the functions or modules that the program compiles) and a `Run`, which makes
tensors from a seed of its own, and returns tensors and numbers to compare with eager's.
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

Wrap = Callable[[Any], Any]
Pattern = Callable[[Wrap], Any]

PATTERNS: dict[str, Pattern] = {}


def pattern(function: Pattern) -> Pattern:
    """Enter a pattern into the table."""
    PATTERNS[function.__name__] = function
    return function


class Net(nn.Module):
    """Two layers."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(4, 6)
        self.second = nn.Linear(6, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(torch.tanh(self.first(x)))


def data(seed: int = 0, *sizes: int) -> torch.Tensor:
    """Normal numbers of this seed."""
    return torch.randn(*(sizes or (5, 4)), generator=torch.Generator().manual_seed(seed))


def grads(module: nn.Module) -> dict[str, torch.Tensor | None]:
    """Copies of a module's gradients."""
    return {n: None if p.grad is None else p.grad.clone() for n, p in module.named_parameters()}


def state(module: nn.Module) -> dict[str, torch.Tensor]:
    """Copies of a module's parameters and buffers."""
    return {n: t.detach().clone() for n, t in module.state_dict().items()}


# Hooks


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

    def step(x: torch.Tensor) -> torch.Tensor:
        loss = net(x).square().sum()
        loss.backward()
        return loss

    run = compiled(step)
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

    def step(x: torch.Tensor) -> torch.Tensor:
        loss = net(x).square().sum()
        loss.backward()
        return loss

    run = compiled(step)
    return [run(data(i)) for i in range(3)], state(net)


@pattern
def module_hooks_of_every_kind(compiled: Wrap) -> Any:
    net, seen = Net(), []
    net.first.register_forward_pre_hook(lambda m, args: (args[0] * 2,))
    net.first.register_forward_hook(lambda m, args, out: out + 1)
    net.second.register_full_backward_pre_hook(lambda m, g: (g[0] * 0.5,))
    net.second.register_full_backward_hook(lambda m, gi, go: (gi[0] * 3,))
    net.register_full_backward_hook(lambda m, gi, go: seen.append(go[0].sum().item()))

    def step(x: torch.Tensor) -> torch.Tensor:
        loss = net(x).square().sum()
        loss.backward()
        return loss

    run = compiled(step)
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


# Optimizers


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


# Several losses, graphs used more than once


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


# Parts


@pattern
def frozen_parts(compiled: Wrap) -> Any:
    net = Net()
    net.first.requires_grad_(False)

    def step(x: torch.Tensor) -> torch.Tensor:
        loss = net(x).square().sum()
        loss.backward()
        return loss

    run = compiled(step)
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

    def step(x: torch.Tensor) -> torch.Tensor:
        loss = net(x).square().sum()
        loss.backward()
        return loss

    run = compiled(step)
    torch.manual_seed(3)
    results = [run(data(i)) for i in range(2)]
    net.eval()
    return [*results, run(data(7))], grads(net), state(net)


# Gradients asked for


@pattern
def gradients_of_inputs(compiled: Wrap) -> Any:
    net = Net()
    run = compiled(lambda x: net(x).square().sum())
    x = data(0).requires_grad_()
    run(x).backward()
    (again,) = torch.autograd.grad(run(x * 2), x)
    adversarial = x + 0.1 * x.grad.sign()
    return x.grad, again, run(adversarial.detach()), grads(net)


@pattern
def gradients_of_inputs_inside(compiled: Wrap) -> Any:
    net = Net()

    def attack(x: torch.Tensor) -> torch.Tensor:
        x = x.clone().requires_grad_()
        (g,) = torch.autograd.grad(net(x).square().sum(), x)
        return x + 0.1 * g.sign()

    run = compiled(attack)
    return [run(data(i)) for i in range(2)], grads(net)


@pattern
def gradient_penalty(compiled: Wrap) -> Any:
    net = Net()

    def step(x: torch.Tensor) -> torch.Tensor:
        x = x.detach().requires_grad_()
        out = net(x)
        (g,) = torch.autograd.grad(out.sum(), x, create_graph=True)
        loss = out.square().mean() + (g.norm(dim=1) - 1).square().mean()
        loss.backward()
        return loss

    run = compiled(step)
    return [run(data(i)) for i in range(2)], grads(net)


@pattern
def gradient_penalty_around(compiled: Wrap) -> Any:
    net = Net()
    run = compiled(net)
    for i in range(2):
        x = data(i).requires_grad_()
        out = run(x)
        (g,) = torch.autograd.grad(out.sum(), x, create_graph=True)
        (out.square().mean() + (g.norm(dim=1) - 1).square().mean()).backward()
    return grads(net)


@pattern
def gradient_penalty_through_dropout(compiled: Wrap) -> Any:
    net = nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.LeakyReLU(), nn.Dropout(0.3), nn.Linear(6, 1))

    def step(x: torch.Tensor) -> torch.Tensor:
        x = (x + torch.rand_like(x)).requires_grad_()
        out = net(x)
        (g,) = torch.autograd.grad(out.sum(), x, create_graph=True)
        loss = out.square().mean() + (g.norm(dim=1) - 1).square().mean()
        loss.backward()
        return loss

    run = compiled(step)
    torch.manual_seed(1)
    return [run(data(i)) for i in range(2)], grads(net), list(net.buffers())


@pattern
def gradients_of_features(compiled: Wrap) -> Any:
    net = Net()

    def step(x: torch.Tensor) -> Any:
        h = net.first(x)
        out = net.second(h.tanh())
        (one,) = torch.autograd.grad(out[:, 0].sum(), h, retain_graph=True)
        (two,) = torch.autograd.grad(out[:, 1].square().sum(), [h], retain_graph=True)
        h.backward(one + two)
        return out, one, two

    return compiled(step)(data(0)), grads(net)


@pattern
def places_asked_for_after_use(compiled: Wrap) -> Any:
    net = Net()

    def register(h: torch.Tensor) -> None:
        h.register_hook(lambda g: g * 2)

    def step(x: torch.Tensor, how: str) -> Any:
        h = net.first(x)
        loss = net.second(h.tanh()).square().sum()
        if how == "kept":
            h.retain_grad()
        elif how == "hook":
            h.register_hook(lambda g: g * 3)
        elif how == "hook beneath":
            register(h)
        else:
            h.grad_fn.register_prehook(lambda gs: (gs[0] * 4,))
        loss.backward()
        return loss, h.grad if how == "kept" else None

    run = compiled(step)
    return [(run(data(0), how), grads(net)) for how in ("kept", "hook", "hook beneath", "node")]


class Stages(nn.Module):
    """Returns what each stage makes, as extractors of features and hidden states do, and scores made from the last."""

    def __init__(self) -> None:
        super().__init__()
        self.stages = nn.ModuleList(nn.Linear(4, 4) for _ in range(3))
        self.norm, self.head = nn.LayerNorm(4), nn.Linear(4, 3)

    def forward(self, x: torch.Tensor) -> dict[str, Any]:
        hidden, weights = [x.sin()], []
        for stage in self.stages:
            now = stage(hidden[-1])
            weights.append(torch.softmax(now @ now.t(), -1))
            hidden.append(hidden[-1] + weights[-1] @ F.relu(now * 2, inplace=True))
        last = self.norm(hidden[-1])
        return {"scores": self.head(last[0]), "last": last, "hidden": tuple(hidden), "weights": tuple(weights)}


def _outputs(out: dict[str, Any]) -> list[torch.Tensor]:
    return [out["scores"], out["last"], *out["hidden"], *out["weights"]]


@pattern
def class_activation_maps(compiled: Wrap) -> Any:
    net = Stages()
    out = _outputs(compiled(net)(data(0).requires_grad_()))
    for t in out:
        t.retain_grad()
    out[0][1].backward()
    maps = [F.relu(t.grad.mean(0) * t).sum(-1) for t in out[2:6]]
    return maps, [t.grad for t in out], grads(net)


@pattern
def hooks_on_what_stages_return(compiled: Wrap) -> Any:
    net = Stages()
    out = _outputs(compiled(net)(data(0).requires_grad_()))
    seen: dict[int, torch.Tensor] = {}
    for number, t in enumerate(out):
        t.register_hook(lambda g, number=number: seen.setdefault(number, g.clone()) * 2)
    (out[0].square().sum() + out[4].cos().sum() + out[-1].square().sum()).backward()
    return [seen[number] for number in sorted(seen)], grads(net)


@pattern
def gradients_between_what_stages_return(compiled: Wrap) -> Any:
    net, x = Stages(), data(0).requires_grad_()
    out = _outputs(compiled(net)(x))
    found = []
    for t in out[1:]:
        found.append(torch.autograd.grad(out[0].square().sum(), t, retain_graph=True, allow_unused=True)[0])
    (g,) = torch.autograd.grad(out[0].exp().sum(), out[1], create_graph=True)
    (g.square().sum() + out[4].sum()).backward()
    return found, g, x.grad, grads(net)


@pattern
def adversarial_embeddings(compiled: Wrap) -> Any:
    table, net = nn.Embedding(9, 4), Net()

    def step(i: torch.Tensor) -> torch.Tensor:
        h = table(i)
        loss = net(h).square().mean()
        (g,) = torch.autograd.grad(loss, h, retain_graph=True)
        worse = net(h + 0.1 * g / g.norm()).square().mean()
        (loss + worse).backward()
        return worse

    return compiled(step)(torch.tensor([1, 2, 3])), grads(table), grads(net)


@pattern
def physics_informed_residual(compiled: Wrap) -> Any:
    net = nn.Sequential(nn.Linear(2, 6), nn.Tanh(), nn.Linear(6, 1))

    def residual(points: torch.Tensor) -> torch.Tensor:
        points = points.requires_grad_()
        u = net(points)
        du = torch.autograd.grad(u, points, torch.ones_like(u), create_graph=True)[0]
        ddu = torch.autograd.grad(du[:, :1], points, torch.ones_like(u), create_graph=True)[0]
        return (du[:, 1:] + u * du[:, :1] - 0.1 * ddu[:, :1]).square().mean()

    run = compiled(residual)
    results = []
    for i in range(2):
        loss = run(data(i, 5, 2))
        loss.backward()
        results.append(loss)
    return results, grads(net)


@pattern
def several_tangents_at_once(compiled: Wrap) -> Any:
    net = Net()
    run = compiled(net)
    x = data(0).requires_grad_()
    tangents = torch.stack([data(i, 5, 3) for i in range(2)])
    batched = torch.autograd.grad(run(x), x, tangents, is_grads_batched=True)
    dropped = compiled(lambda x: F.dropout(net(x), 0.5))
    torch.manual_seed(1)
    return batched, torch.autograd.grad(dropped(x), x, tangents, is_grads_batched=True)


@pattern
def hessian_vector_product(compiled: Wrap) -> Any:
    run = compiled(lambda x: (x.sin() * x.square()).sum())
    x = data(0).requires_grad_()
    (g,) = torch.autograd.grad(run(x), x, create_graph=True)
    (h,) = torch.autograd.grad((g * data(1)).sum(), x, create_graph=True)
    (third,) = torch.autograd.grad(h.square().sum(), x)
    return g, h, third, torch.autograd.functional.hessian(run, data(2, 3))


# Functions of the user's own


class Scaled(torch.autograd.Function):
    """x * w with a backward of its own."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, w: torch.Tensor, power: int) -> torch.Tensor:
        ctx.save_for_backward(x, w)
        ctx.power = power
        return (x * w) ** power

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> Any:
        x, w = ctx.saved_tensors
        inner = g * ctx.power * (x * w) ** (ctx.power - 1)
        return inner * w * 2, inner * x, None  # twice the truth: to be seen


class ThroughRounding(torch.autograd.Function):
    """A straight-through estimator."""

    @staticmethod
    def forward(x: torch.Tensor) -> torch.Tensor:
        return x.round()

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor | None) -> Any:
        return None if g is None else g * 0.5


@pattern
def own_functions(compiled: Wrap) -> Any:
    net, w = Net(), nn.Parameter(data(5, 3))

    def step(x: torch.Tensor) -> torch.Tensor:
        loss = ThroughRounding.apply(Scaled.apply(net(x), w, 3) * 4).square().sum()
        loss.backward()
        return loss

    run = compiled(step)
    return [run(data(i)) for i in range(2)], grads(net), w.grad


@pattern
def compiled_inside_own_function(compiled: Wrap) -> Any:
    forward = compiled(lambda x, w: torch.tanh(x @ w))
    backward = compiled(lambda g, x, w, y: ((g * (1 - y * y)) @ w.t(), x.t() @ (g * (1 - y * y))))

    class Mine(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
            y = forward(x, w)
            ctx.save_for_backward(x, w, y)
            return y

        @staticmethod
        def backward(ctx: Any, g: torch.Tensor) -> Any:
            return backward(g, *ctx.saved_tensors)

    x, w = data(0).requires_grad_(), data(1, 4, 3).requires_grad_()

    def step(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        loss = Mine.apply(x, w).sum()
        loss.backward()
        return loss

    return step(x, w), x.grad.clone(), w.grad.clone(), compiled(step)(x, w), x.grad, w.grad


@pattern
def compiled_calls_compiled(compiled: Wrap) -> Any:
    net = Net()
    inner = compiled(net)

    def step(x: torch.Tensor) -> torch.Tensor:
        loss = inner(x * 2).square().sum() + inner(x).sum()
        loss.backward()
        return loss

    run = compiled(step)
    return [run(data(i)) for i in range(2)], grads(net)


# Modes around


@pattern
def mixed_precision(compiled: Wrap) -> Any:
    net = Net()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=256.0)

    def step(x: torch.Tensor) -> torch.Tensor:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = net(x).float().square().mean()
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        return loss

    run = compiled(step)
    return [run(data(i)) for i in range(2)], state(net), scaler.get_scale()


@pattern
def anomaly_mode(compiled: Wrap) -> Any:
    net = Net()

    def step(x: torch.Tensor) -> torch.Tensor:
        with torch.autograd.detect_anomaly(check_nan=True):
            loss = net(x).square().sum()
            loss.backward()
        return loss

    run, alone = compiled(step), compiled(net)
    with torch.autograd.detect_anomaly():
        alone(data(2)).sum().backward()
    return [run(data(i)) for i in range(2)], grads(net)


@pattern
def saved_tensors_hooks(compiled: Wrap) -> Any:
    net, packed = Net(), []

    def pack(t: torch.Tensor) -> Any:
        packed.append(t.dim())
        return t.clone()

    def step(x: torch.Tensor) -> torch.Tensor:
        with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t * 2):
            loss = net(x).square().sum()
        loss.backward()
        return loss

    run = compiled(step)
    results = [run(data(i)) for i in range(2)]
    with torch.autograd.graph.save_on_cpu():
        compiled(net)(data(1)).sum().backward()
    return results, grads(net), packed


@pattern
def checkpointed(compiled: Wrap) -> Any:
    net = nn.Sequential(nn.Linear(4, 6), nn.Dropout(0.5), nn.Tanh(), nn.Linear(6, 4))

    def step(x: torch.Tensor, reentrant: bool) -> torch.Tensor:
        hidden = checkpoint(net, x, use_reentrant=reentrant)
        loss = checkpoint(net, hidden, use_reentrant=reentrant, preserve_rng_state=True).square().sum()
        loss.backward()
        return loss

    run = compiled(step)
    torch.manual_seed(5)
    return [run(data(i).requires_grad_(), i % 2 == 1) for i in range(4)], grads(net)


@pattern
def checkpoint_around_compiled(compiled: Wrap) -> Any:
    net = nn.Sequential(nn.Linear(4, 6), nn.Dropout(0.5), nn.Tanh(), nn.Linear(6, 4))
    run = compiled(net)
    torch.manual_seed(5)
    results = []
    for i in range(4):
        x = data(i).requires_grad_()
        out = checkpoint(run, x, use_reentrant=i % 2 == 1)
        out.square().sum().backward()
        results += [out, x.grad]
    return results, grads(net)


@pattern
def grad_modes_within(compiled: Wrap) -> Any:
    net = Net()

    @torch.no_grad()
    def teacher(x: torch.Tensor) -> torch.Tensor:
        return net(x).softmax(-1)

    @torch.enable_grad()
    def student(x: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return (net(x).log_softmax(-1) * target).sum()

    def step(x: torch.Tensor) -> Any:
        target = teacher(x)
        loss = student(x, target)
        with torch.set_grad_enabled(not loss.requires_grad):
            other = net(x).sum()
            with torch.enable_grad():
                third = net(x).square().sum()
                with torch.inference_mode():
                    fourth = net(x).sum()
        torch.autograd.backward([loss, third])
        return loss, other, third, other.requires_grad, fourth.item(), target.requires_grad

    run = compiled(step)
    with torch.no_grad():
        quiet = run(data(0))
    return quiet, run(data(1)), grads(net)


@pattern
def functional_transforms(compiled: Wrap) -> Any:
    net = Net()
    params = {n: p.detach() for n, p in net.named_parameters()}

    def loss(params: Any, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return (torch.func.functional_call(net, params, (x,)) - y).square().mean()

    def per_sample(params: Any, x: torch.Tensor, y: torch.Tensor) -> Any:
        return torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0, 0))(params, x, y)

    run = compiled(per_sample)
    jacobian = compiled(torch.func.jacrev(lambda x: net(x).tanh().sum(0)))
    value = compiled(lambda x: torch.func.jvp(torch.sin, (x,), (torch.ones_like(x),)))
    return [run(params, data(i), data(9, 5, 3)) for i in range(2)], jacobian(data(3)), value(data(4))


@pattern
def meta_learning(compiled: Wrap) -> Any:
    net = Net()

    def step(x: torch.Tensor) -> torch.Tensor:
        params = dict(net.named_parameters())
        inner = torch.func.functional_call(net, params, (x,)).square().mean()
        steps = torch.autograd.grad(inner, list(params.values()), create_graph=True)
        moved = {n: p - 0.1 * g for (n, p), g in zip(params.items(), steps, strict=True)}
        loss = torch.func.functional_call(net, moved, (x + 1,)).square().mean()
        loss.backward()
        return loss

    run = compiled(step)
    return [run(data(i)) for i in range(2)], grads(net)


@pattern
def lightning_like(compiled: Wrap) -> Any:
    class Task(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net, self.logged = Net(), {}

        def log(self, name: str, value: torch.Tensor, **options: Any) -> None:
            self.logged.setdefault(name, []).append(value.detach())

        def training_step(self, batch: Any, index: int) -> dict[str, torch.Tensor]:
            x, y = batch
            loss = F.mse_loss(self.net(x), y)
            self.log("loss", loss, prog_bar=True)
            return {"loss": loss, "index": torch.tensor(index)}

        def configure_optimizers(self) -> Any:
            optimizer = torch.optim.Adam(self.parameters(), lr=0.05)
            return [optimizer], [torch.optim.lr_scheduler.StepLR(optimizer, 1)]

    task = Task()
    (optimizer,), (scheduler,) = task.configure_optimizers()
    training_step = compiled(task.training_step)
    losses = []
    for i in range(3):

        def closure() -> torch.Tensor:
            out = training_step((data(i), data(9, 5, 3)), i)
            optimizer.zero_grad()
            out["loss"].backward()
            losses.append(out["loss"])
            return out["loss"]

        optimizer.step(closure)
        scheduler.step()
    return losses, state(task), task.logged


@pattern
def recurrent_by_hand(compiled: Wrap) -> Any:
    cell = nn.GRUCell(4, 6)

    def step(xs: torch.Tensor, h: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        for x in xs.unbind(0):
            h = cell(x, h)
        loss = h.square().mean()
        loss.backward()
        return loss, h.detach()

    run, h, losses = compiled(step), torch.zeros(5, 6), []
    for i in range(2):
        loss, h = run(data(i, 3, 5, 4), h)
        losses.append(loss)
    return losses, h, grads(cell)


@pattern
def unused_and_none_gradients(compiled: Wrap) -> Any:
    net, other = Net(), nn.Linear(4, 3)
    run = compiled(lambda x, use: net(x) + (other(x) if use else 0))
    run(data(0), False).sum().backward()
    first = [p.grad is None for p in other.parameters()]
    run(data(0), True).sum().backward()
    return first, grads(net), grads(other)


@pattern
def leaf_made_inside(compiled: Wrap) -> Any:
    def optimise(x: torch.Tensor) -> torch.Tensor:
        latent = torch.zeros(4, requires_grad=True)
        optimizer = torch.optim.SGD([latent], lr=0.1)
        for _ in range(2):
            optimizer.zero_grad()
            (x * latent - 1).square().mean().backward()
            optimizer.step()
        return latent.detach()

    run = compiled(optimise)
    return [run(data(i)) for i in range(2)]
