"""`Ambient`: every fact outside a graph that its compilation may read, as one frozen value.

Flows in: torch's settings, the machine, versions. Flows out: the value, made once a compile. Lowerings, decompositions and
printers read it and nothing else; a compiled graph's cache key is a hash of it, so what is read is always in the key.
"""

from __future__ import annotations

import contextlib
import functools
import platform
import sys
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any

import torch
from torch.utils import deterministic

from symshapes.records import dataclass, fields_of


@dataclass(frozen=True, slots=True)
class Machine:
    """The processor: kernels may be printed for it, and homes are shared by machines."""

    architecture: str
    """`x86_64`, `aarch64`..."""
    capability: str
    """The widest instructions torch's own kernels use here."""
    features: frozenset[str]
    """The processor's feature names as Linux lists them; empty where it doesn't."""


@dataclass(frozen=True, slots=True)
class Ambient:
    """What compilation may depend on besides the graph and the options it is given."""

    default_dtype: torch.dtype
    default_device: torch.device
    deterministic: bool
    """`torch.use_deterministic_algorithms(True)`: no result may depend on the order in which threads finish."""
    deterministic_warn_only: bool
    fill_uninitialized: bool
    """Under `deterministic`: whether fresh memory is filled with a known value."""
    threads: int
    """Of one operator (`torch.get_num_threads()`)."""
    kernel_choice: tuple[tuple[str, Any], ...]
    """Settings by which torch's libraries choose kernels and their precision: name and value."""
    machine: Machine
    versions: tuple[tuple[str, str], ...]
    """Of what runs us: Python, torch, the GPU's libraries."""

    @staticmethod
    def now() -> Ambient:
        """The facts of this moment."""
        return Ambient(
            default_dtype=torch.get_default_dtype(),
            default_device=torch.get_default_device(),
            deterministic=torch.are_deterministic_algorithms_enabled(),
            deterministic_warn_only=torch.is_deterministic_algorithms_warn_only_enabled(),
            fill_uninitialized=deterministic.fill_uninitialized_memory,  # type: ignore[attr-defined]
            threads=torch.get_num_threads(),
            kernel_choice=tuple((name, read()) for name, read in _KERNEL_CHOICE.items()),
            machine=machine(),
            versions=_versions(),
        )

    def text(self) -> str:
        """All facts, one a line: what cache keys hash."""
        return "\n".join(f"{name}: {_plain(getattr(self, name))}" for name in fields_of(type(self)))


_fixed: ContextVar[Ambient | None] = ContextVar("ambient", default=None)


def ambient() -> Ambient:
    """The facts fixed for the compile that is running; outside of one those of this moment."""
    return _fixed.get() or Ambient.now()


@contextlib.contextmanager
def fixed_ambient(value: Ambient | None = None) -> Iterator[Ambient]:
    """Inside, `ambient()` is `value`: by default what it was outside, so that a compile within a compile changes nothing."""
    fixed = ambient() if value is None else value
    token = _fixed.set(fixed)
    try:
        yield fixed
    finally:
        _fixed.reset(token)


@functools.cache
def machine() -> Machine:
    """This machine's processor."""
    capability = torch.backends.cpu.get_cpu_capability()
    return Machine(platform.machine(), capability, _features())


def _features() -> frozenset[str]:
    # Linux only; elsewhere torch's own word has to do.
    with contextlib.suppress(OSError), open("/proc/cpuinfo") as lines:
        for line in lines:  # one processor's are all; the kernel writes no more than is read
            if line.startswith(("flags", "Features")):
                return frozenset(line.partition(":")[2].split())
    return frozenset()


@functools.cache
def _versions() -> tuple[tuple[str, str], ...]:
    torch_build = torch.version
    return (
        ("python", f"{sys.implementation.cache_tag} {sys.version}"),
        ("torch", f"{torch.__version__} {torch_build.git_version}"),
        ("cuda", str(torch_build.cuda)),
        ("hip", str(torch_build.hip)),
    )


_BACKENDS = torch.backends
_KERNEL_CHOICE: dict[str, Callable[[], Any]] = {
    # The settings of each library, not `get_float32_matmul_precision`, which raises where old and new ones were mixed.
    "float32": lambda: _BACKENDS.fp32_precision,  # type: ignore[attr-defined]
    "float32 cublas": lambda: _BACKENDS.cuda.matmul.fp32_precision,
    "float32 cudnn": lambda: (_BACKENDS.cudnn.conv.fp32_precision, _BACKENDS.cudnn.rnn.fp32_precision),  # type: ignore[attr-defined]
    "float32 mkldnn": lambda: (_BACKENDS.mkldnn.matmul.fp32_precision, _BACKENDS.mkldnn.conv.fp32_precision),  # type: ignore[attr-defined]
    "reduced float16 sums": lambda: _BACKENDS.cuda.matmul.allow_fp16_reduced_precision_reduction,
    "reduced bfloat16 sums": lambda: _BACKENDS.cuda.matmul.allow_bf16_reduced_precision_reduction,
    "float16 accumulation": lambda: _BACKENDS.cuda.matmul.allow_fp16_accumulation,
    "cudnn": lambda: (_BACKENDS.cudnn.enabled, _BACKENDS.cudnn.benchmark, _BACKENDS.cudnn.deterministic),
    "mkldnn": lambda: (_BACKENDS.mkldnn.is_available() and _BACKENDS.mkldnn.enabled, _BACKENDS.mkldnn.deterministic),
    "attention": lambda: (
        _BACKENDS.cuda.flash_sdp_enabled(),
        _BACKENDS.cuda.mem_efficient_sdp_enabled(),
        _BACKENDS.cuda.math_sdp_enabled(),
        _BACKENDS.cuda.cudnn_sdp_enabled(),
    ),
}


def _plain(value: Any) -> str:
    if isinstance(value, Machine):
        return f"{value.architecture} {value.capability} {' '.join(sorted(value.features))}"
    return repr(value)
