"""`python -m benchmarks.gpu latency [NAME ...]`: a call of each case under eager, both modes of torch.compile, and both of ours.

A process a case, contenders interleaved in it. `device`: until the GPU is done; `host`: until the call returns, which is what launching costs.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.contenders import child_environment
from benchmarks.latency.cases import CASES
from benchmarks.turns import in_turn

EAGER, PEER, PEER_REPLAYED, OURS, REPLAYED = (
    *("eager", "torch.compile", "torch.compile reduce-overhead"),
    *("ours", "ours reduce-overhead"),
)
CONTENDERS = (EAGER, PEER, PEER_REPLAYED, OURS, REPLAYED)
PAIRS = ((OURS, PEER), (REPLAYED, PEER_REPLAYED), (OURS, EAGER))


@dataclass
class Reading:
    """Milliseconds of a call by contender, medians; what went wrong."""

    case: str
    device: dict[str, float] = field(default_factory=dict)
    host: dict[str, float] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.gpu latency", description=__doc__)
    parser.add_argument("case", nargs="*", help=f"all by default: {', '.join(CASES)}")
    parser.add_argument("--dtype", default="float16", choices=("float16", "bfloat16", "float32"))
    parser.add_argument("--device", default="cuda", choices=("cpu", "cuda"))
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--jobs", type=int, default=1, help="cases that compile at a time; each is timed alone")
    options = parser.parse_args(arguments)
    console = Console(width=max(180, Console().width))
    for name in options.case:
        if name not in CASES:
            parser.error(f"no such case: {name}")
    readings = []
    for reading in read(options.case or [*CASES], options.dtype, options.device, options.rounds, options.jobs):
        readings.append(reading)
        told = "; ".join(f"{contender}: {why}" for contender, why in reading.failed.items())
        console.print(
            f"{reading.case}: {json.dumps({'device': reading.device, 'host': reading.host})} {told}", soft_wrap=True
        )
    console.print(table(readings))


def read(names: Sequence[str], dtype: str, device: str, rounds: int, jobs: int) -> Iterator[Reading]:
    """The reading of each case, by a fresh process with empty caches."""
    with tempfile.TemporaryDirectory() as caches:
        commands = [
            (
                [sys.executable, "-m", "benchmarks.latency.child", name, dtype, device, str(rounds)],
                {**child_environment(f"{caches}/{name}"), "HF_HUB_OFFLINE": "1"},
            )
            for name in names
        ]
        for name, ended in zip(names, in_turn(commands, jobs), strict=True):
            if ended.returncode:
                yield Reading(name, failed={"": ended.reason})
            else:
                yield Reading(**json.loads(ended.stdout.splitlines()[-1]))


def ratio(times: Mapping[str, float], pair: tuple[str, str]) -> float | None:
    """Of two contenders' times; None where one is missing."""
    ours, other = (times.get(contender) for contender in pair)
    return ours / other if ours and other else None


def table(readings: Sequence[Reading]) -> Table:
    """A line a case and clock; the geometric means below."""
    out = Table(title="a call, milliseconds (medians); ratios")
    for heading in ("case", "until", *CONTENDERS, *(f"{a} / {b}" for a, b in PAIRS)):
        out.add_column(heading, overflow="fold")
    clocks: tuple[tuple[str, Callable[[Reading], dict[str, float]]], ...] = (
        ("device", lambda reading: reading.device),
        ("host", lambda reading: reading.host),
    )
    for reading in readings:
        for clock, times in clocks:
            found = times(reading)
            cells: list[Any] = [f"{found[c]:.3f}" if c in found else "-" for c in CONTENDERS]
            ratios = [ratio(found, pair) for pair in PAIRS]
            out.add_row(reading.case, clock, *cells, *("-" if r is None else f"{r:.2f}" for r in ratios))
    for clock, times in clocks:
        columns = [[r for reading in readings if (r := ratio(times(reading), pair)) is not None] for pair in PAIRS]
        means = (f"{statistics.geometric_mean(column):.3f}" if column else "-" for column in columns)
        out.add_row("geometric mean", clock, *("" for _ in CONTENDERS), *means)
    return out
