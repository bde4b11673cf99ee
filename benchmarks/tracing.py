"""`python -m benchmarks --suite tracing ...`: what it takes to capture models, and what a call of a captured graph takes, kernels being eager's.

Both compilers hand the graph they captured to a backend that gives it back as it is. `tracing`: processor seconds of a first call less a
later one, everything captured before forgotten, rounds interleaved. `step`: a call, beside eager's.
"""

from __future__ import annotations

import argparse
import gc
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from rich.console import Console
from rich.table import Table
from torch import nn

from benchmarks.cpu.models import MODELS, WIDTH, WORDS
from benchmarks.measure import Sample, Timed, interleaved, seconds
from tests_integration.zoo import Inputs, Model, images, output_tensors, tokens

EAGER, PEER, OURS = "eager", "torch.compile", "ours"


def _bert(dtype: torch.dtype) -> nn.Module:
    from transformers import BertConfig, BertModel

    return BertModel(BertConfig(**WIDTH, num_hidden_layers=12)).to(dtype)


@dataclass(frozen=True)
class Case:
    """`small`: inputs of which a call takes little beside what tracing takes."""

    model: Model
    small: Callable[[int, torch.dtype], Inputs]


def _two_short_texts(batch: int, dtype: torch.dtype) -> Inputs:
    _, named = tokens(WORDS, 8)(batch, dtype)
    return (), {**named, "decoder_input_ids": named["input_ids"], "use_cache": False}


CASES = {
    "bert": Case(Model("bert", _bert, tokens(WORDS, 128), 1, ("transformers",)), tokens(WORDS, 8)),
    "resnet50": Case(MODELS["resnet50"], images(32)),
    "t5": Case(MODELS["t5"], _two_short_texts),
}
"""BERT of 12 layers, and models of the suite `cpu`."""


def _as_it_is(module: torch.fx.GraphModule, _: Sequence[Any]) -> Callable[..., Any]:
    return module.forward


def _captured(contender: str, module: nn.Module) -> Callable[..., Any]:
    if contender == EAGER:
        return module
    if contender == PEER:
        return torch.compile(module, backend=_as_it_is, fullgraph=True)
    import capture

    return capture.compile(module, _as_it_is, fullgraph=True)


def _forget(contender: str) -> None:
    if contender == PEER:
        import torch._dynamo

        torch._dynamo.reset()
    elif contender == OURS:
        import capture

        capture.reset()
    gc.collect()


@dataclass
class Reading:
    """Seconds by contender."""

    model: str
    tracing: dict[str, Sample]
    step: dict[str, Sample]


def read(case: Case, rounds: int, steps: int) -> Reading:
    """Trace and time one model; its results must be eager's, to the bit."""
    module, large = case.model.make()
    small = case.small(1, torch.float32)

    def call(run: Callable[..., Any], inputs: Inputs) -> list[torch.Tensor]:
        with torch.no_grad():
            return output_tensors(run(*inputs[0], **inputs[1]))

    expected = call(module, small)
    tracing: dict[str, list[float]] = {PEER: [], OURS: []}
    for _ in range(1 + rounds):  # the first time what is imported is on nobody's account
        for contender, times in tracing.items():
            _forget(contender)
            run = _captured(contender, module)
            start = time.process_time()
            found = call(run, small)
            first = time.process_time()
            call(run, small)
            times.append(max(0.0, 2 * first - start - time.process_time()))
            assert all(map(torch.equal, found, expected)), f"{contender} computes something else"
    for contender in tracing:
        _forget(contender)
    runs = {contender: _captured(contender, module) for contender in (EAGER, PEER, OURS)}
    timed = interleaved({c: Timed(lambda run=run: call(run, large), 1) for c, run in runs.items()}, steps)  # type: ignore[misc]
    return Reading(case.model.name, {c: Sample.of(times[1:]) for c, times in tracing.items()}, timed)


def table(readings: Sequence[Reading]) -> Table:
    """A line a model; the geometric means of ratios below."""
    out = Table(
        title="tracing: processor seconds; step: seconds of a call with eager's kernels; medians (lowest..highest)"
    )
    for heading in ("model", "tracing", PEER, OURS, "ratio", "step", EAGER, PEER, OURS, f"{OURS} / {EAGER}"):
        out.add_column("" if heading in ("tracing", "step") else heading)
    ratios: list[tuple[float, float]] = []
    for one in readings:
        ratios.append(
            (
                one.tracing[OURS].median / one.tracing[PEER].median,
                one.step[OURS].median / one.step[EAGER].median,
            )
        )
        out.add_row(
            one.model,
            *("tracing", *(seconds(one.tracing[c], None) for c in (PEER, OURS)), f"{ratios[-1][0]:.3f}"),
            *("step", *(seconds(one.step[c], None) for c in (EAGER, PEER, OURS)), f"{ratios[-1][1]:.3f}"),
        )
    means = [statistics.geometric_mean(column) for column in zip(*ratios, strict=True)]
    out.add_row("geometric mean", "", "", "", f"{means[0]:.3f}", "", "", "", "", f"{means[1]:.3f}")
    return out


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog="benchmarks --suite tracing", description=__doc__)
    parser.add_argument("--model", action="append", choices=CASES, help="may be repeated; all by default")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=30)
    options = parser.parse_args(arguments)
    console = Console(width=max(170, Console().width))
    readings = []
    for name in options.model or CASES:
        if not CASES[name].model.available:
            console.print(f"{name}: left out, needs {' and '.join(CASES[name].model.needs)}")
            continue
        readings.append(read(CASES[name], options.rounds, options.steps))
    console.print(table(readings))
