"""A device backend without a compiler: each kernel is interpreted with torch operations.

Flows in: kernels. Flows out: callables over tensors. Slow; it lets `inductor` run alone, and is what the scheduler's and
the wrapper's tests run on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from inductor.device import Kernel, KernelCall, KernelSource
from inductor.handlers.interpreter import Interpreter, flat_view
from inductor.host import HOST
from inductor.ir.operations import Load
from inductor.ir.program import LoopOp
from inductor.traits import DeviceTraits


class ReferenceBackend:
    """`DeviceBackend` that interprets kernels, on any device torch has."""

    file_suffix = ".txt"
    traits = DeviceTraits(orders_writes=True, combines=("add", "mul", "max", "min"), complex_parts=(torch.complex64,))

    def __init__(self, device_type: str = HOST.type) -> None:
        self.device_type = device_type

    def supports(self, kernel: Kernel) -> bool:
        return True

    def facts(self) -> Mapping[str, str]:
        return {}

    def emit(self, kernel: Kernel) -> KernelSource:
        lines = [f"# {text}" for text in kernel.origins]
        lines.append(f"{kernel.name}({', '.join(f'{arg.role} {arg.name}: {arg.dtype}' for arg in kernel.args)})")
        lines.append(f"for {list(kernel.outer_sizes)} | {list(kernel.inner_sizes)}: {kernel.body}")
        return KernelSource(kernel, "\n".join(lines) + "\n")

    def module_text(self, sources: Sequence[KernelSource]) -> str:
        return "\n".join(source.text for source in sources)

    def build(self, module_text: str, sources: Sequence[KernelSource]) -> Mapping[str, KernelCall]:
        return {source.kernel.name: interpreted(source.kernel) for source in sources}


class _Overwriting(Interpreter):
    """Also right where a kernel stores into memory it has loaded from: what is loaded is a copy."""

    def load(self, op: Load, mask: torch.Tensor | None = None) -> torch.Tensor:
        return super().load(op, mask).clone()


def interpreted(kernel: Kernel) -> KernelCall:
    """A callable that interprets one kernel."""
    loop = LoopOp(
        writes=tuple(arg.name for arg in kernel.args if arg.role in ("out", "inout")),
        device=kernel.device,
        outer_sizes=kernel.outer_sizes,
        inner_sizes=kernel.inner_sizes,
        body=kernel.body,
        origins=(),
    )
    names = [arg.name for arg in kernel.args if arg.role != "size"]
    count = len(names)

    def run(*args: Any) -> None:
        memory = {name: flat_view(tensor.detach()) for name, tensor in zip(names, args, strict=False)}
        sizes = dict(zip(kernel.symbols, args[count:], strict=True))
        with torch.no_grad():
            handler = _Overwriting(loop, memory, sizes)
            if 0 not in handler.extent[: handler.outer]:
                kernel.body.run(handler)

    return run
