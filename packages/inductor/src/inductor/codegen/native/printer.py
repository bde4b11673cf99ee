"""The native wrapper: a C++ function that runs a schedule on the CPU by torch's stable C shim.

Flows in: `Schedule`, and the C names of its kernels. Flows out: `NativeSource`: the C++ text, and which tensors the package
has to hold.
"""

from __future__ import annotations

import functools
import json
import math
import re
import textwrap
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import sympy
import torch

from inductor.codegen.layouts import Geometry, preferred_geometries, relied_on
from inductor.codegen.native.calls import CallPrinter, plain_number
from inductor.codegen.native.shim import Inexpressible
from inductor.device import Kernel
from inductor.host import HOST
from inductor.ir.operations import Expr, Symbol
from inductor.ir.program import Buffer, ExternOp, Measure, StridedView
from inductor.schedule.extern import writes_into
from inductor.schedule.kernels import origins
from inductor.schedule.nodes import symbol_names, views
from inductor.schedule.schedule import ExternStep, KernelStep, Schedule
from symshapes import dataclass, print_expr, require

_ALIGNMENT = 64
"""Bytes, of weights in a package."""


@dataclass(frozen=True)
class Weight:
    """A tensor that is part of a package."""

    name: str
    tensor: torch.Tensor
    at: int
    """Byte offset in the package's weights."""
    length: int
    """Bytes from the first to the last element."""


@dataclass(frozen=True)
class NativeSource:
    """Generated C++, to be compiled with `native.h` and beside `runtime.cpp` and the kernels."""

    text: str
    weights: tuple[Weight, ...]
    inputs: tuple[str, ...]
    """What the runtime calls the inputs, in order."""


def generate_native(
    schedule: Schedule,
    entry: Callable[[Kernel], str],
    isa: str,
    weights: dict[str, torch.Tensor],
    *,
    names: dict[str, str] | None = None,
    conditions: Sequence[tuple[Any, str]] = (),
    ahead: bool = True,
) -> NativeSource:
    """The native wrapper of `schedule`.

    Args:
        entry: the name of a kernel's C function.
        isa: what the kernels are compiled for, as the runtime knows it.
        weights: inputs that are part of the model, by buffer; the function does not take them.
        names: what inputs are called in messages, by buffer.
        conditions: what has to hold of the sizes, each with its text.
        ahead: for a package: inputs are checked, and what is constant is part of it. Else the inputs are as they were when
            compiled, and behind them come the graph's constants.

    Raises:
        Inexpressible: the schedule holds what no native wrapper can say.
    """
    return _Writer(schedule, entry, isa, weights, names or {}, conditions, ahead).write()


