"""The table of lowerings, and the decorator for elementwise ones.

A lowering is `(builder, *args, **kwargs) -> TensorValue | tuple`, called with the node's arguments, tensors as `TensorValue`s
and sizes as sympy expressions; it may return `NotImplemented`, then the ATen kernel runs instead.
"""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import fx

from inductor.ir.builder import Builder
from inductor.ir.indexing import Index, is_empty, product, same
from inductor.ir.operations import Cast, Constant, Elementwise, Expr, Load
from inductor.ir.recording import LoopRecorder
from inductor.ir.scalar import Scalar, convert, lift, rounded
from inductor.ir.tensor import Cost, Source, TensorValue
from inductor.ir.views import Expand
from inductor.ops import install, ops
from inductor.primitives import PRIMITIVES
from symshapes import HALF_DTYPES, ambient, result_dtype

Lowering = Callable[..., Any]

LOWERINGS: dict[Any, Lowering] = {}
"""ATen overload to lowering."""

VIEWS: set[Any] = set()
"""Overloads whose result is their first argument seen otherwise: they compute nothing."""

FEW = 8
"""One of a tensor's elements is read for so many of a result's, or more: it is as good as there."""


def overloads(names: Iterable[Any]) -> list[Any]:
    """ATen overloads by "name.overload" ("name" alone: "name.default"); those this torch lacks are left out. Overloads themselves
    stand for themselves."""
    found = []
    for full in names:
        if not isinstance(full, str):
            found.append(full)
            continue
        name, _, overload = full.partition(".")
        packet = getattr(torch.ops.aten, name, None)
        op = getattr(packet, overload or "default", None)
        if op is not None:
            found.append(op)
    return found


READS_MEMORY: set[Any] = set()
"""Overloads whose lowerings put the tensors that they read in memory first."""


def lowering(*names: Any, reads_memory: bool = False) -> Callable[[Lowering], Lowering]:
    """Register a lowering for ATen overloads, by name, or for any operator's overloads."""

    def register(function: Lowering) -> Lowering:
        LOWERINGS.update(dict.fromkeys(overloads(names), function))
        if reads_memory:
            READS_MEMORY.update(overloads(names))
        return function

    return register


BY_LIBRARY: dict[Any, Lowering] = {}
"""How calls are put to the library, of those that are left to it though they have lowerings."""


def by_library(*names: str) -> Callable[[Lowering], Lowering]:
    """Register how ATen overloads, by name, are left to the library; it may return `NotImplemented`, as a lowering may."""

    def register(function: Lowering) -> Lowering:
        BY_LIBRARY.update(dict.fromkeys(overloads(names), function))
        return function

    return register


def view(*names: str) -> Callable[[Lowering], Lowering]:
    """Register a lowering whose result is a view of its first argument."""

    def register(function: Lowering) -> Lowering:
        VIEWS.update(overloads(names))
        return lowering(*names)(function)

    return register


def users(node: fx.Node) -> list[fx.Node]:
    """The nodes that read the value, through views of it."""
    found: list[fx.Node] = []
    for user in node.users:
        if user.target in VIEWS or (user.target is operator.getitem and not is_tensor(node)):
            found.extend(users(user) or [user])
        else:
            found.append(user)
    return found


def is_tensor(node: fx.Node) -> bool:
    """Whether the node's value is one tensor."""
    return isinstance(node.meta.get("val"), torch.Tensor)


def is_wanted_in_memory(node: fx.Node) -> bool:
    """Whether the value had better be in memory, however it is made: for who reads it there, in several places, or several times."""
    readers = users(node)
    return len(readers) > 1 or any(
        user.op == "output" or user.target not in LOWERINGS or user.target in READS_MEMORY for user in readers
    )


def pointwise(
    *names: Any, promote: bool = False, own: tuple[str, ...] = (), wide: tuple[str, ...] = ()
) -> Callable[[Callable[..., Scalar]], Callable[..., Scalar]]:
    """Register an elementwise function of Scalars.

    Its positional parameters are operands, named as in the ATen schema: they broadcast, and are converted to the
    result's dtype, or with `promote` to the dtype torch promotes the operands to, but for those in `own`. Keyword-only
    parameters are passed as they are. `wide`: see `elementwise`.
    """

    def register(function: Callable[..., Scalar]) -> Callable[..., Scalar]:
        parameters = inspect.signature(function).parameters.values()
        operands = [p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD]
        raw = [p.name for p in parameters if p.kind is p.KEYWORD_ONLY]
        for op in overloads(names):
            schema = op._schema.arguments

            def lower(builder: Builder, *args: Any, schema: Any = schema, **kwargs: Any) -> Any:
                bound = {a.name: a.default_value for a in schema if a.has_default_value()}
                bound.update(zip((a.name for a in schema), args, strict=False))
                bound.update(kwargs)
                return elementwise(
                    builder,
                    function,
                    {name: bound[name] for name in operands},
                    {name: bound[name] for name in raw if name in bound},
                    promote=promote,
                    own=own,
                    wide=wide,
                )

            lower.__module__ = function.__module__  # whose sources the generated code depends on
            LOWERINGS[op] = lower
        return function

    return register


