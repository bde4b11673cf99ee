"""Loads `launcher.c`, compiled once per Python and cached, and makes callables of kernels' addresses."""

from __future__ import annotations

import functools
import importlib.machinery
import importlib.util
import os
import sys
import sysconfig
from collections.abc import Callable
from pathlib import Path
from typing import Any

from cpu_codegen.build import find_compiler, load_extension
from inductor import BuildError, Kernel, KernelCall, address_facts, address_header, argument_kinds

SOURCE = Path(__file__).with_name("launcher.c")


@functools.cache
def _module() -> Any:
    include = Path(sysconfig.get_paths()["include"])
    if not (include / "Python.h").exists():
        raise BuildError(
            f"{include / 'Python.h'} is missing: install Python's headers (apt-get install python3-dev, "
            "dnf install python3-devel)"
        )
    compiler = find_compiler()
    command = (*compiler.command, "-x", "c", "-O2", "-fPIC", "-w", f"-I{include}")
    text = address_header() + SOURCE.read_text()
    module = load_extension("launcher", text, command, f"{sys.version}\n{compiler.identity}", _imported)
    module.configure(*address_facts())
    return module


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
