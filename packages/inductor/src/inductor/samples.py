"""Tensors made up to time graphs on, and the timing.

Flows in: metadata, and what is to be timed. Flows out: tensors, and seconds.
"""

from __future__ import annotations

import functools
import itertools
import time
from collections.abc import Callable, Iterable, Sequence
from statistics import median
from typing import Any

import torch

from inductor.backends import traits_of

Metadata = tuple[tuple[int, ...], tuple[int, ...], torch.dtype, str | torch.device]

WALKED = 64 << 20
"""Bytes of inputs that calls walk through: in a program a call finds its weights where others' have been since."""
MOST_SETS = 8
ROUNDS = 9
SECONDS = 0.02
"""What a round of one call takes at least."""


def random_input(meta: Metadata | int, generator: torch.Generator | None = None) -> Any:
    """A tensor of this size, stride, dtype and device: normal floats, small integers. Without a generator it draws from torch's own."""
    if isinstance(meta, int):
        return meta
    size, stride, dtype, device = meta
    tensor = torch.empty_strided(size, stride, dtype=dtype, device=device)
    if tensor.numel() == 0:
        return tensor
    extent = 1 + sum((n - 1) * s for n, s in zip(size, stride, strict=True))
    flat = tensor.as_strided((extent,), (1,))
    if dtype.is_floating_point or dtype.is_complex:
        flat.normal_(generator=generator)
    else:
        flat.random_(0, 2, generator=generator)
    return tensor


def waits_for(values: Iterable[Any]) -> list[Callable[[], None]]:
    """For each device type of the tensors whose kernels run on after their calls: what waits until they have ended."""
    modules = {traits_of(value.device).module for value in values if isinstance(value, torch.Tensor)}
    return [functools.reduce(getattr, module.split(".")[1:], torch).synchronize for module in modules if module]


def made_up(like: torch.Tensor) -> torch.Tensor:
    """A tensor of this metadata, from the start of its storage; the program's random numbers stay its own."""
    generator = torch.Generator(like.device).manual_seed(0)
    made: torch.Tensor = random_input((tuple(like.size()), like.stride(), like.dtype, like.device), generator)
    return made


def timed(
    calls: Sequence[Callable[[list[Any]], Any]], inputs: Sequence[torch.Tensor], rounds: int = ROUNDS
) -> list[float]:
    """Seconds of each call: medians of rounds in turn."""
    size = max(sum(each.untyped_storage().nbytes() for each in inputs), 1)
    sets = [inputs, *(tuple(map(made_up, inputs)) for _ in range(min(MOST_SETS, WALKED // size) - 1))]
    waits = waits_for(inputs)

    def seconds(call: Callable[[list[Any]], Any], count: int) -> float:
        start = time.perf_counter()
        for each in itertools.islice(itertools.cycle(sets), count):
            call(list(each))
        for wait in waits:
            wait()
        return (time.perf_counter() - start) / count

    for call in calls:
        seconds(call, 2)
    counts = [max(1, int(SECONDS / seconds(call, 3))) for call in calls]
    found = [[seconds(call, count) for call, count in zip(calls, counts, strict=True)] for _ in range(rounds)]
    return [median(times) for times in zip(*found, strict=True)]
