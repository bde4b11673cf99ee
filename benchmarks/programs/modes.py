"""What lies around a call: the program's own modes, contexts of devices and numbers, selective checkpoints, dispatch."""

from __future__ import annotations

import functools
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from benchmarks.programs.registry import Compile, program


def mlp() -> nn.Sequential:
    return nn.Sequential(nn.Linear(6, 12), nn.GELU(), nn.LayerNorm(12), nn.Linear(12, 3))


@program()
def selective_checkpoint(compile: Compile) -> Any:
    from torch.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts

    blocks = nn.Sequential(*[nn.Sequential(nn.Linear(6, 6), nn.Dropout(0.3), nn.ReLU()) for _ in range(2)])

    def policy(context: Any, op: Any, *args: Any, **kwargs: Any) -> CheckpointPolicy:
        return CheckpointPolicy.MUST_SAVE if op is torch.ops.aten.addmm.default else CheckpointPolicy.PREFER_RECOMPUTE

    contexts = functools.partial(create_selective_checkpoint_contexts, policy)
    step = compile(lambda x: checkpoint(blocks, x, use_reentrant=False, context_fn=contexts))
    out = []
    for _ in range(2):
        x = torch.randn(3, 6, requires_grad=True)
        y = step(x)
        out += [y.detach(), torch.autograd.grad(y.square().sum(), [x, *blocks.parameters()])]
    return out


@program()
def operations_counted(compile: Compile) -> Any:
    from torch.utils.flop_counter import FlopCounterMode

    class Operations(TorchDispatchMode):
        def __init__(self) -> None:
            super().__init__()
            self.names: list[str] = []

        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            self.names.append(str(func))
            return func(*args, **(kwargs or {}))

    model = compile(mlp())
    x = torch.randn(2, 6)
    out: list[Any] = []
    for _ in range(2):
        with FlopCounterMode(display=False) as flops:
            out.append(model(x))
        with Operations() as operations:
            model(x).sum().backward()
        out += [flops.get_total_flops(), operations.names, model(x)]
    return out


@program()
def functions_patched_by_a_mode(compile: Compile) -> Any:
    class Scaled(TorchFunctionMode):
        def __init__(self, scale: float) -> None:
            super().__init__()
            self.scale = scale

        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            out = func(*args, **(kwargs or {}))
            return out * self.scale if func is F.gelu else out

    model = compile(mlp())
    x = torch.ones(2, 6)
    out = [model(x)]
    for scale in (2.0, 3.0, 2.0):
        with Scaled(scale):
            out.append(model(x))
    return [*out, model(x)]


@program()
def default_device_and_dtype(compile: Compile) -> Any:
    @compile
    def table(size: int, scale: float) -> torch.Tensor:
        return torch.arange(size) * scale + torch.zeros(size)

    out: list[Any] = []
    for device in ("cpu", "cpu", "cpu"):
        with torch.device(device):
            out.append(table(4, 0.5))
    torch.set_default_dtype(torch.float64)
    try:
        out.append(table(4, 0.5))
    finally:
        torch.set_default_dtype(torch.float32)
    return [*out, table(4, 0.5), str(table(2, 0.5).dtype)]


@program()
def noise_within_vmap(compile: Compile) -> Any:
    base = torch.zeros(3)
    noise = compile(lambda x: torch.rand_like(x) + 1)
    noise(base)
    batched = torch.func.vmap(lambda x: x * 2 + noise(base), randomness="different")
    out = batched(torch.zeros(4, 3))
    return out, len(out.unique()), noise(base)


@program()
def ensemble_by_vmap(compile: Compile) -> Any:
    from torch.func import functional_call, grad_and_value, stack_module_state, vmap

    models = [nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1)) for _ in range(3)]
    parameters, buffers = stack_module_state(models)  # type: ignore[arg-type]
    x, y = torch.randn(5, 3), torch.randn(5, 1)

    def loss(p: Any, b: Any) -> torch.Tensor:
        return F.mse_loss(functional_call(models[0], (p, b), (x,)), y)

    train = compile(lambda p, b: vmap(grad_and_value(loss))(p, b))
    values = []
    for _ in range(3):
        gradients, value = train(parameters, buffers)
        values.append(value)
        parameters = {k: (v - 0.1 * gradients[k]).detach() for k, v in parameters.items()}
    return values, parameters


