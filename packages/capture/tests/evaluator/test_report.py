"""What a user reads of a capture: the report as a whole, in golden files."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
import torch

import capture


class Layer(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up = torch.nn.Linear(4, 8)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        h = self.up(x + 1).relu()
        if x.size(0) % 8 == 0:
            h = h.view(-1, 8, 8)
        if x.size(0) * y.size(1) <= 1024:
            h = h[..., 1:] / 2
        return h.sum() - y.sum(dim=0, keepdim=True)


def shown(trace: capture.Trace) -> str:
    """The report, without what differs from one Python or place to the next, and of the guards those on arguments."""
    text = re.sub(r"/\S*/(test_report.py)", r"\1", str(trace))
    head, _, guards = text.partition("\nguards on the rest of the program:\n")
    assert "torch.is_grad_enabled()" in guards
    assert "size(0)" not in guards  # those are told with their graph
    return re.sub(r", \d+ guards", "", head) + "\n"


def test_a_dynamic_capture(golden: Callable[[str, str], None]) -> None:
    golden("dynamic_report", shown(capture.explain(Layer(), torch.randn(16, 4), torch.randn(16, 3), dynamic=True)))


def test_a_static_capture(golden: Callable[[str, str], None]) -> None:
    def fn(x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        x = -x[:, None, ::2]
        x[mask] = 0.5
        compile("0", "", "eval")
        return torch.cat([x, x], dim=1).to(torch.float64)

    golden("static_report", shown(capture.explain(fn, torch.randn(3, 4), torch.tensor([True, False, True]))))


def test_what_differs_in_a_call_is_told() -> None:
    compiled = capture.compile(lambda x, n: x * n, dynamic=False)
    x = torch.ones(3, 4)
    for args in (
        (x, 2),
        (torch.ones(5, 4), 2),
        (x.double(), 2),
        (x[0], 2),
        (x.t().contiguous().t(), 2),
        (x.int(), 2),
        (x.int(), 7),
    ):
        compiled(*args)
    told = [re.sub(r".*<lambda>: (.*)  # .*", r"\1", each) for each in capture.report(compiled).recompiles]
    assert told == [
        "x.size(0) was 3, is 5",
        "x.dtype was torch.float32, is torch.float64, x.size(0) was 5, is 3",
        "x.dtype was torch.float64, is torch.float32, x.dim() was 2, is 1",
        "x.dim() was 1, is 2",
        "x.dtype was torch.float32, is torch.int32, x.stride(0) was 1, is 4, x.stride(1) was 3, is 1",
        "n == 2, now 7",
    ]


def test_a_report_is_of_what_was_compiled() -> None:
    with pytest.raises(TypeError, match="takes what compile"):
        capture.report(torch.nn.Linear(2, 2))
    module = capture.compile(torch.nn.Linear(2, 2))
    module(torch.ones(1, 2))
    assert capture.report(module).graph_count == 1


def test_what_is_dynamic_from_now_on_is_told() -> None:
    def fn(x: torch.Tensor, scale: float) -> torch.Tensor:
        return x * scale if x.size(1) > 3 else x + 1

    compiled = capture.compile(fn)
    for rows, columns, scale in ((3, 4, 2.5), (5, 4, 2.5), (6, 4, 3.5), (7, 3, 3.5), (9, 5, 4.5)):
        compiled(torch.ones(rows, columns), scale)
    told = [re.sub(r".*fn: (.*)  # .*", r"\1", each) for each in capture.report(compiled).recompiles]
    assert told == [
        "x.size(0) was 3, is 5; dynamic from now on: x.size(0)",
        "scale == 2.5, now 3.5; dynamic from now on: scale",
        "x.size(1) was 4, is 3; dynamic from now on: x.size(1)",
        "1 <= x.size(1) <= 3, now x.size(1) = 5; dynamic from now on: scale",
    ]
