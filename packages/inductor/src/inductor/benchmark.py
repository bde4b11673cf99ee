"""A stored graph timed by itself: what a wrapper does that is run as a program.

Flows in: the wrapper's place and its inputs' metadata. Flows out: microseconds a call.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from inductor.artefact import load_stored
from inductor.backends import traits_of

Metadata = tuple[tuple[int, ...], tuple[int, ...], torch.dtype, str]


def random_input(meta: Metadata | int) -> Any:
    """A tensor of this size, stride, dtype and device: normal floats, small integers."""
    if isinstance(meta, int):
        return meta
    size, stride, dtype, device = meta
    tensor = torch.empty_strided(size, stride, dtype=dtype, device=device)
    if tensor.numel() == 0:
        return tensor
    extent = 1 + sum((n - 1) * s for n, s in zip(size, stride, strict=True))
    flat = tensor.as_strided((extent,), (1,))
    if dtype.is_floating_point or dtype.is_complex:
        flat.normal_()
    else:
        flat.random_(0, 2)
    return tensor


def benchmark(path: str, inputs: Sequence[Metadata | int], seconds: float = 1.0) -> float:
    """Time the stored graph whose wrapper is `path` on random inputs; prints and returns microseconds a call."""

    call = load_stored(Path(path).parent)
    values = [random_input(meta) for meta in inputs]
    modules = {traits_of(value.device).module for value in values if isinstance(value, torch.Tensor)}
    waits = [functools.reduce(getattr, module.split(".")[1:], torch).synchronize for module in modules if module]

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
