"""`NumpyBackend`: what `inductor` asks of a device.

Flows in: kernels. Flows out: one Python module a graph, and a callable over tensors for each kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from inductor import BuildError, DeviceTraits, Kernel, KernelCall, KernelSource
from inductor_numpy.printer import print_kernel
from symshapes import build_python

_HEADER = '''"""Generated kernels of one graph: numpy over the memory of the tensors."""

import math

import numpy as np

from inductor_numpy.space import Space, each, inf, max, min, nan

'''


class NumpyBackend:
    """`DeviceBackend` for "cpu": NumPy reads and writes the memory of torch's tensors."""

    device_type = "cpu"
    file_suffix = ".py"
    # Kernels run in the caller's thread, one element's write after the other.
    traits = DeviceTraits(orders_writes=True)

    def supports(self, kernel: Kernel) -> bool:
        """Whether NumPy has words for all of it: it has no bfloat16, and no integer powers."""
        try:
            print_kernel(kernel)
        except NotImplementedError:
            return False
        return True

    def facts(self) -> Mapping[str, str]:
        """NumPy's version: what a kernel means may depend on it."""
        return {"numpy": np.__version__}

    def emit(self, kernel: Kernel) -> KernelSource:
        """The kernel as a Python function.

        Raises:
            NotImplementedError: `supports` is false.
        """
        return KernelSource(kernel, print_kernel(kernel))

    def module_text(self, sources: Sequence[KernelSource]) -> str:
        return _HEADER + "".join(f"\n{source.text}\n" for source in sources)

    def build(self, module_text: str, sources: Sequence[KernelSource]) -> Mapping[str, KernelCall]:
        """Execute the module's text: there is nothing to compile.

        Raises:
            BuildError: the text is no Python.
        """
        names = ", ".join(f"{source.kernel.name!r}: {source.kernel.name}" for source in sources)
        try:
            functions = build_python(f"{module_text}\n_kernels = {{{names}}}\n", {}, entry="_kernels", title="numpy")
        except SyntaxError as error:
            raise BuildError(f"{error}\n{module_text}") from error
        return {source.kernel.name: _over_tensors(functions[source.kernel.name]) for source in sources}


def _over_tensors(function: Callable[..., None]) -> KernelCall:
    def call(*args: Any) -> None:
        with np.errstate(all="ignore"):
            function(*(_memory(arg) if isinstance(arg, torch.Tensor) else arg for arg in args))

    return call


def _memory(tensor: torch.Tensor) -> np.ndarray[Any, Any]:
    """All elements that a strided tensor spans, from its first: what a kernel's indices count."""
    span = 1 + sum((n - 1) * s for n, s in zip(tensor.size(), tensor.stride(), strict=True)) if tensor.numel() else 0
    return tensor.detach().as_strided((span,), (1,)).numpy()
