"""The measurements: interleaved step times in this process, compile times and peak memory in fresh ones."""

from __future__ import annotations

import gc
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch

from benchmarks.contenders import child_environment
from benchmarks.workload import workload


@dataclass(frozen=True)
class Sample:
    """Repeated readings of one quantity: median, and the spread as lowest and highest."""

    median: float
    low: float
    high: float
    count: int

    @staticmethod
    def of(values: Sequence[float]) -> Sample:
        return Sample(statistics.median(values), min(values), max(values), len(values))


def seconds(sample: Sample | None, peer: Sample | None) -> str:
    """A time with its spread, and its ratio to the peer's median."""
    if sample is None:
        return "-"
    unit, scale = next((u, s) for u, s in (("s", 1.0), ("ms", 1e3), ("µs", 1e6)) if sample.median * s >= 1 or u == "µs")
    text = f"{sample.median * scale:.3g} {unit} ({sample.low * scale:.3g}..{sample.high * scale:.3g})"
    return text if peer is None or peer is sample else f"{text} ×{sample.median / peer.median:.2f}"


@dataclass
class Row:
    """All readings of one workload under one contender. Seconds; bytes."""

    workload: str
    contender: str
    train: bool
    step: Sample | None = None
    cold: Sample | None = None
    warm: Sample | None = None
    peak_memory: Sample | None = None
    correct: str = "-"

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def verdict(found: list[torch.Tensor], expected: list[torch.Tensor]) -> str:
    """ "ok", or what differs by `torch.testing.assert_close`."""
    if len(found) != len(expected):
        return f"WRONG: {len(found)} tensors for {len(expected)}"
    for i, (a, b) in enumerate(zip(found, expected, strict=True)):
        try:
            # Gradients sum over many terms in an order of their own: a wider absolute bound scaled by their size.
            torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-4 * max(1.0, b.abs().max().item()))
        except AssertionError as error:
            return f"WRONG: tensor {i}: {str(error).splitlines()[0]}"
    return "ok"


def synchronise(device: str) -> None:
    """Wait for what the device is still at."""
    if device == "cuda":
        torch.cuda.synchronize()


@dataclass(frozen=True)
class Timed:
    """What is timed, and how often a round, so that a round is well above the clock's grain."""

    step: Callable[[], object]
    iterations: int


def interleaved(contenders: Mapping[str, Timed], rounds: int, device: str = "cpu") -> dict[str, Sample]:
    """Seconds of a step of each contender, warmed up, a round of each after the other."""
    for timed in contenders.values():
        for _ in range(3):
            timed.step()
    times: dict[str, list[float]] = {c: [] for c in contenders}
    gc.collect()
    for _ in range(rounds):
        for c, timed in contenders.items():
            step = timed.step
            synchronise(device)
            start = time.perf_counter()
            for _ in range(timed.iterations):
                step()
            synchronise(device)
            times[c].append((time.perf_counter() - start) / timed.iterations)
    return {c: Sample.of(times[c]) for c in contenders}


def steps(
    name: str, contenders: Sequence[str], *, train: bool, rounds: int, device: str
) -> dict[str, tuple[Sample, str]]:
    """Median step time of each contender in this process, rounds interleaved, and whether its numbers equal eager's."""
    loads = {c: workload(name, c, train=train, device=device) for c in contenders}
    expected = workload(name, "eager", train=train, device=device).step()
    results = {c: verdict(load.step(), expected) for c, load in loads.items()}
    times = interleaved({c: Timed(load.step, load.iterations) for c, load in loads.items()}, rounds, device)
    return {c: (times[c], results[c]) for c in contenders}


def fresh_process(name: str, contender: str, *, train: bool, device: str, cache: str) -> dict[str, float]:
    """First-call seconds and peak memory of a new process whose disk caches lie in `cache`."""
    command = [sys.executable, "-m", "benchmarks.child", name, contender, device, "train" if train else "infer"]
    done = subprocess.run(command, env=child_environment(cache), capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{name} under {contender} failed in a fresh process:\n{done.stderr[-3000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def compiles(
    name: str, contenders: Sequence[str], *, train: bool, rounds: int, device: str
) -> dict[str, tuple[Sample, Sample, Sample]]:
    """Cold seconds, warm seconds and peak bytes of each contender, rounds interleaved."""
    cold: dict[str, list[float]] = {c: [] for c in contenders}
    warm: dict[str, list[float]] = {c: [] for c in contenders}
    peak: dict[str, list[float]] = {c: [] for c in contenders}
    for _ in range(rounds):
        for c in contenders:
            with tempfile.TemporaryDirectory() as cache:
                first = fresh_process(name, c, train=train, device=device, cache=cache)
                second = fresh_process(name, c, train=train, device=device, cache=cache)
            cold[c].append(first["compile"])
            warm[c].append(second["compile"])
            peak[c].append(second["peak"])
    return {c: (Sample.of(cold[c]), Sample.of(warm[c]), Sample.of(peak[c])) for c in contenders}
