"""Training loops in plain torch: whole steps, optimizers, schedules, accumulation, averaging, logging."""

from __future__ import annotations

import copy
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from benchmarks.programs.registry import Compile, program


def mlp(inputs: int = 8, outputs: int = 3) -> nn.Sequential:
    return nn.Sequential(nn.Linear(inputs, 16), nn.GELU(), nn.LayerNorm(16), nn.Linear(16, outputs))


def weights(model: nn.Module) -> list[torch.Tensor]:
    return [p.detach().clone() for p in model.parameters()]


@program()
def whole_step(compile: Compile) -> Any:
    model = mlp()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 10)

    @compile
    def step(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        scheduler.step()
        return loss.detach()

    x, y = torch.randn(32, 8), torch.randint(0, 3, (32,))
    losses = [step(x, y) for _ in range(5)]
    return losses, weights(model), scheduler.get_last_lr()


@program()
def backward_inside(compile: Compile) -> Any:
    layer = nn.Linear(4, 4)

    @compile
    def gradients(x: torch.Tensor) -> torch.Tensor:
        loss = layer(x).pow(2).mean()
        loss.backward()
        return loss.detach()

    return [gradients(torch.randn(6, 4)) for _ in range(3)], [p.grad for p in layer.parameters()]


@program()
def epochs_with_item_logging(compile: Compile) -> Any:
    from torch.utils.data import DataLoader, TensorDataset

    model = mlp()
    compiled = compile(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    data = TensorDataset(torch.randn(50, 8), torch.randint(0, 3, (50,)))
    history: list[float] = []
    for epoch in range(2):
        running, correct = 0.0, 0
        for x, y in DataLoader(data, batch_size=16, shuffle=True, generator=torch.Generator().manual_seed(epoch)):
            optimizer.zero_grad(set_to_none=True)
            logits = compiled(x)
            loss = F.cross_entropy(logits, y)
            loss.backward()
            optimizer.step()
            running += loss.item() * len(x)
            correct += int((logits.argmax(-1) == y).sum().item())
        history += [running / len(data), correct / len(data)]
    return history, weights(model)


@program()
def compiled_epoch_function(compile: Compile) -> Any:
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    batches = [(torch.randn(8, 8), torch.randint(0, 3, (8,))) for _ in range(4)]
    log: list[str] = []

    @compile
    def epoch(number: int) -> float:
        total = 0.0
        for i, (x, y) in enumerate(batches):
            loss = F.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
            if i % 2 == 0:
                log.append(f"epoch {number} batch {i}: {loss.item():.3f}")
        return total / len(batches)

    return [epoch(n) for n in range(3)], log, weights(model)


@program()
def gradient_accumulation(compile: Compile) -> Any:
    model = mlp()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)

    @compile
    def micro(x: torch.Tensor, y: torch.Tensor, steps: int) -> torch.Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = F.cross_entropy(model(x).float(), y) / steps
        loss.backward()
        return loss.detach()

    losses = []
    for i in range(6):
        losses.append(micro(torch.randn(8, 8), torch.randint(0, 3, (8,)), 3))
        if (i + 1) % 3 == 0:
            optimizer.step()
            optimizer.zero_grad()
    return losses, [torch.linalg.vector_norm(w) for w in weights(model)]


@program(tolerance=2e-2)
def grad_scaler(compile: Compile) -> Any:
    model = mlp()
    compiled = compile(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=128.0)
    losses = []
    for _ in range(4):
        x, y = torch.randn(16, 8), torch.randint(0, 3, (16,))
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            loss = F.cross_entropy(compiled(x), y)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        losses.append(loss.detach().float())
    return losses, scaler.get_scale()


@program()
def optimizers_compiled(compile: Compile) -> Any:
    kinds = (torch.optim.SGD, torch.optim.AdamW, torch.optim.RMSprop, torch.optim.Adagrad)
    found = []
    for kind in kinds:
        torch.manual_seed(3)
        model = mlp()
        optimizer = kind(model.parameters(), lr=1e-2)
        step = compile(optimizer.step)
        for _ in range(3):
            optimizer.zero_grad()
            model(torch.randn(8, 8)).square().mean().backward()
            step()
        found.append(weights(model))
    return found


@program(tolerance=1e-2)
def lbfgs(compile: Compile) -> Any:
    x = torch.linspace(-1, 1, 40)[:, None]
    y = torch.sin(3 * x)
    model = nn.Sequential(nn.Linear(1, 16), nn.Tanh(), nn.Linear(16, 1))
    loss_of = compile(lambda: F.mse_loss(model(x), y))
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=5, line_search_fn="strong_wolfe")

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss: torch.Tensor = loss_of()
        loss.backward()
        return loss

    return [optimizer.step(closure).detach() for _ in range(2)]


