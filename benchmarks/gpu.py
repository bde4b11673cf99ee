"""`python -m benchmarks.gpu models|patterns|latency ...`: on a GPU, eager, torch.compile and ours interleaved in one process.

`models`: those of the suite `cpu`, in float16 and batches of 32 if nothing else is said; takes that suite's options. `patterns`: the
kernels that transformers and vision models are made of (`kernels/large.py`), or those named. `latency`: what a call costs where kernels are short
(`latency/`). Under `--jobs N` so many processes compile at a time; each is timed alone.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

import torch
from rich.console import Console

from benchmarks.contenders import USUAL
from benchmarks.cpu.table import main as models
from benchmarks.kernels.child import in_processes
from benchmarks.kernels.large import LARGE
from benchmarks.kernels.table import report
from benchmarks.latency.table import main as latency

ROUNDS = 15


def patterns(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.gpu patterns")
    parser.add_argument("pattern", nargs="*", help=f"all by default: {', '.join(LARGE)}")
    parser.add_argument("--jobs", type=int, default=1)
    options = parser.parse_args(arguments)
    if unknown := set(options.pattern) - LARGE.keys():
        parser.error(f"no such pattern: {', '.join(sorted(unknown))}")
    rows = in_processes(options.pattern or [*LARGE], ROUNDS, "cuda", options.jobs)
    report(rows, USUAL, Console(width=200))
    sys.exit(any(not row.samples for row in rows))


def main(arguments: list[str]) -> None:
    what, *rest = arguments or [""]
    if what not in ("models", "patterns", "latency"):
        sys.exit(__doc__)
    if not torch.cuda.is_available():
        sys.exit("there is no GPU here")
    if what == "models":
        return models(["--device", "cuda", "--dtype", "float16", "--batch", "32", *rest])
    return (latency if what == "latency" else patterns)(rest)


if __name__ == "__main__":
    main(sys.argv[1:])
