"""The passes over ATen graphs, in the order in which they are tried at a node."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import fx

from inductor.ir.indexing import contiguous_strides
from inductor.passes.graphs import GraphPass, reaches_output, same_tensor_metadata
from inductor.passes.patterns import GraphMatch, Var, call_of, is_static
from symshapes import expr_of, inverse_permutation, is_dense, same_size

aten = torch.ops.aten

X, Y, WEIGHT = Var("x"), Var("y"), Var("weight")
INNER, OUTER = Var("inner"), Var("outer")
SLICE: dict[str, Any] = {name: Var(name) for name in ("dim", "start", "end", "step")}
PLACE: dict[str, Any] = {name: Var(name) for name in ("dim", "index")}

IDENTITIES = (
    aten.alias.default,
    aten.detach.default,
    aten.lift.default,
    aten.lift_fresh.default,
    aten._conj.default,
    aten.resolve_conj.default,
    aten.resolve_neg.default,
)
VIEWS = (
    aten.view.default,
    aten._unsafe_view.default,
    aten.reshape.default,
    aten.expand.default,
    aten.permute.default,
    aten.transpose.int,
    aten.squeeze.default,
    aten.squeeze.dim,
    aten.squeeze.dims,
    aten.slice.Tensor,
)
"""Views of whole tensors, and slices."""


def _is_real(match: GraphMatch) -> bool:
    return not match.value.dtype.is_complex


def _sees_the_same(match: GraphMatch) -> bool:
    """Whether the view has the same window of the same memory."""
    seen, view = match[X].meta["val"], match.value
    return same_tensor_metadata(view, seen) and same_size(view.storage_offset(), seen.storage_offset())


def _contiguous(match: GraphMatch) -> bool:
    value = match[X].meta["val"]
    strides = contiguous_strides([expr_of(size) for size in value.shape])
    return not value.dtype.is_complex and all(map(same_size, value.stride(), strides))


def _permuted_once(match: GraphMatch) -> fx.Node:
    inner = match[INNER]
    return match.call(aten.permute.default, match[X], [inner[dim] for dim in match[OUTER]])


def _only_part(match: GraphMatch) -> fx.Node | None:
    """The one tensor that brings all elements."""
    parts = [part for part in match.argument("tensors") if not _is_empty(part)]
    return parts[0] if len(parts) == 1 else None


def _is_empty(node: fx.Node) -> bool:
    return any(same_size(size, 0) for size in node.meta["val"].shape)


def _copy(match: GraphMatch, node: fx.Node) -> fx.Node | None:
    """A copy of `node`, whose metadata are computed where that needs no guards, and else known to be the call's."""
    source: torch.Tensor = node.meta["val"]
    known = is_static(source) and is_static(match.value)
    if not known and not (same_tensor_metadata(source, match.value, strict=False) and is_dense(source)):
        return None
    return match.call(aten.clone.default, node)


def _copy_of_part(match: GraphMatch) -> fx.Node | None:
    part = _only_part(match)
    return None if part is None else _copy(match, part)


def _bounds(match: GraphMatch) -> tuple[int, int, int] | None:
    """First place, end and step of a `slice_scatter` whose numbers are all known."""
    size = match.value.shape
    given = [match.argument(name) for name in ("start", "end")]
    step, dim = match.argument("step"), match.argument("dim")
    if (
        not size
        or not all(isinstance(v, int | None) for v in given)
        or type(size[dim]) is not int
        or type(step) is not int
    ):
        return None
    first, last, _ = slice(*given).indices(size[dim])
    return first, last, step


def _replaces_nothing(match: GraphMatch) -> bool:
    bounds = _bounds(match)
    return bounds is not None and bounds[0] >= bounds[1]


def _replaces_all(match: GraphMatch) -> bool:
    bounds = _bounds(match)
    return bounds is not None and bounds == (0, match.value.shape[match.argument("dim")], 1)


def _pads_nothing(match: GraphMatch) -> bool:
    return all(type(width) is int and width == 0 for width in match.argument("pad"))


FEW_POINTS = 64
"""Rows of a product that a library of products computes faster than one of convolutions does, which puts its operands in order first."""


def _reads_few_points(match: GraphMatch) -> bool:
    """Whether each of a convolution's few results reads one point of an image whose channels lie together."""
    image, weight, made = read = match[X].meta["val"], match[WEIGHT].meta["val"], match.value
    if not is_static(read) or math.prod(weight.shape[2:]) != 1 or any(match.argument("padding")):
        return False
    points = image.shape[0] * math.prod(image.shape[2:])
    together = points == image.shape[0] or image.movedim(1, -1).is_contiguous()
    return together and image.shape[2:] == made.shape[2:] and points <= FEW_POINTS