@program()
def gan(compile: Compile) -> Any:
    generator = nn.Sequential(nn.Linear(4, 16), nn.LeakyReLU(0.2), nn.Linear(16, 8))
    critic = nn.Sequential(nn.Linear(8, 16), nn.LeakyReLU(0.2), nn.Linear(16, 1))
    g, d = compile(generator), compile(critic)
    g_opt = torch.optim.Adam(generator.parameters(), lr=1e-3, betas=(0.5, 0.9))
    d_opt = torch.optim.Adam(critic.parameters(), lr=1e-3, betas=(0.5, 0.9))
    losses = []
    for _ in range(3):
        real, noise = torch.randn(16, 8) + 2, torch.randn(16, 4)
        fake = g(noise)
        d_loss = F.softplus(-d(real)).mean() + F.softplus(d(fake.detach())).mean()
        d_opt.zero_grad()
        d_loss.backward()
        d_opt.step()
        g_loss = F.softplus(-d(fake)).mean()
        g_opt.zero_grad()
        g_loss.backward()
        g_opt.step()
        losses += [d_loss.detach(), g_loss.detach()]
    return losses, weights(generator), weights(critic)


@program()
def gradient_penalty(compile: Compile) -> Any:
    critic = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1))

    @compile
    def penalty(real: torch.Tensor, fake: torch.Tensor, mix: torch.Tensor) -> torch.Tensor:
        between = (mix * real + (1 - mix) * fake).requires_grad_(True)
        score = critic(between)
        (slope,) = torch.autograd.grad(score.sum(), between, create_graph=True)
        return (slope.norm(2, dim=1) - 1).square().mean()

    value = penalty(torch.randn(6, 8), torch.randn(6, 8), torch.rand(6, 1))
    value.backward()
    return value.detach(), [p.grad for p in critic.parameters()]


@program()
def swa_averaged_model(compile: Compile) -> Any:
    from torch.optim.swa_utils import SWALR, AveragedModel, get_ema_multi_avg_fn, update_bn

    model = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 3))
    compiled = compile(model)
    average = AveragedModel(compiled)
    ema = AveragedModel(compiled, multi_avg_fn=get_ema_multi_avg_fn(0.9))
    optimizer = torch.optim.SGD(compiled.parameters(), lr=0.1)
    schedule = SWALR(optimizer, swa_lr=0.05, anneal_epochs=2)
    data = [torch.randn(16, 8) for _ in range(4)]
    for x in data:
        optimizer.zero_grad()
        compiled(x).square().mean().backward()
        optimizer.step()
        average.update_parameters(compiled)
        ema.update_parameters(compiled)
        schedule.step()
    update_bn(data, average)
    average.eval()
    ema.eval()
    return average(data[0]), ema(data[0]), [p.detach() for p in average.parameters()]


@program()
def teacher_by_deepcopy(compile: Compile) -> Any:
    student = compile(mlp())
    teacher = copy.deepcopy(student).requires_grad_(False)
    optimizer = torch.optim.SGD(student.parameters(), lr=0.5)
    for _ in range(3):
        x = torch.randn(8, 8)
        with torch.no_grad():
            target = teacher(x + 0.1)
        loss = F.mse_loss(student(x), target + 1)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            for slow, fast in zip(teacher.parameters(), student.parameters(), strict=True):
                slow.lerp_(fast, 0.1)
    return [p.detach() for p in teacher.parameters()], [p.detach() for p in student.parameters()]


