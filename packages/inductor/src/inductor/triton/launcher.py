"""Launches of Triton's kernels without Python between call and driver: loads `launcher.c` and compiles kernels for it.

Flows in: a `@triton.jit` function, its `Kernel` and blocks. Flows out: a callable over the kernel's arguments. Triton's own
launcher looks at each argument anew in Python, which takes longer than most kernels.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import torch
import triton
from triton import knobs

from inductor.addresses import argument_kinds
from inductor.device import Kernel, KernelCall
from inductor.triton import binaries, native
from inductor.triton.binaries import compile_for
from inductor.triton.blocks import MULTIPLE, Blocks
from inductor.triton.choices import Choices, Plan
from inductor.triton.native import Loaded, Told, beside, on_device, target
from inductor.triton.signature import source_of

MOST_VARIANTS = 3
"""Of a form of a kernel, whose last one assumes nothing."""
Keep = Callable[[int, bytes, bool, str | None], None]
"""Told of the first variant: its form, what it assumes, whether integers are narrow, the key of its machine code."""


def prepare_compiler() -> None:
    """Start what compiling begins with, beside other work."""
    beside(binaries.prepare)


def make_call(
    choices: Choices,
    check: torch.Tensor | None,
    plan: Plan | Callable[..., Plan] | None = None,
    keep: Keep | None = None,
) -> KernelCall:
    """The callable of a kernel: takes its buffers as tensors and its numbers as ints and floats, in order.

    Args:
        check: the number in pinned memory that the kernel writes into where a position is out of range.
        plan: of all launches, or asked with all arguments of one where its numbers are others than the last one's; None: as the
            choices say.
        keep: see `Keep`.

    It raises TypeError on a wrong number of arguments, and RuntimeError where the driver refuses a launch. That tensors are
    on the kernel's device is the caller's to see to, as all of their metadata is. Triton's launch hooks are not called.
    """
    whole = callable(plan)
    if plan is None:
        plan = choices.plan if choices.points is None else choices.plan()
    if choices.points:  # of others the first call tells the form
        begin(choices, 0 if callable(plan) else plan[1])
    return _native_call(choices, check, plan, whole, keep)


def _native_call(
    choices: Choices,
    check: torch.Tensor | None,
    plan: Plan | Callable[..., Plan],
    whole: bool,
    keep: Keep | None = None,
) -> KernelCall:
    kernel = choices.kernel
    variants = Variants(choices, check, keep)
    address = 0 if check is None else native.device_address(check)
    call: KernelCall = native.launcher().kernel(
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


class Variants:
    """What a kernel was compiled for so far."""

    def __init__(self, choices: Choices, check: torch.Tensor | None = None, keep: Keep | None = None) -> None:
        """`check` has to live as long; `keep`: see `Keep`."""
        self.choices = choices
        self._keep = keep
        self._held: dict[int, tuple[int, int, bool]] = {}
        """By form: how many variants it has, what held of the arguments in every call that was compiled for, and whether all
        integers fitted 32 bits then."""
        self._check = check

    def compiled(self, given: bytes, narrow: bool, form: int) -> tuple[bytes, bool, *Told]:
        """A variant for a call that none fits: what it assumes, whether integers have 32 bits, its code.

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
        keep, self._keep = self._keep, None
        if keep is not None:
            keep(form, assumes, all_narrow, loaded.key)
        return assumes, all_narrow, *loaded.told


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


_beginning = threading.Lock()


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
