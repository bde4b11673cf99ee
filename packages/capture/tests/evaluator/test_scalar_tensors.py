"""What scalar tensors on the CPU hold, where the program needs the number itself: told by what made them, or kept by guards."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.nn import functional as F

import capture


def chunks(x: Any) -> Any:
    count = torch.div(x.shape[1], 2, rounding_mode="trunc") - 1
    y = x.new_zeros((2, count + 1, 3))
    y[:, :count] = 1
    width = torch.tensor(3)
    width += 1
    if count == 3:
        y = y + width.item()
    return y + x.reshape(2, torch.div(x.shape[1], 2, rounding_mode="trunc"), -1)[..., :1]


def test_numbers_alone_tell_what_a_tensor_holds() -> None:
    compiled = capture.compile(chunks, fullgraph=True, dynamic=False)
    for length in (8, 10, 8):
        x = torch.randn(2, length, 3)
        assert torch.equal(compiled(x), chunks(x))
    seen: list[torch.fx.GraphModule] = []
    capture.compile(chunks, backend=lambda module, inputs: seen.append(module) or module)(torch.randn(2, 8, 3))
    (graph,) = seen
    (made,) = [node for node in graph.graph.nodes if node.target == "new_zeros"]
    assert made.args[1] == (2, 4, 3)


class Padded(torch.nn.Module):
    """Pads by what buffers say, and adds what is as long, if they say so."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("kernel", torch.tensor(5))
        self.register_buffer("step", torch.tensor(1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        total = self.kernel - self.step
        whole = torch.ceil((x.shape[-1] - self.kernel + total) / self.step + 1).to(torch.int64) - 1
        extra = whole * self.step + self.kernel - total - x.shape[-1]
        if max(total, extra) >= 6:
            x = x + 1
        y = F.pad(x, (total, extra)).unfold(-1, 5, 1).sum(-1)
        return x + y


def test_buffers_are_guarded_to_hold_the_same() -> None:
    module = Padded()
    compiled = capture.compile(module)
    x = torch.randn(2, 20)
    assert torch.equal(compiled(x), module(x))
    report = compiled.session.report
    assert report.graph_count == 1 and not report.breaks
    module.kernel.fill_(7)
    for _ in range(2):
        with pytest.raises(RuntimeError, match="size"):
            module(x)
        with pytest.raises(RuntimeError, match="size"):
            compiled(x)
    module.kernel.fill_(5)
    assert torch.equal(compiled(x), module(x))


def test_a_number_that_changes_is_not_kept() -> None:
    def scheduled(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
        if n > 3:
            x = x + 1
        return x * 2

    compiled = capture.compile(scheduled)
    x = torch.randn(3)
    for number in range(12):
        n = torch.tensor(number)
        assert torch.equal(compiled(x, n), scheduled(x, n))
    assert compiled.session.report.graph_count <= 5


def test_what_the_frame_counts_itself() -> None:
    def counted(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
        n += 1
        if n * 2 > 5:
            x = x + n
        return x

    mine, theirs, x = torch.tensor(0), torch.tensor(0), torch.randn(3)
    compiled = capture.compile(counted)
    for _ in range(6):
        assert torch.equal(compiled(x, mine), counted(x, theirs))
    assert mine == theirs == 6


def test_a_view_of_a_number_that_is_written_to() -> None:
    def written(x: torch.Tensor) -> Any:
        n = torch.tensor(2)
        n.view(1)[0] = 3
        return x[: n.item()], x.new_zeros(n), n

    x = torch.randn(5)
    for found, wanted in zip(capture.compile(written)(x), written(x), strict=True):
        assert torch.equal(found, wanted)
