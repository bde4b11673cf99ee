"""A stored graph timed by itself: what a wrapper does that is run as a program.

Flows in: the wrapper's place and its inputs' metadata. Flows out: microseconds a call.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

import torch

from inductor.artefact import load_stored
from inductor.samples import Metadata, random_input, waits_for


def benchmark(path: str, inputs: Sequence[Metadata | int], seconds: float = 1.0) -> float:
    """Time the stored graph whose wrapper is `path` on random inputs; prints and returns microseconds a call."""

    call = load_stored(Path(path).parent)
    values = [random_input(meta) for meta in inputs]
    waits = waits_for(values)

    def timed(count: int) -> float:
        start = time.perf_counter()
        for _ in range(count):
            call(list(values))
        for wait in waits:
            wait()
        return (time.perf_counter() - start) / count

    with torch.no_grad():
        timed(3)
        count = max(1, int(seconds / 5 / max(timed(3), 1e-7)))
        best = min(timed(count) for _ in range(5)) * 1e6
    print(f"{best:.2f} us a call (best of 5 runs of {count})")
    return best
