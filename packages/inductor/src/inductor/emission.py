"""A schedule's kernels as modules of text, one a device type; under `Options.autotune` with products printed by blocks.

Flows in: a `Schedule`, backends, and where figures of products are kept. Flows out: `KernelModule`s.
"""

from __future__ import annotations

import functools

import torch

from inductor.backends import BackendOf, Devices, class_name
from inductor.cache import DiskCache
from inductor.device import JoiningBackend, JointKernel, JointSource, Keep, Kernel, KernelSource, ProductBackend
from inductor.figures import kept
from inductor.options import Options
from inductor.parts import KernelModule
from inductor.passes.freezing import eagerly
from inductor.schedule import Schedule
from symshapes import ambient, phase

PRODUCTS = "products"
"""Section of the disk cache: how fast products ran by each of the blocks that were tried."""


def keeping(options: Options, devices: Devices) -> Keep | None:
    """Where figures of products are kept; None where none are timed."""
    if not options.autotune or ambient().deterministic:
        return None
    return functools.partial(
        kept, DiskCache(PRODUCTS, options.cache_dir) if options.cache and not devices.given else None
    )


def emit(
    plan: Schedule, backend: BackendOf, products: bool, keep: Keep | None
) -> tuple[tuple[KernelModule, ...], tuple[Kernel, ...]]:
    """Print each device type's kernels as one module; the second result is what no backend can print.

    Args:
        products: whether a `ProductBackend` prints products by blocks.
        keep: where figures of these are kept; None: none are timed.
    """
    printable = _printable(plan)
    joint: dict[str, list[JointKernel]] = {}
    for each in plan.joint_kernels:
        printable.setdefault(each.device.type, [])
        joint.setdefault(each.device.type, []).append(each)
    modules = []
    for device_type, kernels in printable.items():
        printer = backend(torch.device(device_type))
        if products and isinstance(printer, ProductBackend):
            sources = _with_products(printer, kernels, keep)
        else:
            sources = tuple(map(printer.emit, kernels))
        together: tuple[JointSource, ...] = ()
        if device_type in joint:
            assert isinstance(printer, JoiningBackend), "DeviceTraits.joins says so"
            together = tuple(map(printer.emit_joint, joint[device_type]))
            text = printer.module_text((*sources, *together))
        else:
            text = printer.module_text(sources)
        file_name = f"kernels_{device_type}{printer.file_suffix}"
        modules.append(KernelModule(device_type, class_name(printer), text, sources, file_name, together))
    return tuple(modules), tuple(kernel for kernel in plan.kernels if kernel.name in plan.unsupported)


def begin_products(plan: Schedule, backend: BackendOf, keep: Keep) -> None:
    """Start to compile what `emit` would have to time."""
    for device_type, kernels in _printable(plan).items():
        printer = backend(torch.device(device_type))
        if isinstance(printer, ProductBackend):
            printer.begin_products(tuple(map(printer.emit_product, kernels)), keep)


def _with_products(printer: ProductBackend, kernels: list[Kernel], keep: Keep | None) -> tuple[KernelSource, ...]:
    sources = tuple(map(printer.emit_product, kernels))
    if keep is None:
        return sources
    with phase("autotune"), eagerly():
        return tuple(printer.fastest_products(sources, keep))


def _printable(plan: Schedule) -> dict[str, list[Kernel]]:
    """The kernels of each device type that its backend can print."""
    found: dict[str, list[Kernel]] = {}
    for kernel in plan.kernels:
        if kernel.name not in plan.unsupported:
            found.setdefault(kernel.device.type, []).append(kernel)
    return found
