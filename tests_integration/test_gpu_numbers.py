"""On a GPU: decisions by numbers that tensors there hold. Elsewhere skipped.

`TRITON_INTERPRET=0 pytest tests_integration/test_gpu_numbers.py` runs them.
"""

from __future__ import annotations

import os

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import meta

pytestmark = pytest.mark.skipif(
    not torch.cuda.is_available() or os.environ["TRITON_INTERPRET"] != "0",
    reason="needs a CUDA GPU, and Triton's compiler in place of its interpreter (TRITON_INTERPRET=0)",
)


class Padded(nn.Module):
    """How far it pads is in buffers, as in codecs."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("left", torch.tensor(3))
        self.register_buffer("on", torch.ones(1, dtype=torch.bool))

    def forward(self, x: Tensor) -> Tensor:
        if self.on:
            x = x * 2
        if self.left > 0:
            x = F.pad(x, (int(self.left), 0))
        return x + 1


def test_what_numbers_make_decides() -> None:
    def program(x: Tensor) -> Tensor:
        mask = torch.ones(x.shape[0], 7, dtype=torch.long, device=x.device)
        places = torch.arange(3, 8, device=x.device) // 2
        if mask.bool().all() and places.max() == 3:
            x = x.reshape(torch.tensor([2, -1], device=x.device).tolist())
        return x[: int(places.sum())] + 1

    compiled = meta.compile(program, fullgraph=True)
    x = torch.randn(4, 3, device="cuda")
    torch.testing.assert_close(compiled(x), program(x))


def test_numbers_in_buffers_decide() -> None:
    module = Padded().cuda()
    compiled = meta.compile(module, fullgraph=True)
    x = torch.randn(4, 5, device="cuda")
    for left, on in ((3, True), (0, True), (2, False), (3, True)):
        with torch.no_grad():
            module.left.fill_(left)
            module.on.fill_(on)
        torch.testing.assert_close(compiled(x), module(x))


def test_numbers_that_are_others_each_time_are_no_reason_to_compile() -> None:
    def program(x: Tensor, scale: Tensor) -> Tensor:
        if scale > 0:
            return x * scale
        return x - scale

    compiled = meta.compile(program)
    x = torch.randn(4, 5, device="cuda")
    for number in range(1, 20):
        scale = torch.tensor(0.5 * number, device="cuda")
        torch.testing.assert_close(compiled(x, scale), program(x, scale))
    assert compiled.session.report.graph_count <= 3
    torch.testing.assert_close(compiled(x, -scale), program(x, -scale))


def test_divisions_are_those_of_the_device() -> None:
    """Other devices may round otherwise, and a decision by what they gave would be another."""

    def program(x: Tensor) -> Tensor:
        steps = torch.linspace(0, 1, 57, device=x.device).exp().sum() / 3
        whole = torch.linspace(0, 1, 57, device="cpu").exp().sum() / 3
        return x + 1 if steps == whole.to(x.device) else x - 1

    x = torch.randn(3, device="cuda")
    torch.testing.assert_close(meta.compile(program)(x), program(x))
