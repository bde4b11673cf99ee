"""The native wrapper: a schedule as one C++ function on torch's stable C shim, with the runtime that packages are made of.

Flows in: `Schedule`. Flows out: `NativeSource`.
"""

from typing import TYPE_CHECKING

from symshapes import lazy_package

if TYPE_CHECKING:
    from inductor.codegen.native.printer import NativeSource, Weight, generate_native
    from inductor.codegen.native.runtime import FOLDER, runtime_text
    from inductor.codegen.native.shim import Inexpressible

__all__ = ["FOLDER", "Inexpressible", "NativeSource", "Weight", "generate_native", "runtime_text"]

lazy_package(
    __name__,
    {
        "inductor.codegen.native.printer": ("NativeSource", "Weight", "generate_native"),
        "inductor.codegen.native.runtime": ("FOLDER", "runtime_text"),
        "inductor.codegen.native.shim": ("Inexpressible",),
    },
)
