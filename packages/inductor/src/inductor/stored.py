"""A compiled graph's parts as files of a cache entry, and back: texts, JSON and tensors' bytes, of which nothing runs.

Flows in: `Parts`, or the files of an entry. Flows out: the other.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import sympy
import torch

from inductor.cache.place import FORMAT
from inductor.cache.tensors import DTYPES, Unstorable, pack, unpack
from inductor.codegen.source import WrapperSource
from inductor.device import JointKernel, JointPart, JointSource, Kernel, KernelArg, KernelSource
from inductor.ir.body import Body
from inductor.ir.operations import OPERATIONS, Ref
from inductor.parts import CHECKED, NATIVE, NATIVE_CALL, WRAPPER, KernelModule, Parts
from symshapes import ExprWriter, fields_of, read_exprs

PARTS, CONSTANTS = "parts.json", "constants.bin"


def files_of(parts: Parts, *, constants: bool = True) -> dict[str, bytes]:
    """The files of a cache entry: texts for people to read, too.

    Args:
        constants: store what they hold; without, who loads the entry has to bring them.

    Raises:
        Unstorable: a Python object, or a tensor that is not plain memory, is among the parts.
    """
    if parts.wrapper.objects:
        raise Unstorable("its calls take Python objects")
    files = {WRAPPER: parts.wrapper.text.encode()}
    if parts.checked is not None:
        files[CHECKED] = parts.checked.encode()
    if parts.native is not None:
        files[NATIVE], files[NATIVE_CALL] = (text.encode() for text in parts.native)
    files |= {module.file_name: module.text.encode() for module in parts.modules}
    writer = _Writer()
    rows, content = pack(parts.wrapper.constants if constants else {})
    if content:
        files[CONSTANTS] = content
    given = [] if constants else [[variable, name] for variable, (name, _) in parts.wrapper.constants.items()]
    try:
        data = {
            "format": FORMAT,
            "kernels": parts.wrapper.kernels,
            "constants": rows,
            "given": given,
            "modules": [
                {
                    "device_type": module.device_type,
                    "backend": module.backend,
                    "file": module.file_name,
                    "sources": [
                        [writer.kernel(source.kernel), source.text, list(source.settings)] for source in module.sources
                    ],
                    "joint": [[writer.joint(source.kernel), source.text] for source in module.joint],
                }
                for module in parts.modules
            ],
            "interpreted": [writer.kernel(kernel) for kernel in parts.interpreted],
            "written": parts.written,
            "counts": [parts.launches, parts.externs, parts.loops],
            "expressions": writer.exprs.rows,  # last: those above have filled it
        }
    except NotImplementedError as error:
        raise Unstorable(str(error)) from None
    return files | {PARTS: json.dumps(data, separators=(",", ":")).encode()}


def parts_of(files: Mapping[str, bytes]) -> Parts | None:
    """The parts in an entry's (verified) files; None if they are not what `files_of` writes."""
    try:
        data = json.loads(files[PARTS])
        if data["format"] != FORMAT:
            return None
        reader = _Reader(read_exprs(data["expressions"]))
        modules = tuple(
            KernelModule(
                module["device_type"],
                module["backend"],
                files[module["file"]].decode(),
                tuple(
                    KernelSource(reader.kernel(kernel), text, tuple(map(int, settings)))
                    for kernel, text, settings in module["sources"]
                ),
                module["file"],
                tuple(JointSource(reader.joint(kernel), text) for kernel, text in module["joint"]),
            )
            for module in data["modules"]
        )
        constants = unpack(data["constants"], files.get(CONSTANTS, b""))
        constants |= {variable: (name, None) for variable, name in data["given"]}
        checked = files.get(CHECKED)
        launches, externs, loops = data["counts"]
        return Parts(
            WrapperSource(files[WRAPPER].decode(), constants, {}, tuple(data["kernels"])),
            None if checked is None else checked.decode(),
            modules,
            tuple(map(reader.kernel, data["interpreted"])),
            launches,
            externs,
            loops,
            tuple(data["written"]),
            native=(files[NATIVE].decode(), files[NATIVE_CALL].decode()) if NATIVE in files else None,
        )
    except (KeyError, ValueError, TypeError, IndexError, AttributeError, RuntimeError):
        return None


class _Writer:
    def __init__(self) -> None:
        self.exprs = ExprWriter()

    def kernel(self, kernel: Kernel) -> dict[str, Any]:
        place = self.exprs.place
        return {
            "name": kernel.name,
            "device": str(kernel.device),
            "outer": list(map(place, kernel.outer_sizes)),
            "inner": list(map(place, kernel.inner_sizes)),
            "variables": [list(map(place, kernel.body.outer_vars)), list(map(place, kernel.body.inner_vars))],
            "ops": [
                [op.opcode, *(self.value(getattr(op, name)) for name in fields_of(type(op)))] for op in kernel.body.ops
            ],
            "args": [[arg.name, arg.role, str(arg.dtype)] for arg in kernel.args],
            "symbols": list(map(place, kernel.symbols)),
            "origins": list(kernel.origins),
        }

    def joint(self, kernel: JointKernel) -> dict[str, Any]:
        return {
            "name": kernel.name,
            "device": str(kernel.device),
            "kernels": [self.kernel(each) for each in kernel.kernels],
            "parts": [[part.kernel, *part.known] for part in kernel.parts],
        }

    def value(self, value: Any) -> Any:
        if isinstance(value, Ref):
            return {"ref": value.at}
        if isinstance(value, tuple):
            return {"refs": [ref.at for ref in value]}
        if value is None or isinstance(value, str | bool | int):
            return value
        if isinstance(value, sympy.Basic):
            return {"expr": self.exprs.place(value)}
        if isinstance(value, float):
            return {"float": value.hex()}
        if isinstance(value, complex):
            return {"complex": [value.real.hex(), value.imag.hex()]}
        if isinstance(value, torch.dtype):
            return {"dtype": str(value)}
        raise NotImplementedError(f"an operation takes a {type(value).__name__}")


class _Reader:
    def __init__(self, exprs: list[Any]) -> None:
        self.exprs = exprs
        self.kinds: dict[str, Callable[[Any], Any]] = {
            "ref": Ref,
            "refs": lambda places: tuple(map(Ref, places)),
            "expr": exprs.__getitem__,
            "float": float.fromhex,
            "complex": lambda parts: complex(*map(float.fromhex, parts)),
            "dtype": DTYPES.__getitem__,
        }

    def at(self, places: list[int]) -> tuple[Any, ...]:
        return tuple(self.exprs[place] for place in places)

    def kernel(self, data: dict[str, Any]) -> Kernel:
        ops = tuple(OPERATIONS[opcode](*map(self.value, values)) for opcode, *values in data["ops"])
        outer, inner = data["variables"]
        return Kernel(
            data["name"],
            torch.device(data["device"]),
            self.at(data["outer"]),
            self.at(data["inner"]),
            Body(self.at(outer), self.at(inner), ops),
            tuple(KernelArg(name, role, DTYPES[dtype]) for name, role, dtype in data["args"]),
            self.at(data["symbols"]),
            tuple(data["origins"]),
        )

    def joint(self, data: dict[str, Any]) -> JointKernel:
        return JointKernel(
            data["name"],
            torch.device(data["device"]),
            tuple(map(self.kernel, data["kernels"])),
            tuple(JointPart(kernel, tuple(known)) for kernel, *known in data["parts"]),
        )

    def value(self, value: Any) -> Any:
        if type(value) is dict:
            ((kind, content),) = value.items()
            return self.kinds[kind](content)
        return value