def elementwise(
    builder: Builder,
    function: Callable[..., Scalar],
    operands: dict[str, Any],
    raw: dict[str, Any] | None = None,
    *,
    promote: bool = False,
    own: tuple[str, ...] = (),
    wide: tuple[str, ...] = (),
) -> TensorValue:
    """A pending tensor like the node's fake value: `function` of the operands (tensors, numbers, expressions, None).

    Where a device's `casts_operands`, what is not of the operands' common dtype is cast to it, numbers too. Operands in `wide` are those that its kernels read as float32 all the same."""
    out = builder.meta()
    size = builder.sizes(out.size())
    device, dtype = out.device, out.dtype
    raw = raw or {}
    common = dtype
    if promote:
        operating = (value for name, value in operands.items() if name not in own)
        common = result_dtype(operating, ambient().default_dtype)
    values = {
        name: broadcast(builder, builder.to_device(value, device), size) if isinstance(value, TensorValue) else value
        for name, value in operands.items()
    }

    narrow: set[str] = set()
    if common in HALF_DTYPES and builder.traits(device).casts_operands:
        narrow = {name for name, value in operands.items() if _is_narrowed(value, common, name in wide)}

    def prepared(name: str, value: Any, element: Scalar | None) -> Scalar | None:
        if value is None:
            return None
        if element is None:
            if name in narrow and isinstance(value, int | float):
                value = torch.tensor(value, dtype=common).item()
            element = lift(value, common)
        if name in own:
            return element
        element = convert(element, common)
        return rounded(element, common) if name in narrow else element

    def compute(index: Index) -> Scalar:
        loaded = [
            prepared(name, value, value.load(index) if isinstance(value, TensorValue) else None)
            for name, value in values.items()
        ]
        return convert(function(*loaded, **raw), dtype)

    def sample() -> Scalar:
        loaded = [
            prepared(name, value, Scalar(ops.load(name, 0)) if isinstance(value, TensorValue) else None)
            for name, value in values.items()
        ]
        return function(*loaded, **raw)

    tensors = {name: value for name, value in values.items() if isinstance(value, TensorValue)}
    cost = measured(builder, sample, lambda name: tensors[name].dtype)
    for value in tensors.values():
        cost += value.cost
    return builder.pointwise(device, dtype, size, compute, cost)


def _is_narrowed(value: Any, common: torch.dtype, wide: bool) -> bool:
    if isinstance(value, TensorValue):
        return value.dtype is not common and not (wide and not value.size)
    return not wide


def measured(builder: Builder, sample: Callable[[], Scalar], dtype_of: Callable[[str], torch.dtype]) -> Cost:
    """The operations that `sample` records, loads and constants not counted."""
    recorder = LoopRecorder(dtype_of, {}, builder.rewriter)
    with install(recorder):
        sample()
    work = [op for op in recorder.recorded if not isinstance(op, Load | Constant | Cast)]
    return Cost(len(work), sum(isinstance(op, Elementwise) and PRIMITIVES[op.primitive].expensive for op in work))


def broadcast(builder: Builder, value: TensorValue, size: tuple[Expr, ...]) -> TensorValue:
    """`value` expanded to `size`; a pending value that is not nearly free is first computed, once an element."""
    if len(value.size) == len(size) and all(map(same, value.size, size)):
        return value
    repeated = any(a == 1 and b != 1 for a, b in zip(reversed(value.size), reversed(size), strict=False)) or any(
        extra != 1 for extra in size[: len(size) - len(value.size)]
    )
    if repeated and not is_empty(size):
        realize_if_costly(builder, value)
    return value.view(Expand(size, value.size))


def large_reads(builder: Builder, source: Source) -> list[Source]:
    """What is read from memory for a value, but for what is much smaller than it: a divisor for each row is as good as there."""
    length = builder.hint(product(source.size))
    return [read for read in source.cost.reads if FEW * builder.hint(product(read.size)) > length]


DEAR = 4.0
"""What keeping an element (`DeviceTraits.kept`) costs at least where computing it again, from one load and some few numbers, costs less."""


def counted_reads(builder: Builder, source: Source) -> int:
    """How many loads count of those that an element takes: where keeping an element costs as much as many operations, not those of few
    numbers; out of a cache each, of which no few numbers are loaded at once."""
    dear = builder.traits(source.device).kept >= DEAR
    return len(large_reads(builder, source) if dear else source.cost.reads)


def realize_if_costly(builder: Builder, value: TensorValue) -> TensorValue:
    """Before an element is read more than once, or not at all: put in memory what is dearer than a load and an operation
    or two, or checks something."""
    cost = value.source.cost
    if value.source.buffer is None and (
        cost.checks or cost.expensive or cost.operations > 2 or counted_reads(builder, value.source) > 1
    ):
        builder.realize(value)
    return value
