"""How kernels of which all is known are launched, kept on disk once that was found out: another process need not print, time or look at
them again.

Flows in: kernels' texts, and launches as they turned out. Flows out: callables that launch machine code. Nothing here takes part in compiling
kernels; what was not known of when a launch was kept is left to `building`.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, NamedTuple

import torch

from inductor.addresses import argument_kinds
from inductor.cache import DiskCache
from inductor.cache.sources import Uncacheable, package_hash
from inductor.device import KernelCall, KernelSource
from inductor.triton import native
from inductor.triton.binaries import circumstances, read
from inductor.triton.binary import Binary

SECTION = "launches"
"""Of the disk cache."""
_FILE = "launch.json"


class Launch(NamedTuple):
    """How a kernel is launched, whatever it is called with."""

    points: int
    """Units of work."""
    block: int
    """Those of one program."""
    words: int
    """Of memory that is zero, which it brings."""
    assumes: str
    """Which arguments are multiples, as hexadecimal digits of `source_of`'s bytes."""
    narrow: bool
    """Integers have 32 bits."""
    binary: str
    """The key of its machine code."""
    blocks: str
    """The form that was compiled, for what compiles it for other arguments (`Blocks.text`)."""


class Launches:
    """Of one graph's kernels, as they are kept on disk.

    Args:
        facts: of a device, as far as kernels are faster or slower by it.
        timed: whether it is the fastest forms that are launched.
    """

    def __init__(self, cache: DiskCache, facts: Callable[[torch.device], tuple[str, ...]], *, timed: bool) -> None:
        self._cache, self._facts, self._timed = cache, facts, timed
        self._told = circumstances()
        self._keys: dict[str, str | None] = {}
        """By kernel."""

    def find(self, source: KernelSource) -> tuple[Launch, Binary] | None:
        """How the kernel was launched before, if that is known and its machine code is still there."""
        key = self._key(source) if native.serves(source.kernel.device) else None
        entry = None if key is None else self._cache.get(key)
        if entry is None:
            return None
        try:
            launch = Launch(**json.loads(entry.files[_FILE]))
            sound = _is_sound(launch, len(_kinds(source, launch)))
        except (KeyError, ValueError, TypeError):
            return None
        binary = read(launch.binary) if sound else None
        return None if binary is None else (launch, binary)

    def keeper(self, source: KernelSource, choices: Any, settled: Callable[[], Any]) -> Callable[..., None]:
        """Keeps a launch, once: called with the form, what it assumes, whether integers are narrow, and the key of its machine code.

        Args:
            choices: the kernel's `Choices`, of which all is known.
            settled: the plan by which it runs from now on; None as long as that may change.
        """
        key = self._key(source)

        def keep(form: int, assumes: bytes, narrow: bool, binary: str | None) -> None:
            plan = None if key is None or binary is None else settled()
            if plan is None or plan[1] != form or circumstances() != self._told:  # Triton was told something since
                return
            blocks = choices.blocks[form].text()
            launch = Launch(plan[0], plan[2], choices.words, assumes.hex(), narrow, binary or "", blocks)
            native.beside(self._put, key, launch)  # a disk takes longer than a launch

        return keep

    def _put(self, key: str, launch: Launch) -> None:
        with contextlib.suppress(OSError):  # a full disk: the next process finds it out again
            self._cache.put(key, {_FILE: json.dumps(launch._asdict()).encode()})

    def _key(self, source: KernelSource) -> str | None:
        name = source.kernel.name
        if name not in self._keys:
            self._keys[name] = self._key_of(source)
        return self._keys[name]

    def _key_of(self, source: KernelSource) -> str | None:
        if self._told is None:
            return None
        try:
            packages = package_hash("inductor")
        except Uncacheable:
            return None
        kernel = source.kernel
        surroundings = packages, self._told, self._facts(kernel.device), self._timed
        arguments = [(arg.name, arg.role, str(arg.dtype)) for arg in kernel.args]
        sizes = str(kernel.outer_sizes), str(kernel.inner_sizes)
        facts = (*surroundings, source.text, source.settings, arguments, sizes)
        return hashlib.sha256(repr(facts).encode()).hexdigest()


