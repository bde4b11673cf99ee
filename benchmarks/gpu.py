"""`python -m benchmarks.gpu models|patterns|latency ...`: on a GPU, eager, torch.compile and ours interleaved in one process.

`models`: those of the suite `cpu`, in float16 and batches of 32 if nothing else is said; takes that suite's options. `patterns`: the
kernels that transformers and vision models are made of (`kernels/large.py`), or those named. `latency`: what a call costs where kernels are short
(`latency/`).
"""

from __future__ import annotations

import sys

import torch
from rich.console import Console

from benchmarks.contenders import USUAL
from benchmarks.cpu.table import main as models
from benchmarks.kernels.large import LARGE
from benchmarks.kernels.table import show
from benchmarks.latency.table import main as latency

ROUNDS = 15


def main(arguments: list[str]) -> None:
    what, *rest = arguments or [""]
    if what not in ("models", "patterns", "latency"):
        sys.exit(__doc__)
    if not torch.cuda.is_available():
        sys.exit("there is no GPU here")
    if what == "models":
        return models(["--device", "cuda", "--dtype", "float16", "--batch", "32", *rest])
    if what == "latency":
        return latency(rest)
    unknown = set(rest) - LARGE.keys()
    if unknown:
        sys.exit(f"no such pattern: {', '.join(sorted(unknown))}; there are {', '.join(LARGE)}")
    show([LARGE[name] for name in rest or LARGE], USUAL, Console(width=200), ROUNDS, "cuda")


if __name__ == "__main__":
    main(sys.argv[1:])
