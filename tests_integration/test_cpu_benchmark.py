"""What the suite `cpu` reads of a model, and what its table says."""

from __future__ import annotations

import json
import math
from dataclasses import asdict

import pytest
import torch

from benchmarks.cpu import ablation, child
from benchmarks.cpu.child import Asked, Reading
from benchmarks.cpu.models import OTHERS, VISION
from benchmarks.cpu.table import OURS, PEER, in_a_process, ratio, reading_of, table
from benchmarks.measure import Sample

MODEL = "graph_convolutions"


def sampled(name: str, ours: float, peer: float) -> Reading:
    return Reading(Asked(name, ("ours",)), {c: Sample(t, t, t, 1) for c, t in ((OURS, ours), (PEER, peer))})


def test_there_are_so_many_models():
    assert len(VISION) >= 12 and len(OTHERS) >= 10


@pytest.mark.parametrize("train", [False, True])
def test_a_model_is_compiled_compared_and_timed(train):
    reading = child.read(Asked(MODEL, ("eager", "ours"), train=train, rounds=1, threads=torch.get_num_threads()))
    assert reading.failed == {}
    assert reading.difference.keys() == {"eager", "ours"} and max(reading.difference.values()) < 1e-5
    assert reading.step.keys() == {"eager", "ours"} and reading.compile.keys() == {"ours"}
    line = json.dumps(asdict(reading))
    assert json.dumps(asdict(reading_of(line))) == line


def test_the_step_of_the_optimizer_is_compiled_where_that_is_asked(monkeypatch):
    compiled = []

    def watched(function, options):
        compiled.append(function)
        return function

    monkeypatch.setitem(child.CONTENDERS, "ours", watched)
    asked = Asked(MODEL, ("ours",), train=True, rounds=0, threads=torch.get_num_threads(), whole=True, optimizer=True)
    assert child.read(asked).failed == {}
    module, step = compiled
    assert isinstance(module, torch.nn.Module) and isinstance(step.__self__, torch.optim.AdamW)


@pytest.mark.parametrize(("largest", "scale"), [(1e-9, 4096.0), (0.03, 2048.0), (5.0, 8.0), (1e4, 1.0), (0.0, 1.0)])
def test_losses_of_halves_are_scaled(largest, scale):
    """So far that their gradients are numbers of ordinary size, where those of the loss itself are not."""
    assert child.scale_for([torch.tensor([0.0, -largest])]) == scale


def test_gradients_of_halves_are_far_above_the_smallest(monkeypatch):
    seen = []

    def watched(module, options):
        seen.extend(module.parameters())
        return module

    monkeypatch.setitem(child.CONTENDERS, "ours", watched)
    reading = child.read(
        Asked(MODEL, ("ours",), train=True, dtype="float16", rounds=0, threads=torch.get_num_threads())
    )
    assert reading.failed == {}
    assert max(each.grad.abs().max().item() for each in seen) > 1


def test_a_wrong_result_is_told(monkeypatch):
    monkeypatch.setitem(child.CONTENDERS, "ours", lambda module, options: lambda *args: module(*args) * 1.01)
    reading = child.read(Asked(MODEL, ("ours",), rounds=0, threads=torch.get_num_threads()))
    assert reading.failed["ours"].startswith("WRONG")


def test_what_a_contender_raises_is_told():
    options = {"ours": {"no_such_option": 1}}
    reading = child.read(Asked(MODEL, ("ours",), options=options, rounds=0, threads=torch.get_num_threads()))
    assert "no_such_option" in reading.failed["ours"] and reading.step == {}


def test_a_process_that_dies_is_told():
    assert "no such model" in in_a_process(Asked("no such model", ("eager",)), None).failed[""]


def test_the_means_are_of_the_ratios():
    readings = [sampled("a", 1.0, 2.0), sampled("b", 2.0, 1.0), Reading(Asked("c", ("ours",)))]
    assert ratio(readings[0], (OURS, PEER)) == 0.5 and math.isnan(ratio(readings[2], (OURS, PEER)))
    column = list(table(readings).columns[4].cells)
    assert column == ["0.50", "2.00", "nan", "1.000", "2.000"]


@pytest.mark.parametrize("name", ["rewrites of graphs and loops", "vectors", "decompositions", ablation.MIN_CUT])
def test_a_setting_of_the_ablation_computes_the_same(name):
    setting = {**ablation.SETTINGS, **ablation.TRAINING}[name]
    asked = Asked(MODEL, (name,), train=name in ablation.TRAINING, rounds=1, threads=torch.get_num_threads())
    reading = child.read(asked, {**child.CONTENDERS, name: setting})
    assert reading.failed == {} and reading.step.keys() == {name}


def test_what_is_left_out_is_compared_to_all():
    reading = Reading(
        Asked("a", ("all", "fusion")), {c: Sample(t, t, t, 1) for c, t in (("all", 1.0), ("fusion", 1.5))}
    )
    shown = ablation.table([reading])
    assert [list(column.cells) for column in shown.columns] == [["fusion"], ["1.50"], ["1.500"]]
