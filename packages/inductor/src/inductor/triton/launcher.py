"""Launches of Triton's kernels without Python between call and driver: loads `launcher.c` and compiles kernels for it.

Flows in: a `@triton.jit` function, its `Kernel` and blocks. Flows out: a callable over the kernel's arguments. Triton's own
launcher looks at each argument anew in Python, which takes longer than most kernels.
"""

from __future__ import annotations

import ctypes
import functools
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import torch
import triton
from triton import knobs
from triton.backends.compiler import GPUTarget
from triton.runtime import driver
from triton.runtime.build import compile_module_from_src

from inductor.addresses import address_facts, address_header, argument_kinds
from inductor.device import Kernel, KernelCall
from inductor.triton import binaries
from inductor.triton.binaries import compile_for
from inductor.triton.binary import Binary
from inductor.triton.blocks import MULTIPLE, Blocks
from inductor.triton.checks import cuda_driver
from inductor.triton.choices import Choices, Plan
from inductor.triton.processes import MOST
from inductor.triton.signature import source_of

T = TypeVar("T")
SOURCE = Path(__file__).with_name("launcher.c")
MOST_VARIANTS = 3
"""Of a form of a kernel, whose last one assumes nothing."""
WORKERS = MOST
"""Kernels that are compiled beside each other."""


def serves(device: torch.device) -> bool:
    """Whether kernels on `device` can be launched by this module: it speaks to CUDA's driver."""
    return (
        device.type == "cuda" and device.index is not None and torch.cuda.is_available() and target().backend == "cuda"
    )


def _native() -> Any:
    """The native part."""
    return load_native(SOURCE, "launcher")


def prepare() -> None:
    """Start to build what launches need, beside other work: where it was never built, that takes a second."""
    beside(_native)


def prepare_compiler() -> None:
    """Start what compiling begins with, beside other work."""
    beside(binaries.prepare)


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
    addresses = [
        ctypes.cast(function, ctypes.c_void_p).value
        for function in (cuda.cuLaunchKernel, cuda.cuLaunchKernelEx, cuda.cuGetErrorString)
    ]
    module.configure(address_facts(), driver.active.get_current_stream, enter_device, *addresses)
    return module


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


def _device_address(pinned: torch.Tensor) -> int:
    """Where kernels find what lies in pinned host memory."""
    found = ctypes.c_void_p()
    device_pointer = 3
    host = ctypes.c_void_p(pinned.data_ptr())
    status = cuda_driver().cuPointerGetAttribute(ctypes.byref(found), device_pointer, host)
    if status or found.value is None:
        raise RuntimeError(f"CUDA error {status}: kernels cannot reach pinned host memory")
    return found.value


def make_call(
    choices: Choices, check: torch.Tensor | None, plan: Plan | Callable[..., Plan] | None = None
) -> KernelCall:
    """The callable of a kernel: takes its buffers as tensors and its numbers as ints and floats, in order.

    Args:
        check: the number in pinned memory that the kernel writes into where a position is out of range.
        plan: of all launches, or asked with all arguments of one where its numbers are others than the last one's; None: as the
            choices say.

    It raises TypeError on a wrong number of arguments, and RuntimeError where the driver refuses a launch. That tensors are
    on the kernel's device is the caller's to see to, as all of their metadata is. Triton's launch hooks are not called.
    """
    whole = callable(plan)
    if plan is None:
        plan = choices.plan if choices.points is None else choices.plan()
    if choices.points:  # of others the first call tells the form
        begin(choices, 0 if callable(plan) else plan[1])
    return _native_call(choices, check, plan, whole)


def _native_call(
    choices: Choices, check: torch.Tensor | None, plan: Plan | Callable[..., Plan], whole: bool
) -> KernelCall:
    kernel = choices.kernel
    variants = Variants(choices, check)
    address = 0 if check is None else _device_address(check)
    call: KernelCall = _native().kernel(
        kernel.name, argument_kinds(kernel), kernel.device.index, plan, address, variants.compiled, whole
    )
    return call


class Trials:
    """Forms of one kernel, to be timed: see `tuning.Runner`."""

    failures: tuple[type[Exception], ...] = (RuntimeError, triton.TritonError)

    def __init__(self, choices: Choices, check: torch.Tensor | None) -> None:
        self._choices, self._check = choices, check

    def begin(self, form: int, arguments: Sequence[Any] | None) -> None:
        """Start to compile a form for these arguments; None: for those that are likely to come."""
        if arguments is None:
            begin(self._choices, form)
        else:
            begin(self._choices, form, *_facts(self._choices.kernel, arguments))

    def call(self, form: int, plan: Plan) -> KernelCall:
        """What launches a form by a plan."""
        return _native_call(self._choices, self._check, plan, whole=False)

    def busy(self) -> bool:
        """Whether launches are being recorded, and none happens."""
        return torch.cuda.is_current_stream_capturing()


