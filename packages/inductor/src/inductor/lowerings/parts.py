"""Complex numbers as their two parts, where nothing reads them otherwise: loops hold no complex numbers, but their parts.

Flows in: a graph, then the calls of those nodes that `apart` names. Flows out: `Parts`, a real and an imaginary part as lazy values,
and what reads them as real numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import sympy
import torch
from torch import fx

from inductor.ir.builder import Builder
from inductor.ir.indexing import Index
from inductor.ir.scalar import Scalar, convert, index_value, lift, prim, where
from inductor.ir.tensor import Cost, TensorValue
from inductor.ir.views import Layout
from inductor.lowerings.arithmetic import hypotenuse
from inductor.lowerings.registry import LOWERINGS, broadcast, overloads
from inductor.lowerings.views import selected
from inductor.ops import ops
from inductor.traits import TraitsOf
from symshapes import dataclass

aten = torch.ops.aten

ZERO, ONE = sympy.Integer(0), sympy.Integer(1)


@dataclass(frozen=True)
class Parts:
    """A complex tensor: two real ones of its size."""

    real: TensorValue
    imag: TensorValue


Pair = tuple[Scalar, Scalar]
"""The parts of one element."""
ARITHMETIC: dict[Any, Callable[..., Pair]] = {}
"""What elements are computed from elements, as eager does it: a real operand is a complex one whose imaginary part is zero."""


def _arithmetic(*names: str) -> Callable[[Callable[..., Pair]], Callable[..., Pair]]:
    def register(function: Callable[..., Pair]) -> Callable[..., Pair]:
        ARITHMETIC.update(dict.fromkeys(overloads(names), function))
        return function

    return register


@_arithmetic("mul.Tensor")
def _mul(x: Pair, y: Pair) -> Pair:
    return x[0] * y[0] - x[1] * y[1], x[0] * y[1] + x[1] * y[0]


def _plus(x: Pair, y: Pair, factor: float) -> Pair:
    # Eager multiplies by a complex 1 or -1: of an infinite part it makes the other one NaN.
    times = y[0] * factor - y[1] * 0.0, y[0] * 0.0 + y[1] * factor
    return x[0] + times[0], x[1] + times[1]


@_arithmetic("add.Tensor")
def _add(x: Pair, y: Pair) -> Pair:
    return _plus(x, y, 1.0)


@_arithmetic("sub.Tensor")
def _sub(x: Pair, y: Pair) -> Pair:
    return _plus(x, y, -1.0)


@_arithmetic("neg")
def _neg(x: Pair) -> Pair:
    return -x[0], -x[1]


@_arithmetic("clone")
def _clone(x: Pair) -> Pair:
    return x


@_arithmetic("_conj", "_conj_physical", "conj_physical")
def _conj(x: Pair) -> Pair:
    return x[0], -x[1]


@_arithmetic("complex")
def _complex(real: Pair, imag: Pair) -> Pair:
    return real[0], imag[0]


@_arithmetic("polar")
def _polar(size: Pair, angle: Pair) -> Pair:
    return size[0] * prim.cos(angle[0]), size[0] * prim.sin(angle[0])


READ: dict[Any, Callable[[Scalar, Scalar], Scalar]] = dict.fromkeys(overloads(("abs",)), hypotenuse)
"""What makes a real number of both parts. Not angles: ATen's kernel computes more of them at once than ours."""

VIEWS = frozenset(
    overloads(
        (
            "alias", "detach", "resolve_conj", "view", "_unsafe_view", "reshape", "permute", "expand", "unsqueeze",
            "squeeze", "squeeze.dim", "squeeze.dims", "slice.Tensor", "select.int",
        )
    )
)  # fmt: skip
"""What sees both parts alike."""
_PLACED = frozenset(overloads(("slice.Tensor", "select.int")))
"""Of these, what has no lowering for places that are not known now."""
FREE = VIEWS | frozenset(overloads(("view_as_complex", "_conj")))
"""What costs nothing to do again for those who read the parts."""


def apart(graph: fx.Graph, traits: TraitsOf) -> dict[fx.Node, bool]:
    """The calls that are made of parts, those that are free also beside what others want of them, and what reads them; of each, whether
    nobody wants more of it."""
    found: dict[fx.Node, bool] = {}
    for node in reversed(graph.nodes):
        if node.target is aten.view_as_real.default or node.target in READ:
            (read,) = node.all_input_nodes
            if "val" in read.meta and read.meta["val"].is_complex() and _is_readable(read, traits):
                found[node] = True
        elif _has_parts(node, traits) and node.users:
            wholly = all(found.get(user, False) for user in node.users)
            if wholly or (node.target in FREE and any(user in found for user in node.users)):
                found[node] = wholly
    return found


