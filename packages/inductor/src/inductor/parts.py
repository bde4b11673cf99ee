"""All that a compiled graph consists of: texts, printed kernels, constants.

Flows in: what code generation made, or a cache entry holds. Flows out: what the wrapper's text refers to by name.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from typing import Any

import torch

from inductor._torch import tensor_of_handle, tensor_offset
from inductor.backends import BackendOf, class_name
from inductor.codegen.native import FOLDER, runtime_text
from inductor.codegen.source import WrapperSource
from inductor.device import JoiningBackend, JointSource, Kernel, KernelSource, NativeBackend
from inductor.host import HOST
from symshapes import dataclass

WRAPPER, CHECKED = "wrapper.py", "wrapper_checked.py"
NATIVE, NATIVE_CALL = "wrapper.cpp", "wrapper_native.py"


@dataclass(frozen=True)
class KernelModule:
    """The kernels of one device type, printed."""

    device_type: str
    backend: str
    """The class that printed them, and alone can build them: `backends.class_name`."""
    text: str
    sources: tuple[KernelSource, ...]
    file_name: str
    joint: tuple[JointSource, ...] = ()
    """What runs several kernels by one launch."""


@dataclass(frozen=True)
class Parts:
    """All that a compiled graph consists of."""

    wrapper: WrapperSource
    checked: str | None
    """The wrapper's text with layout checks, where there is anything to check."""
    modules: tuple[KernelModule, ...]
    interpreted: tuple[Kernel, ...]
    launches: int
    externs: int
    loops: int
    written: tuple[int, ...] = ()
    """Outputs that are inputs, into whose memory they were computed."""
    native: tuple[str, str] | None = None
    """The native wrapper, where there is one: its C++, and the text of the Python that calls it."""

    def native_namespace(
        self, backend: BackendOf, constants: Mapping[str, torch.Tensor], instead: Callable[..., Any]
    ) -> dict[str, Any]:
        """What the Python that calls the native wrapper refers to; raises as `namespace`.

        Args:
            instead: called with the wrapper's inputs where it fails.
        """
        assert self.native is not None
        builder = backend(HOST)
        if not isinstance(builder, NativeBackend) or any(class_name(builder) != m.backend for m in self.modules):
            raise LookupError(f"{class_name(builder)} did not print the kernels that it is to build")
        sources = [source for module in self.modules for source in module.sources]
        library = builder.build_shared(
            sources, (self.native[0], runtime_text()), FOLDER, lambda path: ctypes.PyDLL(str(path))
        )
        bind = library.python_graph
        bind.restype, bind.argtypes = ctypes.py_object, [ctypes.py_object, ctypes.py_object, ctypes.c_ssize_t]
        found: dict[str, Any] = {"_native": bind(tensor_of_handle, instead, tensor_offset() or 0)}
        for variable, (name, stored) in self.wrapper.constants.items():
            found[variable] = constants.get(name, stored)
        return found

    def namespace(self, backend: BackendOf, constants: Mapping[str, torch.Tensor]) -> dict[str, Any]:
        """What the wrapper's text refers to. Compiles the kernels, or finds them compiled.

        Args:
            constants: by buffer name, in place of the stored copies.

        Raises:
            LookupError: another backend serves a device than printed the kernels for it, or none.
            BuildError: a kernel's compiler failed.
        """
        found: dict[str, Any] = dict(self.wrapper.objects)
        for variable, (name, stored) in self.wrapper.constants.items():
            value = found[variable] = constants.get(name, stored)
            if value is None:
                raise LookupError(f"the constant {name} is not stored with the graph, and was not given")
        for module in self.modules:
            builder = backend(torch.device(module.device_type))
            if class_name(builder) != module.backend:
                message = f"kernels for {module.device_type!r} were printed by {module.backend}, and {class_name(builder)} is to build"
                raise LookupError(message)
            found.update(builder.build(module.text, module.sources))
            if module.joint:
                assert isinstance(builder, JoiningBackend), "it printed them"
                found.update(builder.build_joint(module.text, module.joint))
        if self.interpreted:
            from inductor.handlers.reference import interpreted  # noqa: PLC0415  # it needs all that a program is lowered with

            found.update({kernel.name: interpreted(kernel) for kernel in self.interpreted})
        return found