@program()
def rotary_embedding_in_complex_numbers(compile: Compile) -> Any:
    weight = nn.Parameter(torch.randn(5, dtype=torch.complex64))

    @compile
    def rotate(x: torch.Tensor) -> torch.Tensor:
        pairs = torch.view_as_complex(x.reshape(*x.shape[:-1], -1, 2))
        angles = torch.outer(torch.arange(x.size(-2)), 1 / 100 ** (torch.arange(5) / 5))
        turned = pairs * torch.polar(torch.ones_like(angles), angles) * weight.conj() * 1j
        return torch.view_as_real(turned).flatten(-2)

    x = torch.randn(2, 4, 10, requires_grad=True)
    out = rotate(x)
    out.square().sum().backward()
    return out.detach(), x.grad, weight.grad


@program()
def buffer_transposed_in_place(compile: Compile) -> Any:
    @compile
    def write(x: torch.Tensor, memory: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
        memory[rows] += x
        memory[:, 0].mul_(2)
        memory.t_()
        return memory.sum(0) + 1

    memory = torch.zeros(4, 3)
    out = [write(torch.randn(2, memory.size(1)), memory, torch.tensor([0, 2])) for _ in range(4)]
    return out, memory, list(memory.stride())


@program()
def sharpness_aware_step(compile: Compile) -> Any:
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

    @torch.no_grad()
    def climb(radius: float) -> list[torch.Tensor]:
        found = [p.grad for p in model.parameters() if p.grad is not None]
        scale = radius / torch.stack([g.norm() for g in found]).norm()
        steps = [g * scale for g in found]
        torch._foreach_add_(list(model.parameters()), steps)
        return steps

    @compile
    def step(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        steps = climb(0.05)
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        with torch.no_grad():
            torch._foreach_sub_(list(model.parameters()), steps)
        optimizer.step()
        optimizer.zero_grad()
        return loss.detach()

    losses = [step(torch.randn(5, 6), torch.randint(0, 3, (5,))) for _ in range(3)]
    return losses, [p.detach() for p in model.parameters()]


@program()
def weights_loaded_between_calls(compile: Compile) -> Any:
    model = mlp()
    compiled = compile(model)
    x = torch.randn(2, 6)
    out = [compiled(x)]
    compiled.load_state_dict({k: v * 2 for k, v in model.state_dict().items()})
    out.append(compiled(x))
    model.load_state_dict({k: v * 0.5 for k, v in model.state_dict().items()}, assign=True)
    out.append(compiled(x))
    model[0].weight = nn.Parameter(torch.ones(12, 6))
    model[1] = nn.ReLU()
    out.append(compiled(x))
    model[3].weight.data = torch.zeros(3, 12)
    out.append(compiled(x))
    handle = model[0].register_forward_pre_hook(lambda module, args: (args[0] + 1,))
    out.append(compiled(x))
    handle.remove()
    model.append(nn.Tanh())
    out.append(compiled(x))
    model.requires_grad_(False)
    out.append(compiled(x))
    return [y.detach() for y in out], [y.requires_grad for y in out]


@program()
def calibrated_fake_quantization(compile: Compile) -> Any:
    class Observed(nn.Module):
        low: torch.Tensor
        high: torch.Tensor

        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("low", torch.tensor(float("inf")))
            self.register_buffer("high", torch.tensor(-float("inf")))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            if self.training:
                self.low.copy_(torch.minimum(self.low, x.detach().min()))
                self.high.copy_(torch.maximum(self.high, x.detach().max()))
            scale = (self.high - self.low).clamp(min=1e-6) / 255
            zero = (-self.low / scale).round().clamp(0, 255).to(torch.int32)
            return torch.fake_quantize_per_tensor_affine(x, scale, zero, 0, 255)

    model = nn.Sequential(Observed(), nn.Linear(4, 4), Observed())
    compiled = compile(model)
    out = []
    for _ in range(2):
        y = compiled(torch.randn(3, 4))
        y.sum().backward()
        out.append(y.detach())
    model.eval()
    return out, compiled(torch.randn(3, 4) * 5).detach(), list(model.buffers()), model[1].weight.grad
