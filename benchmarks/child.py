"""A fresh process: builds a workload, times its first step less a later one, prints one JSON line.

The first step holds all of a contender's compile time, the import of the compiler included. What a device and its libraries do at their first
call (a context, handles, kernels that are loaded) is nobody's compile time: eager mode has made a step by then.
"""

from __future__ import annotations

import json
import re
import sys
import time
from pathlib import Path

import torch

from benchmarks.workload import workload


def peak_resident() -> int:
    """Bytes; of this program alone (`getrusage` would count what the parent held when it forked)."""
    status = Path("/proc/self/status").read_text()
    return 1024 * int(re.search(r"VmHWM:\s+(\d+) kB", status)[1])  # type: ignore[index]


def forget_peaks() -> None:
    """Wait for the device; peaks are of what comes after."""
    Path("/proc/self/clear_refs").write_text("5")
    if torch.cuda.is_available():
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()


def main() -> None:
    name, contender, device, mode = sys.argv[1:]
    # The model's own libraries are imported by whoever is first.
    eager = workload(name, "eager", train=mode == "train", device=device)
    eager.step()
    load = workload(name, contender, train=mode == "train", device=device)
    forget_peaks()
    begun = time.perf_counter()
    load.step()
    first = time.perf_counter()
    load.step()
    second = time.perf_counter()
    del eager
    peak = torch.cuda.max_memory_allocated() if device == "cuda" else peak_resident()
    print(json.dumps({"compile": load.asking + (first - begun) - (second - first), "peak": peak}))


if __name__ == "__main__":
    main()
