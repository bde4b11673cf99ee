"""The seeds that a run of a graph draws, and of which its kernels make random numbers (`inductor.draws`).

Flows in: how many, and for which device. Flows out: a tensor of them, told by the state of the device's default generator, which moves on.

A launch that draws a few seeds costs the host several times what a kernel's launch does, and the device the time between two kernels.
Where generators say where they stand (`DeviceTraits.tells_state`) seeds are made for many states at once, and a run takes those of the
state it finds.
"""

from __future__ import annotations

import functools
import struct
import threading
from hashlib import blake2b

import torch
from torch import Tensor

from inductor._torch import current_cuda_device, current_raw_stream

ROWS = 64
"""States whose seeds are made at once."""
_STEP = 4
"""By how much a generator's offset moves on: it is a multiple of this."""
_KEPT = 16
"""Blocks of seeds in memory: of several graphs, and of what is run again from states before."""

# Two threads that draw from one generator get two states.
_MOVING = threading.Lock()


_module = functools.cache(torch.get_device_module)


def drawn_seeds(count: int, device: torch.device) -> Tensor:
    """So many seeds (int64, all bits random) from the device's default generator.

    The same state gives the same ones. While the program records launches they are drawn by a launch, which draws others at each replay.
    """
    module = _module(device.type)
    if module.is_current_stream_capturing():
        return _launched(count, device, None)
    if not module.default_generators:
        module.init()
    index = current_cuda_device() if device.index is None else device.index
    generator = module.default_generators[index]
    with _MOVING:
        seed, offset = generator.initial_seed(), generator.get_offset()
        generator.set_offset(offset + _STEP)
    block, row = divmod(offset // _STEP, ROWS)
    return _block(seed, block, count, device.type, index, current_raw_stream(index)).select(0, row)


@functools.lru_cache(maxsize=_KEPT)
def _block(seed: int, block: int, count: int, kind: str, index: int, stream: int) -> Tensor:
    """The seeds of states that follow each other, a row for each. Kept by stream, too: what is launched on another one would have to wait."""
    device = torch.device(kind, index)
    numbers = struct.pack("<QQQ", seed % (1 << 64), block, count)
    key = int.from_bytes(blake2b(numbers, digest_size=8, usedforsecurity=False).digest(), "little")
    with torch.inference_mode(False), torch.no_grad():  # a backward may keep them
        return _launched(ROWS * count, device, torch.Generator(device).manual_seed(key)).view(ROWS, count)


def _launched(count: int, device: torch.device, generator: torch.Generator | None) -> Tensor:
    return torch.randint(-(1 << 63), (1 << 63) - 1, (count,), generator=generator, dtype=torch.int64, device=device)
