"""The wrapper: a Python module whose `call(args)` runs a schedule.

Flows in: `Schedule`. Flows out: `WrapperSource`: readable text of straight-line code, and what to put into the module's
namespace besides (kernels, constants).
"""

from __future__ import annotations

import keyword
import re
import textwrap
from collections.abc import Iterable, Sequence
from itertools import count
from typing import Any

import sympy
import torch

from inductor._torch import OpOverload
from inductor.backends import traits_of
from inductor.codegen.extern import ArgumentPrinter, unpacked
from inductor.codegen.guards import DeviceGuards
from inductor.codegen.layouts import Geometry, is_dense, preferred_geometries, relied_on
from inductor.codegen.source import WrapperSource, module_text
from inductor.device import JointKernel, Kernel
from inductor.ir.body import checks_positions
from inductor.ir.indexing import is_empty
from inductor.ir.operations import Expr, Symbol
from inductor.ir.program import Buffer, ExternOp, Measure, Program, StridedView
from inductor.options import IndexChecks
from inductor.schedule.extern import begins_with, in_place, writes_into
from inductor.schedule.kernels import origins
from inductor.schedule.lives import extent
from inductor.schedule.nodes import symbol_names, views
from inductor.schedule.schedule import Batch, ExternStep, KernelStep, Schedule, Step
from inductor.schedule.space import estimate, number
from inductor.traits import TraitsOf
from symshapes import require


def generate(
    schedule: Schedule,
    *,
    check: bool = False,
    index_checks: IndexChecks = "off",
    pool_memory: bool = True,
    traits: TraitsOf = traits_of,
) -> WrapperSource:
    """The wrapper of `schedule`.

    Args:
        check: also compare sizes and dtype of every extern result with what the kernels expect of it. Meant for a first call:
            shape rules and real kernels might disagree, and generated kernels would then read the wrong elements. Strides
            are compared on every call, since a library may choose others each time; what differs goes through a function
            `_fit` in the module's namespace.
        index_checks: when a position out of range is raised, on devices whose kernels can't do so themselves.
        pool_memory: see `Options.pool_memory`.
        traits: what is true of each device.
    """
    written = _Writer(schedule, check, index_checks, pool_memory, traits)
    source = written.write()
    shared = [expr for expr, uses in written.uses.items() if uses > 1]
    return _Writer(schedule, check, index_checks, pool_memory, traits, shared).write() if shared else source


_PRINTED = frozenset(
    {
        "torch",
        "args",
        "call",
        "float",
        "complex",
        "max",
        "min",
        "math",
        "round",
        "int",
        "bool",
        "abs",
        "len",
        "operator",
    }
)
"""Names that the module's text uses for what they are."""


