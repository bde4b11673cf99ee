"""`python -m benchmarks.soak [--calls N] [--rounds N]`: memory over many calls, and over many compiles that are dropped.

Prints the resident memory's growth a call and a round, over the second half of each; exits with 1 where it is not flat.
"""

from __future__ import annotations

import argparse
import gc
import os
import sys
from collections.abc import Callable

import psutil
import torch

import meta

FLAT_CALL, FLAT_ROUND = 1.0, 4096.0  # bytes of growth that pass for noise of the allocator


def growth(act: Callable[[], object], times: int) -> float:
    """Bytes of resident memory that one `act` adds, after as many that warm up."""
    process = psutil.Process(os.getpid())
    sizes = []
    for _ in range(2):
        for _ in range(times // 2):
            act()
        gc.collect()
        sizes.append(process.memory_info().rss)
    return (sizes[1] - sizes[0]) / (times // 2)


def compile_and_drop() -> None:
    """A module of its own, compiled, run and dropped."""
    module = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU())
    meta.compile(module, backend="aot_eager")(torch.ones(2, 4)).sum().backward()


def main() -> int:
    """Run both, print a line each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=1_000)
    options = parser.parse_args()
    torch.set_num_threads(1)
    add, x = meta.compile(lambda x: x + 1), torch.ones(4)
    by_call = growth(lambda: add(x), options.calls)
    by_round = growth(compile_and_drop, options.rounds)
    print(f"{options.calls} calls: {by_call:.3f} bytes a call")
    print(f"{options.rounds} compiles and drops: {by_round:.0f} bytes a round")
    return int(by_call > FLAT_CALL or by_round > FLAT_ROUND)


if __name__ == "__main__":
    sys.exit(main())
