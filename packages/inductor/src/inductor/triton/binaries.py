"""Machine code of kernels, kept on disk by what it was compiled from.

Flows in: a kernel as Triton's compiler takes it. Flows out: a `Binary`. Triton has a cache, too; but to look into it a process has to read
all of Triton's own files, ask its assembler for a version and parse the kernel's text, which takes longer than to load a graph.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import triton
from triton import knobs
from triton._C import libtriton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from triton.runtime.cache import triton_key

from inductor.cache import DiskCache
from inductor.triton.assembling import compile_kernel
from inductor.triton.binary import Binary
from inductor.triton.compile_worker import Request
from inductor.triton.processes import pool

SECTION = "binaries"
_HELPERS = ("assembling.py", "library.py", "prelude.py", "shared_rows.py")
"""Files beside this one whose functions kernels call, and what assembles these."""
HERE = 4
"""Kernels that this process compiles beside each other. More gain nothing: Python's lock is held for a quarter of the time."""


def compile_for(source: ASTSource, target: GPUTarget, asked: Mapping[str, int]) -> Binary:
    """Compile a kernel, or take it from the disk. `asked`: see `Blocks.options`."""
    options = {**asked, "debug": knobs.runtime.debug}
    key = _key(source, target, options)
    if key is None:
        return _here(source, target, options)
    found = read(key)
    if found is None:
        found = (_elsewhere(source, target, options) or _here(source, target, options))._replace(key=key)
        with contextlib.suppress(OSError):  # a full disk: the next process compiles it again
            DiskCache(SECTION).put(key, found.files())
    return found


def read(key: str) -> Binary | None:
    """What `compile_for` kept, if it is still there."""
    entry = DiskCache(SECTION).get(key)
    found = None if entry is None else Binary.read(entry.files)
    return None if found is None else found._replace(key=key)


def _elsewhere(source: ASTSource, target: GPUTarget, options: Mapping[str, Any]) -> Binary | None:
    """A generated kernel, by another process; None where that can't be told all that the code depends on, or fails."""
    settings = _environment()
    if settings is None:
        return None
    asked = (target.backend, target.arch, target.warp_size)
    what = source.name, source.signature, source.constants, source.attrs, asked, dict(options)
    return pool().compile(Request(source.fn._inductor_text, source.fn._inductor_module, *what), settings)


def _here(source: ASTSource, target: GPUTarget, options: Mapping[str, Any]) -> Binary:
    with _turns:
        _ready()
        return Binary.of(*compile_kernel(source, target, options))


_turns = threading.BoundedSemaphore(HERE)


def prepare() -> None:
    """Start processes that compile; where there are to be none, what compiling begins with."""
    settings = _environment()
    if settings is None or not pool().prepare(settings):
        _ready()


def _ready() -> None:
    """Let Triton find out once which version of itself it is: threads that compile would each read all of its files."""
    with _reading:
        triton_key()


_reading = threading.Lock()


def _key(source: ASTSource, target: GPUTarget, options: Mapping[str, Any]) -> str | None:
    """Of all that the code depends on; None where that can't be told."""
    text, told = getattr(source.fn, "_inductor_text", None), circumstances()
    if text is None or told is None:
        return None
    facts = (
        text,
        source.name,
        sorted(source.signature.items()),
        sorted((str(place), str(value)) for place, value in source.constants.items()),
        sorted((str(place), str(value)) for place, value in source.attrs.items()),
        (target.backend, target.arch, target.warp_size),
        sorted((name, str(value)) for name, value in options.items()),
        told,
    )
    return hashlib.sha256(repr(facts).encode()).hexdigest()


def circumstances() -> tuple[Any, ...] | None:
    """What besides kernels their machine code depends on; None where Triton is told to look at what it compiles, or to take something
    else instead."""
    if knobs.compilation.listener or knobs.runtime.add_stages_inspection_hook:
        return None
    if any((knobs.compilation.always_compile, knobs.compilation.override, knobs.compilation.dump_ir)):
        return None
    told = sorted(libtriton.get_cache_invalidating_env_vars().items())
    return told, _settings(), knobs.runtime.debug, _installed()


def _settings() -> tuple[tuple[str, str, str, str], ...]:
    """What Triton was told, by the environment or the program; of a program that it is to run, which file that is."""
    found = []
    for group in (knobs.compilation, knobs.language, knobs.nvidia, knobs.runtime):
        for name, knob in group.knob_descriptors.items():
            told, given = os.environ.get(knob.key), vars(group).get(name)
            default = getattr(knob, "default_path", None)
            tool = default and (told or default)
            if told is not None or given is not None or tool is not None:
                found.append((knob.key, str(told), str(given), _state(Path(tool)) if tool else ""))
    return tuple(found)


def _environment() -> tuple[Any, ...] | None:
    """What Triton was told by the environment alone; None where the program told it more."""
    settings = _settings()
    if any(given != "None" for _, _, given, _ in settings):
        return None
    return (*settings, *sorted(libtriton.get_cache_invalidating_env_vars().items()))


@functools.cache
def _installed() -> tuple[str, ...]:
    """Which Triton this is, and what of ours the code comes from besides kernels."""
    helpers = hashlib.sha256(b"".join(Path(__file__).with_name(name).read_bytes() for name in _HELPERS)).hexdigest()
    place = Path(triton.__file__).parent
    return (triton.__version__, helpers, str(place), *map(_state, (place / "__init__.py", Path(libtriton.__file__))))


def _state(path: Path) -> str:
    """What changes where a file is replaced; nothing where there is none."""
    try:
        found = os.stat(path)
    except OSError:
        return ""
    return f"{found.st_size} {found.st_mtime_ns}"
