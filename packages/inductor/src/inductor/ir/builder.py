"""The builder: owns the program while it is lowered, names buffers, and records loops.

Flows in: lazy values from lowerings. Flows out: `Program` operations, in an order where each reads what exists.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

import sympy
import torch
from torch import fx

from inductor.ir.body import Body
from inductor.ir.indexing import ONE, ZERO, Index, contiguous_strides, is_empty, product, same
from inductor.ir.loops import canonicalise, inner_symbol, outer_symbol
from inductor.ir.operations import Expr, Symbol, symbols_in
from inductor.ir.program import Buffer, ExternOp, LoopOp, Program, StridedView
from inductor.ir.recording import LoopRecorder, Rewriter, used
from inductor.ir.scalar import Scalar
from inductor.ir.tensor import Cost, Source, TensorValue
from inductor.ir.views import AsStrided, Slice
from inductor.ops import COMPUTE_DTYPES, install, ops
from inductor.traits import TraitsOf
from symshapes import HALF_DTYPES, evaluate, expr_of, hint_of, is_block

aten = torch.ops.aten

Compute = Callable[[Index], Scalar]
UNKNOWN = 64
"""The hint of a size that nobody knows yet; it orders loops and decides nothing else."""
MEMORY_DTYPES = COMPUTE_DTYPES | HALF_DTYPES
"""Dtypes that loops can load and store."""


class Builder:
    """Builds one program. `node` is the fx node being lowered: what is built meanwhile originates from it.

    Args:
        given: names of tensors that come from outside, which no buffer made here may take.
        traits: what is true of each device.
        rewriter: simplifies bodies while they are recorded.
    """

    def __init__(self, given: Collection[str], traits: TraitsOf, rewriter: Rewriter | None = None) -> None:
        self._given = frozenset(given)
        self.traits = traits
        self.rewriter = rewriter
        self.program = Program()
        self.node: fx.Node | None = None
        self.apart: set[tuple[tuple[Expr, ...], tuple[Expr, ...]]] = set()
        """Sizes and strides that are known to give each index an element of its own."""
        self.destinations: dict[fx.Node, str] = {}
        """Calls whose results, changed further or as they are, become the content of the input that they came of."""
        self.hints: dict[sympy.Symbol, int] = {}
        self._hinted: dict[Expr, int] = {}
        self._numbers = itertools.count()

    # Metadata

    def sizes(self, sizes: Sequence[Any]) -> tuple[Expr, ...]:
        """ints and SymInts as expressions; remembers hints of the symbols."""
        return tuple(self.size(size) for size in sizes)

    def size(self, size: Any) -> Expr:
        if isinstance(size, sympy.Basic):
            return size
        expr = expr_of(size)
        if expr.is_Symbol and expr not in self.hints:
            try:
                self.hints[expr] = hint_of(size)
            except ValueError:  # read from data when the program runs
                self.hints[expr] = UNKNOWN
        return expr

    def hint(self, expr: Expr) -> int:
        """A likely value, for ordering only."""
        if expr.is_Integer:
            return int(expr)
        found = self._hinted.get(expr)
        if found is None:
            symbols = symbols_in(expr)
            found = int(evaluate(expr, {s: self.hints.get(s, UNKNOWN) for s in symbols}))
            if symbols <= self.hints.keys():
                self._hinted[expr] = found
        return found

    def meta(self) -> Any:
        """The fake value of the node being lowered."""
        assert self.node is not None
        return self.node.meta["val"]

    def destination(self, value: TensorValue) -> Buffer | None:
        """The input whose elements the node being lowered changes, where it may change them in place: `value` is that input, or what
        was made of it, in memory."""
        name = None if self.node is None else self.destinations.get(self.node)
        layout = value.layout()
        if name is None or layout is None:
            return None
        buffer = self.program.buffers[name]
        alike = (value.device, value.dtype, layout.size, layout.stride) == (
            buffer.device,
            buffer.dtype,
            buffer.size,
            buffer.stride,
        )
        return buffer if alike and layout.offset == 0 else None

    def _origins(self) -> tuple[fx.Node, ...]:
        return () if self.node is None else (self.node,)

    # Buffers

    def new_buffer(
        self,
        device: torch.device,
        dtype: torch.dtype,
        size: tuple[Expr, ...],
        stride: tuple[Expr, ...] | None = None,
        name: str | None = None,
    ) -> Buffer:
        """A new buffer of the program, row-major unless `stride` is given, under a name of its own unless one is."""
        if name is None:
            name = next(n for n in map("buf{}".format, self._numbers) if n not in self._given)
        buffer = Buffer(name, device, dtype, size, contiguous_strides(size) if stride is None else stride)
        self.program.buffers[name] = buffer
        return buffer

    def in_memory(self, buffer: Buffer) -> TensorValue:
        """A value for a buffer that has been or is about to be filled."""
        source = Source(buffer.device, buffer.dtype, buffer.size, buffer=buffer, origins=self._origins())
        return TensorValue(source)

    # Lazy values

    def pointwise(
        self,
        device: torch.device,
        dtype: torch.dtype,
        size: tuple[Expr, ...],
        compute: Compute,
        cost: Cost | None = None,
    ) -> TensorValue:
        """A pending tensor: `compute(index)` gives an element in the compute dtype of `dtype`."""
        return TensorValue(Source(device, dtype, size, compute, cost=cost or Cost(), origins=self._origins()))

    def realize(self, value: TensorValue) -> TensorValue:
        """The same value, its source now in memory."""
        source = value.source
        if source.buffer is None:
            assert source.compute is not None
            stride = source.stride
            if stride is None or len(stride) != len(source.size):
                stride = contiguous_strides(source.size)
            compute = source.compute
            buffer = self.new_buffer(source.device, source.dtype, source.size, stride)
            if is_empty(source.size):
                self._allocate(buffer, source.origins)
            else:
                self.loop(
                    lambda index, _: self.store(buffer, index, compute(index)),
                    writes=(buffer,),
                    outer=source.size,
                    order=self.order(stride),
                    origins=source.origins,
                )
            source.buffer = buffer
            source.compute = None
        return value

    def order(self, strides: Sequence[Expr]) -> list[int]:
        """Dimensions from the greatest stride to the least."""
        hints = [self.hint(stride) for stride in strides]
        return sorted(range(len(hints)), key=lambda d: -hints[d])

    def _allocate(self, buffer: Buffer, origins: tuple[fx.Node, ...]) -> None:
        """Memory without content."""
        options = {"dtype": buffer.dtype, "device": buffer.device}
        self.program.operations.append(
            ExternOp(
                (buffer.name,),
                aten.empty_strided.default,
                (list(buffer.size), list(buffer.stride)),
                options,
                origins,
            )
        )

    def uninitialised(
        self, device: torch.device, dtype: torch.dtype, size: tuple[Expr, ...], stride: tuple[Expr, ...]
    ) -> TensorValue:
        """A tensor in memory that nothing is written to."""
        buffer = self.new_buffer(device, dtype, size, stride)
        self._allocate(buffer, self._origins())
        return self.in_memory(buffer)

    def copy(self, value: TensorValue, stride: tuple[Expr, ...] | None = None) -> TensorValue:
        """A pending copy with its own memory once realized."""
        if value.dtype not in MEMORY_DTYPES:
            return self._extern_copy(value, stride)
        result = self.pointwise(value.device, value.dtype, value.size, value.load, value.cost)
        result.source.stride = stride
        return result

    def _extern_copy(self, value: TensorValue, stride: tuple[Expr, ...] | None) -> TensorValue:
        """A copy by ATen, of a dtype that loops cannot hold: a contiguous clone of the permuted value, permuted back."""
        stride = contiguous_strides(value.size) if stride is None else stride
        if not is_empty(value.size) and not self.is_dense(value.size, stride):
            raise NotImplementedError(f"a copy of {value.dtype} into strides {stride}")
        view, order = self.strided(value), self.order(stride)
        permuted = StridedView(
            view.buffer,
            tuple(view.size[d] for d in order),
            tuple(view.stride[d] for d in order),
            view.offset,
        )
        buffer = self.new_buffer(value.device, value.dtype, permuted.size)
        options = {"memory_format": torch.contiguous_format}
        self.program.operations.append(
            ExternOp((buffer.name,), aten.clone.default, (permuted,), options, self._origins())
        )
        return self.in_memory(buffer).view(AsStrided(value.size, stride, ZERO))

    # Loops

    def loop(
        self,
        function: Callable[[list[Expr], list[Expr]], None],
        *,
        writes: Sequence[Buffer],
        outer: Sequence[Expr],
        inner: Sequence[Expr] = (),
        order: Sequence[int] | None = None,
        keep_inner_order: bool = False,
        origins: tuple[fx.Node, ...] = (),
        initial: tuple[tuple[str, str], ...] = (),
    ) -> None:
        """Append a loop over `outer` (nested in `order`) and `inner`, whose body is `function(outer index, inner index)`."""
        outer_index: list[Expr] = [ZERO] * len(outer)
        inner_index: list[Expr] = [ZERO] * len(inner)
        outer_dims = [d for d in (range(len(outer)) if order is None else order) if outer[d] != 1]
        inner_dims = [d for d in range(len(inner)) if inner[d] != 1]
        ranges = {}
        for at, dim in enumerate(outer_dims):
            outer_index[dim] = outer_symbol(at)
            ranges[outer_symbol(at)] = outer[dim]
        for at, dim in enumerate(inner_dims):
            inner_index[dim] = inner_symbol(at)
            ranges[inner_symbol(at)] = inner[dim]
        recorder = self.recorder(ranges)
        recorder.origins.update(dict.fromkeys(origins or self._origins()))
        with install(recorder):
            function(outer_index, inner_index)
        if recorder.rewrites:
            self.program.rewrites.update(recorder.rewrites)
        body = Body(
            tuple(outer_symbol(at) for at in range(len(outer_dims))),
            tuple(inner_symbol(at) for at in range(len(inner_dims))),
            used(recorder.recorded),
        )
        body, outer_sizes, inner_sizes = canonicalise(
            body,
            [outer[d] for d in outer_dims],
            [inner[d] for d in inner_dims],
            self.hint,
            keep_inner_order,
        )
        self.program.operations.append(
            LoopOp(
                tuple(buffer.name for buffer in writes),
                writes[0].device,
                outer_sizes,
                inner_sizes,
                body,
                tuple(recorder.origins),
                initial,
            )
        )

    def recorder(self, ranges: Mapping[Symbol, Expr]) -> LoopRecorder:
        """What records a body over index symbols of these sizes."""
        return LoopRecorder(lambda name: self.program.buffers[name].loaded_dtype, ranges, self.rewriter)

    def store(self, buffer: Buffer, index: Index, value: Scalar, mode: str | None = None) -> None:
        """Inside a loop: write one element."""
        offset = sympy.Add(*(i * s for i, s in zip(index, buffer.stride, strict=True)))
        ops.store(buffer.name, offset, value.ref, mode)

    # Memory for extern kernels and outputs

    def strided(self, value: TensorValue, stride: Sequence[Expr] | None = None, *, exact: bool = False) -> StridedView:
        """The value in memory, with these strides where given; those of dimensions of size 1 only if `exact`."""
        layout = self.realize(value).layout()
        if layout is not None and (
            stride is None
            or all(same(a, b) or size == 1 for a, b, size in zip(layout.stride, stride, value.size, strict=True))
        ):
            assert value.source.buffer is not None
            given = tuple(stride) if exact and stride is not None else layout.stride
            return StridedView(value.source.buffer.name, layout.size, given, layout.offset)
        if stride is not None:
            repeated = [d for d, step in enumerate(stride) if step == 0 and value.size[d] != 1]
            if repeated and not is_empty(value.size):
                return self._repeated(value, stride, repeated, exact)
        if stride is not None and not self.is_injective(value.size, stride):
            stride = None
        if stride is not None and value.dtype not in MEMORY_DTYPES:
            stride = self.without_holes(value.size, stride)
        copied = self.copy(value, None if stride is None else tuple(stride))
        return self.strided(copied, stride, exact=exact)

    def _repeated(self, value: TensorValue, stride: Sequence[Expr], dims: Sequence[int], exact: bool) -> StridedView:
        """A value that is the same all along `dims`, where its strides are 0: one of each is in memory."""
        size = value.size
        for dim in dims:
            value = value.view(Slice((*value.size[:dim], ONE, *value.size[dim + 1 :]), dim, ZERO, ONE))
        one = self.strided(value, stride, exact=exact)
        return replace(one, size=size, stride=tuple(ZERO if d in dims else s for d, s in enumerate(one.stride)))

    def without_holes(self, size: Sequence[Expr], stride: Sequence[Expr]) -> tuple[Expr, ...]:
        """Strides of a dense block with the dimensions nested as in `stride`."""
        order = self.order(stride)
        dense = dict(zip(order, contiguous_strides([size[d] for d in order]), strict=True))
        return tuple(dense[d] for d in range(len(size)))

    def is_injective(self, size: Sequence[Expr], stride: Sequence[Expr]) -> bool:
        """Whether no two indices address the same element; holes are fine. Not known is False."""
        if self.is_dense(size, stride) or (tuple(size), tuple(stride)) in self.apart:
            return True
        extent: Expr = ONE
        for dim in reversed(self.order(stride)):
            if size[dim] == 1:
                continue
            if not (stride[dim] - extent).is_nonnegative:
                return False
            extent = extent + (size[dim] - 1) * stride[dim]
        return True

    def is_dense(self, size: Sequence[Expr], stride: Sequence[Expr]) -> bool:
        """Whether strides address a block of memory without holes or overlaps."""
        dims = tuple(dim for dim in reversed(self.order(stride)) if size[dim] != 1)
        return _fills_block(tuple(size), tuple(stride), dims)

    def extern(
        self,
        target: Any,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        result: Any,
        *,
        contiguous: bool = False,
    ) -> TensorValue | tuple[Any, ...]:
        """Call an ATen kernel; `result` is a fake value (a tensor or a tuple/list of them) that gives the layouts, strides
        excepted with `contiguous`."""
        flat = list(result) if isinstance(result, tuple | list) else [result]
        values: list[Any] = []
        names: list[str | None] = []
        for one in flat:
            if isinstance(one, torch.Tensor):
                if one.layout != torch.strided:
                    raise NotImplementedError(f"a result of layout {one.layout} of {target}")
                stride = None if contiguous else self.sizes(one.stride())
                buffer = self.new_buffer(one.device, one.dtype, self.sizes(one.size()), stride)
                values.append(self.in_memory(buffer))
                names.append(buffer.name)
            else:
                values.append(one)
                names.append(None)
        self.program.operations.append(
            ExternOp(tuple(names), target, self.extern_args(args), self.extern_args(kwargs), self._origins())
        )
        return tuple(values) if isinstance(result, tuple | list) else values[0]

    def extern_args(self, args: Any) -> Any:
        """Arguments of an extern kernel with each tensor value in memory."""
        if isinstance(args, TensorValue):
            return self.strided(args)
        if isinstance(args, tuple | list):
            return type(args)(self.extern_args(a) for a in args)
        if isinstance(args, dict):
            return {k: self.extern_args(v) for k, v in args.items()}
        return args

    def to_device(self, value: TensorValue, device: torch.device) -> TensorValue:
        """A copy on another device, by ATen."""
        if value.device == device:
            return value
        view = self.strided(value)
        buffer = self.new_buffer(
            device, value.dtype, view.size, view.stride if self.is_dense(view.size, view.stride) else None
        )
        self.program.operations.append(
            ExternOp((buffer.name,), aten._to_copy.default, (view,), {"device": device}, self._origins())
        )
        return self.in_memory(buffer)


@lru_cache(maxsize=1 << 12)
def _fills_block(size: tuple[Expr, ...], stride: tuple[Expr, ...], dims: tuple[int, ...]) -> bool:
    return is_block(size, stride, dims, same)


def numel(value: TensorValue) -> Expr:
    """How many elements a tensor has."""
    return product(value.size)
