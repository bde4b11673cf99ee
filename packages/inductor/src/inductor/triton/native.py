"""What launches come down to: loads `launcher.c` and its like, puts machine code on a device, and runs work beside other work.

Flows in: texts of extensions, `Binary`s. Flows out: modules and functions of the driver. Nothing here takes part in compiling kernels, so that
a process that only launches what was compiled before imports little.
"""

from __future__ import annotations

import ctypes
import functools
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import torch
from triton.backends import backends
from triton.backends.compiler import GPUTarget
from triton.runtime import driver
from triton.runtime.build import compile_module_from_src

from inductor.addresses import address_facts, address_header
from inductor.triton.binary import Binary
from inductor.triton.processes import MOST

T = TypeVar("T")
SOURCE = Path(__file__).with_name("launcher.c")
WORKERS = MOST
"""Kernels that are compiled beside each other."""


def serves(device: torch.device) -> bool:
    """Whether kernels on `device` can be launched by this module: it speaks to CUDA's driver."""
    return (
        device.type == "cuda" and device.index is not None and torch.cuda.is_available() and target().backend == "cuda"
    )


def launcher() -> Any:
    """The native part of single kernels' launches, and of waiting for them."""
    return load_native(SOURCE, "launcher")


@functools.cache
def points() -> Any:
    """The same, which marks points of streams, too: its `mark` and `reach`."""
    cuda, module = cuda_driver(), launcher()
    functions = (cuda.cuEventRecord, cuda.cuEventQuery, cuda.cuEventSynchronize, cuda.cuStreamIsCapturing)
    module.points(*map(_address, functions))
    return module


def may_serve() -> bool:
    """Whether `serves` may say yes, told without Triton's driver, which a compiler takes a third of a second to build."""
    return "nvidia" in backends and backends["nvidia"].driver.is_active()


def prepare() -> None:
    """Start to build what launches need, beside other work: where it was never built, that takes a second."""
    beside(_prepare)


def _prepare() -> None:
    if serves(torch.device("cuda", 0)):
        launcher()


def native_text(source: Path) -> str:
    """The text of an extension whose callables launch kernels, with its head."""
    return address_header() + source.with_name("launches.h").read_text() + source.read_text()


def load_native(source: Path, name: str) -> Any:
    """Such an extension, once. Triton compiles it as it does its own, which this installation must be able to."""
    with _building:
        if name not in _natives:
            _natives[name] = _load_native(source, name)
        return _natives[name]


_building = threading.Lock()
_natives: dict[str, Any] = {}
"""By name."""


def _load_native(source: Path, name: str) -> Any:
    module = compile_module_from_src(native_text(source), name)
    cuda = cuda_driver()
    addresses = map(_address, (cuda.cuLaunchKernel, cuda.cuLaunchKernelEx, cuda.cuGetErrorString))
    module.configure(address_facts(), driver.active.get_current_stream, enter_device, *addresses)
    return module


def _address(function: Any) -> int | None:
    return ctypes.cast(function, ctypes.c_void_p).value


def enter_device(index: int) -> None:
    """Make the context that torch uses of a device current in this thread.

    Raises:
        RuntimeError: the driver refuses.
    """
    status = cuda_driver().cuCtxSetCurrent(_context_of(index))
    if status:
        raise RuntimeError(f"CUDA error {status}: device {index} cannot be used")


@functools.cache
def _context_of(index: int) -> ctypes.c_void_p:
    cuda, device, context = cuda_driver(), ctypes.c_int(), ctypes.c_void_p()
    status = cuda.cuDeviceGet(ctypes.byref(device), index) or cuda.cuDevicePrimaryCtxRetain(
        ctypes.byref(context), device
    )
    if status:
        raise RuntimeError(f"CUDA error {status}: device {index} cannot be used")
    return context


@functools.cache
def cuda_driver() -> Any:
    """CUDA's driver library."""
    return ctypes.CDLL("libcuda.so.1")


def device_address(pinned: torch.Tensor) -> int:
    """Where kernels find what lies in pinned host memory."""
    found = ctypes.c_void_p()
    device_pointer = 3
    host = ctypes.c_void_p(pinned.data_ptr())
    status = cuda_driver().cuPointerGetAttribute(ctypes.byref(found), device_pointer, host)
    if status or found.value is None:
        raise RuntimeError(f"CUDA error {status}: kernels cannot reach pinned host memory")
    return found.value


Told = tuple[int, int, int, bool, Any]
"""A function of the driver's, threads, bytes of shared memory, whether it may be launched early, owner."""


class Loaded(NamedTuple):
    """A compiled kernel on a device."""

    function: int
    """The driver's handle."""
    threads: int
    shared: int
    """Bytes of shared memory."""
    early: bool
    """See `Binary`."""
    owner: Any
    """What keeps it."""
    key: str | None = None
    """Of its machine code on disk."""

    @property
    def told(self) -> Told:
        """What native parts are told of it."""
        return self[:5]


@functools.cache
def _workers() -> ThreadPoolExecutor:
    """Threads that compile, or wait for a process that does."""
    return ThreadPoolExecutor(WORKERS, "triton-compile")


def beside(function: Callable[..., T], *arguments: Any) -> Future[T]:
    """Start something while other work goes on; do it here where the interpreter ends, which starts nothing any more."""
    try:
        begun = _workers().submit(function, *arguments)
    except RuntimeError:
        return done(function, *arguments)
    _unfinished.add(begun)
    begun.add_done_callback(_unfinished.discard)
    return begun


def done(function: Callable[..., T], *arguments: Any) -> Future[T]:
    """As `beside`, of what is done here and now."""
    made = Future[T]()
    try:
        made.set_result(function(*arguments))
    except Exception as error:  # of any kind: whoever asks for the result meets it
        made.set_exception(error)
    return made


def finish() -> None:
    """Wait until nothing is compiled beside: it would take its time from what is timed."""
    wait(tuple(_unfinished))


_unfinished: set[Future[Any]] = set()
"""What was begun and goes on."""


def target() -> GPUTarget:
    """What kernels are compiled for."""
    with _asking:
        return driver.active.get_current_target()


_asking = threading.Lock()
"""Of two threads that ask first each would build Triton's driver."""


def on_device(binary: Binary, device: int) -> Loaded:
    """Load a compiled kernel.

    Raises:
        RuntimeError: it needs more of the device than there is.
    """
    most = _most_shared(device)
    if binary.shared > most:
        raise RuntimeError(f"kernel {binary.name} needs {binary.shared} bytes of shared memory; the device has {most}")
    module, function, _, _, threads = driver.active.utils.load_binary(binary.name, binary.code, binary.shared, device)
    if binary.threads > threads:
        raise RuntimeError(
            f"kernel {binary.name} needs {binary.threads} threads a program; with its registers {threads} can run"
        )
    return Loaded(function, binary.threads, binary.shared, binary.early, module, binary.key)


@functools.cache
def _most_shared(device: int) -> int:
    """Bytes of shared memory that a program can have."""
    most: int = driver.active.utils.get_device_properties(device)["max_shared_mem"]
    return most
