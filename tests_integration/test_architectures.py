"""The architecture sweep itself: two small architectures through its pool, and its judge on made-up results."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

pytest.importorskip("transformers", reason="the sweep is of transformers' architectures")
pytest.importorskip("timm", reason="the sweep is of timm's families")
for needed in ("psutil", "rich"):
    pytest.importorskip(needed, reason="the benchmarks' own tools, installed by `nox -s bench`")

from benchmarks.architectures import catalogue, judge, probe, sweep  # noqa: E402


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


def test_a_mixture_of_experts_by_each_way_through_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kept = tmp_path / "records.jsonl"
    only = ["--only", "MixtralModel", "--backend", "aot_eager", "--length", "9", "--json", str(kept)]
    sweep.main([*only, "--experts", "default", "--experts", "batched_mm", "--jobs", "2"])
    assert "MixtralModel/batched_mm" in capsys.readouterr().out
    records = sweep.read(kept)
    assert sorted((r["name"], r["mode"]) for r in records) == [
        (f"transformers:MixtralModel/{way}", mode)
        for way in ("batched_mm", "default")
        for mode in ("inference", "training")
    ]
    for record in records:
        assert record["status"] == record["lengths"] == "right", record
        assert record["graphs"] == 1 and record["graphs_of_lengths"] <= 2 and record["whole"], record


def test_what_makes_a_mixture() -> None:
    with pytest.raises(catalogue.NotBuilt, match="no experts"):
        catalogue.build("transformers:GPT2Model/default")
    with pytest.raises(catalogue.NotBuilt, match="in one way"):
        catalogue.build("transformers:JetMoeModel/batched_mm")


def test_what_cannot_be_built_is_not_built_to_find_out() -> None:
    """A constructor that fails once it has made most of the model would fill the memory at each level."""

    class Unbuildable(torch.nn.Module):
        def __init__(self, config: object) -> None:
            super().__init__()
            self.most = torch.nn.Parameter(torch.empty(1 << 40))
            raise ModuleNotFoundError("No module named 'absent'")

    with pytest.raises(ModuleNotFoundError, match="absent"):
        catalogue._parameters(Unbuildable, None)


def test_what_a_default_configuration_lacks() -> None:
    assert catalogue.build("transformers:CohereCompassTextModel").inputs


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


def test_the_judge_knows_what_rounding_of_the_inputs_does_to_eager() -> None:
    exact = torch.ones(100, dtype=torch.float64)
    jumped = exact.float()
    jumped[0] = 1.02
    assert judge.verdict([jumped], [exact.float()], [exact]).startswith("wrong")
    assert judge.verdict([jumped], [exact.float()], [exact], [[exact.float()], [jumped]]) == "right"
    assert judge.verdict([jumped + 0.1], [exact.float()], [exact], [[jumped]]).startswith("wrong")


def test_inputs_near_a_kink_are_moved_across_it() -> None:
    class Kink(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(torch.ones(3))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return (x * self.weight - 1).relu()

    subject = catalogue.Subject(Kink(), {"x": torch.ones(3)}, positional=True)
    gradients = [run.gradients[0] for run in probe.moved(subject, "cpu", "training")]
    assert not all(torch.equal(g, gradients[0]) for g in gradients)  # type: ignore[arg-type]
