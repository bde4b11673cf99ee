"""Launches that are only timed: on copies of what they write, so that nothing of the program's changes.

Flows in: a kernel and the arguments of a launch. Flows out: arguments to try it on, and seconds of calls.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from statistics import median
from typing import Any

import torch

from inductor.device import Kernel
from inductor.ir.operations import Indirect, Load, Store

ROUNDS = 7
SECONDS = 2e-4
"""What a round of one call takes at least."""
MOST_CALLS = 64
"""Of a round."""
Call = Callable[[], None]


def repeatable(kernel: Kernel) -> bool:
    """Whether it can be run again and again on the same memory. Not where it may find places by what it wrote there the last time:
    these may be none of the memory's in the end."""
    ops = kernel.body.ops
    written = {op.buffer for op in ops if isinstance(op, Store)}
    again = any(isinstance(op, Load) and op.buffer in written for op in ops)
    return not (again and any(isinstance(op, Indirect) for op in ops))


def scratch(kernel: Kernel, arguments: Sequence[Any]) -> list[Any]:
    """The arguments of a launch, with copies of the memory that the kernel writes.

    Raises:
        torch.OutOfMemoryError: there is not enough of it.
    """
    copies: dict[int, torch.Tensor] = {}
    found = []
    for arg, value in zip(kernel.args, arguments, strict=True):
        found.append(_copied(value, copies) if arg.role in ("out", "inout") else value)
    return found


def _copied(tensor: torch.Tensor, copies: dict[int, torch.Tensor]) -> torch.Tensor:
    """The same view of a copy of all of its memory: a kernel may reach beyond what the tensor says of it."""
    memory = tensor.untyped_storage()
    if memory.data_ptr() not in copies:
        whole = torch.empty(0, dtype=torch.uint8, device=tensor.device).set_(memory)
        copies[memory.data_ptr()] = whole.clone()
    copied = torch.empty(0, dtype=tensor.dtype, device=tensor.device)
    return copied.set_(
        copies[memory.data_ptr()].untyped_storage(), tensor.storage_offset(), tensor.size(), tensor.stride()
    )


def seconds(calls: Sequence[Call], device: torch.device) -> list[float]:
    """Of each call: medians of rounds in turn, by the device's clock if it has one."""
    elapsed = _by_events if device.type == "cuda" else _by_clock
    counts = [max(1, min(MOST_CALLS, int(SECONDS / max(elapsed(call, 1), 1e-7)))) for call in calls]
    found = [[elapsed(call, count) / count for call, count in zip(calls, counts, strict=True)] for _ in range(ROUNDS)]
    return [median(times) for times in zip(*found, strict=True)]


def _by_events(call: Call, count: int) -> float:
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    for _ in range(count):
        call()
    end.record()
    end.synchronize()
    return float(start.elapsed_time(end)) / 1e3


def _by_clock(call: Call, count: int) -> float:
    start = time.perf_counter()
    for _ in range(count):
        call()
    return time.perf_counter() - start
