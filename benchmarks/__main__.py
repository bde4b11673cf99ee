"""`python -m benchmarks [--suite S] [--model M ...] [--train] [--json FILE]`: one table, one run.

The suite `programs` runs whole programs around real libraries (`benchmarks/programs`) and compares their results; the suite
`calls` times what a call costs beside its kernels, the suite `kernels` single kernels of every kind.
`--suite cpu`, `--suite ablation`, `--suite architectures`, `--suite operators`, `--suite tracing`, `--suite dynamic` and
`--suite dynamic-models` come first and take options of their own (`--suite cpu --help`).
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import statistics
import sys
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.table import Table

from benchmarks.calls import show as time_calls
from benchmarks.contenders import CONTENDERS, USUAL
from benchmarks.kernels import KERNELS as SINGLE
from benchmarks.kernels.large import LARGE
from benchmarks.kernels.table import show as time_kernels
from benchmarks.measure import Row, Sample, compiles, seconds, steps
from benchmarks.programs.child import PROGRAMS
from benchmarks.programs.table import show as run_programs
from benchmarks.workload import NAMES, OVERHEAD
from tests_integration.zoo import MODELS

SUITES: dict[str, tuple[str, ...]] = {
    "overhead": (OVERHEAD,),
    "vision": ("resnet18", "mobilenetv3_small_100", "vit_tiny_patch16_224"),
    "text": ("lstm", "bert_eager", "bert_sdpa", "gpt2_eager", "gpt2_sdpa"),
    "models": tuple(MODELS),
    "all": NAMES,
}
WHOLE_PROGRAMS, CALLS, KERNELS = "programs", "calls", "kernels"


def megabytes(sample: Sample | None) -> str:
    return "-" if sample is None else f"{sample.median / 2**20:.0f} MiB"


def table(rows: list[Row]) -> Table:
    """One line a workload and contender; × is the ratio to torch.compile's median in the same run."""
    out = Table(title="median (lowest..highest) ×ratio to torch.compile")
    for heading in ("workload", "contender", "step", "cold compile", "warm compile", "peak memory", "correct"):
        out.add_column(heading, no_wrap=heading != "correct")
    for row in rows:
        peer = next((r for r in rows if r.workload == row.workload and r.contender == "torch.compile"), None)
        out.add_row(
            row.workload + (" (train)" if row.train else ""),
            row.contender,
            seconds(row.step, peer and peer.step),
            seconds(row.cold, peer and peer.cold),
            seconds(row.warm, peer and peer.warm),
            megabytes(row.peak_memory),
            row.correct,
            end_section=row.contender == "ours",
        )
    return out