def _product(match: GraphMatch) -> fx.Node:
    """(N, C, ...) by (O, C, 1, ...) as (points, C) by (C, O)."""
    image, weight = match[X].meta["val"], match[WEIGHT].meta["val"]
    last = [0, *range(2, image.dim()), 1]
    is_pixel = math.prod(image.shape[2:]) == 1
    rows = match[X] if is_pixel else match.call(aten.permute.default, match[X], last)
    rows = match.call(aten.view.default, rows, [-1, image.shape[1]])
    columns = match.call(aten.view.default, match[WEIGHT], list(weight.shape[:2]))
    columns, bias = match.call(aten.permute.default, columns, [1, 0]), match.argument("bias")
    if bias is None:
        made = match.call(aten.mm.default, rows, columns)
    else:
        made = match.call(aten.addmm.default, bias, rows, columns)
    if is_pixel:
        return match.call(aten.view.default, made, list(match.value.shape))
    apart = match.call(aten.view.default, made, [image.shape[0], *image.shape[2:], weight.shape[0]])
    return match.call(aten.permute.default, apart, inverse_permutation(last))


GRAPH_PASSES: list[GraphPass] = [
    GraphPass(
        "identity",
        "A functional graph has values, not tensors: these give the value itself, of real dtypes.",
        call_of(*IDENTITIES, self=X),
        lambda m: m[X],
        when=_is_real,
    ),
    GraphPass(
        "view_of_all",
        "The same window of the same memory is the same tensor, by whatever operator it is taken.",
        call_of(*VIEWS, self=X),
        lambda m: m[X],
        when=_sees_the_same,
    ),
    GraphPass(
        "view_of_view",
        "The order of elements is the same all along. Of contiguous memory alone: of other there may be no such view.",
        call_of(aten.view.default, self=call_of(aten.view.default, self=X), size=OUTER),
        lambda m: m.call(aten.view.default, m[X], m[OUTER]),
        when=_contiguous,
    ),
    GraphPass(
        "permute_of_permute",
        "Two rearrangements of dimensions are one.",
        call_of(aten.permute.default, self=call_of(aten.permute.default, self=X, dims=INNER), dims=OUTER),
        _permuted_once,
    ),
    GraphPass(
        "cast_to_own",
        "A conversion that changes nothing is a copy, which only a result of the graph needs.",
        call_of(aten._to_copy.default, self=X),
        lambda m: m[X],
        when=lambda m: same_tensor_metadata(m.value, m[X].meta["val"]) and not reaches_output(m.node),
    ),
    GraphPass(
        "cat_of_one",
        "The others have no elements; a copy, since a result of the graph has memory of its own.",
        call_of(aten.cat.default),
        _copy_of_part,
        when=lambda m: _only_part(m) is not None,
    ),
    GraphPass(
        "slice_scatter_of_nothing",
        "An empty slice takes no element of the source.",
        call_of(aten.slice_scatter.default, self=X),
        lambda m: _copy(m, m[X]),
        when=_replaces_nothing,
    ),
    GraphPass(
        "slice_scatter_of_all",
        "A slice of all takes every element from the source.",
        call_of(aten.slice_scatter.default, src=Y),
        lambda m: _copy(m, m[Y]),
        when=_replaces_all,
    ),
    GraphPass(
        "slice_written_twice",
        "Of two writes to one slice the first leaves nothing: `x[1:] += y` writes the sum, and then the slice to itself.",
        call_of(aten.slice_scatter.default, self=call_of(aten.slice_scatter.default, self=X, **SLICE), src=Y, **SLICE),
        lambda m: m.call(aten.slice_scatter.default, m[X], m[Y], *(m[part] for part in SLICE.values())),
    ),
    GraphPass(
        "place_written_twice",
        "The same of two writes to one place of a dimension.",
        call_of(
            aten.select_scatter.default, self=call_of(aten.select_scatter.default, self=X, **PLACE), src=Y, **PLACE
        ),
        lambda m: m.call(aten.select_scatter.default, m[X], m[Y], *(m[part] for part in PLACE.values())),
    ),
    GraphPass(
        "pad_of_nothing",
        "No element is added or cut off.",
        call_of(aten.constant_pad_nd.default, self=X),
        lambda m: _copy(m, m[X]),
        when=_pads_nothing,
    ),
    GraphPass(
        "convolution_of_few_points",
        "Without neighbours it is a product of matrices: no operand is put in another order first.",
        call_of(aten.convolution.default, input=X, weight=WEIGHT, transposed=False, groups=1),
        _product,
        when=_reads_few_points,
    ),
]
"""The rows. From outside the package another is appended, or inserted at its place."""
