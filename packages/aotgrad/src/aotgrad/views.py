"""Views: how one was made, and what a write to it does to the tensor it is a view of.

In: a view op and its arguments. Out: `ViewStep`s, which can be replayed, and for each op an inverse
`(base, value, *args) -> new base` made of functional ops.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import torch
from torch import fx

from aotgrad.errors import Unsupported
from symshapes import dataclass, facts_if_operator, inverse_permutation, same_metadata, same_size

aten = torch.ops.aten


@dataclass(frozen=True, slots=True)
class ViewStep:
    """One view op applied to a tensor: `op(base, *args, **kwargs)`, of which result `index` if it has several.

    `grad` is the grad mode it ran in.
    """

    op: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    index: int | None
    grad: bool

    def apply(self, base: Any) -> Any:
        """The view of `base`."""
        result = self.op(base, *self.args, **self.kwargs)
        return result if self.index is None else result[self.index]


def view_results(module: fx.GraphModule) -> frozenset[int]:
    """Positions among a functional graph's results of views of what the graph computes on the way.

    To the program they are tensors of their own: whoever writes to one writes to nothing else.
    """
    output = next(node for node in reversed(module.graph.nodes) if node.op == "output")
    return frozenset(i for i, value in enumerate(output.args[0]) if isinstance(value, fx.Node) and _is_view(value))


def is_view(target: Any) -> bool:
    """Whether results of what a node calls share the storage of its first argument."""
    facts = facts_if_operator(target)
    return facts is not None and facts.views


def _is_view(node: fx.Node) -> bool:
    while node.target is operator.getitem:
        node = node.args[0]  # type: ignore[assignment]
    return is_view(node.target)


def is_whole(view: torch.Tensor, base: torch.Tensor) -> bool:
    """Whether a view of `base` is all of it, as it lies: it differs in identity alone. Unsure is False."""
    return (
        same_metadata(view, base)
        and same_size(view.storage_offset(), base.storage_offset())
        and view.is_conj() == base.is_conj()
        and view.is_neg() == base.is_neg()
    )


def base_of(node: fx.Node) -> fx.Node:
    """The node that a chain of views begins with: `node` is (part of) its memory."""
    while is_view(node.target) or (node.target is operator.getitem and is_view(node.args[0].target)):  # type: ignore[union-attr]
        node = node.args[0]  # type: ignore[assignment]
    return node


Inverse = Callable[..., torch.Tensor]

INVERSES: dict[Any, Inverse] = {}
"""For a view op, the function `(base, value, *args, **kwargs)`: `base` with `value` written where the view was."""

MULTIPLE: dict[Any, Inverse] = {}
"""The same for ops with several results: `(base, value, index, *args)`."""


def write_back(step: ViewStep, base: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    """`base` after `value` was written to the view of it that `step` makes. Raises Unsupported if unknown."""
    if step.index is not None:
        inverse = MULTIPLE.get(step.op)
        if inverse is not None:
            return inverse(base, value, step.index, *step.args, **step.kwargs)
    else:
        inverse = INVERSES.get(step.op)
        if inverse is not None:
            return inverse(base, value, *step.args, **step.kwargs)
    raise Unsupported(f"a write to a view made by {step.op}")


def _composed_permute(node: fx.Node, args: tuple[Any, ...]) -> tuple[fx.Node, tuple[Any, ...] | None]:
    source: Any = node.args[0]
    inner: Any = node.args[1]
    dims = [inner[dim] for dim in args[0]]
    identity = [dim % len(dims) for dim in dims] == list(range(len(dims)))
    return source, None if identity else (dims,)


def _composed_view(node: fx.Node, args: tuple[Any, ...]) -> tuple[fx.Node, tuple[Any, ...] | None]:
    source: Any = node.args[0]
    value = source.meta["val"]
    if not value.is_contiguous():
        return node, args
    size = args[0]
    same = len(size) == value.dim() and all(same_size(a, b) for a, b in zip(size, value.shape, strict=True))
    return source, None if same else args


COMPOSED: dict[Any, Callable[[fx.Node, tuple[Any, ...]], tuple[fx.Node, tuple[Any, ...] | None]]] = {
    aten.permute.default: _composed_permute,
    aten.view.default: _composed_view,
}
"""View ops two of which in a row are one: the inner node and the outer arguments in, what to call instead out.

