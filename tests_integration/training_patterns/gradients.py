"""Training patterns that ask for gradients, of inputs and of what lies between, also to differentiate them."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from tests_integration.training_patterns.registry import Net, Wrap, data, grads, pattern


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
def gradient_penalty_under_spectral_norm(compiled: Wrap) -> Any:
    """Its running vectors are written to in the forward, and computed with."""
    spectral = nn.utils.parametrizations.spectral_norm
    net = nn.Sequential(spectral(nn.Linear(4, 6)), nn.Tanh(), spectral(nn.Linear(6, 2)))
    run = compiled(lambda x: net(x).unbind(1))
    for i in range(2):
        x = data(i).requires_grad_()
        one, two = run(x)
        (g,) = torch.autograd.grad((one + two.square()).sum(), x, create_graph=True)
        (one.square().mean() + (g.norm(dim=1) - 1).square().mean()).backward()
    return grads(net), list(net.buffers())


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
