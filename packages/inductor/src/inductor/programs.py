"""Compiled graphs by the program that they came from, so that who has compiled a program before need not trace it again.

Flows in: what its part of the compiler says of a program, as text, and options. Flows out: the compiled graph, and what that part noted
with it. Nothing here takes part in compiling.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
import sys
from collections.abc import Iterable
from typing import NamedTuple

import torch

from inductor.artefact import CompiledGraph, Stats
from inductor.backends import Devices, NoBackend
from inductor.cache import DiskCache
from inductor.cache.key import Surroundings
from inductor.cache.sources import Uncacheable, package_hash
from inductor.loading import SECTION, building, computing_on_the_host, stored_graph
from inductor.options import Options
from symshapes import ambient, fixed_ambient, phase

PROGRAMS = "programs"
_FILE = "program.json"
_KEY = re.compile("[0-9a-f]{64}")


class KeptProgram(NamedTuple):
    """A program that was compiled before."""

    graph: CompiledGraph
    note: str


def program_key(text: str, device_types: Iterable[str], options: Options, packages: Iterable[str] = ()) -> str | None:
    """The key of a program of inference, which `text` describes to the end; None if there can't be one.

    Args:
        device_types: those of its tensors.
        packages: those besides the compiler's that have a part in how it is compiled.
    """
    if not options.cache or options.freezing or any(map(_changed, _REGISTRIES)):
        return None
    devices = Devices({}, options.backends)
    with phase("key"), fixed_ambient(), computing_on_the_host():
        backends = []
        for kind in sorted(device_types):
            try:
                backends.append(devices.backend(torch.device(kind)))
            except NoBackend:  # needed only if there is something to print for it
                continue
        try:
            surroundings = Surroundings.of(ambient(), options, backends)
            sources = [(name, package_hash(name, options.cache_dir)) for name in packages]
        except Uncacheable:
            return None
    return hashlib.sha256(f"{surroundings.text()}\n{sources}\n\n{text}".encode()).hexdigest()


def load_program(key: str, options: Options) -> KeptProgram | None:
    """What `keep_program` kept, if it and the graph are there still and sound."""
    stats, devices = Stats(), Devices({}, options.backends)
    with fixed_ambient(), computing_on_the_host():
        with stats.phase("load"):
            entry = DiskCache(PROGRAMS, options.cache_dir).get(key)
        if entry is None:
            return None
        try:
            said = json.loads(entry.files[_FILE])
            graph_key, note = str(said["graph"]), str(said["note"])
        except (KeyError, ValueError, TypeError):
            return None
        if _KEY.fullmatch(graph_key) is None:
            return None
        cache = DiskCache(SECTION, options.cache_dir)
        try:
            graph = stored_graph(cache, graph_key, stats, building(options, devices))
        except LookupError:  # another backend's kernels
            return None
    return None if graph is None else KeptProgram(graph, note)


def keep_program(key: str, graph: CompiledGraph, note: str, options: Options) -> None:
    """Keep what was compiled under the program's key, too; what is not stored itself is not kept."""
    if graph.key is None:
        return
    files = {_FILE: json.dumps({"graph": graph.key, "note": note}).encode()}
    cache = DiskCache(PROGRAMS, options.cache_dir)
    with phase("store"), contextlib.suppress(OSError):  # nowhere to write: it is compiled again the next time
        cache.put(key, files)


_REGISTRIES = ("inductor.lowerings", "inductor.passes")


def _changed(module: str) -> bool:
    """Whether somebody added to a registry, or took from it, since it was imported; what never was nobody has."""
    found = sys.modules.get(module)
    return found is not None and bool(found.changed())
