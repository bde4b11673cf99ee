"""A compiled graph: from its parts (texts, kernels, constants), fresh or out of the disk cache, to a callable.

Flows in: `Parts`. Flows out: `CompiledGraph`.
"""

from __future__ import annotations

import functools
import logging
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import field, replace
from pathlib import Path
from typing import Any

import torch

from inductor.backends import BackendOf, backend_for
from inductor.cache import Damaged, read_entry, require_trusted
from inductor.codegen.module import Call, LayoutFitter, load_call
from inductor.codegen.source import straight_line
from inductor.device import Kernel, KernelCall
from inductor.parts import CHECKED, WRAPPER, Parts
from inductor.stored import parts_of
from symshapes import StraightLine, dataclass, phase

_log = logging.getLogger("inductor")


class InterpretedWarning(UserWarning):
    """Kernels of a graph run in the IR's interpreter, hundreds of times slower than printed ones: their device's backend cannot
    print them."""


@dataclass
class Stats:
    """What a compilation did."""

    cache: str = "off"
    """"hit", "miss", "off", or why the graph is not cached."""
    kernels: int = 0
    """Distinct kernels."""
    launches: int = 0
    """Kernel calls in one run."""
    externs: int = 0
    """ATen calls in one run."""
    loops: int = 0
    """Loops before fusion."""
    interpreted: int = 0
    """Kernels that no backend can print."""
    rewrites: dict[str, int] = field(default_factory=dict)
    """How often each pass applied, by name; empty for a graph from the cache."""
    frozen: dict[str, int] = field(default_factory=dict)
    """With `Options.freezing`: how often what was done to constants, by the pass's name."""
    seconds: dict[str, float] = field(default_factory=dict)
    """By phase: freeze, key, lower, schedule, emit, store, build, wrap."""

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Count the time inside as `name`'s."""
        start = time.perf_counter()
        try:
            with phase(name):
                yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - start


def _tell_of(interpreted: Sequence[Kernel]) -> None:
    """Warn; raises where filters make that an error."""
    names = ", ".join(f"{kernel.name} ({kernel.device.type})" for kernel in interpreted)
    message = (
        f"interpreted, hundreds of times slower than compiled, since their device's backend cannot print them: {names}"
    )
    warnings.warn(message, InterpretedWarning, stacklevel=4)