def _facts(kernel: Kernel, arguments: Sequence[Any]) -> tuple[int, bool]:
    """What holds of arguments: a bit for each that is a multiple of `MULTIPLE`; whether all integers fit 32 bits."""
    held, narrow = 0, True
    for at, (arg, value) in enumerate(zip(kernel.args, arguments, strict=True)):
        number = value.data_ptr() if isinstance(value, torch.Tensor) else value
        if arg.role == "size" and arg.dtype.is_floating_point:
            continue
        held |= (number % MULTIPLE == 0) << at
        narrow &= arg.role != "size" or -(2**31) <= number < 2**31
    return held, narrow


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


class Variants:
    """What a kernel was compiled for so far."""

    def __init__(self, choices: Choices, *kept: Any) -> None:
        """`kept`: what has to live as long."""
        self.choices = choices
        self._held: dict[int, tuple[int, int, bool]] = {}
        """By form: how many variants it has, what held of the arguments in every call that was compiled for, and whether all
        integers fitted 32 bits then."""
        self._kept = kept

    def compiled(self, given: bytes, narrow: bool, form: int) -> tuple[bytes, bool, int, int, int, bool, Any]:
        """A variant for a call that none fits: what it assumes, its function, threads, bytes of shared memory, owner.

        Args:
            given: which arguments are multiples of 16, as in `source_of`.
            narrow: whether all integers fit 32 bits.
            form: which of the kernel's `Choices`.

        Arguments that change from call to call would have a variant each; the next one therefore assumes only what held
        all along, and the last one nothing.
        """
        blocks = self.choices.blocks[form]
        now = int.from_bytes(given, "little")
        count, held, all_narrow = self._held.get(form, (0, now, not blocks.wide))
        count, held, all_narrow = count + 1, held & now, all_narrow and narrow
        if count >= MOST_VARIANTS:
            held, all_narrow = 0, False
        self._held[form] = count, held, all_narrow
        assumes = held.to_bytes(len(given), "little")
        loaded = load(self.choices.function(form), self.choices.kernel, blocks, assumes, all_narrow)
        return assumes, all_narrow, *loaded


@functools.cache
def _workers() -> ThreadPoolExecutor:
    """Threads that compile, or wait for a process that does."""
    return ThreadPoolExecutor(WORKERS, "triton-compile")


def begin(choices: Choices, form: int, held: int | None = None, narrow: bool = True) -> None:
    """Start to compile a form for a call.

    Args:
        held, narrow: see `_facts`; None: of the call that is likely to come, whose buffers begin where allocators put them.
    """
    kernel, blocks = choices.kernel, choices.blocks[form]
    if held is None:
        held = sum(1 << at for at, arg in enumerate(kernel.args) if arg.role != "size")
    assumes = held.to_bytes((len(kernel.args) + 7) // 8, "little")
    function, narrow = choices.function(form), narrow and not blocks.wide
    key = _key(kernel, blocks, assumes, narrow)
    if key not in _loaded(function):
        source, current = source_of(function, kernel, blocks, assumes, narrow), target()
        with _beginning:
            begun = vars(function).setdefault("_inductor_begun", {})
            if key not in begun:
                begun[key] = beside(compile_for, source, current, blocks.options)


def beside(function: Callable[..., T], *arguments: Any) -> Future[T]:
    """Start something while other work goes on."""
    begun = _workers().submit(function, *arguments)
    _unfinished.add(begun)
    begun.add_done_callback(_unfinished.discard)
    return begun


def finish() -> None:
    """Wait until nothing is compiled beside: it would take its time from what is timed."""
    wait(tuple(_unfinished))


_beginning = threading.Lock()
_unfinished: set[Future[Any]] = set()
"""What was begun and goes on."""


def _loaded(function: Any) -> dict[tuple[Any, ...], Loaded]:
    """Kept with the function: what one graph had compiled serves all, and goes with the last of them."""
    found: dict[tuple[Any, ...], Loaded] = vars(function).setdefault("_inductor_loaded", {})
    return found


def _key(kernel: Kernel, blocks: Blocks, assumes: bytes, narrow: bool) -> tuple[Any, ...]:
    # A text says nothing of the dtypes in memory where loads and stores convert: kernels of several have one function.
    return kernel.device.index, kernel.args, blocks, assumes, narrow, knobs.runtime.debug


def load(function: Any, kernel: Kernel, blocks: Blocks, assumes: bytes, narrow: bool) -> Loaded:
    """Compile a kernel, or take it from the disk, and load it on the kernel's device.

    Raises:
        RuntimeError: it needs more of the device than there is.
    """
    known, key = _loaded(function), _key(kernel, blocks, assumes, narrow)
    found = known.get(key)
    if found is None:
        begun = vars(function).get("_inductor_begun", {}).pop(key, None)
        if begun is None:
            compiled = compile_for(source_of(function, kernel, blocks, assumes, narrow), target(), blocks.options)
        else:
            compiled = begun.result()
        found = known[key] = on_device(compiled, kernel.device.index)
    return found


def target() -> GPUTarget:
    """What kernels are compiled for."""
    return driver.active.get_current_target()


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
    return Loaded(function, binary.threads, binary.shared, binary.early, module)


@functools.cache
def _most_shared(device: int) -> int:
    """Bytes of shared memory that a program can have."""
    most: int = driver.active.utils.get_device_properties(device)["max_shared_mem"]
    return most