_KINDS = (int, int, int, str, bool, str, str)
_BUFFER = b"\0"
"""See `argument_kinds`."""


def _kinds(source: KernelSource, launch: Launch) -> bytes:
    """Of what the kernel is called with: memory that the launch brings comes last."""
    return argument_kinds(source.kernel) + _BUFFER * (launch.words > 0)


def _is_sound(launch: Launch, count: int) -> bool:
    """Whether it says how a kernel of so many arguments is launched."""
    if any(type(value) is not kind for value, kind in zip(launch, _KINDS, strict=True)):
        return False
    numbers = 0 < launch.points < 1 << 63 and 0 < launch.block < 1 << 63 and launch.words >= 0
    return numbers and len(bytes.fromhex(launch.assumes)) == (count + 7) // 8


Others = Callable[[KernelSource, str], tuple[Any, int]]
"""Asked for a kernel and the text of its blocks where a call differs from what was known of: `Variants`, and the form's number there."""


def make_call(
    source: KernelSource, found: tuple[Launch, Binary], number: torch.Tensor | None, others: Others
) -> KernelCall:
    """The callable of a kernel whose launch is known; see `launcher.make_call`. `number`: what it writes into where it checks positions."""
    launch, binary = found
    kernel = source.kernel
    address = 0 if number is None else native.device_address(number)
    code = _Code(source, launch, binary, others)
    plan = launch.points, 0, launch.block
    call: KernelCall = native.launcher().kernel(
        kernel.name, _kinds(source, launch), kernel.device.index, plan, address, code.compiled, False
    )
    return with_words(launch.words, kernel.device, call)


def _loaded(binary: Binary, device: int) -> native.Loaded:
    """In a thread of ours, where another device may have come before: code is loaded into the context that is current."""
    native.enter_device(device)
    return native.on_device(binary, device)


class _Code:
    """The machine code of one kernel: what is known of first."""

    def __init__(self, source: KernelSource, launch: Launch, binary: Binary, others: Others) -> None:
        self._source, self._launch, self._ask = source, launch, others
        self._load = binary, source.kernel.device.index
        self._loaded: Future[native.Loaded] = native.beside(_loaded, *self._load)
        self._assumes = bytes.fromhex(launch.assumes)
        kinds = _kinds(source, launch)
        self._buffers = sum(1 << at for at, kind in enumerate(kinds) if kind == _BUFFER[0])

    def compiled(self, given: bytes, narrow: bool, form: int) -> tuple[bytes, bool, *native.Told]:
        """As `Variants.compiled`, of the one form.

        Code that assumes less of buffers than holds would serve, too, and be slower as long as this process runs: whoever was the first
        to launch it may have had buffers that begin anywhere.
        """
        assumed, held = (int.from_bytes(each, "little") for each in (self._assumes, given))
        fits = not assumed & ~held and not (assumed ^ held) & self._buffers
        if fits and self._launch.narrow <= narrow:
            if self._loaded.cancel():  # all threads compile for others, which this call does not wait for
                self._loaded = native.done(native.on_device, *self._load)
            return self._assumes, self._launch.narrow, *self._loaded.result().told
        variants, number = self._others
        made: tuple[bytes, bool, *native.Told] = variants.compiled(given, narrow, number)
        return made

    @functools.cached_property
    def _others(self) -> tuple[Any, int]:
        return self._ask(self._source, self._launch.blocks)


def with_words(count: int, device: torch.device, call: KernelCall) -> KernelCall:
    """A call that brings the memory that programs tell each other totals by."""
    if count == 0:
        return call
    return lambda *args: call(*args, torch.zeros(count, dtype=torch.int64, device=device))