class CompiledGraph:
    """A compiled graph: called with one list of inputs, which it empties, it returns a tuple.

    Inputs must have the metadata that the graph was compiled for; that is not checked. No gradients are recorded.
    """

    __slots__ = (
        "_checked",
        "_fitter",
        "_namespace",
        "_settles",
        "_steady",
        "_where",
        "kernel_path",
        "kernel_source",
        "kernels",
        "key",
        "source",
        "stats",
        "wrapper_path",
        "written_results",
    )  # fmt: skip

    def __init__(
        self,
        parts: Parts,
        folder: Path | None,
        stats: Stats,
        backend: BackendOf = backend_for,
        constants: Mapping[str, torch.Tensor] | None = None,
    ) -> None:
        self.source: str = parts.wrapper.text if parts.native is None else parts.native[1]
        """The wrapper's text."""
        self.kernel_source: str = "\n".join(module.text for module in parts.modules)
        """The kernels' text."""
        self.kernels: tuple[str, ...] = parts.wrapper.kernels
        """The kernels' names."""
        self.written_results: frozenset[int] = frozenset(parts.written)
        """Positions of results that are computed in the memory of the inputs whose new content they are, as far as the graph's output
        node says in `meta["writes"]` which inputs these are. In their places such inputs are returned."""
        self.wrapper_path: Path | None = folder / WRAPPER if folder else None
        self.kernel_path: Path | None = folder / parts.modules[0].file_name if folder and parts.modules else None
        self.key: str | None = folder.name if folder else None
        """Of its cache entry."""
        self.stats = stats
        stats.kernels, stats.interpreted = len(parts.wrapper.kernels), len(parts.interpreted)
        stats.launches, stats.externs, stats.loops = parts.launches, parts.externs, parts.loops
        if parts.interpreted:
            _tell_of(parts.interpreted)
        with stats.phase("build"):
            if parts.native is None:
                namespace = parts.namespace(backend, constants or {})
            else:
                instead = _Instead(parts, folder, backend, constants or {})
                namespace = parts.native_namespace(backend, constants or {}, instead)
        with stats.phase("wrap"):
            self._where = str(folder) if folder else f"<inductor graph {id(self):#x}>"
            self._fitter = namespace["_fit"] = LayoutFitter()
            self._namespace = namespace
            self._settles = [function for name, function in namespace.items() if name.startswith("_settle_")]
            self._steady: Call | None = None
            self._checked: Call | None = None
            if parts.checked is not None and parts.native is None:  # the native wrapper checks at every call
                self._checked = load_call(parts.checked, f"{self._where}/{CHECKED}", namespace)

    def __call__(self, inputs: list[Any]) -> tuple[Any, ...]:
        call = self._steady or self.call
        # Kernels know nothing of gradients, but ATen calls would record them, or refuse to write into given memory.
        if self.stats.externs and torch.is_grad_enabled():
            with torch.no_grad():
                return call(inputs)
        return call(inputs)

    @property
    def call(self) -> Call:
        """The generated function itself, for callers that have gradients switched off and want no frame in between.
        It is another after the first call, which also checks layouts."""
        if self._checked is not None:
            return self._run_first
        if self._steady is None:
            self._steady = load_call(self.source, f"{self._where}/{WRAPPER}", self._namespace)
        return self._steady

    def straight_line(self) -> StraightLine | None:
        """The generated function's body, for callers that have gradients switched off and want no frame at all; None
        before the first call, which checks layouts."""
        return straight_line(self.source, self._namespace) if self._checked is None else None

    def spied(self, spy: Callable[[str, KernelCall], KernelCall]) -> Call:
        """The generated function with another callable for each kernel: what `spy` gives for its name and itself."""
        kernels = {name: spy(name, self._namespace[name]) for name in self.kernels if name in self._namespace}
        return load_call(self.source, f"{self._where}/{WRAPPER}", {**self._namespace, **kernels})

    def settle(self) -> None:
        """Raise what kernels met that ran after the call that launched them returned, as far as it is known by now.

        Raises:
            IndexError, RuntimeError: a position was out of range.
        """
        for settle in self._settles:
            settle(False)

    def _run_first(self, inputs: list[Any]) -> tuple[Any, ...]:
        """With all checks; later calls compare strides only."""
        checked = self._checked
        if checked is None:  # by now; another thread's call was first
            return self.call(inputs)
        result = checked(inputs)
        self._checked = None
        if self._fitter.misfits:
            message = f"copied to fit: {', '.join(sorted(self._fitter.misfits))}"
            try:
                warnings.warn(message, stacklevel=2)
            except UserWarning:  # an error by the user's filters; but it is no error of the user's program
                _log.warning(message)
        return result

    def __repr__(self) -> str:
        return f"<CompiledGraph: {self.stats.launches} kernel launches, {self.stats.externs} ATen calls>"


class _Instead:
    """Runs a graph by its Python wrapper where the native one failed: it raises what eager raises."""

    def __init__(
        self, parts: Parts, folder: Path | None, backend: BackendOf, constants: Mapping[str, torch.Tensor]
    ) -> None:
        self.made = functools.cache(
            lambda: CompiledGraph(replace(parts, native=None), folder, Stats(), backend, constants)
        )
        self.constants = len(parts.wrapper.constants)

    def __call__(self, *inputs: Any) -> tuple[Any, ...]:
        """The graph's outputs. `inputs`: the native wrapper's, which ends with the graph's constants."""
        return self.made()([*inputs[: len(inputs) - self.constants]])


def load_stored(folder: Path) -> CompiledGraph:
    """The compiled graph of a cache entry.

    Args:
        folder: the entry's, where its `wrapper.py` lies; only this user may be able to write there.

    Raises:
        FileNotFoundError: if there is none, or it is damaged.
        inductor.cache.Untrusted: other users may write in the folder or one above it.
    """
    folder = folder.resolve()
    try:
        entry = read_entry(folder)
    except (OSError, Damaged) as error:
        raise FileNotFoundError(f"no compiled graph in {folder}: {error}") from None
    require_trusted(folder)
    parts = parts_of(entry.files)
    if parts is None:
        raise FileNotFoundError(f"no compiled graph in {folder}")
    if any(value is None for _, value in parts.wrapper.constants.values()):
        raise FileNotFoundError(f"the graph in {folder} is frozen, and the constants are not stored with it")
    return CompiledGraph(parts, folder, Stats(cache="hit"))