def _has_parts(node: fx.Node, traits: TraitsOf) -> bool:
    if node.op != "call_function" or not (node.target in FREE or node.target in ARITHMETIC):
        return False
    value = node.meta.get("val")
    if not isinstance(value, torch.Tensor) or value.dtype not in traits(value.device).complex_parts or node.kwargs:
        return False
    for read in node.all_input_nodes:
        one = read.meta.get("val")
        if isinstance(one, torch.Tensor) and (one.device != value.device or not _is_readable(read, traits)):
            return False
    if node.target in ARITHMETIC:
        return len(node.args) <= 2
    places = node.args[1:] if node.target in _PLACED else ()
    return not any(isinstance(place, fx.Node) for place in places)


def _is_readable(node: fx.Node, traits: TraitsOf) -> bool:
    """Whether loops can read a tensor's numbers where they lie."""
    value = node.meta["val"]
    if not value.is_complex():
        return True
    return value.layout is torch.strided and value.dtype in traits(value.device).complex_parts


def lower_apart(builder: Builder, target: Any, args: Any) -> Parts | TensorValue:
    """The result of a call that `apart` names, whose complex operands are `Parts`."""
    if target is aten.view_as_real.default:
        return _beside(builder, args[0])
    if target in READ:
        return _read(builder, READ[target], args[0])
    if target is aten.view_as_complex.default:
        # Eager refuses an input at an odd place of its storage, as nobody has to here.
        pairs = _checked(builder, args[0])
        real, imag = (selected(pairs, len(pairs.size) - 1, at) for at in (ZERO, ONE))
        return Parts(real, imag)
    if target in ARITHMETIC:
        return _computed(builder, ARITHMETIC[target], args)
    first, *others = args
    real, imag = (LOWERINGS[target](builder, _checked(builder, part), *others) for part in (first.real, first.imag))
    return Parts(real, imag)


def _checked(builder: Builder, value: TensorValue) -> TensorValue:
    """A value of which perhaps not all is read, while eager checks the positions of all."""
    return builder.realize(value) if value.source.buffer is None and value.source.cost.checks else value


def _read(builder: Builder, function: Callable[[Scalar, Scalar], Scalar], value: Parts) -> TensorValue:
    real, imag = value.real, value.imag
    cost = real.cost + imag.cost + Cost(8, 1)
    return builder.pointwise(
        real.device, real.dtype, real.size, lambda index: function(real.load(index), imag.load(index)), cost
    )


def _computed(builder: Builder, function: Callable[..., Pair], operands: Any) -> Parts:
    out = builder.meta()
    size, dtype = builder.sizes(out.size()), out.dtype.to_real()
    pairs: list[tuple[Any, Any]] = []
    cost = Cost(3 * len(operands), 2 if function is _polar else 0)
    for operand in operands:
        pair = (operand.real, operand.imag) if isinstance(operand, Parts | complex) else (operand, 0.0)
        real, imag = (broadcast(builder, p, size) if isinstance(p, TensorValue) else p for p in pair)
        cost = sum((p.cost for p in (real, imag) if isinstance(p, TensorValue)), start=cost)
        pairs.append((real, imag))

    def part(which: int) -> TensorValue:
        def compute(index: Index) -> Scalar:
            elements = ((_element(a, index, dtype), _element(b, index, dtype)) for a, b in pairs)
            return function(*elements)[which]

        return builder.pointwise(out.device, dtype, size, compute, cost)

    return Parts(part(0), part(1))


def _element(value: Any, index: Index, dtype: torch.dtype) -> Scalar:
    return convert(value.load(index), dtype) if isinstance(value, TensorValue) else lift(value, dtype)


def parts_of(builder: Builder, value: TensorValue) -> Parts:
    """The parts of complex numbers in memory, read where they lie."""
    window = builder.strided(value)
    layout = Layout(window.size, window.stride, window.offset)

    def part(at: sympy.Integer) -> TensorValue:
        def compute(index: Index) -> Scalar:
            return Scalar(ops.load(window.buffer, sympy.expand(2 * layout.linear(index)) + at))

        return builder.pointwise(value.device, value.dtype.to_real(), value.size, compute, value.cost)

    return Parts(part(ZERO), part(ONE))


def _beside(builder: Builder, value: Parts) -> TensorValue:
    """The parts beside each other, in a new last dimension."""
    real, imag = value.real, value.imag

    def compute(index: Index) -> Scalar:
        *place, part = index
        if part in (ZERO, ONE):
            return (imag if part == ONE else real).load(place)
        return where(prim.lt(index_value(part), 1), real.load(place), imag.load(place))

    size = builder.sizes(builder.meta().size())
    return builder.pointwise(real.device, real.dtype, size, compute, real.cost + imag.cost)
