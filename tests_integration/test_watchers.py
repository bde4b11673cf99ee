"""Modes and transforms around compiled functions: what watches the program's operations sees those, and neither the compiler's
nor kernels; the default device is the program's, at each call."""

from __future__ import annotations

import functools

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts
from torch.utils.flop_counter import FlopCounterMode

import meta


@pytest.mark.parametrize("backend", ["eager", "inductor"])
def test_selective_checkpoints(backend: str) -> None:
    torch.manual_seed(0)
    layers = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 4))

    def policy(context, op, *args, **kwargs):
        return CheckpointPolicy.MUST_SAVE if op is torch.ops.aten.addmm.default else CheckpointPolicy.PREFER_RECOMPUTE

    contexts = functools.partial(create_selective_checkpoint_contexts, policy)

    def step(x: torch.Tensor) -> torch.Tensor:
        return checkpoint(layers, x, use_reentrant=False, context_fn=contexts)

    def gradients(fn, x: torch.Tensor) -> list[torch.Tensor]:
        return list(torch.autograd.grad(fn(x).square().sum(), list(layers.parameters())))

    compiled = meta.compile(step, backend=backend)
    for _ in range(2):
        x = torch.randn(3, 4, requires_grad=True)
        for got, wanted in zip(gradients(compiled, x), gradients(step, x), strict=True):
            assert type(got) is torch.Tensor
            torch.testing.assert_close(got, wanted)


@pytest.mark.parametrize("backend", ["eager", "inductor"])
def test_operations_are_counted_once(backend: str) -> None:
    layer = nn.Linear(4, 4)
    compiled = meta.compile(layer, backend=backend)
    x = torch.randn(3, 4)
    counted = []
    for fn in (layer, compiled, compiled):
        with FlopCounterMode(display=False) as counter:
            fn(x)
        counted.append(counter.get_total_flops())
        compiled(x)
    assert counted == [2 * 3 * 4 * 4] * 3


def test_numbers_drawn_within_a_transform() -> None:
    """Nothing of the call's own is transformed, but what is drawn in it is."""
    noise = meta.compile(lambda x: torch.rand_like(x) + 1)
    plain = torch.zeros(2)
    noise(plain)
    out = torch.func.vmap(lambda x: x + noise(plain), randomness="different")(torch.zeros(3, 2))
    assert len(out.unique()) == 6


def test_default_devices_are_told_apart() -> None:
    made = meta.compile(lambda x: torch.zeros(2) + x, backend="aot_eager")
    for device in ("cpu", "meta", "cpu"):
        with torch.device(device):
            assert made(1).device.type == device
    assert made(1).device.type == "cpu"


def test_what_the_compiler_computes_is_not_on_the_default_device() -> None:
    compiled = meta.compile(lambda x: torch.zeros(2, device="cpu") + x * 2)
    with torch.device("meta"):
        assert torch.equal(compiled(torch.ones(2, device="cpu")), torch.full((2,), 2.0, device="cpu"))
