"""Loads `launcher.c`, compiled once per Python and cached, and makes callables of kernels' addresses."""

from __future__ import annotations

import contextlib
import contextvars
import functools
import importlib.machinery
import importlib.util
import os
import sys
import sysconfig
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import torch
from torch.utils.dlpack import from_dlpack

from cpu_codegen.build import find_compiler, load_extension
from cpu_codegen.types import MEMORY
from inductor import BuildError, Kernel, KernelCall, address_facts, address_header, argument_kinds

SOURCES = tuple(Path(__file__).with_name(name) for name in ("pool.c", "launcher.c"))

POOLED = 1 << 20
"""Bytes from which on memory is pooled: smaller memory allocators keep for themselves."""

_KINDS = {"int": 0, "uint": 1, "float": 2, "bfloat": 4, "complex": 5, "bool": 6}
"""DLPack's codes by the letters that a dtype's name begins with."""


_loading = threading.RLock()
"""A finalizer or a signal's handler that compiles may run in the thread that holds it."""


def _after_fork() -> None:
    """Another thread may have held the lock, and is not in the child to give it back."""
    global _loading
    _loading = threading.RLock()


os.register_at_fork(after_in_child=_after_fork)


def _module() -> Any:
    with _loading:
        return _loaded()


def _load_unless_others_do() -> None:
    """Without waiting for them: it may be who waits for this."""
    if _loading.acquire(blocking=False):
        try:
            _loaded()
        finally:
            _loading.release()


@contextlib.contextmanager
def loaded_beside() -> Iterator[None]:
    """Loads the launcher while what is inside runs: the first time on a machine it is compiled, too. Why it can't be, if it can't,
    is told to whoever needs it."""
    if _loaded.cache_info().currsize:
        yield
        return
    with ThreadPoolExecutor(1) as pool:
        with contextlib.suppress(RuntimeError):  # of an interpreter that is shutting down: no thread can be started
            pool.submit(contextvars.copy_context().run, _load_unless_others_do)
        yield


@functools.cache
def _loaded() -> Any:
    include = Path(sysconfig.get_paths()["include"])
    if not (include / "Python.h").exists():
        raise BuildError(
            f"{include / 'Python.h'} is missing: install Python's headers (apt-get install python3-dev, "
            "dnf install python3-devel)"
        )
    compiler = find_compiler()
    command = (*compiler.command, "-x", "c", "-O2", "-fPIC", "-w", f"-I{include}")
    text = "\n".join([address_header(), *(source.read_text() for source in SOURCES)])
    module = load_extension("launcher", text, command, f"{sys.version}\n{compiler.identity}", _imported)
    module.configure(*address_facts())
    module.pooled_configure(from_dlpack, torch.empty_strided, _dtype_codes(), POOLED)
    return module


def _dtype_codes() -> dict[torch.dtype, int]:
    """DLPack's code and bits of each dtype that is one of its own."""
    codes = {}
    for dtype in MEMORY:
        letters = str(dtype).removeprefix("torch.").rstrip("0123456789")
        if letters in _KINDS:
            codes[dtype] = _KINDS[letters] << 8 | 8 * dtype.itemsize
    return codes


def _imported(path: Path) -> Any:
    loader = importlib.machinery.ExtensionFileLoader("launcher", str(path))
    spec = importlib.util.spec_from_loader("launcher", loader)
    assert spec is not None
    try:
        module: Any = importlib.util.module_from_spec(spec)
        loader.exec_module(module)
    except ImportError as error:
        raise OSError(str(error)) from error
    return module


def open_library(path: Path) -> Any:
    """A shared object of kernels. It is unmapped when it and all calls made of it are gone.

    Raises:
        OSError: it can't be loaded.
    """
    return _module().open(os.fspath(path))


def make_call(kernel: Kernel, library: Any, symbol: str) -> KernelCall:
    """The callable of a compiled kernel: takes its buffers as tensors and its numbers as ints and floats, in order.

    Args:
        library: what `open_library` returned.
        symbol: the kernel's function there; `<symbol>_work` says how much work the arguments are: for much of it Python's
            lock is released.

    It raises TypeError on a wrong number of arguments and IndexError or RuntimeError (as the kernel's `IndexRule` says)
    where the kernel met an index out of range.
    """
    call: KernelCall = _module().kernel(kernel.name, library, symbol, f"{symbol}_work", argument_kinds(kernel))
    return call


def in_large_pages() -> Callable[..., Any]:
    """A function of a tensor whose memory nobody has touched, and its bytes: asks the system to map large pages there, where it
    does so on demand (Linux, whose default is "madvise"), and returns the tensor. A fault a page of 4 KiB takes several
    times as long as writing it."""
    fresh: Callable[..., Any] = _module().fresh
    return fresh


def in_the_pool() -> Callable[..., torch.Tensor]:
    """A function of a size, a stride and a dtype: a tensor of memory that stays mapped when it dies, for the next one. Its storage can't
    be resized, so that it is nothing to give to a program."""
    pooled: Callable[..., torch.Tensor] = _module().pooled
    return pooled


def pool() -> tuple[int, int, int]:
    """Bytes of pooled tensors that live, how many stretches used and free memory lies in, and how large its address space is."""
    found: tuple[int, int, int] = _module().pool()
    return found
