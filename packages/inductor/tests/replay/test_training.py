"""Forwards and backwards that are recorded: what is saved stays until it is read, whoever calls what in which order."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from inductor_recording import Counted, Kept, recording
from torch import nn
from torch.utils.checkpoint import checkpoint

import aotgrad
from inductor.replay.forms import MOST_RECORDINGS

W = torch.randn(8, 8, generator=torch.Generator().manual_seed(0), requires_grad=True)
B = torch.randn(8, generator=torch.Generator().manual_seed(1), requires_grad=True)


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(0)


def program(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor]:
    y = torch.tanh(F.linear(x, w, b))
    return (F.layer_norm(x + torch.sigmoid(y) * y, (8,)),)


def compiled(run: Callable[..., Any], *inputs: Any, **options: Any) -> tuple[Callable[..., Any], Kept, list[Counted]]:
    compiler, recorder, graphs = recording()
    return aotgrad.compile(run, list(inputs), inference_compiler=compiler, **options), recorder, graphs


def example() -> tuple[Callable[..., Any], Kept, list[Counted]]:
    return compiled(program, torch.randn(3, 8), W, B)


def gradients(loss: torch.Tensor, **options: Any) -> list[torch.Tensor]:
    return [*torch.autograd.grad(loss, [W, B], **options)]


def step(run: Callable[..., Any], x: torch.Tensor) -> list[torch.Tensor]:
    return gradients(run(x, W, B)[0].pow(3).sum())


def same(found: list[torch.Tensor], x: torch.Tensor) -> None:
    for one, other in zip(found, step(program, x), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)


def warm(run: Callable[..., Any]) -> None:
    """Until all is recorded, for inputs that lie elsewhere each time."""
    for x in [torch.randn(3, 8) for _ in range(5)]:
        same(step(run, x), x)


def test_both_are_replayed_and_gradients_stay() -> None:
    run, recorder, graphs = example()
    kept = []
    for _ in range(8):
        x = torch.randn(3, 8)
        kept.append((x, step(run, x)))
    for x, found in kept:
        same(found, x)
    assert recorder.apart == 1
    assert recorder.recorded <= MOST_RECORDINGS  # where tangents lie is the allocator's choice
    before = recorder.replays, [graph.calls for graph in graphs]
    x = torch.randn(3, 8)
    W.grad = B.grad = None
    run(x, W, B)[0].pow(3).sum().backward()
    assert W.grad is not None and B.grad is not None
    first = W.grad
    same([W.grad, B.grad], x)
    run(x, W, B)[0].pow(3).sum().backward()
    assert W.grad is first
    same([W.grad / 2, B.grad / 2], x)
    W.grad = B.grad = None
    assert recorder.replays == before[0] + 4


def test_two_forwards_before_their_backwards() -> None:
    run, recorder, _ = example()
    warm(run)
    for order in ((0, 1, 2), (2, 1, 0), (1, 2, 0)):
        batches = [torch.randn(3, 8) for _ in range(3)]
        replays = recorder.replays
        losses = [run(x, W, B)[0].pow(3).sum() for x in batches]
        assert recorder.replays == replays + 1
        for at in order:
            same(gradients(losses[at]), batches[at])
        assert recorder.replays == replays + 2


def test_a_graph_that_is_kept() -> None:
    run, recorder, _ = example()
    warm(run)
    x, y = torch.randn(3, 8), torch.randn(3, 8)
    loss = run(x, W, B)[0].pow(3).sum()
    same(gradients(loss, retain_graph=True), x)
    same(step(run, y), y)
    same(gradients(loss, retain_graph=True), x)
    same(gradients(loss), x)
    del loss
    replays = recorder.replays
    same(step(run, y), y)
    assert recorder.replays == replays + 2


HOLDERS: dict[str, tuple[Callable[[torch.Tensor], Any], Callable[[Any], torch.Tensor]]] = {
    "tensor": (lambda t: t, lambda t: t),
    "view": (lambda t: t[:1], lambda t: t),
    "detached": (lambda t: t.detach(), lambda t: t),
    "data": (lambda t: t.data, lambda t: t),
    "parameter": (nn.Parameter, lambda t: t.detach()),
    "array": (lambda t: t.numpy(), torch.from_numpy),
    "capsule": (torch.utils.dlpack.to_dlpack, torch.from_dlpack),
    "storage": (lambda t: t.untyped_storage(), lambda s: torch.empty(0).set_(s)),
}
"""How memory is held, and a tensor over what is held."""


@pytest.mark.parametrize("how", HOLDERS)
def test_who_holds_what_was_saved(how: str) -> None:
    hold, read = HOLDERS[how]
    run, recorder, _ = example()
    warm(run)
    x = torch.randn(3, 8)
    out = run(x, W, B)[0]
    held = [hold(t.detach() if t.requires_grad else t) for t in out.grad_fn.saved_tensors]
    copies = [read(hold(t.detach())).clone() for t in out.grad_fn.saved_tensors]  # a capsule is read once
    same(gradients(out.pow(3).sum()), x)
    del out
    for _ in range(3):
        y = torch.randn(3, 8)
        same(step(run, y), y)
    for one, other in zip(held, copies, strict=True):
        torch.testing.assert_close(read(one), other)
    del held, one
    replays = recorder.replays
    same(step(run, x), x)
    assert recorder.replays == replays + 2


def _elsewhere(saved: torch.Tensor) -> None:
    saved.data = saved.clone()


@pytest.mark.parametrize(
    "give", [_elsewhere, lambda saved: saved.untyped_storage().resize_(0), lambda saved: saved.resize_(1 << 20)]
)
def test_what_was_saved_is_given_other_memory(give: Callable[[torch.Tensor], object]) -> None:
    run, _, _ = example()
    warm(run)
    x = torch.randn(3, 8)
    out = run(x, W, B)[0]
    own = {t.data_ptr() for t in (x, W, B, out)}
    saved = [t for t in out.grad_fn.saved_tensors if t.data_ptr() not in own]
    same(gradients(out.pow(3).sum()), x)
    assert saved
    for each in saved:
        give(each)
    del out, saved, each
    for _ in range(4):
        y = torch.randn(3, 8)
        same(step(run, y), y)


def test_a_forward_without_its_backward() -> None:
    run, recorder, _ = example()
    warm(run)
    for _ in range(4):
        x = torch.randn(3, 8)
        out = run(x, W, B)[0]
        torch.testing.assert_close(out, program(x, W, B)[0])
    del out
    replays = recorder.replays
    x = torch.randn(3, 8)
    same(step(run, x), x)
    assert recorder.replays == replays + 2


def test_twice() -> None:
    run, _, _ = example()
    warm(run)

    def penalty(run: Callable[..., Any], x: torch.Tensor) -> list[torch.Tensor]:
        loss = run(x, W, B)[0].pow(3).sum()
        first = torch.autograd.grad(loss, [W, B], create_graph=True)
        return gradients(loss + sum(g.square().sum() for g in first))

    for _ in range(3):
        x = torch.randn(3, 8)
        for one, other in zip(penalty(run, x), penalty(program, x), strict=True):
            torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-3)
        same(step(run, x), x)


@pytest.mark.parametrize("reentrant", [False, True])
def test_computed_again_for_the_backward(reentrant: bool) -> None:
    run, recorder, _ = compiled(program, torch.randn(3, 8, requires_grad=True), W, B)

    def deep(run: Callable[..., Any], x: torch.Tensor) -> list[torch.Tensor]:
        for _ in range(3):
            x = checkpoint(lambda x: run(x, W, B)[0], x, use_reentrant=reentrant)
        return _backward(x.pow(3).sum())

    for _ in range(6):
        x = torch.randn(3, 8, requires_grad=True)
        for one, other in zip(deep(run, x), deep(program, x), strict=True):
            torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)
    assert recorder.replays


def _backward(loss: torch.Tensor) -> list[torch.Tensor]:
    W.grad = B.grad = None
    loss.backward()
    found = [t.grad for t in (W, B) if t.grad is not None]
    W.grad = B.grad = None
    return found


def test_saved_elsewhere() -> None:
    run, _recorder, _ = example()
    warm(run)
    for _ in range(3):
        x = torch.randn(3, 8)
        with torch.autograd.graph.save_on_cpu():
            loss = run(x, W, B)[0].pow(3).sum()
        same(gradients(loss), x)


def test_random_numbers_are_the_same_in_both_and_others_each_time() -> None:
    def drops(x: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor]:
        return (F.dropout(x @ w, 0.5).tanh(),)

    run, recorder, _ = compiled(drops, torch.randn(3, 8), W)
    seen = []
    for _ in range(8):
        x = torch.randn(3, 8) + 3
        (out,) = run(x, W)
        (found,) = torch.autograd.grad(out.sum(), [W])
        kept = (out != 0).float()
        expected = x.t() @ ((1 - out.square()) * kept * 2)
        torch.testing.assert_close(found, expected)
        seen.append(kept)
    assert recorder.replays >= 10
    assert any(not torch.equal(seen[-1], one) for one in seen[:-1])
    torch.manual_seed(3)
    (first,) = run(x, W)
    del out
    torch.manual_seed(3)
    (second,) = run(x, W)
    torch.testing.assert_close(first, second)


def test_buffers_are_written_to() -> None:
    torch.manual_seed(0)
    norm, other = nn.BatchNorm1d(8), nn.BatchNorm1d(8)

    def train(x: torch.Tensor, w: torch.Tensor, mean: torch.Tensor, var: torch.Tensor) -> tuple[torch.Tensor]:
        return (F.batch_norm(x @ w, mean, var, training=True).tanh(),)

    run, recorder, _ = compiled(train, torch.randn(5, 8), W, norm.running_mean, norm.running_var)
    for _ in range(6):
        x = torch.randn(5, 8)
        results = []
        for each, which in ((run, norm), (train, other)):
            loss = each(x, W, which.running_mean, which.running_var)[0].pow(3).sum()
            results.append(torch.autograd.grad(loss, [W])[0])
        torch.testing.assert_close(*results)
        torch.testing.assert_close(norm.running_mean, other.running_mean)
        torch.testing.assert_close(norm.running_var, other.running_var)
    assert recorder.replays


def test_parameters_that_are_replaced() -> None:
    run, _recorder, _ = example()
    warm(run)
    before = W.data
    try:
        for _ in range(3):
            W.data = torch.randn(8, 8)
            for _ in range(3):
                x = torch.randn(3, 8)
                same(step(run, x), x)
    finally:
        W.data = before
    x = torch.randn(3, 8)
    same(step(run, x), x)


def test_a_tangent_that_is_a_gradient() -> None:
    run, _recorder, _ = compiled(lambda x, w: (x + w, x * w), torch.randn(8, requires_grad=True), B)
    for _ in range(6):
        x = torch.randn(8, requires_grad=True)
        tangents = torch.randn(8), torch.randn(8)
        found = torch.autograd.grad(run(x, B), [x, B], tangents)
        for one, other in zip(found, (tangents[0] + tangents[1] * B, tangents[0] + tangents[1] * x), strict=True):
            torch.testing.assert_close(one, other)


def test_memory_goes_with_the_graph() -> None:
    run, _recorder, graphs = example()
    warm(run)
    x = torch.randn(3, 8)
    loss = run(x, W, B)[0].pow(3).sum()
    del run, graphs
    gc.collect()
    same(gradients(loss), x)
