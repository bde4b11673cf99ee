"""What a shape rule sees and answers: `TensorMeta`, `View`, and arithmetic on sizes and strides.

All of it works on ints and `torch.SymInt`s alike; a comparison of symbolic sizes guards in their `ShapeEnv`.
"""

import itertools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch

from symshapes.expr.symbols import expr_of, is_unbacked
from symshapes.expr.terms import exact_quotient
from symshapes.facts import errors
from symshapes.facts.layout import channels_innermost, grows_outward, is_block, is_nested, lies_in_order, same_size
from symshapes.unbacked import UnbackedError

# int | torch.SymInt; torch is untyped to mypy here, so the alias says it in words.
Size = Any
Sizes = tuple[Size, ...]

CONJ = 1
NEG = 2


class TensorMeta(NamedTuple):
    """A strided tensor without its data: sizes, strides and offset in elements, lazy conj/neg bits in `flags`."""

    size: Sizes
    stride: Sizes
    dtype: torch.dtype
    device: torch.device
    offset: Size = 0
    flags: int = 0


class View(NamedTuple):
    """A rule's answer: the op's result shares storage with its argument number `base`."""

    size: Sizes
    stride: Sizes
    dtype: torch.dtype
    device: torch.device
    offset: Size
    flags: int = 0
    base: int = 0


class Same(NamedTuple):
    """A rule's answer: the result is the op's argument number `base` itself."""

    base: int = 0


def sure(condition: Any) -> bool:
    """Whether a comparison holds, guarded; False where only the run can tell, so that nothing may follow from False."""
    return bool(condition.node.is_sure()) if isinstance(condition, torch.SymBool) else bool(condition)


def turns_on_one(condition: Any) -> bool:
    """Whether a comparison depends on whether a size is 1 that may be more as well."""
    return isinstance(condition, torch.SymBool) and condition.node.env.other_than_one(condition.node.expr) is not None


def demand(condition: Any, error: Callable[[], Exception]) -> None:
    """Raise `error()` unless the condition holds; where only the run can tell, have it checked then."""
    if isinstance(condition, torch.SymBool) and not condition.node.has_hint():
        found = error()
        node = condition.node
        if node.env.expect_true(node.expr, None, type(found), str(found)):
            return
        raise found
    if not condition:
        raise error()


def demand_repeating(have: Size, wanted: Size, error: Callable[[], Exception]) -> None:
    """Raise `error()` unless a size that only the run can tell is as wanted, or 1, which is repeated: checked then."""
    demand((have == wanted) | (have == 1), error)
    have.node.env.repeats(have.node.expr)


def given(condition: Any) -> None:
    """A comparison holds by how its sides came about; noted where nobody could tell."""
    if isinstance(condition, torch.SymBool) and not condition.node.has_hint():
        condition.node.env.learn(condition.node.expr)


def same_shape(first: Sequence[Size], second: Sequence[Size]) -> bool:
    """Whether two sizes are equal for certain. Ranks go first: comparing tuples would guard on items before it saw the lengths."""
    return len(first) == len(second) and all(
        one is two or sure(one == two) for one, two in zip(first, second, strict=True)
    )


def numel(size: Sequence[Size]) -> Size:
    """Number of elements of a tensor of this size."""
    result: Size = 1
    for length in size:
        result = result * length
    return result


def contiguous_strides(size: Sequence[Size]) -> Sizes:
    """Row-major strides; a dimension of length 0 counts as 1, as in eager."""
    strides: list[Size] = []
    step: Size = 1
    for length in reversed(size):
        strides.append(step)
        step = step * (max(length, 1) if type(length) is int else length)
    return tuple(reversed(strides))


def strides_in_order(size: Sequence[Size], order: Sequence[int]) -> Sizes:
    """Dense strides where `order` lists the dimensions from innermost to outermost.

    In any order but the row-major one a length of 0 counts as it is, as in eager.
    """
    if list(order) == list(range(len(size) - 1, -1, -1)):
        return contiguous_strides(size)
    strides: list[Size] = [0] * len(size)
    step: Size = 1
    for dim in order:
        strides[dim] = step
        step = step * size[dim]
    return tuple(strides)


def channels_last_strides(size: Sequence[Size]) -> Sizes:
    """Strides of a 4-d (NCHW) or 5-d (NCDHW) tensor whose channels are innermost."""
    return strides_in_order(size, channels_innermost(len(size)))


def _equal(left: Size, right: Size) -> bool:
    return sure(left == right)


