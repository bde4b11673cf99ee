"""The interface between the scheduler and a device: `DeviceBackend`.

Flows in: a `Kernel` (one fused loop nest). Flows out: source text, then callables the wrapper calls. A new device is one
class (`backends` says how it is found). Everything device-independent (fusion, forwarding of stores to loads, removal of buffers no one else
reads) has happened before a kernel gets here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Literal, Protocol, TypeVar, runtime_checkable

import torch

from inductor.ir.body import Body
from inductor.ir.operations import Expr, Symbol
from inductor.traits import DeviceTraits
from symshapes import dataclass

T = TypeVar("T")


@dataclass(frozen=True)
class KernelArg:
    """One argument of a kernel, in call order."""

    name: str
    """A buffer's name, or a number's symbol's."""
    role: Literal["in", "out", "inout", "size"]
    dtype: torch.dtype
    """Memory dtype of the buffer; of a number ("size") int64, or float64 for one that is a float to Python."""


@dataclass(frozen=True)
class Kernel:
    """One fused loop nest.

    For every point of `outer_sizes` (all independent of each other), run `body`; what `body` reduces, it reduces over the
    whole of `inner_sizes`. An operation of the body belongs to the inner loops if it depends on an inner variable other
    than through `reduce`; the rest, also what follows a `reduce`, runs once an outer point. An inner operation may
    depend on a reduction of the same body (softmax's division): then it belongs to a later pass over the inner space.
    A `scan` is an inner operation that wants the inner points in their order; all of a kernel are `backward`, or none.
    The last outer variable (without inner ones) or the last inner variable is the one most accesses are contiguous in.
    """

    name: str
    device: torch.device
    outer_sizes: tuple[Expr, ...]
    inner_sizes: tuple[Expr, ...]
    body: Body
    args: tuple[KernelArg, ...]
    symbols: tuple[Symbol, ...]
    """Sizes and other numbers that are known when the kernel is called: arguments of role "size"."""
    origins: tuple[str, ...]
    """What this computes, for the comment above it: fx node names and user source lines."""


@dataclass(frozen=True)
class KernelSource:
    """A kernel's generated text."""

    kernel: Kernel
    text: str
    settings: tuple[int, ...] = ()
    """What it was printed for (`ProductBackend`), in numbers that only that backend understands."""


@dataclass(frozen=True)
class JointPart:
    """One of the kernels that a launch runs beside each other."""

    kernel: int
    """Which of `JointKernel.kernels`."""
    known: tuple[int | None, ...]
    """The numbers it is called with, where they are known before."""


@dataclass(frozen=True)
class JointKernel:
    """Kernels that need not wait for each other, run by one launch. Its arguments are those of its parts, one part after the other.
    No part reads or writes what another one writes."""

    name: str
    device: torch.device
    kernels: tuple[Kernel, ...]
    """Each once; what differs from part to part among their numbers is an argument."""
    parts: tuple[JointPart, ...]


@dataclass(frozen=True)
class JointSource:
    """A joint kernel's generated text."""

    kernel: JointKernel
    text: str


KernelCall = Callable[..., None]
"""Called with the kernel's arguments in order: tensors for buffers, ints and floats for numbers."""


@runtime_checkable
class DeviceBackend(Protocol):
    """What a device implements. Stateless but for caches."""

    device_type: str
    """torch device type: "cpu", "cuda"."""
    file_suffix: str
    """Of the generated kernel file: ".cpp", ".py"."""
    traits: DeviceTraits
    """What all other parts of the compiler ask about the device."""

    def supports(self, kernel: Kernel) -> bool:
        """Whether this backend can print the kernel (dtypes, operations, atomics). What it can't print is not fused, and
        what it can't print alone runs as an extern kernel."""
        ...

    def facts(self) -> Mapping[str, str]:
        """What printing and building read besides their arguments and `symshapes.ambient()` (compiler, instruction set,
        devices...): name and value. They are part of every cache key."""
        ...

    def emit(self, kernel: Kernel) -> KernelSource:
        """The kernel's source."""
        ...

    def module_text(self, sources: Sequence[KernelSource]) -> str:
        """One readable source file that holds all kernels of a graph."""
        ...

    def build(self, module_text: str, sources: Sequence[KernelSource]) -> Mapping[str, KernelCall]:
        """Compile (or take from the disk cache, by content) one artefact for the graph; kernel name to callable. It may
        return before that is done: then the first calls wait.

        Raises:
            BuildError: with the compiler's message and the place of the source.
        """
        ...


