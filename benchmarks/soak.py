"""`python -m benchmarks.soak [--calls N] [--rounds N]`: memory over many calls, and over many compiles that are dropped.

Prints the resident memory's growth a call and a round, over the second half of each; exits with 1 where it is not flat.
"""

from __future__ import annotations

import argparse
import ctypes
import functools
import gc
import os
import sys
from collections.abc import Callable

import psutil
import torch

import meta

FLAT_CALL, FLAT_ROUND = 1.0, 1024.0  # bytes of growth that pass for noise of the allocator


def held() -> int:
    """Bytes of resident memory, less what is garbage and what the C allocator keeps for later."""
    while gc.collect():  # what goes may have held other garbage where the collector does not look: in a code's extras
        pass
    if sys.platform == "linux":
        ctypes.CDLL(None).malloc_trim(0)
    return psutil.Process(os.getpid()).memory_info().rss


def growth(act: Callable[[], object], times: int) -> float:
    """Bytes of memory that one `act` adds, after as many that warm up."""
    sizes = []
    for _ in range(2):
        for _ in range(times // 2):
            act()
        sizes.append(held())
    return (sizes[1] - sizes[0]) / (times // 2)


def compile_and_drop(backend: str) -> None:
    """A module of its own, compiled, run and dropped."""
    module = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU())
    meta.compile(module, backend=backend)(torch.ones(2, 4)).sum().backward()


def main() -> int:
    """Run both, print a line each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=1_000)
    options = parser.parse_args()
    torch.set_num_threads(1)
    add, x = meta.compile(lambda x: x + 1), torch.ones(4)
    by_call = growth(lambda: add(x), options.calls)
    print(f"{options.calls} calls: {by_call:.3f} bytes a call")
    flat = by_call <= FLAT_CALL
    for backend in ("aot_eager", "inductor"):
        by_round = growth(functools.partial(compile_and_drop, backend), options.rounds)
        print(f"{options.rounds} compiles with {backend} and drops: {by_round:.0f} bytes a round")
        flat = flat and by_round <= FLAT_ROUND
    return int(not flat)


if __name__ == "__main__":
    sys.exit(main())