class _Writer:
    def __init__(
        self,
        schedule: Schedule,
        entry: Callable[[Kernel], str],
        isa: str,
        weights: dict[str, torch.Tensor],
        names: dict[str, str],
        conditions: Sequence[tuple[Any, str]],
        ahead: bool,
    ) -> None:
        self.schedule, self.program, self.memory = schedule, schedule.program, schedule.memory
        self.entry, self.isa, self.labels, self.conditions = entry, isa, names, conditions
        self.ahead = ahead
        self.constants = {**self.program.constants, **weights} if ahead else {}
        self.taken = [p for p in self.program.inputs if not (isinstance(p, str) and p in weights)]
        self.taken += [] if ahead else list(self.program.constants)
        self.imports: dict[str, tuple[str, str]] = {}
        self.lines: list[str] = []
        self.prepared: list[str] = []
        self.hoisted: dict[StridedView, int] = {}
        self.names: dict[str, str] = {}
        self.geometry: dict[str, Geometry] = {}
        """Of tensors with a handle, what it says."""
        self.defined: set[str] = set()
        self.relied = relied_on(schedule)
        self.preferred = preferred_geometries(schedule)
        self.handled = self._handled()
        self.calls = CallPrinter(self.view, self.number, self.lines, self.use)
        self.views = 0

    def _handled(self) -> set[str]:
        """Buffers that torch has to know as tensors; the others are memory of kernels' alone."""
        found: set[str] = set()
        for step in self.schedule.steps:
            if isinstance(step, KernelStep):
                found.update(name for pair in step.loop.initial for name in pair)
            else:
                found.update(view.buffer for view in views(step.op))
                found.update(name for name in step.op.writes if name is not None)
        found |= {out.buffer for out in self.program.outputs if isinstance(out, StridedView)}
        found |= {p for p in self.taken if isinstance(p, str)} | set(self.constants)
        # Memory goes on from one buffer to the next with its handle.
        while True:
            more = {a for pair in self.memory.reused.items() for a in pair if not found.isdisjoint(pair)} - found
            if not more:
                return found
            found |= more

    # ---- Names and expressions

    def name(self, buffer: str) -> str:
        found = self.names.get(buffer)
        if found is None:
            found = "t_" + re.sub(r"\W", "_", buffer)
            while found in self.names.values():
                found += "_"
            self.names[buffer] = found
        return found

    def use(self, symbol: str, kind: str) -> str:
        name = "f_" + symbol.removeprefix("aoti_torch_")
        self.imports[symbol] = name, kind
        return name

    def number(self, value: Any) -> str:
        value = plain_number(value)
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, float):
            if math.isnan(value):
                return '__builtin_nan("")'
            return repr(value) if math.isfinite(value) else f"({'-' if value < 0 else ''}__builtin_inf())"
        if isinstance(value, int):
            value = sympy.Integer(value)
        symbols = {symbol: f"n_{symbol.name}" for symbol in value.free_symbols}
        text = print_expr(value, "cpp", names=symbols)
        return text if "LL" in text or not value.is_Integer or abs(int(value)) < 1 << 31 else f"{text}LL"

    def numbers(self, values: Sequence[Any]) -> str:
        """An array of sizes, as an argument."""
        if not values:
            return "nullptr"
        return f"Ints<{len(values)}>{{{{{', '.join(map(self.number, values))}}}}}"

    def buffer(self, name: str) -> Buffer:
        return self.program.buffers[name]

    def dtype(self, buffer: Buffer) -> str:
        if buffer.device != HOST:
            raise Inexpressible(f"a tensor on {buffer.device}")
        return f"{self.calls.dtype(buffer.dtype)}()"

    def layout(self, geometry: Geometry) -> str:
        size, stride = geometry
        return f"{len(size)}, {self.numbers(size)}, {self.numbers(stride)}"

    def view(self, view: StridedView) -> str:
        """A variable with this window: the tensor itself where it has that layout."""
        if view.offset == 0 and self.geometry.get(view.buffer) == (view.size, view.stride):
            return self.name(view.buffer)
        base = self.name(view.buffer)
        made = f"strided({base}, {self.layout((view.size, view.stride))}, {self.number(view.offset)})"
        if view.buffer in self.constants and not _symbols((*view.size, *view.stride, view.offset)):
            at = self.hoisted.get(view)
            if at is None:
                at = self.hoisted[view] = len(self.hoisted)
                self.prepared.append(f"model.view[{at}] = {made};")
            return f"model.view[{at}]"
        self.views += 1
        self.lines.append(f"Tensor v{self.views} = {made};")
        return f"v{self.views}"

    # ---- The function

    def write(self) -> NativeSource:
        if self.schedule.unsupported:
            raise Inexpressible(f"a kernel that has no C++: {', '.join(sorted(self.schedule.unsupported))}")
        if self.schedule.joint_kernels:
            raise Inexpressible("kernels that are run by one launch")
        for buffer in self.program.buffers.values():
            if buffer.device != HOST:
                raise Inexpressible(f"a tensor on {buffer.device}")
        for at, name in enumerate(self.constants):
            self.prepared.append(f"Tensor& {self.name(name)} = model.constant[{at}];")
            self.lines.append(f"Tensor& {self.name(name)} = model.constant[{at}];")
            self.geometry[name] = self.buffer(name).size, self.buffer(name).stride
        self.take_inputs()
        inputs = set(self.memory.written.values())
        begun = False
        for at, step in enumerate(self.schedule.steps):
            written = step.loop.writes if isinstance(step, KernelStep) else step.op.writes
            if not begun and any(self.memory.reused.get(name or "") in inputs for name in written):
                begun = True
                # From here on nobody may start over.
                self.lines.append(f"out[{len(self.program.outputs)}].integer = 1;")
            if isinstance(step, KernelStep):
                self.kernel(at, step)
            else:
                self.extern(step)
            for name in self.memory.frees[at]:
                if name in self.names and name not in self.constants and name not in self.taken:
                    self.lines.append(f"{self.name(name)}.drop();")
        kinds = [self.output(at, out) for at, out in enumerate(self.program.outputs)]
        undefined = self.used() - self.defined
        if undefined:
            raise Inexpressible(f"sizes that nothing says: {', '.join(sorted(undefined))}")
        weights = self.weights()
        return NativeSource(self.text(kinds, weights), weights, tuple(map(self.label, self.taken)))

    def label(self, place: str | Symbol) -> str:
        return self.labels.get(str(place), str(place))

    def used(self) -> set[str]:
        """Names of the symbols that the code mentions."""
        text = "\n".join(self.lines)
        return {symbol.name for symbol in self.program.symbols if re.search(rf"\bn_{re.escape(symbol.name)}\b", text)}

    def take_inputs(self) -> None:
        """Inputs as tensors and numbers, and the checks of what the graph was compiled for."""
        measured: list[tuple[int, str]] = []
        for at, place in enumerate(self.taken):
            if not isinstance(place, str):
                kind = "integer" if place.is_integer else "number"
                self.lines.append(f"const auto n_{place} = in[{at}].{kind};")
                self.defined.add(str(place))
                continue
            buffer = self.buffer(place)
            measured.append((at, place))
            self.geometry[place] = buffer.size, buffer.stride
            if not self.ahead:
                self.lines.append(f"Tensor {self.name(place)}((Handle)in[{at}].pointer, false);")
                continue
            dtype = json.dumps(str(buffer.dtype).removeprefix("torch."))
            self.lines.append(
                f"Argument i{at} = argument(in, {at}, {self.dtype(buffer)}, {dtype}, {len(buffer.size)});"
            )
            self.lines.append(f"Tensor& {self.name(place)} = i{at}.tensor;")
        position = {place: at for at, place in measured}
        for symbol in self.program.symbols:
            self.define(symbol, position)
        for at, place in measured if self.ahead else ():
            self.check_input(at, self.buffer(place))
        for name, weight in self.constants.items():
            buffer = self.buffer(name)
            for size, known in zip(buffer.size, weight.shape, strict=True):
                if not size.is_Integer:  # shared with an input
                    text = json.dumps(f"{size} is not {known}, a size of {self.label(name)}")
                    self.lines.append(f'if ({self.number(size)} != {known}) fail(VALUE_ERROR, "%s", {text});')
        for condition, text in self.conditions:
            self.lines.append(f'if (!({self.number(condition)})) fail(VALUE_ERROR, "%s", {json.dumps(text)});')

    def define(self, symbol: Symbol, position: dict[str, int]) -> None:
        source = self.program.symbols.get(symbol)
        if source is None or symbol.name in self.defined:
            return
        if isinstance(source, Measure):
            if not self.ahead:
                read = "dimension" if source.what == "size" else "step"
                text = f"{read}({self.name(source.buffer)}, {source.dim})"
            elif source.buffer in position:
                text = f"i{position[source.buffer]}.{source.what}[{source.dim}]"
            else:
                weight = self.constants[source.buffer]
                text = str((weight.shape if source.what == "size" else weight.stride())[source.dim])
        else:
            for part in sorted(source.free_symbols, key=str):
                self.define(part, position)
            text = self.number(source)
        self.defined.add(symbol.name)
        kind = "int64_t" if symbol.is_integer else "double"
        self.lines.append(f"const {kind} n_{symbol.name} = {text};")

    def check_input(self, at: int, buffer: Buffer) -> None:
        for what, values in (("size", buffer.size), ("stride", buffer.stride)):
            for dim, value in enumerate(values):
                if isinstance(value, Symbol) and self.program.symbols.get(value) == Measure(buffer.name, dim, what):  # type: ignore[arg-type]
                    continue
                found, wanted = f"i{at}.{what}[{dim}]", self.number(value)
                # A dimension of one element has no stride to speak of, nor has a tensor of none.
                free = "" if what == "size" else f" && i{at}.size[{dim}] != 1{self._not_empty(at, buffer)}"
                text = json.dumps(wanted.replace("n_", ""))
                self.lines.append(f'if ({found} != {wanted}{free}) mismatch({at}, "{what}", {dim}, {found}, {text});')

    def _not_empty(self, at: int, buffer: Buffer) -> str:
        return "".join(f" && i{at}.size[{d}] != 0" for d, size in enumerate(buffer.size) if not size.is_positive)

    # ---- Steps

    def comment(self, nodes: Sequence[Any]) -> None:
        for text in origins(nodes):
            self.lines += textwrap.wrap(text, 110, initial_indent="// ", subsequent_indent="//   ")

    def kernel(self, at: int, step: KernelStep) -> None:
        self.comment(step.loop.origins)
        inplace = self.memory.inplace.get(at, {})
        for name in step.loop.writes:
            if name not in inplace:
                self.provide(name)
                initial = dict(step.loop.initial).get(name)
                if initial is not None and name not in self.memory.adopted.get(at, {}):
                    self.within(functools.partial(self.copy, name, initial))
        words = [f"at({self.name(inplace.get(buffer, buffer))})" for buffer in step.buffers]
        sizes = [arg for arg in step.kernel.args if arg.role == "size"]
        for arg, value in zip(sizes, step.numbers, strict=True):
            kind = "real" if arg.dtype.is_floating_point else "number"
            words.append(f"{kind}({self.number(value)})")
        name = self.entry(step.kernel)
        self.lines.append("{")
        self.lines.append(f"  const Word args[] = {{{', '.join(words) or 'number(0)'}}};")
        self.lines.append(f"  launched({name}(args), {json.dumps(name)});")
        self.lines.append("}")
        for written, read in inplace.items():
            self.take_over(written, read)

    def copy(self, name: str, initial: str) -> None:
        """What a buffer starts with."""
        target, source = (
            self.view(StridedView(each, self.buffer(each).size, self.buffer(each).stride, sympy.Integer(0)))
            for each in (name, initial)
        )
        self.lines.append(f'check(shim.copy_({target}.handle, {source}.handle, 0), "copy_");')

    def provide(self, name: str) -> None:
        """Memory for a buffer."""
        donor = self.memory.reused.get(name)
        if donor is not None:
            self.take_over(name, donor)
            return
        buffer = self.buffer(name)
        if name in self.handled:
            geometry = self.preferred[name][0]
            made = f"empty({self.layout(geometry)}, {self.dtype(buffer)})"
            self.lines.append(f"Tensor {self.name(name)} = {made};")
            self.geometry[name] = geometry
        else:
            self.lines.append(f"Memory {self.name(name)}({self.number(_extent(buffer) * buffer.dtype.itemsize)});")

    def take_over(self, name: str, donor: str) -> None:
        """`name` lives on in the memory of `donor`, which is dead."""
        if name not in self.handled:
            self.lines.append(f"Memory {self.name(name)} = static_cast<Memory&&>({self.name(donor)});")
            return
        geometry, uses = self.preferred[name]
        if uses and self.geometry.get(donor) != geometry:
            self.lines.append(f"Tensor {self.name(name)} = strided({self.name(donor)}, {self.layout(geometry)}, 0);")
            self.lines.append(f"{self.name(donor)}.drop();")
            self.geometry[name] = geometry
        else:
            self.lines.append(f"Tensor {self.name(name)} = static_cast<Tensor&&>({self.name(donor)});")
            if donor in self.geometry:
                self.geometry[name] = self.geometry[donor]
        self.geometry.pop(donor, None)

    def extern(self, step: ExternStep) -> None:
        op = step.op
        self.comment(op.origins)
        if op.target is require:
            self.require(op)
            return
        if op.scalar_writes and not any(op.writes):
            self.scalar(op)
            return
        if writes_into(op) is not None:
            (name,) = op.writes
            assert name is not None
            self.provide(name)
            self.within(functools.partial(self.calls.call, op, self.name(name), []))
            return
        for name in op.writes:
            if name is not None:
                self.lines.append(f"Tensor {self.name(name)};")
        results = [None if name is None else self.name(name) for name in op.writes]
        self.within(lambda: self.calls.call(op, None, results))
        self.settle(op)

    def within(self, write: Callable[[], None]) -> None:
        """What a call needs on the way goes when it is done."""
        start = len(self.lines)
        write()
        if len(self.lines) - start > 1:
            self.lines[start:] = ["{", *(f"  {line}" for line in self.lines[start:]), "}"]

    def require(self, op: ExternOp) -> None:
        condition, message, error, line = op.args
        kind = {"ValueError": "VALUE_ERROR", "IndexError": "INDEX_ERROR", "TypeError": "TYPE_ERROR"}.get(
            error, "RUNTIME_ERROR"
        )
        text = json.dumps(f"{message} (checked for {line})" if line else message)
        self.lines.append(f'if (!({self.number(condition)})) fail({kind}, "%s", {text});')

    def scalar(self, op: ExternOp) -> None:
        """A number out of a tensor."""
        name = op.scalar_writes[0]
        if op.target is torch.ops.aten.sym_size.int:
            whole, dim = op.args
            self.lines.append(f"const int64_t n_{name} = dimension({self.name(whole.buffer)}, {dim});")
        elif op.target is torch.ops.aten._local_scalar_dense.default:
            (source,) = op.args
            dtype = str(self.buffer(source.buffer).dtype).removeprefix("torch.")
            kind = _ITEMS.get(dtype)
            if kind is None:
                raise Inexpressible(f"a number out of a tensor of {dtype}")
            function = self.use(f"aoti_torch_item_{dtype}", f"Status (*{{}})(Handle, {kind}*)")
            self.lines.append(f"{kind} m_{name};")
            self.within(lambda: self.lines.append(f'check({function}({self.view(source)}.handle, &m_{name}), "item");'))
            self.lines.append(f"const auto n_{name} = m_{name};")
        else:
            raise Inexpressible(f"{op.target}, whose result is a number")
        self.defined.update(op.scalar_writes)

    def settle(self, op: ExternOp) -> None:
        """Sizes read from results, and their layouts where it matters what they are."""
        for name in op.writes:
            if name is None:
                continue
            buffer = self.buffer(name)
            self.geometry[name] = buffer.size, buffer.stride
            for dim, size in enumerate(buffer.size):
                if isinstance(size, Symbol) and size.name in op.scalar_writes and size.name not in self.defined:
                    self.lines.append(f"const int64_t n_{size.name} = dimension({self.name(name)}, {dim});")
                    self.defined.add(size.name)
            if name in self.relied:
                layout, what = self.layout((buffer.size, buffer.stride)), json.dumps(str(op.target))
                self.lines.append(f"fit({self.name(name)}, {layout}, {self.dtype(buffer)}, {what});")

    def output(self, at: int, out: Any) -> int:
        """Write one result of the graph; what kind it is."""
        if isinstance(out, StridedView):
            if out.buffer in self.constants or out.buffer in self.taken or (self.ahead and at in self.memory.written):
                raise Inexpressible("an output in the memory of an input or a weight")
            self.lines.append(f"out[{at}].pointer = {self.view(out)}.give();")
            return 0
        if out is None:
            return 4
        value = plain_number(out)
        if isinstance(value, bool) or getattr(value, "is_Boolean", False):
            self.lines.append(f"out[{at}].integer = {self.number(value)};")
            return 3
        if isinstance(value, int) or getattr(value, "is_integer", False):
            self.lines.append(f"out[{at}].integer = {self.number(value)};")
            return 1
        self.lines.append(f"out[{at}].number = {self.number(value)};")
        return 2

    # ---- The file

    def weights(self) -> tuple[Weight, ...]:
        found, at = [], 0
        for name, tensor in self.constants.items():
            if tensor.device != HOST or tensor.layout is not torch.strided or tensor.is_quantized:
                raise Inexpressible(f"the weight {name}, which is not plain memory of the CPU")
            tensor = tensor.detach().resolve_conj().resolve_neg()
            size, stride = tuple(tensor.shape), tensor.stride()
            extent = 0 if 0 in size else 1 + sum((n - 1) * s for n, s in zip(size, stride, strict=True))
            length = extent * tensor.element_size()
            found.append(Weight(self.labels.get(name, name), tensor, at, length))
            at += -(-length // _ALIGNMENT) * _ALIGNMENT
        return tuple(found)

    def text(self, kinds: Sequence[int], weights: Sequence[Weight]) -> str:
        rows: list[str] = []
        layouts: dict[tuple[int, ...], str] = {}
        for weight in weights:
            places = [
                layouts.setdefault(values, f"layout{len(layouts)}") if values else "nullptr"
                for values in (tuple(weight.tensor.shape), weight.tensor.stride())
            ]
            dim, dtype = weight.tensor.dim(), self.calls.dtype(weight.tensor.dtype)
            rows.append(f"{{{weight.at}, {weight.length}, &{dtype}, {dim}, {places[0]}, {places[1]}}}")
        body = "\n".join(self.lines + self.prepared)
        head = ['#include "native.h"']
        if "std::" in body:
            head += ["#include <algorithm>", "#include <cmath>", "#include <limits>"]
        entries = dict.fromkeys(self.entry(kernel) for kernel in self.schedule.kernels)
        inputs = [f"{{{json.dumps(self.label(place))}, {_kind(place)}}}" for place in self.taken]
        blocking = any(isinstance(step, ExternStep) for step in self.schedule.steps) or bool(self.program.symbols)
        facts = [
            str(len(inputs)), str(len(kinds)), str(len(rows)), str(len(self.imports)), str(len(self.hoisted)),
            "inputs", "constants", "imports", json.dumps(self.isa), "true" if blocking else "false", "outputs", "prepare", "run",
        ]  # fmt: skip
        return "\n".join(
            [
                "// The wrapper of one graph, on torch's stable C shim.",
                *head,
                "",
                *(f'extern "C" int {name}(const native::Word*);' for name in entries),
                "",
                "namespace native {",
                *(f"static {kind.format(name)};" for name, kind in self.imports.values()),
                *_table(
                    "Import",
                    "imports",
                    [f'{{"{symbol}", (void**)&{name}}}' for symbol, (name, _) in self.imports.items()],
                ),
                *_table("Input", "inputs", inputs),
                *(
                    f"static const int64_t {place}[] = {{{', '.join(map(str, values))}}};"
                    for values, place in layouts.items()
                ),
                *_table("Constant", "constants", rows),
                *_table("uint8_t", "outputs", [str(kind) for kind in kinds]),
                "",
                "static void prepare(Model& model) {",
                *(f"  {line}" for line in self.prepared),
                "}",
                "",
                "static void run(Model& model, const Word* in, Word* out) {",
                *(f"  {line}" for line in self.lines),
                "}",
                "",
                f"extern const Graph graph = {{{', '.join(facts)}}};",
                "}  // namespace native",
                "",
            ]
        )


_ITEMS = {
    "int8": "int8_t", "int16": "int16_t", "int32": "int32_t", "int64": "int64_t", "uint8": "uint8_t", "bool": "bool",
    "float32": "float", "float64": "double",
}  # fmt: skip
"""C types of what can be read out of a tensor, by its dtype."""


def _table(kind: str, name: str, rows: Iterable[str]) -> list[str]:
    listed = [f"    {row}," for row in rows]
    if not listed:
        return [f"static const {kind}* const {name} = nullptr;"]
    return [f"static const {kind} {name}[] = {{", *listed, "};"]


def _kind(place: str | Symbol) -> int:
    """What an input is to the runtime: a tensor, an int or a float."""
    return 0 if isinstance(place, str) else 1 if place.is_integer else 2


def _symbols(values: Iterable[Any]) -> set[str]:
    return symbol_names(list(values))


def _extent(buffer: Buffer) -> Expr:
    """Elements of memory that a buffer spans; nothing of the kind where it is empty."""
    return sympy.Add(1, *((size - 1) * stride for size, stride in zip(buffer.size, buffer.stride, strict=True)))
