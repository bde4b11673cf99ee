"""On a GPU: steps over many tensors by one launch, where their tensors move, are not aligned, on other streams and in recordings.

`TRITON_INTERPRET=0 pytest tests_integration/test_gpu_joint.py` runs them; elsewhere they are skipped.
"""

from __future__ import annotations

import os

import pytest
import torch

import meta

pytestmark = pytest.mark.skipif(
    not torch.cuda.is_available() or os.environ["TRITON_INTERPRET"] != "0",
    reason="needs a CUDA GPU, and Triton's compiler in place of its interpreter (TRITON_INTERPRET=0)",
)

SIZES = [(64, 3), (7,), (1000,), (33, 5), (2048,), (512, 512), (1,), (), (0, 4), *[(17 + at,) for at in range(250)]]
Lists = list[list[torch.Tensor]]


def step(p: list[torch.Tensor], g: list[torch.Tensor], m: list[torch.Tensor]) -> None:
    torch._foreach_lerp_(m, g, 0.1)
    torch._foreach_add_(p, m, alpha=-0.01)


def lists(seed: int = 0) -> Lists:
    generator = torch.Generator("cuda").manual_seed(seed)
    return [[torch.randn(size, device="cuda", generator=generator) for size in SIZES] for _ in range(3)]


def same(one: Lists, other: Lists) -> None:
    for found, expected in zip(one[0] + one[2], other[0] + other[2], strict=True):
        torch.testing.assert_close(found, expected)


def test_gradients_that_move_and_are_not_aligned() -> None:
    compiled = meta.compile(step, fullgraph=True)
    with torch.no_grad():
        mine, eager = lists(), lists()
        for at in range(4):
            kept = [torch.randn_like(x) for x in eager[1]]
            eager[1] = kept
            mine[1] = [torch.cat([x.new_zeros(at), x.flatten()])[at:].view(x.shape) for x in kept]
            compiled(*mine)
            step(*eager)
        same(mine, eager)


def test_recordings_keep_their_tables() -> None:
    compiled = meta.compile(step, fullgraph=True)
    with torch.no_grad():
        mine, eager, others = lists(), lists(), lists(1)
        for _ in range(2):
            compiled(*mine)
            step(*eager)
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            compiled(*mine)
            step(*eager)
        torch.cuda.current_stream().wait_stream(side)
        recording = torch.cuda.CUDAGraph()
        with torch.cuda.graph(recording):
            compiled(*mine)
        for _ in range(3):
            recording.replay()
            compiled(*others)  # other tables between the replays
            step(*eager)
        same(mine, eager)
