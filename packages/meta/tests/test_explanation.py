"""What `explain` and `report` tell of a dynamic compile."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
import torch

import capture
import meta


def scaled(x: torch.Tensor, y: torch.Tensor, scale: float, dim: int) -> torch.Tensor:
    if x.size(0) % 8 == 0 and x.size(0) * y.size(0) <= 1024:
        x = x.view(-1, 8)
    return x.sum(dim) * scale + y[0, 0]


def test_a_dynamic_compile_is_explained(golden: Callable[[str, str], None], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capture.config, "on_error", "raise")
    explanation = meta.explain(scaled, torch.randn(16, 4), torch.randn(3, 1), 0.5, -1, dynamic=True)
    text = re.sub(r"(/[\w.-]+)+/", "", str(explanation))  # where the generated code lies
    text = re.sub(r"\nguards on the rest.*?\n\n", "\n", text, flags=re.DOTALL)
    text, _, phases = text.partition("\n  seconds  ")
    assert {"run", "capture", "trace", "guards"} <= set(phases.split())
    golden("dynamic_explanation", re.sub(r"\d+ guards|(?<=  guards  ).*", "", text))


def test_a_report_grows_with_the_calls() -> None:
    compiled = meta.compile(scaled, backend="eager")
    report = meta.report(compiled)
    for rows in (16, 24, 40):
        compiled(torch.randn(rows, 4), torch.randn(3, 2), 0.5, -1)
    assert report.graph_count == 2
    (why,) = report.recompiles
    assert "x.size(0) was 16, is 24; dynamic from now on: x.size(0)" in why