def _is_equal(left: Size, right: Size) -> bool:
    return _told(left == right)


def _is_less(left: Size, right: Size) -> bool:
    return _told(left < right)


def _told(condition: Any) -> bool:
    """Whether a comparison holds, guarded, also where it turns on one; False where only the run can tell."""
    return bool(condition) if isinstance(condition, torch.SymBool) and condition.node.has_hint() else sure(condition)


def is_contiguous(size: Sequence[Size], stride: Sequence[Size]) -> bool:
    """Whether the strides are row-major, ignoring dimensions of length 1; empty tensors are contiguous."""
    if lies_in_order(size, stride):
        return True
    return is_nested(size, stride, range(len(size) - 1, -1, -1), _equal) or any(sure(length == 0) for length in size)


def is_channels_last(size: Sequence[Size], stride: Sequence[Size], exact: bool = False) -> bool:
    """Whether a 4-d or 5-d tensor is dense with its channels innermost; `exact`: guarded also where that turns on a size of 1."""
    equal = _is_equal if exact else _equal
    return len(size) in (4, 5) and is_nested(size, stride, channels_innermost(len(size)), equal)


def looks_channels_last(size: Sequence[Size], stride: Sequence[Size]) -> bool:
    """Whether kernels take the tensor for channels-last: its strides grow in the order C, (D,) W, H..., N.

    Unlike `is_channels_last` the tensor needs not be dense.
    """
    rank = len(size)
    return rank in (4, 5) and grows_outward(size, stride, channels_innermost(rank), _is_equal, _is_less)


def suggest_format(meta: TensorMeta) -> torch.memory_format:
    """The memory format a kernel that keeps its input's format would give its output."""
    if looks_channels_last(meta.size, meta.stride):
        return torch.channels_last if len(meta.size) == 4 else torch.channels_last_3d
    return torch.contiguous_format


def strides_for(size: Sequence[Size], memory_format: torch.memory_format) -> Sizes:
    """Dense strides in `memory_format` (not preserve)."""
    if memory_format in (torch.channels_last, torch.channels_last_3d):
        return channels_last_strides(size)
    return contiguous_strides(size)


def is_dense(size: Sequence[Size], stride: Sequence[Size]) -> bool:
    """Whether the elements fill a block of memory without holes or overlaps, in whatever order."""
    if is_contiguous(size, stride):
        return True
    # Short dimensions do not count: their strides say nothing.
    if any(is_unbacked(step) for step in stride):
        return is_block(size, stride, [dim for dim in range(len(size)) if not sure(size[dim] < 2)], _equal)
    order = sorted((dim for dim in range(len(size)) if not sure(size[dim] < 2)), key=lambda dim: _hint(stride[dim]))
    return is_nested(size, stride, order, _equal)


def sorted_by_stride(meta: TensorMeta, dims: Sequence[int]) -> list[int]:
    """Dimensions from outermost to innermost in memory. That their strides are in this order is guarded."""
    order = sorted(dims, key=lambda dim: -_hint(meta.stride[dim]))
    for outer, inner in itertools.pairwise(order):
        if meta.stride[outer] < meta.stride[inner]:
            raise AssertionError(f"strides {meta.stride} are not what their hints say")
    return order


def _hint(value: Size) -> int:
    """The example value of a size: ordering strides by it is checked afterwards by exact comparison."""
    if type(value) is int:
        return value
    node = getattr(value, "node", None)
    hint = getattr(node, "hint", None)
    return int(hint) if isinstance(hint, int) else int(value)


def permutation_by_stride(size: Sequence[Size], operand_strides: Sequence[Sequence[Size]]) -> list[int]:
    """Dimensions from innermost to outermost, as an elementwise loop over these operands orders them.

    `operand_strides` hold the operands' strides expanded to `size` (0 where broadcast). This is the stable
    insertion sort of the tensor iterator: ambiguous pairs (a zero stride) keep row-major order.
    """
    rank = len(size)
    order = list(range(rank - 1, -1, -1))

    def compare(first: int, second: int) -> int:
        for strides in operand_strides:
            one, two = strides[first], strides[second]
            if sure(one == 0) or sure(two == 0):
                continue
            if sure(one < two):
                return -1
            if sure(one > two):
                return 1
            if _is_multiple(one, two):
                return 1
            if _is_multiple(two, one):
                return -1
            if sure(size[first] > size[second]):
                return 1
        return 0

    for start in range(1, rank):
        inner = start
        for outer in range(start - 1, -1, -1):
            verdict = compare(order[outer], order[inner])
            if verdict > 0:
                order[outer], order[inner] = order[inner], order[outer]
                inner = outer
            elif verdict < 0:
                break
    return order