class _Writer:
    """`shared`: expressions that are computed once, under a name."""

    def __init__(
        self,
        schedule: Schedule,
        check: bool,
        index_checks: IndexChecks,
        pool_memory: bool,
        traits: TraitsOf,
        shared: Iterable[Expr] = (),
    ) -> None:
        self.uses: dict[Expr, int] = {}
        """How many different places each expression that is more than a symbol stands in, another expression being one."""
        self.shared: dict[Expr, Symbol | None] = dict.fromkeys(shared)
        """The names of those that have one by now."""
        self.schedule = schedule
        self.waits = index_checks == "sync"
        self.last_checks = {} if index_checks == "off" else last_checks(schedule, traits)
        self.program = schedule.program
        self.memory = schedule.memory
        self.pooled = schedule.memory.private if pool_memory else frozenset()
        self.traits = traits
        self.with_kernels = {kernel.device for kernel in schedule.kernels if kernel.name not in schedule.unsupported}
        self.with_kernels |= {kernel.device for kernel in schedule.joint_kernels}
        self.check = check
        self.globals: dict[str, str] = {}
        self.objects: dict[str, Any] = {}
        self.lines: list[str] = []
        called: list[Kernel | JointKernel] = [*schedule.kernels, *schedule.joint_kernels]
        self.kernel_names = dict.fromkeys(kernel.name for kernel in called)
        self.names: dict[str, str] = {}
        self.taken = {symbol.name for symbol in self.program.symbols}
        for op in self.program.operations:
            if isinstance(op, ExternOp):
                self.taken.update(op.scalar_writes)
        self.alive: dict[str, Geometry] = {}
        """Tensors in scope that the wrapper knows the layout of."""
        self.layouts: dict[tuple[Geometry, torch.dtype, torch.device], dict[str, None]] = {}
        """The same by layout."""
        self.fresh: set[str] = set()
        """Tensors with storage offset 0."""
        self.defined: set[str] = set()
        self.guards = DeviceGuards((kernel.device for kernel in called), traits, self.bind)
        self.used = self.used_symbols()
        self.relied = relied_on(schedule)
        self.preferred = preferred_geometries(schedule)
        self.printer = ArgumentPrinter(self.view, self.bind, self.objects, self.number)

    def bind(self, name: str, value: str) -> str:
        if self.globals.setdefault(name, value) != value:
            name = f"{name}_{len(self.globals)}"
            self.globals[name] = value
        return name

    def name(self, buffer: str) -> str:
        """A buffer's variable."""
        found = self.names.get(buffer)
        if found is None:
            found = re.sub(r"\W", "_", buffer)
            # Module-level names start with an underscore, but for kernels and the three modules' names.
            if (
                not found.isidentifier()
                or keyword.iskeyword(found)
                or found.startswith("_")
                or found in self.kernel_names
                or found in _PRINTED
                or found in self.taken
            ):
                base, count = f"t_{found.strip('_')}", len(self.names)
                while (found := f"{base}_{count}") in self.taken or found in self.kernel_names:
                    count += 1
            self.names[buffer] = found
            self.taken.add(found)
        return found

    def enter(self, name: str, geometry: Geometry, sure: bool = True) -> None:
        """A tensor comes into scope; if its layout is `sure`, others can be made like it."""
        self.leave(name)
        self.alive[name] = geometry
        if sure:
            self.layouts.setdefault((geometry, *_place(self.buffer(name))), {})[name] = None

    def leave(self, name: str) -> None:
        geometry = self.alive.pop(name, None)
        if geometry is not None:
            self.layouts.get((geometry, *_place(self.buffer(name))), {}).pop(name, None)

    # Expressions

    def size(self, expr: Any) -> str:
        if not isinstance(expr, sympy.Basic):
            expr = sympy.sympify(expr)
        return str(int(expr)) if expr.is_Integer else self.printer.number(expr)

    def number(self, expr: sympy.Basic) -> sympy.Basic:
        """An expression with names for what is computed once; those get their values here."""
        if not expr.args or not isinstance(expr, Expr):
            return expr
        self._count(expr)
        return self._named(expr) if self.shared else expr

    def _count(self, expr: Expr) -> None:
        uses = self.uses.get(expr, 0)
        self.uses[expr] = uses + 1
        for part in () if uses else _parts(expr):
            self._count(part)

    def _named(self, expr: Expr) -> Expr:
        known = self.shared.get(expr)
        if known is not None:
            return known
        parts = {part: self._named(part) for part in _parts(expr)}
        text = expr
        if any(part is not named for part, named in parts.items()):
            text = expr.func(*[parts.get(part, part) for part in expr.args], evaluate=False)
        if expr not in self.shared:
            return text
        name = next(n for n in map("e{}".format, count()) if n not in self.taken and n not in self.kernel_names)
        self.taken.add(name)
        made = self.shared[expr] = Symbol(name, **({"integer": True} if expr.is_integer else {"real": True}))
        self.lines.append(f"{made} = {self.printer.expression(text)}")
        return made

    def sizes(self, exprs: Sequence[Any]) -> str:
        inside = ", ".join(self.size(e) for e in exprs)
        return f"({inside},)" if len(exprs) == 1 else f"({inside})"

    def buffer(self, name: str) -> Buffer:
        return self.program.buffers[name]

    def view(self, view: StridedView) -> str:
        """A strided window as an expression: the tensor itself where it has that layout."""
        name = self.name(view.buffer)
        if view.offset == 0 and self.alive.get(view.buffer) == (view.size, view.stride):
            return name
        strided = self.bind("_as_strided", "torch.as_strided")
        text = f"{strided}({name}, {self.sizes(view.size)}, {self.sizes(view.stride)}"
        if view.offset != 0:
            offset = self.size(view.offset)
            text += f", {offset}" if view.buffer in self.fresh else f", {name}.storage_offset() + {offset}"
        return text + ")"

    # Statements

    def write(self) -> WrapperSource:
        program = self.program
        for name in program.constants:
            self.enter(name, (self.buffer(name).size, self.buffer(name).stride))
        body = self.lines
        body += self.guards.head()
        self.unpack()
        batches = {batch.steps.start: batch for batch in self.schedule.batches}
        together = {at for batch in self.schedule.batches for at in batch.steps}
        for at, step in enumerate(self.schedule.steps):
            if at in batches:
                self.batch(batches[at])
            elif at not in together:
                self.step(at, step)
            if self.waits and at in self.last_checks:
                device = self.last_checks[at]
                self.lines.append(self.guards.within(device, f"_mark_{device.type}()"))
            self.free(self.memory.frees[at])
        outputs = [self.output(out) for out in program.outputs]
        for name in dict.fromkeys(device.type for device in self.last_checks.values()):
            body.append(f"_settle_{name}({self.waits})")
        body.append(f"return ({', '.join(outputs)}{',' if len(outputs) == 1 else ''})")
        undefined = self.used - self.defined
        if undefined:
            raise NotImplementedError(f"nothing says what these sizes are: {', '.join(sorted(undefined))}")
        constants = {self.name(name): (name, value) for name, value in program.constants.items()}
        text = module_text(len(self.kernel_names), self.globals, self.lines, input_texts(program))
        return WrapperSource(text, constants, self.objects, tuple(self.kernel_names))

    def output(self, out: Any) -> str:
        if isinstance(out, StridedView):
            return self.view(out)
        return self.printer.text(out)

    def unpack(self) -> None:
        program = self.program
        arguments: list[str] = []
        for place in program.inputs:
            if isinstance(place, str):
                arguments.append(self.name(place))
                self.enter(place, (self.buffer(place).size, self.buffer(place).stride))
            else:
                arguments.append(str(place))
                self.defined.add(str(place))
        if len(arguments) == 1:
            self.lines.append(f"({arguments[0]},) = args")
        elif arguments:
            self.lines.append(f"{', '.join(arguments)} = args")
        self.lines.append("args.clear()")
        for symbol in program.symbols:
            if symbol.name in self.used:
                self.define(symbol)
        read = {name for step in self.schedule.steps for name in _reads(step)}
        read |= {out.buffer for out in program.outputs if isinstance(out, StridedView)}
        read |= set(self.memory.reused.values())  # results are written there
        self.free([p for p in program.inputs if isinstance(p, str) and p not in read])

    def define(self, symbol: Symbol) -> None:
        """A symbol's value, after those that it is computed from."""
        source = self.program.symbols.get(symbol)
        if source is None or symbol.name in self.defined:
            return
        self.defined.add(symbol.name)
        if isinstance(source, Measure):
            read = f".shape[{source.dim}]" if source.what == "size" else f".stride({source.dim})"
            self.lines.append(f"{symbol} = {self.name(source.buffer)}{read}")
            return
        for part in sorted(source.free_symbols, key=str):
            assert isinstance(part, Symbol)
            self.define(part)
        self.lines.append(f"{symbol} = {self.size(source)}")

    def used_symbols(self) -> set[str]:
        """Names of the symbols the code mentions."""
        todo: list[Any] = [list(self.program.outputs)]
        for step in self.schedule.steps:
            if isinstance(step, KernelStep):
                todo += [list(step.numbers)]
                written: Iterable[str | None] = step.loop.writes
            else:
                todo += [step.op.args, step.op.kwargs]
                written = step.op.writes
            for name in written:
                if name is not None:
                    todo += [self.buffer(name).size, self.buffer(name).stride]
        return symbol_names(todo)

    def step(self, at: int, step: Step) -> None:
        if isinstance(step, KernelStep):
            self.comment(step.loop.origins)
            self.provide_results(at, step)
            launch = f"{step.kernel.name}({self.arguments(at, step.buffers, step.numbers)})"
            self.lines.append(self.guards.within(step.kernel.device, launch))
            self.settle_results(at)
        else:
            self.extern(at, step)

    def provide_results(self, at: int, step: KernelStep) -> None:
        for name in step.loop.writes:
            if name not in self.memory.inplace.get(at, {}):
                self.provide(name, dict(step.loop.initial).get(name), name in self.memory.adopted.get(at, {}))

    def arguments(self, at: int, buffers: Sequence[str], numbers: Sequence[Expr]) -> str:
        arguments = [self.name(buffer) for buffer in buffers]
        # An argument that is overwritten in place goes by the name of what was there before.
        for written, read in self.memory.inplace.get(at, {}).items():
            arguments[buffers.index(written)] = self.name(read)
        return ", ".join((*arguments, *map(self.size, numbers)))

    def settle_results(self, at: int) -> None:
        for written, read in self.memory.inplace.get(at, {}).items():
            self.take_over(written, read)

    def batch(self, batch: Batch) -> None:
        """Steps that run at the same time: memory for all, launches, and only then new names for what was overwritten."""
        steps = {at: step for at in batch.steps if isinstance(step := self.schedule.steps[at], KernelStep)}
        for at, step in steps.items():
            self.provide_results(at, step)
        for launch in batch.joint:
            parts = zip(launch.steps, launch.buffers, launch.numbers, strict=True)
            rows = [(at, self.arguments(at, buffers, numbers)) for at, buffers, numbers in parts]
            self.lines.append(f"# {len(rows)} kernels by one launch")
            self.lines.append(self.guards.within(launch.kernel.device, f"{launch.kernel.name}("))
            for at, arguments in rows:
                self.comment(steps[at].loop.origins, indent="    ")
                self.lines.append(f"    {arguments},")
            self.lines.append(")")
        for at in batch.steps:
            self.settle_results(at)

    def comment(self, nodes: Sequence[Any], indent: str = "") -> None:
        for text in origins(nodes):
            self.lines += textwrap.wrap(text, 110, initial_indent=f"{indent}# ", subsequent_indent=f"{indent}#   ")

    def provide(self, name: str, initial: str | StridedView | None, adopt: bool) -> None:
        """Memory for a buffer, and its initial content: that of a buffer or of a window into one."""
        donor = self.memory.reused.get(name)
        if donor is not None:
            self.take_over(name, donor)
        else:
            geometry = self.preferred[name][0]
            self.lines.append(f"{self.name(name)} = {self.allocation(name, geometry)}")
            self.enter(name, geometry)
            self.fresh.add(name)
        if initial is not None and not adopt:
            if isinstance(initial, str):
                source = self.buffer(initial)
                initial = StridedView(initial, source.size, source.stride, sympy.Integer(0))
            text = self.view(initial)
            self.lines.append(f"{self.name(name)}.copy_({text})")

    def take_over(self, name: str, donor: str) -> None:
        """`name` lives on in the memory of `donor`, which is dead."""
        geometry, uses = self.preferred[name]
        if uses > 1 and self.alive.get(donor) != geometry:
            text = self.view(StridedView(donor, *geometry, sympy.Integer(0)))
            self.enter(name, geometry)
        else:  # whoever needs a layout makes a view
            text = self.name(donor)
            if donor in self.alive:
                self.enter(name, self.alive[donor])
        self.lines.append(f"{self.name(name)} = {text}; del {self.name(donor)}  # its memory")
        if donor in self.fresh:
            self.fresh.add(name)
        self.leave(donor)

    def allocation(self, name: str, geometry: Geometry) -> str:
        """An expression for uninitialised memory. `empty_like` takes three quarters of the time of `empty_strided`."""
        buffer = self.buffer(name)
        device, traits = buffer.device, self.traits(buffer.device)
        bytes = number(extent(buffer) * buffer.dtype.itemsize)

        def is_of(least: int | None) -> bool:
            return least is not None and device in self.with_kernels and estimate(bytes) >= least

        if name in self.pooled and is_of(traits.pooled):
            dtype = self.printer.text(buffer.dtype)
            return f"_pooled_{device.type}({self.sizes(geometry[0])}, {self.sizes(geometry[1])}, {dtype})"
        like = self.twin(buffer, geometry)
        if like is not None:
            text = f"{self.bind('_empty_like', 'torch.empty_like')}({like})"
        else:
            function = self.bind("_empty_strided", "torch.empty_strided")
            place = f"dtype={self.printer.text(buffer.dtype)}, device={self.printer.text(device)}"
            text = f"{function}({self.sizes(geometry[0])}, {self.sizes(geometry[1])}, {place})"
        return f"_fresh_{device.type}({text}, {self.size(bytes)})" if is_of(traits.large_pages) else text

    def twin(self, buffer: Buffer, geometry: Geometry) -> str | None:
        """A tensor in scope with the same dense layout."""
        if not is_dense(*geometry):
            return None
        alike = self.layouts.get((geometry, buffer.dtype, buffer.device))
        return self.name(next(iter(alike))) if alike else None

    def extern(self, at: int, step: ExternStep) -> None:
        op = step.op
        self.comment(op.origins)
        if op.target is require:
            condition, *what = op.args
            refused = self.bind("_refused", "__import__('symshapes').refused")
            arguments = ", ".join(map(self.printer.text, what))
            self.lines.append(f"if not ({self.printer.text(condition)}): raise {refused}({arguments})")
            return
        if op.target is torch.ops.aten.sym_size.int and op.scalar_writes:
            whole, dim = op.args
            self.lines.append(f"{op.scalar_writes[0]} = {self.name(whole.buffer)}.shape[{dim}]")
            self.defined.update(op.scalar_writes)
            return
        if op.scalar_writes and not any(op.writes):
            targets = ", ".join(op.scalar_writes)
            self.lines.append(f"{targets} = {self.printer.call(op)}")
            self.defined.update(op.scalar_writes)
            return
        if writes_into(op) is not None:
            (name,) = op.writes
            assert name is not None
            self.provide(name, None, False)
            self.lines.append(self.printer.call(op, into=self.name(name)))
            return
        begun = begins_with(op)
        if begun:
            for name, source in begun:
                self.provide(name, source, name in self.memory.adopted.get(at, {}))
            op = in_place(op, self.program.buffers)
        names = ["_" if name is None else self.name(name) for name in op.writes]
        call = self.printer.call(op)
        how = unpacked(op)
        if how is False:
            self.lines.append(f"{names[0]} = {call}" if names and op.writes[0] is not None else call)
        elif not any(op.writes):
            self.lines.append(call)
        else:
            if how is None:
                call = f"{self.bind('_tree_leaves', 'torch.utils._pytree.tree_leaves')}({call})"
            self.lines.append(f"{', '.join(names)}{',' if len(names) == 1 else ''} = {call}")
        self.settle(op)

    def settle(self, op: ExternOp) -> None:
        """After a call that made its own results: sizes read from them, and their layouts where it matters what they are."""
        for name in op.writes:
            if name is None:
                continue
            buffer = self.buffer(name)
            self.enter(name, (buffer.size, buffer.stride), sure=name in self.relied)
            for dim, size in enumerate(buffer.size):
                if isinstance(size, Symbol) and size.name in op.scalar_writes and size.name not in self.defined:
                    self.lines.append(f"{size} = {self.name(name)}.shape[{dim}]")
                    self.defined.add(size.name)
            # A number has no strides, nor has what is empty: a workspace that the library makes as large as it likes.
            if name not in self.relied or (not self.check and (not buffer.size or is_empty(buffer.size))):
                continue
            size, stride = self.sizes(buffer.size), self.sizes(buffer.stride)
            variable, dtype = self.name(name), self.printer.text(buffer.dtype)
            test = "" if self.check else f"if {self.differs(op, variable, size, stride)}: "
            self.lines.append(f"{test}{variable} = _fit({variable}, {size}, {stride}, {dtype}, {str(op.target)!r})")

    def differs(self, op: ExternOp, variable: str, size: str, stride: str) -> str:
        """Whether a result's layout is another than was compiled for. Sizes are arithmetic in ATen; anything may be in others."""
        known = isinstance(op.target, OpOverload) and op.target.namespace == "aten"
        if known:
            return f"{variable}.stride() != {stride}"
        return f"{variable} is None or {variable}.shape != {size} or {variable}.stride() != {stride}"

    def free(self, names: Iterable[str]) -> None:
        dead = sorted(n for n in names if n in self.alive)
        if dead:
            self.lines.append(f"del {', '.join(self.name(n) for n in dead)}")
        for name in dead:
            self.leave(name)


