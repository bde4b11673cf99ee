"""`python -m benchmarks --suite cpu ...`: models on a CPU, ours beside torch.compile and eager; a line a model, then the means.

Each model is read by a process of its own (`child.py`); torch.compile's steps are always timed in the same one.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.contenders import child_environment
from benchmarks.cpu.child import Asked, Reading
from benchmarks.cpu.models import MODELS, OTHERS, VISION
from benchmarks.measure import Sample
from benchmarks.turns import in_turn

OURS, PEER, EAGER = "ours", "torch.compile", "eager"
RATIOS = ((OURS, PEER), (OURS, EAGER), (PEER, EAGER))
KINDS = {"all": MODELS, "vision": VISION, "others": OTHERS}
HEADINGS = (
    *("model", "eager", "torch.compile", "ours"),
    *(f"{a} / {b}" for a, b in RATIOS),
    *("compile", "memory", "difference", ""),
)


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog="benchmarks --suite cpu", description=__doc__)
    parser.add_argument("--model", action="append", choices=MODELS, help="may be repeated; all by default")
    parser.add_argument("--kind", choices=KINDS, default="all", help="without --model")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--train", action="store_true", help="forward, loss and backward instead of inference")
    parser.add_argument("--whole", action="store_true", help="train with the models' dropout, and with AdamW")
    parser.add_argument(
        "--optimizer", action="store_true", help="and with its step compiled, too, in a call of its own"
    )
    parser.add_argument("--dtype", default="float32", choices=("float32", "bfloat16", "float16"))
    parser.add_argument("--freezing", action="store_true", help="parameters are constants, on both sides")
    parser.add_argument("--autotune", action="store_true", help="both sides time kernels while they compile")
    parser.add_argument("--rounds", type=int, default=15, help="timed rounds of steps; 0: compile and compare only")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--no-peer", action="store_true", help="leave torch.compile out")
    parser.add_argument("--cache", type=Path, help="compiled kernels are kept here; else every compile is a cold one")
    parser.add_argument("--jobs", type=int, default=1, help="models that compile at a time; each is timed alone")
    parser.add_argument("--json", type=Path, help="readings, a model a line; added to a file that exists")
    options = parser.parse_args(arguments)
    console = Console(width=max(150, Console().width))
    contenders = (EAGER, OURS) if options.no_peer else (EAGER, OURS, PEER)
    given: dict[str, dict[str, bool]] = {contender: {} for contender in contenders if contender != EAGER}
    for contender, one in given.items():
        if options.freezing:
            one["freezing"] = True
        if options.autotune:
            one["autotune" if contender == OURS else "max_autotune"] = True
    whole = options.whole or options.optimizer
    all_asked = []
    for name in options.model or KINDS[options.kind]:
        if not MODELS[name].available:
            console.print(f"{name}: left out, needs {' and '.join(MODELS[name].needs)}")
            continue
        asked = Asked(
            name,
            contenders,
            options.batch,
            options.train or whole,
            options.dtype,
            given,
            options.rounds,
            options.threads,
            options.device,
            whole,
            options.optimizer,
        )
        all_asked.append(asked)
    readings = []
    for reading in in_processes(all_asked, options.cache, options.jobs):
        readings.append(reading)
        console.print(told(reading), highlight=False, soft_wrap=True)
        if options.json:
            with options.json.open("a") as file:
                file.write(json.dumps(asdict(reading)) + "\n")
    console.print(table(readings))
    console.print(phase_table(readings))


def in_processes(
    all_asked: Sequence[Asked], cache: Path | None, jobs: int = 1, module: str = "benchmarks.cpu.child"
) -> Iterator[Reading]:
    """The readings by `module`, each in a fresh process whose caches lie in `cache`, or start empty. One that dies is told in `failed`.
    One after the other, or several compile at a time and are then timed one after the other."""
    with tempfile.TemporaryDirectory() as temporary:
        commands = []
        for i, asked in enumerate(all_asked):
            environment = {**child_environment(str(cache or f"{temporary}/{i}")), "HF_HUB_OFFLINE": "1"}
            environment["OMP_NUM_THREADS"] = str(asked.threads)
            commands.append(([sys.executable, "-m", module, json.dumps(asdict(asked))], environment))
        for asked, ended in zip(all_asked, in_turn(commands, jobs), strict=True):
            if ended.returncode:
                yield Reading(asked, failed={"": ended.reason})
            else:
                yield reading_of(ended.stdout.splitlines()[-1])


def in_a_process(asked: Asked, cache: Path | None, module: str = "benchmarks.cpu.child") -> Reading:
    """The reading of one."""
    return next(in_processes([asked], cache, module=module))


def reading_of(line: str) -> Reading:
    """A reading from its line of JSON."""
    found = json.loads(line)
    found["asked"] = Asked(**found["asked"])
    found["step"] = {c: Sample(**sample) for c, sample in found["step"].items()}
    return Reading(**found)


def ratio(reading: Reading, pair: tuple[str, str]) -> float:
    """Of the medians of a step; NaN where one of them is missing."""
    ours, other = (reading.step.get(c) for c in pair)
    return ours.median / other.median if ours and other else math.nan


def cells(reading: Reading) -> list[str]:
    """One line of the table."""
    steps = [f"{s.median * 1e3:.2f} ms" if (s := reading.step.get(c)) else "-" for c in (EAGER, PEER, OURS)]
    ratios = [f"{ratio(reading, pair):.2f}" for pair in RATIOS]
    compiles = " / ".join(f"{reading.compile[c]:.1f} s" for c in (OURS, PEER) if c in reading.compile)
    memory = " / ".join(f"{reading.memory[c] >> 20} MiB" for c in (OURS, PEER, EAGER) if c in reading.memory)
    differences = " / ".join(f"{reading.difference[c]:.0e}" for c in (OURS, PEER) if c in reading.difference)
    failed = "; ".join(f"{c} {why}".strip() for c, why in reading.failed.items())
    return [reading.asked.model, *steps, *ratios, compiles, memory, differences, failed]


def told(reading: Reading) -> str:
    return "  ".join(f"{heading} {cell}".strip() for heading, cell in zip(HEADINGS, cells(reading), strict=True))


def phase_table(readings: Sequence[Reading]) -> Table:
    """What our first calls spent their time on: a line a model, the sums below."""
    names = list(dict.fromkeys(name for reading in readings for name in reading.phases))
    out = Table(title="first call, ours: seconds by phase")
    for heading in ("model", *names, "all"):
        out.add_column(heading, justify="left" if heading == "model" else "right")
    rows = [[reading.phases.get(name, 0.0) for name in names] for reading in readings]
    for i, (reading, row) in enumerate(zip(readings, rows, strict=True)):
        out.add_row(reading.asked.model, *(f"{s:.2f}" for s in (*row, sum(row))), end_section=i == len(rows) - 1)
    sums = [sum(column) for column in zip(*rows, strict=True)]
    out.add_row("sum", *(f"{s:.2f}" for s in (*sums, sum(sums))))
    return out


def table(readings: Iterable[Reading]) -> Table:
    """A line a model; below, the geometric mean and the worst of each ratio."""
    found = list(readings)
    out = Table(
        title="median step; ratios of medians; compile and largest difference from eager: ours / torch.compile; on a GPU memory, with eager's"
    )
    for heading in HEADINGS:
        out.add_column(heading, overflow="fold")
    for i, reading in enumerate(found):
        out.add_row(*cells(reading), end_section=i == len(found) - 1)
    columns = [[r for reading in found if not math.isnan(r := ratio(reading, pair))] for pair in RATIOS]
    for what, of in (("geometric mean", statistics.geometric_mean), ("worst", max)):
        out.add_row(what, "", "", "", *(f"{of(column):.3f}" if column else "-" for column in columns))
    return out
