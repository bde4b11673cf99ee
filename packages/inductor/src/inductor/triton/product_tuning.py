"""Which blocks a product of matrices is fastest with on this GPU: all that suit it are compiled beside each other and timed.

Flows in: printed products. Flows out: the same, printed for other blocks. Figures are kept by the caller, under a key that says the
kernel, the device and what was tried.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from inductor.device import Keep, Kernel, KernelCall, KernelSource
from inductor.ir.body import checks_positions
from inductor.samples import random_input, timed
from inductor.triton.choices import Choices, Make
from inductor.triton.extent import reach_of
from inductor.triton.forms import only_blocks, plain, printed
from inductor.triton.product import product_of
from inductor.triton.tilings import suitable

NEVER = sys.float_info.max
"""Seconds of what the device can't run: blocks that need more registers or shared memory than it has."""
ROUNDS = 3
KNOWN = 4096
"""Kernels of which it is remembered what was found."""

MOST_BEGUN = 64
"""Kernels that are compiled, by several blocks each, and not timed yet."""

MakeCall = Callable[[Choices], KernelCall]


class ProductTunings:
    """What was found out in this process.

    Args:
        make: see `Make`.
        make_call: how a kernel is launched; None where kernels can't be timed.
        finish: waits until what was begun is compiled.
    """

    def __init__(
        self, make: Make, make_call: Callable[[torch.device], MakeCall | None], finish: Callable[[], None]
    ) -> None:
        self._make = make
        self._finish = finish
        self._make_call = make_call
        self._found: dict[str, Sequence[float]] = {}
        self._begun: dict[str, list[KernelCall]] = {}

    def begin(self, sources: Sequence[KernelSource], keep: Keep, facts: Mapping[str, str]) -> None:
        """Start to compile what `fastest` will have to time."""
        for source in sources:
            tried, make_call = self._tried(source.kernel)
            key = _key(source.kernel, tried, facts) if make_call else ""
            known = key in self._found or key in self._begun or len(self._begun) >= MOST_BEGUN
            if make_call and not known and keep(key, len(tried), lambda: None) is None:
                self._begun[key] = self._calls(tried, make_call)

    def fastest(self, sources: Sequence[KernelSource], keep: Keep, facts: Mapping[str, str]) -> list[KernelSource]:
        """The kernels, each of its own tiling. `facts`: of the device."""
        return [self._fastest(source, keep, facts) for source in sources]

    def _fastest(self, source: KernelSource, keep: Keep, facts: Mapping[str, str]) -> KernelSource:
        tried, make_call = self._tried(source.kernel)
        if make_call is None:
            return source
        key = _key(source.kernel, tried, facts)
        begun = self._begun.pop(key, None)
        figures = self._found.get(key)
        if figures is None:
            figures = keep(key, len(tried), lambda: self._measured(tried, begun or self._calls(tried, make_call)))
            assert figures is not None
            while len(self._found) >= KNOWN:
                del self._found[next(iter(self._found))]
            self._found[key] = figures
        fastest = min(range(len(tried)), key=lambda at: figures[at])
        return tried[fastest] if figures[fastest] < NEVER else plain(source.kernel)

    def _tried(self, kernel: Kernel) -> tuple[list[KernelSource], MakeCall | None]:
        """The forms of a kernel that are timed, and how they are called; None where there is nothing to choose."""
        tried = _forms(kernel)
        return tried, self._make_call(kernel.device) if len(tried) > 1 else None

    def _calls(self, tried: Sequence[KernelSource], make_call: MakeCall) -> list[KernelCall]:
        """A call of each. They are compiled beside each other, and other work."""
        return [
            make_call(Choices(one.kernel, self._make(one.text, one.kernel.name), self._make, only_blocks(one)))
            for one in tried
        ]

    def _measured(self, tried: Sequence[KernelSource], calls: Sequence[KernelCall]) -> list[float]:
        """Seconds of each."""
        inputs = _arguments(tried[0].kernel)
        runs = [call for call in calls if _can_run(call, inputs)]
        self._finish()
        seconds = timed([_of_list(call) for call in runs], inputs, rounds=ROUNDS) if runs else []
        times = dict(zip(map(id, runs), seconds, strict=True))
        return [times.get(id(call), NEVER) for call in calls]


def _forms(kernel: Kernel) -> list[KernelSource]:
    """The forms of a product; none of what is no product, or may not be called with made-up arguments."""
    product = product_of(kernel)
    if product is None or checks_positions(kernel.body.ops) or any(arg.role == "size" for arg in kernel.args):
        return []
    return [printed(kernel, tiling) for tiling in suitable(kernel, product)]


def _key(kernel: Kernel, tried: Sequence[KernelSource], facts: Mapping[str, str]) -> str:
    """Of all that the figures depend on; not of what the kernel is called and where it comes from."""
    text = tried[0].text.replace(kernel.name, "kernel")
    code = [line for line in text.splitlines() if not line.startswith("#")]
    args = [(arg.role, str(arg.dtype)) for arg in kernel.args]
    said = (code, args, [one.settings for one in tried], sorted(facts.items()), str(kernel.device))
    return hashlib.sha256(repr(said).encode()).hexdigest()


def _arguments(kernel: Kernel) -> list[torch.Tensor]:
    """Made-up buffers, as far as the kernel reaches into each; the program's random numbers stay its own."""
    generator = torch.Generator(kernel.device).manual_seed(0)
    reach = reach_of(kernel)
    return [random_input(((reach[arg.name],), (1,), arg.dtype, kernel.device), generator) for arg in kernel.args]


def _of_list(call: KernelCall) -> Callable[[list[Any]], None]:
    return lambda inputs: call(*inputs)


def _can_run(call: KernelCall, inputs: Sequence[torch.Tensor]) -> bool:
    """Whether the device has what the kernel needs; waits until it is compiled."""
    from triton.runtime.errors import TritonError  # noqa: PLC0415  (Triton may not be installed)

    try:
        call(*inputs)
    except (RuntimeError, TritonError):
        return False
    return True