@program()
def one_cycle_with_warm_restart(compile: Compile) -> Any:
    model = mlp()
    compiled = compile(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.1)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=0.1, total_steps=6)
    rates, saved = [], {}
    for i in range(6):
        optimizer.zero_grad()
        compiled(torch.ones(4, 8) * i).logsumexp(-1).mean().backward()
        optimizer.step()
        schedule.step()
        rates.append(schedule.get_last_lr()[0])
        if i == 2:
            saved = copy.deepcopy({"model": compiled.state_dict(), "optimizer": optimizer.state_dict()})
    after = compiled(torch.ones(1, 8)).detach()
    compiled.load_state_dict(saved["model"])
    optimizer.load_state_dict(saved["optimizer"])
    return rates, after, compiled(torch.ones(1, 8)).detach()


@program()
def frozen_backbone_then_unfrozen(compile: Compile) -> Any:
    backbone, head = mlp(8, 6), nn.Linear(6, 2)
    model = compile(nn.Sequential(backbone, head))
    backbone.requires_grad_(False)
    x = torch.randn(5, 8)
    model(x).sum().backward()
    first = [p.grad is None for p in backbone.parameters()]
    backbone.requires_grad_(True)
    model(x).sum().backward()
    return first, [p.grad for p in model.parameters()]


@program()
def knowledge_distillation(compile: Compile) -> Any:
    teacher, student = mlp().eval(), mlp()

    @compile
    def loss_of(x: torch.Tensor, y: torch.Tensor, temperature: float) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        with torch.no_grad():
            wanted = F.softmax(teacher(x) / temperature, dim=-1)
        logits = student(x)
        soft = F.kl_div(F.log_softmax(logits / temperature, dim=-1), wanted, reduction="batchmean") * temperature**2
        hard = F.cross_entropy(logits, y, label_smoothing=0.1)
        return 0.5 * soft + 0.5 * hard, {"soft": soft.detach(), "hard": hard.detach()}

    out = []
    for temperature in (1.0, 2.0, 4.0):
        loss, parts = loss_of(torch.randn(8, 8), torch.randint(0, 3, (8,)), temperature)
        loss.backward()
        out += [loss.detach(), parts["soft"], parts["hard"]]
    return out, [p.grad for p in student.parameters()]


@program()
def trainer_with_callbacks(compile: Compile) -> Any:
    class Callback:
        def on_step(self, trainer: Trainer, loss: torch.Tensor) -> None: ...

    class Smooth(Callback):
        value: float | None = None

        def on_step(self, trainer: Trainer, loss: torch.Tensor) -> None:
            self.value = loss.item() if self.value is None else 0.9 * self.value + 0.1 * loss.item()

    class Stop(Callback):
        def __init__(self, limit: int) -> None:
            self.limit = limit

        def on_step(self, trainer: Trainer, loss: torch.Tensor) -> None:
            trainer.done = trainer.steps >= self.limit

    class Trainer:
        def __init__(self, model: nn.Module, callbacks: list[Callback]) -> None:
            self.model, self.callbacks = model, callbacks
            self.optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            self.steps, self.done = 0, False
            self.step = compile(self.step)  # type: ignore[method-assign]

        def step(self, x: torch.Tensor) -> None:
            self.optimizer.zero_grad()
            loss = self.model(x).square().mean()
            loss.backward()
            self.optimizer.step()
            self.steps += 1
            for callback in self.callbacks:
                callback.on_step(self, loss)

        def fit(self) -> None:
            while not self.done:
                self.step(torch.randn(4, 8))

    smooth = Smooth()
    trainer = Trainer(mlp(), [smooth, Stop(4)])
    trainer.fit()
    return trainer.steps, smooth.value, weights(trainer.model)


@program()
def validation_in_the_loop(compile: Compile) -> Any:
    model = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.Dropout(0.0), nn.ReLU(), nn.Linear(16, 3))
    compiled = compile(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scores, best = [], (float("inf"), -1)
    for epoch in range(3):
        compiled.train()
        for size in (16, 16, 7):
            optimizer.zero_grad()
            F.cross_entropy(compiled(torch.randn(size, 8)), torch.randint(0, 3, (size,))).backward()
            optimizer.step()
        compiled.eval()
        with torch.inference_mode():
            score = F.cross_entropy(compiled(torch.randn(9, 8)), torch.randint(0, 3, (9,))).item()
        if score < best[0]:
            best = (score, epoch)
        scores.append(score)
    return scores, best, model[1].running_mean, model[1].num_batches_tracked
