"""Derivatives as programs ask for them: higher order, functional transforms, checkpoints, hooks, own functions."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from benchmarks.programs.registry import Compile, program


@program()
def physics_informed_residual(compile: Compile) -> Any:
    net = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 1))

    @compile
    def residual(x: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        x.requires_grad_(True)
        t.requires_grad_(True)
        u = net(torch.cat([x, t], dim=1))
        u_t = torch.autograd.grad(u, t, torch.ones_like(u), create_graph=True)[0]
        u_x = torch.autograd.grad(u, x, torch.ones_like(u), create_graph=True)[0]
        u_xx = torch.autograd.grad(u_x, x, torch.ones_like(u_x), create_graph=True)[0]
        return u_t + u * u_x - 0.01 * u_xx

    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
    losses = []
    for _ in range(3):
        optimizer.zero_grad()
        loss = residual(torch.rand(20, 1), torch.rand(20, 1)).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return losses, [p.grad for p in net.parameters()]


@program()
def per_sample_gradients(compile: Compile) -> Any:
    from torch.func import functional_call, grad, vmap

    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    parameters = {k: v.detach() for k, v in model.named_parameters()}

    def loss_of(values: dict[str, torch.Tensor], x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(functional_call(model, values, (x[None],)), y[None])

    each = compile(vmap(grad(loss_of), in_dims=(None, 0, 0)))
    return each(parameters, torch.randn(6, 4), torch.randint(0, 2, (6,)))


@program()
def jacobian_and_hessian(compile: Compile) -> Any:
    from torch.func import hessian, jacrev, jvp, vjp

    matrix = torch.randn(3, 4)

    def f(x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(matrix @ x)

    @compile
    def all_of(x: torch.Tensor, v: torch.Tensor) -> Any:
        value, pull = vjp(f, x)
        return jacrev(f)(x), hessian(lambda x: f(x).sum())(x), jvp(f, (x,), (v,))[1], pull(torch.ones_like(value))[0]

    return all_of(torch.randn(4), torch.randn(4))


@program()
def maml_inner_loop(compile: Compile) -> Any:
    from torch.func import functional_call

    model = nn.Sequential(nn.Linear(1, 16), nn.ReLU(), nn.Linear(16, 1))

    def adapt(x: torch.Tensor, y: torch.Tensor) -> dict[str, torch.Tensor]:
        fast = dict(model.named_parameters())
        for _ in range(2):
            loss = F.mse_loss(functional_call(model, fast, (x,)), y)
            slopes = torch.autograd.grad(loss, list(fast.values()), create_graph=True)
            fast = {k: w - 0.1 * g for (k, w), g in zip(fast.items(), slopes, strict=True)}
        return fast

    @compile
    def meta_loss(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return F.mse_loss(functional_call(model, adapt(x, y), (x,)), y)

    x = torch.linspace(-1, 1, 10)[:, None]
    loss = meta_loss(x, x.sin())
    loss.backward()
    return loss.detach(), [p.grad for p in model.parameters()]


@program()
def checkpointed_blocks(compile: Compile) -> Any:
    from torch.utils.checkpoint import checkpoint, checkpoint_sequential

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.blocks = nn.ModuleList(nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.2), nn.GELU()) for _ in range(3))
            self.tail = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8), nn.ReLU())

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            for block in self.blocks:
                x = checkpoint(block, x, use_reentrant=False)
            return checkpoint_sequential(self.tail, 2, x, use_reentrant=False)

    model = Net()
    compiled = compile(model)
    out = []
    for _ in range(2):
        loss = compiled(torch.randn(4, 8, requires_grad=True)).square().mean()
        loss.backward()
        out.append(loss.detach())
    return out, [p.grad for p in model.parameters()]


@program()
def checkpoint_reentrant(compile: Compile) -> Any:
    from torch.utils.checkpoint import checkpoint

    first, second = nn.Linear(8, 8), nn.Linear(8, 1)

    @compile
    def loss_of(x: torch.Tensor) -> torch.Tensor:
        h = checkpoint(lambda x: torch.tanh(first(x)), x, use_reentrant=True)
        return second(h).mean()

    x = torch.randn(4, 8, requires_grad=True)
    loss_of(x).backward()
    return x.grad, [p.grad for p in (*first.parameters(), *second.parameters())]


@program()
def straight_through_quantizer(compile: Compile) -> Any:
    class Round(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor, levels: int) -> torch.Tensor:
            ctx.save_for_backward(x)
            ctx.levels = levels
            return torch.round(x.clamp(-1, 1) * levels) / levels

        @staticmethod
        def backward(ctx: Any, grad: torch.Tensor) -> Any:
            (x,) = ctx.saved_tensors
            return grad * (x.abs() <= 1), None

    class Quantized(nn.Linear):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return F.linear(Round.apply(x, 16), Round.apply(self.weight, 8), self.bias)

    model = nn.Sequential(Quantized(6, 12), nn.Tanh(), Quantized(12, 2))
    compiled = compile(model)
    loss = compiled(torch.randn(5, 6)).square().sum()
    loss.backward()
    return loss.detach(), [p.grad for p in model.parameters()]


@program()
def compiled_inside_custom_backward(compile: Compile) -> Any:
    @compile
    def slope(x: torch.Tensor, grad: torch.Tensor) -> torch.Tensor:
        s = torch.sigmoid(x)
        return grad * (s * (1 + x * (1 - s)))

    class Swish(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            ctx.save_for_backward(x)
            return x * torch.sigmoid(x)

        @staticmethod
        def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
            return slope(ctx.saved_tensors[0], grad)

    x = torch.randn(7, requires_grad=True)
    compile(lambda x: Swish.apply(x).sum())(x).backward()
    return x.grad


@program()
def forward_hooks_collect_features(compile: Compile) -> Any:
    model = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.ReLU(), nn.Conv2d(4, 4, 3, padding=1), nn.Flatten())
    seen: dict[str, torch.Tensor] = {}

    def keep(name: str) -> Any:
        def hook(module: nn.Module, inputs: Any, output: torch.Tensor) -> None:
            seen[name] = output.detach()

        return hook

    handles = [m.register_forward_hook(keep(n)) for n, m in model.named_modules() if isinstance(m, nn.Conv2d)]
    compiled = compile(model)
    out = compiled(torch.randn(2, 3, 5, 5))
    for handle in handles:
        handle.remove()
    first = dict(seen)
    seen.clear()
    compiled(torch.randn(2, 3, 5, 5))
    return out, first, len(seen)


@program()
def grad_cam(compile: Compile) -> Any:
    body = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 8, 3, padding=1), nn.ReLU())
    head = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 5))
    model = compile(nn.Sequential(body, head))
    kept: list[torch.Tensor] = []
    slopes: list[torch.Tensor] = []

    def forward_hook(module: nn.Module, args: Any, output: torch.Tensor) -> None:
        kept.append(output)
        output.register_hook(slopes.append)

    handle = body.register_forward_hook(forward_hook)
    scores = model(torch.randn(1, 3, 8, 8))
    scores[0, scores.argmax()].backward()
    handle.remove()
    weights = slopes[0].mean(dim=(2, 3), keepdim=True)
    return F.relu((weights * kept[0]).sum(1)).detach()


@program()
def tensor_and_module_backward_hooks(compile: Compile) -> Any:
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
    norms: list[torch.Tensor] = []
    model[0].register_full_backward_hook(lambda m, gi, go: norms.append(go[0].norm()))
    for p in model.parameters():
        p.register_hook(lambda g: g.clamp(-0.1, 0.1))
    compiled = compile(model)
    for _ in range(2):
        compiled(torch.randn(3, 4)).sum().backward()
    return norms, [p.grad for p in model.parameters()]


@program()
def adversarial_attack(compile: Compile) -> Any:
    model = nn.Sequential(nn.Linear(10, 20), nn.ReLU(), nn.Linear(20, 3)).requires_grad_(False)

    @compile
    def attack(x: torch.Tensor, y: torch.Tensor, steps: int = 3) -> torch.Tensor:
        delta = torch.zeros_like(x)
        for _ in range(steps):
            delta = delta.detach().requires_grad_(True)
            loss = F.cross_entropy(model(x + delta), y)
            (g,) = torch.autograd.grad(loss, delta)
            delta = (delta + 0.05 * g.sign()).clamp(-0.1, 0.1)
        return (x + delta).detach()

    return attack(torch.randn(4, 10), torch.randint(0, 3, (4,)))


@program()
def enable_grad_under_no_grad(compile: Compile) -> Any:
    energy = nn.Sequential(nn.Linear(4, 16), nn.SiLU(), nn.Linear(16, 1))

    @compile
    def force(x: torch.Tensor) -> torch.Tensor:
        with torch.enable_grad():
            x = x.detach().requires_grad_(True)
            e = energy(x).sum()
            return -torch.autograd.grad(e, x)[0]

    positions = torch.randn(5, 4)
    with torch.no_grad():
        for _ in range(3):
            positions = positions + 0.1 * force(positions)
    return positions


@program()
def retain_graph_and_double_use(compile: Compile) -> Any:
    layer = nn.Linear(3, 3)
    f = compile(lambda x: torch.tanh(layer(x)))
    x = torch.randn(2, 3, requires_grad=True)
    a, b = f(x), f(x * 2)
    (a.sum() + b.prod()).backward(retain_graph=True)
    a.square().sum().backward()
    return x.grad, [p.grad for p in layer.parameters()]


@program()
def implicit_fixed_point(compile: Compile) -> Any:
    layer = nn.Linear(6, 6)
    with torch.no_grad():
        layer.weight.mul_(0.3)

    @compile
    def solve(x: torch.Tensor, tolerance: float = 1e-5) -> tuple[torch.Tensor, int]:
        z, count = torch.zeros_like(x), 0
        with torch.no_grad():
            while True:
                new = torch.tanh(layer(z) + x)
                count += 1
                if (new - z).norm() < tolerance or count > 50:
                    break
                z = new
        return torch.tanh(layer(new) + x), count

    z, count = solve(torch.randn(3, 6))
    z.sum().backward()
    return z.detach(), count, layer.weight.grad


@program()
def forward_mode_directional(compile: Compile) -> Any:
    import torch.autograd.forward_ad as forward_ad

    layer = nn.Linear(4, 4)

    @compile
    def directional(x: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        with forward_ad.dual_level():
            out = torch.tanh(layer(forward_ad.make_dual(x, v)))
            tangent = forward_ad.unpack_dual(out).tangent
            return torch.zeros(0) if tangent is None else tangent.clone()

    return directional(torch.randn(2, 4), torch.randn(2, 4))