def preserved_strides(meta: TensorMeta) -> Sizes:
    """Strides of a fresh copy that keeps the format of `meta` (`torch.preserve_format`)."""
    if is_dense(meta.size, meta.stride):
        return meta.stride
    return strides_in_order(meta.size, permutation_by_stride(meta.size, [meta.stride]))


def expand_strides(meta: TensorMeta, size: Sequence[Size]) -> Sizes:
    """Strides of `meta` broadcast to `size` (0 where it repeats)."""
    lead = len(size) - len(meta.size)
    out: list[Size] = [0] * lead
    for dim, (length, stride) in enumerate(zip(meta.size, meta.stride, strict=True)):
        # One that is equal to the whole's does not repeat, whatever it is.
        whole = size[lead + dim]
        repeats = not _is_same(length, whole) and length == 1 and not sure(whole == 1)
        out.append(0 if repeats else stride)
    return tuple(out)


def broadcast(*sizes: Sequence[Size]) -> Sizes:
    """The size the sizes broadcast to. Raises RuntimeError as eager does if they do not."""
    rank = max((len(size) for size in sizes), default=0)
    out: list[Size] = [1] * rank
    for size in sizes:
        lead = rank - len(size)
        for dim, length in enumerate(size):
            have = out[lead + dim]
            if type(have) is int and have == 1:
                out[lead + dim] = length
            elif (type(length) is int and length == 1) or _is_same(have, length):
                continue
            elif _are_unlike(have, length):
                if length == 1:
                    continue
                if have == 1:
                    out[lead + dim] = length
                    continue
                raise errors.unlike_sizes(have, length, lead + dim)
    return tuple(out)


def _are_unlike(one: Size, two: Size) -> bool:
    """Whether two sizes that are broadcast together differ. Raises `UnbackedError`, which says which they are."""
    try:
        return bool(one != two)
    except UnbackedError as error:
        error.lengths = one, two
        raise


def _is_same(one: Size, two: Size) -> bool:
    """Whether two sizes are known to be equal; never guards."""
    if one is two or same_size(one, two):
        return True
    return (is_unbacked(one) or is_unbacked(two)) and sure(one == two)


def _is_multiple(one: Size, two: Size) -> bool:
    """Whether a stride is a multiple of another by sizes that nobody knows: the outer one, unless those sizes are short."""
    if (type(one) is int and type(two) is int) or _is_same(one, two):
        return False
    above, below = expr_of(one), expr_of(two)
    return bool(exact_quotient(above, below) is not None)


def wrap_dim(dim: int, rank: int) -> int:
    """`dim` counted from the front. Raises IndexError as eager does; a 0-d tensor accepts -1 and 0."""
    bound = max(rank, 1)
    if not -bound <= dim < bound:
        raise IndexError(f"Dimension out of range (expected to be in range of [{-bound}, {bound - 1}], but got {dim})")
    return dim + bound if dim < 0 else dim


def wrap_dims(dims: Sequence[int] | int | None, rank: int) -> list[int]:
    """Dimensions counted from the front; None or an empty list means all of them."""
    if dims is None or (not isinstance(dims, int) and len(dims) == 0):
        return list(range(rank))
    given = [dims] if isinstance(dims, int) else dims
    wrapped = [wrap_dim(dim, rank) for dim in given]
    if len(set(wrapped)) != len(wrapped):
        raise RuntimeError(
            f"dim {next(d for d in wrapped if wrapped.count(d) > 1)} appears multiple times in the list of dims"
        )
    return wrapped if rank else []


def fresh(
    size: Sequence[Size],
    like: TensorMeta,
    dtype: torch.dtype | None = None,
    stride: Sequence[Size] | None = None,
) -> TensorMeta:
    """A new tensor on the device of `like`, contiguous unless `stride` is given."""
    size = tuple(size)
    return TensorMeta(
        size,
        contiguous_strides(size) if stride is None else tuple(stride),
        like.dtype if dtype is None else dtype,
        like.device,
    )


def view_of(
    meta: TensorMeta, size: Sequence[Size], stride: Sequence[Size], offset: Size | None = None, base: int = 0
) -> View:
    """A view of argument `base`, whose metadata is `meta`."""
    return View(
        tuple(size),
        tuple(stride),
        meta.dtype,
        meta.device,
        meta.offset if offset is None else offset,
        meta.flags,
        base,
    )
