"""One case in a process of its own: `python -m benchmarks.latency.child CASE DTYPE DEVICE ROUNDS`.

Out: a `Reading` as JSON, the last line printed.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import torch

from benchmarks.contenders import CONTENDERS as COMPILERS
from benchmarks.latency.cases import CASES, Case
from benchmarks.latency.table import CONTENDERS, OURS, PEER, PEER_REPLAYED, REPLAYED, Reading
from benchmarks.measure import synchronise
from benchmarks.turns import await_turn

QUEUED = {"three_kernels": 20}
"""Calls in a row of which the host's part is timed, if not one: what they launch fits the device's queue."""


def compiled(contender: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """The function under a contender, in its mode."""
    mode = "reduce-overhead" if contender in (PEER_REPLAYED, REPLAYED) else None
    name = {PEER_REPLAYED: PEER, REPLAYED: OURS}.get(contender, contender)
    run: Callable[..., Any] = COMPILERS[name](function, mode=mode) if mode else COMPILERS[name](function)
    return run


def measure(case: Case, name: str, device: str, rounds: int) -> Reading:
    """Compile, compare with eager, and time under every contender. What one raises is told, and it is left out."""
    reading = Reading(name)
    steps: dict[str, Callable[[], list[torch.Tensor]]] = {}
    case.before()
    expected = [t.clone() for t in case.step(case.function)()]
    for contender in CONTENDERS:
        step = case.step(compiled(contender, case.function))
        try:
            for _ in range(4):  # compiled, recorded, and recorded again where inputs have moved
                case.before()
                found = step()
            synchronise(device)
        except Exception as error:
            reading.failed[contender] = f"{type(error).__name__}: {str(error)[:200]}"
            continue
        largest = max((b.abs().max().item() for b in expected), default=1.0)
        off = max(
            ((a.double() - b.double()).abs().max().item() for a, b in zip(found, expected, strict=True)), default=0
        )
        if off > 0.02 * largest:
            reading.failed[contender] = f"WRONG: off by {off:.3g} of {largest:.3g}"
        steps[contender] = step
    await_turn()
    queued = QUEUED.get(name, 1)
    device_times: dict[str, list[float]] = {contender: [] for contender in steps}
    host_times: dict[str, list[float]] = {contender: [] for contender in steps}
    for _ in range(rounds):
        for contender, step in steps.items():
            case.before()
            step()
            synchronise(device)
            start = time.perf_counter()
            step()
            synchronise(device)
            device_times[contender].append(time.perf_counter() - start)
            start = time.perf_counter()
            for _ in range(queued):
                step()
            host_times[contender].append((time.perf_counter() - start) / queued)
            synchronise(device)
    for contender in steps:
        reading.device[contender] = 1e3 * statistics.median(device_times[contender])
        reading.host[contender] = 1e3 * statistics.median(host_times[contender])
    return reading


def main() -> None:
    name, dtype, device, rounds = sys.argv[1:]
    torch.manual_seed(0)
    case = CASES[name](getattr(torch, dtype), device)
    print(json.dumps(asdict(measure(case, name, device, int(rounds)))))


if __name__ == "__main__":
    main()
