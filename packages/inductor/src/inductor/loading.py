"""Compiled graphs out of the disk cache. Nothing here takes part in compiling.

Flows in: a key. Flows out: a `CompiledGraph`, or nothing where there is no sound entry.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch

from inductor.artefact import CompiledGraph, Stats
from inductor.backends import BackendOf, Devices
from inductor.cache import DiskCache
from inductor.codegen.source import missing_operators
from inductor.device import DeviceBackend, KeepingBackend, TuningBackend
from inductor.host import HOST
from inductor.options import Options
from inductor.stored import parts_of
from symshapes import ambient

SECTION = "graphs"
"""Of the disk cache: compiled graphs."""


def computing_on_the_host() -> AbstractContextManager[Any]:
    """The compiler computes with numbers of its own; where the program's tensors go by default is no matter of theirs."""
    return nullcontext() if ambient().default_device.type == HOST.type else HOST


def building(options: Options, devices: Devices) -> BackendOf:
    """The backends that build a graph's kernels."""
    times = options.autotune and not ambient().deterministic
    as_made = options.cache and bool(devices.given)  # by whom it is given

    def backend_of(device: torch.device) -> DeviceBackend:
        backend = devices.backend(device)
        if times and isinstance(backend, TuningBackend):
            return backend.tuning(options.cache and not devices.given, options.cache_dir)
        if as_made or not isinstance(backend, KeepingBackend):
            return backend
        return backend.keeping(options.cache, options.cache_dir)

    return backend_of


def stored_graph(
    cache: DiskCache, key: str, stats: Stats, built_by: BackendOf, constants: Mapping[str, Any] | None = None
) -> CompiledGraph | None:
    """The graph of that key.

    Args:
        constants: tensors in place of those stored with it, of the same content.

    Raises:
        LookupError: it holds a constant that is not stored with it and not given; or its kernels are another backend's.
        BuildError: a kernel's compiler failed.
    """
    with stats.phase("load"):
        entry = cache.get(key)
        if entry is None:
            return None
        parts = parts_of(entry.files)
    if parts is None:
        cache.remove(key)
        return None
    if missing_operators(parts.wrapper.text):  # those made of a program's own operators, which a trace of it will make
        return None
    stats.cache = "hit"
    return CompiledGraph(parts, entry.folder, stats, built_by, constants)