None for the arguments says that the two undo each other.
"""


def _inverse(*ops: Any) -> Callable[[Inverse], Inverse]:
    def register(function: Inverse) -> Inverse:
        INVERSES.update(dict.fromkeys(ops, function))
        return function

    return register


def _multiple(*ops: Any) -> Callable[[Inverse], Inverse]:
    def register(function: Inverse) -> Inverse:
        MULTIPLE.update(dict.fromkeys(ops, function))
        return function

    return register


@_inverse(aten.view.default, aten._reshape_alias.default)
def _view(base: torch.Tensor, value: torch.Tensor, *_: Any) -> torch.Tensor:
    return value.reshape(base.shape)


@_inverse(aten.view.dtype)
def _view_dtype(base: torch.Tensor, value: torch.Tensor, _: torch.dtype) -> torch.Tensor:
    return value.view(base.dtype)


@_inverse(aten.permute.default)
def _permute(base: torch.Tensor, value: torch.Tensor, dims: list[int]) -> torch.Tensor:
    return value.permute(inverse_permutation(dims))


@_inverse(aten.transpose.int)
def _transpose(base: torch.Tensor, value: torch.Tensor, first: int, second: int) -> torch.Tensor:
    return value.transpose(first, second)


@_inverse(aten.t.default)
def _t(base: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    return value.t()


@_inverse(aten.unsqueeze.default)
def _unsqueeze(base: torch.Tensor, value: torch.Tensor, dim: int) -> torch.Tensor:
    return value.squeeze(dim)


@_inverse(aten.squeeze.default, aten.squeeze.dim, aten.squeeze.dims)
def _squeeze(base: torch.Tensor, value: torch.Tensor, *_: Any) -> torch.Tensor:
    return value.reshape(base.shape)


@_inverse(aten.expand.default)
def _expand(base: torch.Tensor, value: torch.Tensor, *_: Any, **__: Any) -> torch.Tensor:
    # Every copy of an element holds the same value after a write that eager allows: the first stands for all.
    extra = value.dim() - base.dim()
    if any(size == 0 for size in value.shape[:extra]):
        return base  # there is none
    for _leading in range(extra):
        value = value.select(0, 0)
    for dim, size in enumerate(base.shape):
        if type(size) is int and size == 1:
            value = value.narrow(dim, 0, 1)
    return value


@_inverse(aten.select.int)
def _select(base: torch.Tensor, value: torch.Tensor, dim: int, index: int) -> torch.Tensor:
    return torch.select_scatter(base, value, dim, index)


@_inverse(aten.slice.Tensor)
def _slice(
    base: torch.Tensor,
    value: torch.Tensor,
    dim: int = 0,
    start: int | None = None,
    end: int | None = None,
    step: int = 1,
) -> torch.Tensor:
    return aten.slice_scatter.default(base, value, dim, start, end, step)


@_inverse(aten.diagonal.default)
def _diagonal(base: torch.Tensor, value: torch.Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> torch.Tensor:
    return torch.diagonal_scatter(base, value, offset, dim1, dim2)


@_inverse(aten.as_strided.default)
def _as_strided(
    base: torch.Tensor, value: torch.Tensor, size: Any, stride: Any, offset: int | None = None
) -> torch.Tensor:
    return torch.as_strided_scatter(base, value, size, stride, offset)


@_inverse(aten.view_as_real.default)
def _view_as_real(base: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    return torch.view_as_complex(value).clone()


@_inverse(aten.view_as_complex.default)
def _view_as_complex(base: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    return torch.view_as_real(value.resolve_conj())


@_multiple(aten.unbind.int)
def _unbind(base: torch.Tensor, value: torch.Tensor, index: int, dim: int = 0) -> torch.Tensor:
    return torch.select_scatter(base, value, dim, index)


@_multiple(aten.split.Tensor)
def _split(base: torch.Tensor, value: torch.Tensor, index: int, size: int, dim: int = 0) -> torch.Tensor:
    start = index * size
    return aten.slice_scatter.default(base, value, dim, start, start + value.shape[dim])


@_multiple(aten.split_with_sizes.default)
def _split_with_sizes(
    base: torch.Tensor, value: torch.Tensor, index: int, sizes: list[int], dim: int = 0
) -> torch.Tensor:
    start = sum(sizes[:index])
    return aten.slice_scatter.default(base, value, dim, start, start + sizes[index])