def main() -> None:
    if sys.argv[1:3] == ["--suite", "architectures"]:
        from benchmarks.architectures.sweep import main as sweep

        return sweep(sys.argv[3:])
    if sys.argv[1:2] == ["--suite"] and sys.argv[2:3] in (["dynamic"], ["dynamic-models"]):
        from benchmarks.dynamic.table import main as changing_sizes

        return changing_sizes(sys.argv[3:], models=sys.argv[2] == "dynamic-models")
    if sys.argv[1:3] == ["--suite", "cpu"]:
        from benchmarks.cpu.table import main as on_a_cpu

        return on_a_cpu(sys.argv[3:])
    if sys.argv[1:3] == ["--suite", "operators"]:
        from benchmarks.operators.table import main as operators

        return operators(sys.argv[3:])
    if sys.argv[1:3] == ["--suite", "tracing"]:
        from benchmarks.tracing import main as tracing

        return tracing(sys.argv[3:])
    if sys.argv[1:3] == ["--suite", "ablation"]:
        from benchmarks.cpu.ablation import main as without_each

        return without_each(sys.argv[3:])
    parser = argparse.ArgumentParser(prog="benchmarks", description=__doc__)
    parser.add_argument("--suite", choices=[*SUITES, WHOLE_PROGRAMS, CALLS, KERNELS], default="all")
    parser.add_argument("--model", action="append", choices=NAMES, help="instead of a suite; may be repeated")
    parser.add_argument("--program", action="append", choices=PROGRAMS, help="of the suite programs; may be repeated")
    parser.add_argument(
        "--kernel", action="append", choices=[*SINGLE, *LARGE], help="of the suite kernels; may be repeated"
    )
    parser.add_argument("--backend", default="inductor", help="of the suite programs")
    parser.add_argument("--limit", type=int, default=300, help="seconds that one of the programs may take")
    parser.add_argument("--keep", type=Path, help="folder for results, output and tracebacks of the programs")
    parser.add_argument(
        "--contender", action="append", choices=CONTENDERS, help="eager, torch.compile and ours by default"
    )
    parser.add_argument("--train", action="store_true", help="forward, loss and backward instead of inference")
    parser.add_argument("--rounds", type=int, default=15, help="timed rounds of steps")
    parser.add_argument("--compile-rounds", type=int, default=3, help="fresh processes each, cold and warm; 0 for none")
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--json", type=Path, help="write every reading here")
    options = parser.parse_args()
    contenders = options.contender or list(USUAL)
    console = Console(width=max(150, shutil.get_terminal_size().columns))
    if options.suite == WHOLE_PROGRAMS or options.program:
        names = options.program or list(PROGRAMS)
        chosen = {"backend": options.backend, "limit": options.limit, "keep": options.keep}
        write(options.json, run_programs(names, [c for c in contenders if c != "eager"], console, **chosen), console)
        return
    if options.suite == KERNELS or options.kernel:
        table_of = LARGE if options.device == "cuda" else SINGLE
        cases = [table_of[name] for name in options.kernel or table_of]
        write(options.json, time_kernels(cases, contenders, console, options.rounds, options.device), console)
        return
    if options.suite == CALLS and not options.model:
        write(options.json, time_calls(contenders, console, options.rounds), console)
        return
    names = options.model or SUITES[options.suite]
    rows: list[Row] = []
    for name in names:
        if name in MODELS and not MODELS[name].available:
            console.print(f"{name}: left out, needs {' and '.join(MODELS[name].needs)}")
            continue
        if name == OVERHEAD and options.train:
            continue
        here = {c: Row(name, c, options.train) for c in contenders}
        stepped = steps(name, contenders, train=options.train, rounds=options.rounds, device=options.device)
        for c, (sample, correct) in stepped.items():
            here[c].step, here[c].correct = sample, correct
        if options.compile_rounds:
            compilers = [c for c in contenders if c != "eager"]
            timed = compiles(name, compilers, train=options.train, rounds=options.compile_rounds, device=options.device)
            for c, (cold, warm, peak) in timed.items():
                here[c].cold, here[c].warm, here[c].peak_memory = cold, warm, peak
        rows += here.values()
        console.print(table(list(here.values())))
    if {"ours", "dynamic"} <= set(contenders):
        console.print(against_static(rows), highlight=False)
    write(options.json, [row.as_json() for row in rows], console)


def against_static(rows: list[Row]) -> str:
    """What symbolic sizes cost: geometric mean and worst of the ratios, dynamic to static: of medians, and of the fastest readings,
    which say more on a machine that others use."""
    said = []
    for name, of in [(name, of) for of in ("median", "low") for name in ("step", "cold", "warm")]:
        found = {(row.workload, row.contender): getattr(s, of) for row in rows if (s := getattr(row, name))}
        ratios = {w: found[w, "dynamic"] / m for (w, c), m in found.items() if c == "ours" and (w, "dynamic") in found}
        if ratios:
            worst = max(ratios, key=lambda workload: ratios[workload])
            mean = statistics.geometric_mean(ratios.values())
            what = name if of == "median" else f"fastest {name}"
            said.append(f"{what} {mean:.3f}, worst {ratios[worst]:.2f} ({worst})")
    return f"dynamic to static, geometric mean of {len({row.workload for row in rows})}: {'; '.join(said)}"


def write(file: Path | None, rows: list[dict[str, Any]], console: Console) -> None:
    """The readings, with the machine they are of, as JSON; nothing without a file."""
    if file is None:
        return
    machine = {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
    }
    file.write_text(json.dumps({"machine": machine, "rows": rows}, indent=1))
    console.print(f"readings written to {file}")


if __name__ == "__main__":
    main()
