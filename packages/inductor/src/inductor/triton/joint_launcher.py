"""Launches of joint kernels: loads `joint.c`, and compiles kernels for it.

Flows in: a joint kernel's `@triton.jit` function, its `Layout` and grid. Flows out: a callable over the arguments of all parts.
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import torch
from triton.runtime import driver

from inductor.addresses import kinds_of
from inductor.device import KernelCall
from inductor.triton.binaries import compile_for
from inductor.triton.binary import Binary
from inductor.triton.joint import Grid, Layout
from inductor.triton.native import Loaded, Told, beside, load_native, on_device, target
from inductor.triton.signature import joint_source

SOURCE = Path(__file__).with_name("joint.c")
FILL = Path(__file__).with_name("fill.ptx")
UNALIGNED, ALIGNED, FILLER = range(3)
"""What `joint.c` asks for."""


FILL_THREADS = 128
"""Of a program, each of which writes a word."""


def _native() -> Any:
    return load_native(SOURCE, "joint")


def make_call(function: Any, layout: Layout, grid: Callable[..., Grid] | Grid) -> KernelCall:
    """The callable of a joint kernel: takes buffers as tensors and numbers as ints and floats, one part after the other.

    It raises TypeError on a wrong number of arguments, and RuntimeError where the driver refuses a launch. As with other kernels,
    that tensors are on the kernel's device is the caller's to see to.
    """
    device = layout.joint.device
    allocate = functools.partial(torch.empty, layout.words, dtype=torch.int64, device=device)
    places = struct.pack(f"={len(layout.places)}i", *layout.places)
    call: KernelCall = _native().joint(
        layout.joint.name,
        kinds_of(layout.args),
        places,
        layout.words,
        device.index,
        grid,
        Compiler(function, layout).compiled,
        allocate,
    )
    return call


class Compiler:
    """Compiles a joint kernel's two forms; that for addresses which allocators give from the start on, beside other work."""

    def __init__(self, function: Any, layout: Layout) -> None:
        self._function = function
        self._warps = layout.warps
        self._device = layout.joint.device.index
        self._begun: Future[Binary] = beside(self._compile, True, target())

    def _compile(self, aligned: bool, current: Any) -> Binary:
        return compile_for(joint_source(self._function, aligned), current, {"num_warps": self._warps})

    def compiled(self, which: int) -> Told:
        """The code that is asked for."""
        if which == FILLER:
            return _filler(self._device).told
        binary = self._begun.result() if which == ALIGNED else self._compile(False, target())
        return on_device(binary, self._device).told


@functools.cache
def _filler(device: int) -> Loaded:
    """What writes its parameters to the device's memory."""
    module, function, *_ = driver.active.utils.load_binary("fill", FILL.read_bytes() + b"\0", 0, device)
    return Loaded(function, FILL_THREADS, 0, False, module)