def input_texts(program: Program) -> list[str]:
    """The inputs' metadata for the benchmark, with a guess for symbolic sizes."""
    found = []
    for place in program.inputs:
        if not isinstance(place, str):
            found.append(str(estimate(number(place))))
            continue
        buffer = program.buffers[place]
        size = tuple(estimate(number(s)) for s in buffer.size)
        stride = tuple(estimate(number(s)) for s in buffer.stride)
        found.append(f"({size}, {stride}, {buffer.dtype}, {str(buffer.device)!r})")
    return found


def _parts(expr: Expr) -> list[Expr]:
    """What is computed on the way."""
    return [part for part in expr.args if part.args and isinstance(part, Expr)]


def last_checks(schedule: Schedule, traits: TraitsOf) -> dict[int, torch.device]:
    """The step after which each device whose kernels raise later has checked all positions that it will."""
    last: dict[torch.device, int] = {}
    for at, step in enumerate(schedule.steps):
        if isinstance(step, KernelStep) and checks_positions(step.kernel.body.ops):
            last[step.kernel.device] = at
    return {at: device for device, at in last.items() if traits(device).raises_later}


def _reads(step: Step) -> Iterable[str]:
    if isinstance(step, KernelStep):
        return {*step.buffers, *(source for _, source in step.loop.initial)}
    return {view.buffer for view in views(step.op)}


def _place(buffer: Buffer) -> tuple[torch.dtype, torch.device]:
    return buffer.dtype, buffer.device
