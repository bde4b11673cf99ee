"""A stored graph timed by itself: what a wrapper does that is run as a program.

Flows in: the wrapper's place and its inputs' metadata. Flows out: microseconds a call; of each kernel its time, bytes and share of a
copy's bandwidth.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import torch

from inductor.artefact import CompiledGraph, load_stored
from inductor.device import KernelCall
from inductor.samples import Metadata, random_input, waits_for

COPIED = 1 << 28
"""Bytes of a copy that tells what a device's memory does."""
SHARE = 5
"""Parts of the time that is to be spent, of which the best one counts."""


def benchmark(path: str, inputs: Sequence[Metadata | int], seconds: float = 1.0) -> float:
    """Time the stored graph whose wrapper is `path` on random inputs, and its kernels one by one.

    Args:
        inputs: their metadata; of symbolic sizes a guess.
        seconds: to spend on the graph, and on all kernels together, about.

    Prints microseconds a call, and for each kernel how often it is launched, microseconds of a launch, how many bytes its arguments have, what
    it does of them in a second, and that over what a copy does. A kernel that reads a part of an argument moves less; of what
    fits a cache more bytes are moved than memory could.

    Returns:
        Microseconds a call.
    """
    graph = load_stored(Path(path).parent)
    values = [random_input(meta) for meta in inputs]
    with torch.no_grad():
        best, count = _best(lambda: graph(list(values)), values, seconds)
        print(f"{best:.2f} us a call (best of {SHARE} runs of {count})")
        for line in _kernel_lines(graph, values, seconds):
            print(line)
    return best


def _best(run: Callable[[], Any], values: Iterable[Any], seconds: float) -> tuple[float, int]:
    """Microseconds of the best of some runs, and of how many calls each."""
    waits = waits_for(values)

    def timed(count: int) -> float:
        start = time.perf_counter()
        for _ in range(count):
            run()
        for wait in waits:
            wait()
        return (time.perf_counter() - start) / count

    timed(3)
    count = max(1, int(seconds / SHARE / max(timed(3), 1e-7)))
    return min(timed(count) for _ in range(SHARE)) * 1e6, count


def _kernel_lines(graph: CompiledGraph, values: Sequence[Any], seconds: float) -> Iterable[str]:
    launched: dict[str, list[tuple[KernelCall, tuple[Any, ...]]]] = {}

    def spy(name: str, kernel: KernelCall) -> KernelCall:
        def launch(*arguments: Any) -> None:
            launched.setdefault(name, []).append((kernel, arguments))  # which keeps them where they are
            kernel(*arguments)

        return launch

    graph.spied(spy)(list(values))
    if not launched:
        return
    copies = {
        device: _copied_in_a_second(device) for device in {t.device for t in values if isinstance(t, torch.Tensor)}
    }
    width = max(map(len, launched))
    yield f"{'kernel':{width}}  launches  us each       MB     GB/s  of a copy"
    for name, calls in launched.items():
        kernel, arguments = calls[0]
        tensors = [value for value in arguments if isinstance(value, torch.Tensor)]
        best, _ = _best(lambda: kernel(*arguments), tensors, seconds / len(launched))  # noqa: B023  (it has run when the loop goes on)
        moved = sum(each.nbytes for each in {t.data_ptr(): t for t in tensors}.values())
        speed = moved / best * 1e6
        share = [f"{speed / copies[t.device]:9.0%}" for t in tensors[:1] if t.device in copies]
        yield f"{name:{width}}  {len(calls):8}  {best:7.1f}  {moved / 1e6:7.2f}  {speed / 1e9:7.1f}  {''.join(share)}"


def _copied_in_a_second(device: torch.device) -> float:
    """Bytes that a copy reads and writes."""
    source = torch.zeros(COPIED // 4, device=device)
    target = torch.empty_like(source)
    best, _ = _best(lambda: target.copy_(source), [source], 0.2)
    return 2 * COPIED / best * 1e6
