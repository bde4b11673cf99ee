"""What `test_settled` runs in processes of their own: builds a kernel and calls it, on a driver made of Python that notes launches.

Arguments: the file that keeps the kernel's source for the next process, and what is asked, as JSON. Prints whether nothing that prints
kernels was imported, and the last launches: digest of the machine code, programs, threads, shared memory.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import pickle
import sys
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from triton import knobs
from triton.backends.compiler import GPUTarget
from triton.runtime.build import compile_module_from_src

from inductor import Options
from inductor.addresses import address_facts
from inductor.backends import Devices, register_backend
from inductor.loading import building
from inductor.triton import TritonBackend, native

KEPT, ASKED = Path(sys.argv[1]), json.loads(sys.argv[2])

# The driver. Loaded code is known by its place in `loaded`, from 1.

launches: list[list[Any]] = []
loaded: list[str] = []
entered: list[tuple[int, int]] = []


def _launch(function: int, gx: int, gy: int, gz: int, bx: int, by: int, bz: int, shared: int, *rest: Any) -> int:
    launches.append([loaded[function - 1], gx, bx, shared])
    return 0


def _launch_early(configuration: Any, function: int, params: Any, extra: Any) -> int:
    grid, block, shared = (configuration[at] for at in (0, 3, 6))
    return _launch(function, grid, 1, 1, block, 1, 1, shared, None, params, extra)


_number, _pointer, _pointers = ctypes.c_uint, ctypes.c_void_p, ctypes.POINTER(ctypes.c_void_p)
_LAUNCH = ctypes.CFUNCTYPE(ctypes.c_int, _pointer, *[_number] * 7, _pointer, _pointers, _pointer)(_launch)
_EARLY = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(_number), _pointer, _pointers, _pointer)(_launch_early)


def on_device(binary: Any, device: int) -> native.Loaded:
    here = threading.get_ident()
    in_context = here == threading.main_thread().ident or (device, here) in entered
    assert in_context, "it is loaded into the context of its thread"
    loaded.append(hashlib.sha256(binary.code).hexdigest())
    return native.Loaded(len(loaded), binary.threads, binary.shared, binary.early, None, binary.key)


def install_driver() -> None:
    extension = compile_module_from_src(native.native_text(native.SOURCE) + "/* a test's */", "launcher")
    address, early = (ctypes.cast(each, _pointer).value for each in (_LAUNCH, _EARLY))
    extension.configure(address_facts(), lambda device: 0, lambda device: None, address, early, address)
    native.launcher = lambda: extension
    native.serves = lambda device: True
    native.enter_device = lambda device: entered.append((device, threading.get_ident()))
    native.target = lambda: GPUTarget("cuda", 90, 32)
    native.on_device = on_device
    figures = {"major": 9, "minor": 0, "multi_processor_count": 132, "L2_cache_size": 1 << 25}
    torch.cuda.get_device_properties = lambda device: SimpleNamespace(name=ASKED.get("device", "a GPU"), **figures)
    zeros = torch.zeros
    torch.zeros = lambda *size, device=None, **kind: zeros(*size, **kind)


def install_compiler() -> None:
    from inductor.triton import launcher

    launcher.target, launcher.on_device = native.target, native.on_device


def time_by_number() -> None:
    """Of two forms the second one is the faster."""
    from inductor.triton import launcher, tuning

    every = tuning.candidates
    tuning.candidates = lambda case, reduces: every(case, reduces)[:2]
    tuning.scratch = lambda kernel, arguments: list(arguments)
    tuning.seconds = lambda calls, device: [1.0 / (at + 1) for at, _ in enumerate(calls)]
    launcher.torch.cuda.is_current_stream_capturing = lambda: ASKED.get("recording", False)


def printed(backend: Any) -> tuple[str, list[Any]]:
    """The module's text and its one kernel, of a program of one tensor `x`."""
    import aotgrad
    from inductor.api import lowered
    from symshapes import FakeMode

    text = compile(ASKED.get("program", "(x * 2 + 1).t().contiguous()"), "program", "eval")
    with FakeMode(), torch.no_grad():
        fake = torch.empty(ASKED.get("shape", [4096, 1024]), dtype=torch.float16, device="cuda:0")
    with torch.no_grad():
        traced = aotgrad.trace_inference(lambda x: (eval(text),), [fake], aotgrad.core_decompositions())
    plan = lowered(traced.module, traced.inputs, Options(autotune=False), Devices({"cuda": backend}))
    sources = [backend.emit(plan.kernels[0])]
    return backend.module_text(sources), sources


def aligned(extra: int) -> torch.Tensor:
    """Memory that begins so many elements behind a multiple of 16 bytes."""
    whole = torch.empty(4096 * 1024 + 16, dtype=torch.float16)
    start = (-whole.data_ptr() % 16) // 2 + extra + ASKED.get("begins", 0)
    return whole[start : start + 4096 * 1024]


def main() -> None:
    install_driver()
    register_backend(TritonBackend("cuda"))
    options = Options(autotune=ASKED.get("tuning", True), cache=ASKED.get("cache", True), cache_dir=ASKED.get("folder"))
    backend = building(options, Devices())(torch.device("cuda"))
    if KEPT.exists():
        text, sources = pickle.loads(KEPT.read_bytes())
    else:
        text, sources = printed(backend)
        KEPT.write_bytes(pickle.dumps((text, sources)))
    if ASKED.get("times"):
        install_compiler()
        time_by_number()
    call = backend.build(text, sources)[sources[0].kernel.name]
    if ASKED.get("told"):
        knobs.compilation.store_binary_only = True
    launches.clear()
    call(aligned(0), aligned(0))
    known = "inductor.triton.kernel" not in sys.modules and "inductor.schedule" not in sys.modules
    if known and ASKED.get("misfit"):
        install_compiler()
        launches.clear()
        call(aligned(0), aligned(1))
        call(aligned(0), aligned(0))
    found = launches[-2:]
    native.finish()
    print(json.dumps([known, found]))


main()