@runtime_checkable
class NativeBackend(DeviceBackend, Protocol):
    """A backend whose kernels are C functions: whole graphs are compiled ahead for it."""

    def entry(self, kernel: Kernel) -> str:
        """The name of a kernel's function, `int f(const Word*)`: addresses and numbers in the order of the kernel's
        arguments, 8 bytes each; 0, or 1 or 2 for a position out of range (IndexError, RuntimeError)."""
        ...

    def build_shared(
        self, sources: Sequence[KernelSource], plain: Sequence[str], include: Path, load: Callable[[Path], T]
    ) -> T:
        """What `load` makes of the path of a shared object of kernels, and of C++ files that call them and include what lies
        in `include`.

        Raises:
            BuildError: with the compiler's message and the place of the source.
        """
        ...


@runtime_checkable
class PreparingBackend(DeviceBackend, Protocol):
    """A backend that has something to do before the first kernel, which need not wait until there is one."""

    def prepare(self, *, compiling: bool) -> None:
        """Start to do it beside other work: what launches need, or, with `compiling`, what compiling a kernel needs."""
        ...


@runtime_checkable
class KeepingBackend(DeviceBackend, Protocol):
    """A backend that keeps on disk what it found out of kernels while they ran."""

    def keeping(self, cache: bool, cache_dir: str | None) -> DeviceBackend:
        """One that builds what this one printed.

        Args:
            cache: whether it is kept, in `cache_dir`; see `Options`.
        """
        ...


@runtime_checkable
class TuningBackend(DeviceBackend, Protocol):
    """A backend that can time kernels on the machine."""

    def tuning(self, cache: bool, cache_dir: str | None) -> DeviceBackend:
        """One that builds what this one printed, and takes of several forms of a kernel the one that is fastest where it runs.

        Args:
            cache: whether figures are kept on disk, in `cache_dir`; see `Options`.
        """
        ...


@runtime_checkable
class JoiningBackend(DeviceBackend, Protocol):
    """A backend that runs several kernels by one launch: `DeviceTraits.joins` says so."""

    def emit_joint(self, kernel: JointKernel) -> JointSource:
        """The text of a joint kernel."""
        ...

    def module_text(self, sources: Sequence[KernelSource | JointSource]) -> str:
        """One readable source file that holds all kernels of a graph."""
        ...

    def build_joint(self, module_text: str, sources: Sequence[JointSource]) -> Mapping[str, KernelCall]:
        """As `build`, of joint kernels.

        Raises:
            BuildError: with the compiler's message and the place of the source.
        """
        ...


Keep = Callable[[str, int, Callable[[], Sequence[float] | None]], Sequence[float] | None]
"""So many figures under a key, which the function measures unless they are kept already."""


@runtime_checkable
class ProductBackend(DeviceBackend, Protocol):
    """A backend that prints products of matrices (`DeviceTraits.contractions`) by blocks, and can try several of them: while a graph is
    compiled, since products have to be faster than the library's."""

    def emit_product(self, kernel: Kernel) -> KernelSource:
        """As `emit`, but what is a product is printed by blocks, as `KernelSource.settings` say. A `TuningBackend` times no other
        forms of it."""
        ...

    def begin_products(self, sources: Sequence[KernelSource], keep: Keep) -> None:
        """Start to compile what `fastest_products` would have to time of these kernels, beside other work."""
        ...

    def fastest_products(self, sources: Sequence[KernelSource], keep: Keep) -> Sequence[KernelSource]:
        """The kernels, whose products are printed by the blocks that are the fastest on this machine: these are timed here on made-up
        arguments, or were before. The others are as they were."""
        ...


class BuildError(RuntimeError):
    """A kernel's compiler failed; the message holds its output and the source's place."""
