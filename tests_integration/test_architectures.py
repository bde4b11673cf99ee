"""The architecture sweep itself: two small architectures through its pool, and its judge on made-up results."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

pytest.importorskip("transformers", reason="the sweep is of transformers' architectures")
pytest.importorskip("timm", reason="the sweep is of timm's families")
for needed in ("psutil", "rich"):
    pytest.importorskip(needed, reason="the benchmarks' own tools, installed by `nox -s bench`")

from benchmarks.architectures import judge, sweep  # noqa: E402


def test_two_architectures_through_the_pool(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kept = tmp_path / "records.jsonl"
    only = ["--only", "^(transformers:GPT2Model|timm:test_byobnet)$", "--mode", "inference", "--json", str(kept)]
    sweep.main([*only, "--jobs", "2", "--cache", str(tmp_path / "cache")])
    records = sweep.read(kept)
    assert sorted(r["name"] for r in records) == ["timm:test_byobnet", "transformers:GPT2Model"]
    for record in records:
        assert record["status"] == "right", record
        assert record["whole"], record
        assert record["graphs"] == 1
    capsys.readouterr()
    # Continued, it has nothing left to do.
    sweep.main(only)
    assert "0 architectures, 2 records read" in capsys.readouterr().out
    assert len(sweep.read(kept)) == 2


def test_the_judge() -> None:
    exact = torch.randn(100, dtype=torch.float64)
    eager = exact.float() + 1e-6
    assert judge.verdict([exact.float()], [eager], [exact]) == "right"
    assert judge.verdict([exact.float() - 2e-6], [eager], [exact]) == "right"
    assert judge.verdict([exact.float() * 1.01], [eager], [exact]).startswith("wrong")
    assert judge.verdict([None], [eager], [exact]).startswith("wrong")
    assert judge.verdict([eager.double()], [eager], [exact]).startswith("wrong")
    noise = torch.randn(100)
    assert judge.verdict([noise], [-noise], [exact]) == "undecided"
    assert judge.verdict([torch.tensor([1, 2])], [torch.tensor([1, 3])], [torch.tensor([1, 3])]).startswith("wrong")
