"""Training patterns within modes: mixed precision, checkpoints, saved-tensor hooks, transforms, and whole frameworks' loops."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from tests_integration.training_patterns.registry import Net, Wrap, data, grads, pattern, state


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
