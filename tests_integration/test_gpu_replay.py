"""`mode="reduce-overhead"` on a GPU: graphs are recorded once and replayed. Elsewhere skipped.

`TRITON_INTERPRET=0 pytest tests_integration/test_gpu_replay.py` runs them.
"""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import capture
import meta

pytestmark = pytest.mark.skipif(
    not torch.cuda.is_available() or os.environ["TRITON_INTERPRET"] != "0",
    reason="needs a CUDA GPU, and Triton's compiler in place of its interpreter (TRITON_INTERPRET=0)",
)


@pytest.fixture(autouse=True)
def _raising() -> Iterator[None]:
    before, capture.config.on_error = capture.config.on_error, "raise"
    meta.reset()
    yield
    capture.config.on_error = before


def compiled(program: Any, **options: Any) -> Any:
    return meta.compile(program, mode="reduce-overhead", options=options or None)


class Block(nn.Module):
    def __init__(self, width: int = 64, dropout: float = 0.0) -> None:
        super().__init__()
        self.up, self.down, self.norm = nn.Linear(width, 4 * width), nn.Linear(4 * width, width), nn.LayerNorm(width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(x + self.dropout(self.down(F.gelu(self.up(x)))))


def launches(run: Callable[[], Any]) -> list[str]:
    """What the host asked the driver for."""
    with torch.profiler.profile(
        activities=[torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    ) as profile:
        run()
        torch.cuda.synchronize()
    return [event.name for event in profile.events() if "Launch" in event.name]


@torch.no_grad()
def test_launches_are_replayed_and_results_stay() -> None:
    torch.manual_seed(0)
    block = nn.Sequential(*(Block() for _ in range(4))).cuda()
    run = compiled(block)
    kept = []
    x = torch.randn(8, 64, device="cuda")
    for _ in range(6):
        x = torch.randn(8, 64, device="cuda")
        kept.append((run(x), block(x)))
    for found, expected in kept:
        torch.testing.assert_close(found, expected)
    names = launches(lambda: run(x))
    assert sum("GraphLaunch" in name for name in names) == 1
    assert len(names) <= 3  # the input's copy, the graph, the result's copy


@torch.no_grad()
def test_parameters_changed_in_place_and_replaced() -> None:
    block = Block().cuda()
    run = compiled(block)
    x = torch.randn(8, 64, device="cuda")
    for at in range(12):
        if at in (3, 4):
            block.up.weight.mul_(1.5)
        if at in (6, 8, 10):
            block.up.weight.data = torch.randn_like(block.up.weight)
        torch.testing.assert_close(run(x), block(x))


@torch.no_grad()
def test_random_numbers_are_fresh_and_follow_the_seed() -> None:
    run = compiled(lambda x: torch.rand_like(x) + torch.rand_like(x).mul(2))
    x = torch.empty(1000, device="cuda")
    torch.manual_seed(7)
    first = [run(x) for _ in range(5)]
    torch.manual_seed(7)
    second = [run(x) for _ in range(5)]
    for a, b in zip(first, second, strict=True):
        assert torch.equal(a, b)
    assert not torch.equal(first[3], first[4])
    torch.cuda.synchronize()
    torch.randn(3, device="cuda")  # the generator is in order for others


@torch.no_grad()
def test_changing_sizes() -> None:
    block = Block().cuda()
    run = compiled(block)
    for _ in range(2):
        for rows in (8, 8, 8, 5, 9, 7, 8, 5, 3, 4, 2, 11, 13, 17, 19, 8, 5):
            x = torch.randn(rows, 64, device="cuda")
            torch.testing.assert_close(run(x), block(x))


@torch.no_grad()
def test_a_cache_is_written_to() -> None:
    def step(cache: torch.Tensor, at: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        cache.index_copy_(1, at, x)
        return (cache * x).sum(-1)

    run = compiled(step)
    cache, other = torch.zeros(2, 16, 8, device="cuda"), torch.zeros(2, 16, 8, device="cuda")
    for at in range(16):
        x = torch.randn(2, 1, 8, device="cuda")
        where = torch.tensor([at], device="cuda")
        torch.testing.assert_close(run(cache, where, x), step(other, where, x))
        torch.testing.assert_close(cache, other)


@torch.no_grad()
def test_graphs_share_memory_and_streams_and_threads() -> None:
    blocks = [Block(width).cuda() for width in (64, 128, 64)]
    runs = [compiled(block) for block in blocks]
    failed: list[BaseException] = []

    def work(number: int) -> None:
        try:
            with torch.no_grad(), torch.cuda.stream(torch.cuda.Stream()):
                for at in range(30):
                    which = (at + number) % 3
                    x = torch.randn(32, blocks[which].norm.normalized_shape[0], device="cuda")
                    found, expected = runs[which](x), blocks[which](x)
                    torch.cuda.current_stream().synchronize()
                    torch.testing.assert_close(found, expected)
        except BaseException as error:  # told below, in the test's own thread
            failed.append(error)

    for count in (1, 4):
        threads = [threading.Thread(target=work, args=(n,)) for n in range(count)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if failed:
            raise failed[0]


@torch.no_grad()
def test_a_position_out_of_range_is_told_by_a_later_call() -> None:
    table = torch.randn(10, 8, device="cuda")
    run = compiled(lambda i: F.embedding(i, table) + 1)
    index = torch.arange(4, device="cuda")
    for _ in range(3):
        torch.testing.assert_close(run(index), table[index] + 1)
    index[1] = 10
    with pytest.raises(IndexError):
        for _ in range(3):
            run(index)
            torch.cuda.synchronize()
    index[1] = 1
    torch.cuda.synchronize()
    torch.testing.assert_close(run(index), table[index] + 1)


@torch.no_grad()
@pytest.mark.parametrize(
    "program",
    [
        lambda x: x[x > 0] * 2,
        lambda x: x * x.sum().item(),
        lambda x: x.cpu() + 1,
        lambda x: torch.linalg.solve(x[:8, :8] + 9 * torch.eye(8, device="cuda"), x[:8]) + 1,
    ],
)
def test_what_cannot_be_recorded_still_runs(program: Callable[..., Any]) -> None:
    run = compiled(program)
    for _ in range(4):
        x = torch.randn(16, 8, device="cuda")
        torch.testing.assert_close(run(x), program(x))
    torch.rand(3, device="cuda").sum().item()


@torch.no_grad()
def test_inside_a_graph_of_the_programs_own() -> None:
    block = Block().cuda()
    run = compiled(block)
    x = torch.randn(8, 64, device="cuda")
    for _ in range(3):
        run(x)
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        run(x)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = run(x)
    x.normal_()
    graph.replay()
    torch.testing.assert_close(result, block(x))


def gradients(step: Any, block: nn.Module, x: torch.Tensor) -> list[torch.Tensor]:
    block.zero_grad()
    step(x).pow(3).sum().backward()
    return [p.grad for p in block.parameters() if p.grad is not None]


def equal(found: list[torch.Tensor], expected: list[torch.Tensor]) -> None:
    for a, b in zip(found, expected, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-3)


def test_training_is_replayed_and_gradients_stay() -> None:
    torch.manual_seed(0)
    block = nn.Sequential(*(Block() for _ in range(4))).cuda()
    run = compiled(block)
    kept = []
    for _ in range(8):
        x = torch.randn(8, 64, device="cuda")
        kept.append((gradients(run, block, x), gradients(block, block, x)))
    for found, expected in kept:
        equal(found, expected)
    x = torch.randn(8, 64, device="cuda")
    names = launches(lambda: gradients(run, block, x))
    assert sum("GraphLaunch" in name for name in names) == 2


def test_training_in_any_order_with_graphs_that_are_kept() -> None:
    torch.manual_seed(0)
    block = Block().cuda()
    run = compiled(block)
    for _ in range(4):
        gradients(run, block, torch.randn(8, 64, device="cuda"))
    for order in ((0, 1, 2), (2, 1, 0)):
        batches = [torch.randn(8, 64, device="cuda") for _ in range(3)]
        losses = [run(x).pow(3).sum() for x in batches]
        for at in order:
            for keep in (True, False):
                block.zero_grad()
                losses[at].backward(retain_graph=keep)
                found = [p.grad for p in block.parameters() if p.grad is not None]
                equal(found, gradients(block, block, batches[at]))
        gradients(run, block, batches[0])


def test_training_draws_the_same_numbers_in_both_and_others_each_time() -> None:
    torch.manual_seed(0)
    weight = torch.randn(64, 64, device="cuda", requires_grad=True)
    run = compiled(lambda x, w: F.dropout(x @ w, 0.5).tanh())
    seen = []
    for at in range(8):
        if at in (4, 6):
            torch.manual_seed(5)
        x = torch.randn(8, 64, device="cuda")
        out = run(x, weight)
        (found,) = torch.autograd.grad(out.sum(), [weight])
        kept = (out != 0).float()
        torch.testing.assert_close(found, x.t() @ ((1 - out.square()) * kept * 2), rtol=1e-3, atol=1e-3)
        seen.append(kept.detach())
    assert not torch.equal(seen[-1], seen[-2])
    assert torch.equal(seen[4], seen[6])


def test_training_steps_of_an_optimizer() -> None:
    torch.manual_seed(0)
    block, other = Block().cuda(), Block().cuda()
    other.load_state_dict(block.state_dict())
    run = compiled(block)
    optimizers = [torch.optim.AdamW(each.parameters(), lr=1e-3) for each in (block, other)]
    for _ in range(10):
        x = torch.randn(8, 64, device="cuda")
        for step, optimizer in zip((run, other), optimizers, strict=True):
            optimizer.zero_grad()
            step(x).pow(3).mean().backward()
            optimizer.step()
    equal([*block.parameters()], [*other.parameters()])


def test_training_where_forwards_change_sizes() -> None:
    torch.manual_seed(0)
    block = Block().cuda()
    run = compiled(block)
    for rows in (8, 8, 8, 5, 8, 5, 7, 5, 7, 8, 7, 5, 5, 8):
        x = torch.randn(rows, 64, device="cuda")
        equal(gradients(run, block, x), gradients(block, block, x))


@torch.no_grad()
def test_a_kernel_of_the_programs_own() -> None:
    triton = pytest.importorskip("triton")
    from tests_integration.test_user_triton import added, summed_kernel

    def program(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        total = torch.zeros(1, device=x.device)
        n = x.numel()
        summed_kernel[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](x, total, n)
        return added(x.sin(), y) * total

    run = compiled(program)
    for _ in range(5):
        x, y = torch.randn(100, device="cuda"), torch.randn(100, device="cuda")
        torch.testing.assert_close(run(x, y), program(x, y))
    names = launches(lambda: run(x, y))
    assert sum("GraphLaunch" in name for name in names) == 1


@torch.no_grad()
def test_numbers_that_change_each_call_leave_what_is_recorded() -> None:
    run = compiled(lambda x, by: (x * by).sin().sum(-1) + by)
    x = torch.randn(8, 64, device="cuda")
    for at in range(60):
        by = 0.5 if at % 2 else 1 / (at + 3)
        torch.testing.assert_close(run(x, by), (x * by).sin().sum(-1) + by)
    assert sum("GraphLaunch" in name for name in launches(lambda: run(x, 0.5))) == 1


@torch.no_grad()
def test_another_cache_for_each_text() -> None:
    def step(cache: torch.Tensor, at: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        cache.index_copy_(1, at, x)
        return (cache * x).sum(-1)

    run = compiled(step)
    for _ in range(6):
        cache, other = torch.zeros(2, 64, 8, device="cuda"), torch.zeros(2, 64, 8, device="cuda")
        for at in range(40):
            x = torch.randn(2, 1, 8, device="cuda")
            where = torch.tensor([at], device="cuda")
            torch.testing.assert_close(run(cache, where, x), step(other, where, x))
        names = launches(lambda: run(cache, where, x))
        assert sum("GraphLaunch" in name for name in names) == 1


@torch.no_grad()
def test_what_cannot_be_recorded_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    from inductor.triton import recorder

    block = Block().cuda()
    run = compiled(block)
    x = torch.randn(8, 64, device="cuda")
    begin = torch.cuda.CUDAGraph.capture_begin

    def refuse(*args: Any, **kwargs: Any) -> None:
        raise RuntimeError("not now")

    run(x)
    monkeypatch.setattr(torch.cuda.CUDAGraph, "capture_begin", refuse)
    for _ in range(4):
        torch.testing.assert_close(run(x), block(x))
    monkeypatch.setattr(torch.cuda.CUDAGraph, "capture_begin", begin)
    assert gc.isenabled() and recorder._quiet._count == 0
    for _ in range(80):
        torch.testing.assert_close(run(x), block(x))
    assert sum("GraphLaunch" in name for name in launches(lambda: run(x))) == 1
    torch.rand(3, device="cuda").sum().item()


@torch.no_grad()
def test_memory_is_given_back() -> None:
    def used() -> int:
        gc.collect()
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
        return torch.cuda.memory_reserved()

    x = torch.randn(1024, 1024, device="cuda")
    before = used()
    for _ in range(3):
        run = compiled(lambda x: torch.mm(x, x).sin() @ x + 1)
        for _ in range(4):
            run(x)
        del run
        meta.reset()
        after = used()
    assert after - before < 48 << 20


@torch.no_grad()
def test_beside_recordings_of_others() -> None:
    block = Block().cuda()
    run = compiled(block)
    x = torch.randn(8, 64, device="cuda")
    other = nn.Linear(64, 64).cuda()
    for _ in range(3):
        run(x)
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        other(x)
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = other(x)
    for _ in range(5):
        x.normal_()
        graph.replay()
        torch.testing.assert_close(run(x), block(x))
        torch.testing.assert_close(y, other(x))
