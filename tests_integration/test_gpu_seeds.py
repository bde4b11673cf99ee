"""On a GPU: seeds of kernels that draw, told by the generator's state, without a launch for each. Elsewhere skipped.

`TRITON_INTERPRET=0 pytest tests_integration/test_gpu_seeds.py` runs them.
"""

from __future__ import annotations

import os

import pytest
import torch
import torch.nn.functional as F
from torch.profiler import ProfilerActivity, profile
from torch.utils.checkpoint import checkpoint

import meta
from inductor.seeds import ROWS, drawn_seeds

pytestmark = pytest.mark.skipif(
    not torch.cuda.is_available() or os.environ["TRITON_INTERPRET"] != "0",
    reason="needs a CUDA GPU, and Triton's compiler in place of its interpreter (TRITON_INTERPRET=0)",
)


def dropped(x: torch.Tensor) -> torch.Tensor:
    return F.dropout(x, 0.5)


def test_seeds_follow_from_the_state() -> None:
    device = torch.device("cuda", 0)
    torch.cuda.manual_seed(3)
    first = [drawn_seeds(2, device).tolist() for _ in range(3 * ROWS)]
    assert len({seed for pair in first for seed in pair}) == 6 * ROWS
    torch.cuda.manual_seed(3)
    assert [drawn_seeds(2, device).tolist() for _ in range(3 * ROWS)] == first
    torch.cuda.manual_seed(4)
    assert drawn_seeds(2, device).tolist() != first[0]
    state = torch.cuda.get_rng_state()
    there = [drawn_seeds(3, device).tolist() for _ in range(2)]
    torch.rand(5, device=device)
    torch.cuda.set_rng_state(state)
    assert [drawn_seeds(3, device).tolist() for _ in range(2)] == there


def test_eager_draws_beside() -> None:
    """What the program draws in between moves the state on for both."""
    run, x = meta.compile(dropped), torch.ones(4096, device="cuda")

    def both() -> list[torch.Tensor]:
        torch.manual_seed(1)
        return [torch.rand(7, device="cuda"), run(x), torch.rand(7, device="cuda"), run(x), run(x)]

    first, second = both(), both()
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))
    assert (
        not torch.equal(first[0], first[2])
        and not torch.equal(first[1], first[3])
        and not torch.equal(first[3], first[4])
    )


def test_calls_launch_no_kernel_for_their_seeds() -> None:
    run, x = meta.compile(dropped), torch.ones(4096, device="cuda")
    run(x)
    with profile(activities=[ProfilerActivity.CUDA]) as profiler:
        for _ in range(ROWS):
            run(x)
        torch.cuda.synchronize()
    kernels = [event for event in profiler.events() if event.device_type == torch.autograd.DeviceType.CUDA]
    assert ROWS <= len(kernels) <= ROWS + 1


def test_recorded_calls_draw_anew() -> None:
    run, x = meta.compile(dropped), torch.ones(4096, device="cuda")
    run(x)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = run(x)
    found = []
    for _ in range(3):
        graph.replay()
        found.append(out.clone())
    assert not torch.equal(found[0], found[1]) and not torch.equal(found[1], found[2])


def test_a_checkpoint_draws_them_again() -> None:
    run = meta.compile(dropped)
    x = torch.rand(4096, device="cuda", requires_grad=True)
    for _ in range(2 * ROWS):
        found = checkpoint(lambda x: run(x).sin(), x, use_reentrant=False)
        run(x)
        (gradient,) = torch.autograd.grad(found.sum(), x)
        assert torch.equal(gradient == 0, found == 0)


def test_seeds_drawn_in_inference_serve_training() -> None:
    run, x = meta.compile(dropped), torch.rand(4096, device="cuda") + 1
    torch.manual_seed(11)
    with torch.inference_mode():
        first = run(x)
    torch.manual_seed(11)
    second = run(x.requires_grad_())
    second.sum().backward()
    assert torch.equal(first, second) and x.grad is not None
    assert torch.equal(x.grad == 0, second == 0)


def test_each_stream_has_them_when_it_reads_them() -> None:
    run, x = meta.compile(dropped), torch.ones(1 << 22, device="cuda")
    torch.cuda.synchronize()
    torch.manual_seed(2)
    expected = [run(x) for _ in range(4)]
    torch.cuda.synchronize()
    torch.manual_seed(2)
    found = []
    for _ in range(4):
        with torch.cuda.stream(torch.cuda.Stream()):
            found.append(run(x))
    torch.cuda.synchronize()
    assert all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))
