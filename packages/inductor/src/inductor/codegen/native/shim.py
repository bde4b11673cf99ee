"""Torch's stable C shim: which operators have a function of their own there, and how schema types are passed.

Flows in: the shim's headers in torch's include folder, operators' schemas. Flows out: C declarations, and whether an
operator's own function takes just what its schema says.
"""

from __future__ import annotations

import functools
import re
from pathlib import Path
from typing import Any

import torch

from symshapes import dataclass


class Inexpressible(NotImplementedError):
    """What no native wrapper can say; the message tells what, and why."""


HANDLE = "Handle"
_TYPES = {"AtenTensorHandle": HANDLE, "AtenGeneratorHandle": "Opaque*"}

PASSED: dict[str, tuple[str, ...]] = {
    "Tensor": ("Handle",),
    "Tensor?": ("Handle*",),
    "Tensor[]": ("const Handle*", "int64_t"),
    "int": ("int64_t",),
    "int?": ("int64_t*",),
    "int[]": ("const int64_t*", "int64_t"),
    "int[]?": ("const int64_t**", "int64_t"),
    "float": ("double",),
    "float?": ("double*",),
    "float[]": ("const double*", "int64_t"),
    "bool": ("int32_t",),
    "bool?": ("int32_t*",),
    "bool[]": ("const int32_t*", "int64_t"),
    "Scalar": ("double",),
    "ScalarType": ("int32_t",),
    "ScalarType?": ("int32_t*",),
    "str": ("const char*",),
    "Generator?": ("Opaque**",),
}
"""By schema type, the C types of the parameters that an operator's own function has for it."""


@dataclass(frozen=True)
class Parameter:
    """One argument of a schema."""

    name: str
    type: str
    """As schemas are written, the length of a list left out: `int[]`."""
    length: int | None
    """Of a list that a single value stands for, too."""
    default: Any
    required: bool
    keyword: bool


def parameters(schema: Any) -> list[Parameter]:
    """The arguments of an operator's schema, in order."""
    found = []
    for arg in schema.arguments:
        required = not arg.has_default_value()
        found.append(
            Parameter(
                arg.name,
                type_text(arg.real_type),
                arg.N,
                None if required else arg.default_value,
                required,
                arg.kwarg_only,
            )
        )
    return found


def type_text(kind: Any) -> str:
    """A type of a schema as schemas are written; sizes are ints."""
    if isinstance(kind, torch.OptionalType):
        return f"{type_text(kind.getElementType())}?"
    if isinstance(kind, torch.ListType):
        return f"{type_text(kind.getElementType())}[]"
    return _NAMES.get(str(kind), str(kind))


_NAMES = {"SymInt": "int", "number": "Scalar", "SymBool": "bool", "SymFloat": "float"}


def own_function(schema: Any, into: bool) -> tuple[str, str] | None:
    """The shim's function of an operator on the CPU, with its C type, if it takes what the schema says.

    Args:
        into: the variant that writes its one result into a tensor given first.
    """
    namespace, name = schema.name.split("::")
    if namespace != "aten":
        return None
    overload = f"_{schema.overload_name}" if schema.overload_name else ""
    symbol = f"aoti_torch_cpu_{name}{'_out' if into else overload}"
    declared = _declared().get(symbol)
    if declared is None:
        return None
    wanted: list[str] = [HANDLE] if into else []
    for parameter in parameters(schema):
        passed = PASSED.get(parameter.type)
        if passed is None:
            return None
        wanted += passed
    if not into:
        if any(type_text(result.type) != "Tensor" for result in schema.returns):
            return None
        wanted += [f"{HANDLE}*"] * len(schema.returns)
    return (symbol, f"Status (*{{}})({', '.join(wanted)})") if declared == wanted else None


@functools.cache
def _declared() -> dict[str, list[str]]:
    """The functions of operators on the CPU that the headers declare: the types of their parameters."""
    header = Path(torch.__file__).parent / "include/torch/csrc/inductor/aoti_torch/generated/c_shim_cpu.h"
    try:
        text = header.read_text()
    except OSError:  # every operator can be called by name, too
        return {}
    found = {}
    for symbol, listed in re.findall(r"AOTI_TORCH_EXPORT AOTITorchError (\w+)\(([^)]*)\);", text):
        found[symbol] = [_type(each) for each in listed.split(",")]
    return found


def _type(parameter: str) -> str:
    """The type in `const int64_t** sizes`."""
    text = re.sub(r"\w+$", "", parameter.strip()).strip()
    return re.sub(r"\w+", lambda word: _TYPES.get(word[0], word[0]), text)
