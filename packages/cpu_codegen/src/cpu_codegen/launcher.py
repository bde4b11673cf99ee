"""Loads `launcher.c`, compiled once per Python and cached, and makes callables of kernels' addresses."""

from __future__ import annotations

import functools
import importlib.machinery
import importlib.util
import sys
import sysconfig
from pathlib import Path
from typing import Any

import torch

from cpu_codegen._torch import data_ptr_function, tensor_offset
from cpu_codegen.build import build_extension, find_compiler
from inductor import BuildError, Kernel, KernelCall

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
    path = build_extension("launcher", SOURCE.read_text(), command, f"{sys.version}\n{compiler.identity}")
    loader = importlib.machinery.ExtensionFileLoader("launcher", str(path))
    spec = importlib.util.spec_from_loader("launcher", loader)
    assert spec is not None
    module: Any = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    function, offset = data_ptr_function(), tensor_offset()
    usable = function is not None and offset is not None
    module.configure(torch.Tensor, torch.nn.Parameter, function if usable else 0, offset if usable else 0)
    return module


def make_call(kernel: Kernel, address: int, work_address: int) -> KernelCall:
    """The callable of a compiled kernel: takes its buffers as tensors and its sizes as ints, in order.

    The function at `work_address` says how much work the arguments are; for much of it Python's lock is released.

    It raises TypeError on a wrong number of arguments and IndexError or RuntimeError (as the kernel's `IndexRule` says)
    where the kernel met an index out of range.
    """
    sizes = bytes(arg.role == "size" for arg in kernel.args)
    call: KernelCall = _module().kernel(kernel.name, address, work_address, sizes)
    return call
