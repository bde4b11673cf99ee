"""What operators demand of their arguments' sizes beyond what the results' sizes need: eager's own checks, as guards.

Without them code compiled for some sizes would compute on, or beyond memory, where eager refuses others. In: an operator's
arguments. Out: nothing, or the error. What kernels of eager check when they run (of libraries, of data) is not in it.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

from symshapes.expr.symbols import is_unbacked
from symshapes.facts import errors
from symshapes.facts.layout import same_size
from symshapes.rules import layout
from symshapes.rules.indexing import SCATTERS
from symshapes.rules.indexing import index as indexed
from symshapes.rules.layout import Size, TensorMeta, broadcast, numel, wrap_dim
from symshapes.rules.numbers import require_held
from symshapes.rules.pooling import UPSAMPLERS
from symshapes.rules.registry import demand
from symshapes.rules.views import as_strided, diagonal, select, slice_

Maybe = TensorMeta | None


def _require(condition: Any, message: str) -> None:
    """A guard; of sizes that only the data says a check when the program runs."""
    layout.demand(condition, lambda: RuntimeError(message))


def _same(one: Sequence[Size], other: Sequence[Size], message: str) -> None:
    message = f"{message}: {list(one)} and {list(other)}"
    _require(len(one) == len(other), message)
    for mine, wanted in zip(one, other, strict=True):
        _require(mine == wanted, message)


def _spreads(size: Sequence[Size], over: Sequence[Size]) -> None:
    """A size that broadcasts to another."""
    message = f"the expanded size of the tensor {list(over)} must match the existing size {list(size)}"
    _require(len(size) <= len(over), message)
    for mine, wanted in zip(reversed(size), reversed(over), strict=False):
        if same_size(mine, wanted):
            continue
        if is_unbacked(mine):
            _require((mine == wanted) | (mine == 1), message)
        elif mine != 1:
            _require(mine == wanted, message)


# Products


@demand("addmv")
def _addmv(self: TensorMeta, mat: TensorMeta, vec: TensorMeta, **_: Any) -> None:
    _spreads(self.size, mat.size[:1])


@demand("addbmm")
def _addbmm(self: TensorMeta, batch1: TensorMeta, batch2: TensorMeta, **_: Any) -> None:
    _spreads(self.size, (batch1.size[1], batch2.size[2]))


@demand("convolution")
def _convolution(input: TensorMeta, weight: TensorMeta, bias: Maybe, *options: Any) -> None:
    transposed, groups = options[3], options[5]
    _require(weight.size[0] % groups == 0, f"weight of size {list(weight.size)} is not divisible in {groups} groups")
    channels = weight.size[1] * groups if transposed else weight.size[0]
    if bias is not None:
        _same(bias.size, (channels,), "expected bias to have one element a channel")


# Norms


@demand("native_layer_norm")
def _layer_norm(input: TensorMeta, normalized_shape: Sequence[Size], weight: Maybe, bias: Maybe, eps: float) -> None:
    _require(len(normalized_shape) > 0, "Expected normalized_shape to be at least 1-dimensional")
    for meta in (weight, bias):
        if meta is not None:
            _same(meta.size, normalized_shape, "expected weight to be of same shape as normalized_shape")


@demand("native_group_norm")
def _group_norm(
    input: TensorMeta, weight: Maybe, bias: Maybe, N: Size, C: Size, HxW: Size, group: Size, eps: float
) -> None:
    _require(numel(input.size) == N * C * HxW, f"an input of size {list(input.size)} for {N} x {C} x {HxW}")
    for meta in (weight, bias):
        if meta is not None:
            _same(meta.size, (C,), "expected weight to be a vector of size equal to the number of channels in input")


@demand("native_batch_norm", "_native_batch_norm_legit", "cudnn_batch_norm", "_batch_norm_with_update")
def _batch_norm(input: TensorMeta, *vectors: Any, **_: Any) -> None:
    for meta in vectors:
        if isinstance(meta, TensorMeta):
            _same(meta.size, input.size[1:2], "weight, bias and statistics must have one element a channel")


# Losses


@demand("nll_loss_forward", "nll_loss2d_forward")
def _nll_loss(self: TensorMeta, target: TensorMeta, weight: Maybe, *_: Any) -> None:
    channels = self.size[0] if len(self.size) == 1 else self.size[1]
    if len(self.size) == 4:
        _same((self.size[0], *self.size[2:]), target.size, "size mismatch of input and target")
    if weight is not None:
        _same(weight.size, (channels,), "weight tensor should be defined either for all classes or no classes")


@demand("binary_cross_entropy_with_logits")
def _bce(self: TensorMeta, target: TensorMeta, weight: Maybe = None, pos_weight: Maybe = None, *_: Any) -> None:
    broadcast(self.size, target.size, *[meta.size for meta in (weight, pos_weight) if meta is not None])


@demand("dist")
def _dist(self: TensorMeta, other: TensorMeta, p: Any = 2) -> None:
    broadcast(self.size, other.size)


@demand("_softmax_backward_data", "_log_softmax_backward_data")
def _softmax_backward(grad_output: TensorMeta, output: TensorMeta, *_: Any) -> None:
    _same(grad_output.size, output.size, "expected the gradient to have same size as the output")


# Images


def _filled(self: TensorMeta, lengths: Sequence[Size]) -> None:
    for length in lengths:
        _require(length > 0, f"Expected a tensor with non-zero non-batch dimensions, but got: {list(self.size)}")


@demand("max_pool2d_with_indices", "avg_pool2d", "max_unpool2d", "im2col")
def _pool2d(self: TensorMeta, *_: Any, **__: Any) -> None:
    _filled(self, self.size[-3:])


@demand("max_pool3d_with_indices", "avg_pool3d", "max_unpool3d")
def _pool3d(self: TensorMeta, *_: Any, **__: Any) -> None:
    _filled(self, self.size[-4:])


@demand("adaptive_max_pool2d", "adaptive_max_pool3d", "_adaptive_avg_pool3d")
def _adaptive_pool(self: TensorMeta, *_: Any) -> None:
    _filled(self, self.size[1:])


@demand("_adaptive_avg_pool2d")
def _adaptive_avg_pool2d(self: TensorMeta, *_: Any) -> None:
    _filled(self, self.size[-2:])


@demand("replication_pad1d", "replication_pad2d", "replication_pad3d")
def _replication_pad(self: TensorMeta, padding: Sequence[Size]) -> None:
    _filled(self, self.size[-len(padding) // 2 - 1 :])


@demand("reflection_pad1d", "reflection_pad2d", "reflection_pad3d")
def _reflection_pad(self: TensorMeta, padding: Sequence[Size]) -> None:
    _filled(self, self.size[-len(padding) // 2 - 1 :])
    for pair in range(len(padding) // 2):
        length = self.size[len(self.size) - 1 - pair]
        for amount in padding[2 * pair : 2 * pair + 2]:
            _require(amount < length, "padding size should be less than the corresponding input dimension")


@demand("grid_sampler_2d", "grid_sampler_3d", "_grid_sampler_2d_cpu_fallback", "cudnn_grid_sampler")
def _grid_sampler(input: TensorMeta, grid: TensorMeta, *_: Any) -> None:
    _same(input.size[:1], grid.size[:1], "grid_sampler(): expected grid and input to have same batch size")
    _filled(input, input.size[2:])
    _require(grid.size[-1] == len(input.size) - 2, f"grid_sampler(): a grid of size {list(grid.size)}")


@demand("pixel_shuffle")
def _pixel_shuffle(self: TensorMeta, upscale_factor: int) -> None:
    _require(self.size[-3] % upscale_factor**2 == 0, "channels must be divisible by the square of upscale_factor")


@demand("pixel_unshuffle")
def _pixel_unshuffle(self: TensorMeta, downscale_factor: int) -> None:
    for length in self.size[-2:]:
        _require(length % downscale_factor == 0, "height and width must be divisible by downscale_factor")


@demand("channel_shuffle", "native_channel_shuffle")
def _channel_shuffle(self: TensorMeta, groups: Size) -> None:
    _require(self.size[1] % groups == 0, "number of channels must be divisible by groups")


@demand(*UPSAMPLERS)
def _upsample(self: TensorMeta, output_size: Sequence[Size], *_: Any) -> None:
    _filled(self, (*self.size[1:], *output_size))


# Parts of a tensor


@demand("select_scatter")
def _select_scatter(self: TensorMeta, src: TensorMeta, dim: int, index: Size) -> None:
    _same(src.size, select(self, dim, index).size, "expected src to have a size equal to the slice of self")


@demand("slice_scatter")
def _slice_scatter(self: TensorMeta, src: TensorMeta, *where: Any, **named: Any) -> None:
    _same(src.size, slice_(self, *where, **named).size, "expected src to have a size equal to the slice of self")


@demand("diagonal_scatter")
def _diagonal_scatter(self: TensorMeta, src: TensorMeta, *where: Any, **named: Any) -> None:
    _same(src.size, diagonal(self, *where, **named).size, "expected src to have a size equal to the slice of self")


@demand("as_strided_scatter")
def _as_strided_scatter(self: TensorMeta, src: TensorMeta, *where: Any, **named: Any) -> None:
    _same(src.size, as_strided(self, *where, **named).size, "expected src to have a size equal to the slice of self")


def _within(index: TensorMeta, size: Sequence[Size], but: int | None) -> None:
    """Places no more than there are elements, along each dimension but one."""
    for at, (length, most) in enumerate(zip(index.size, size, strict=False)):
        if at != but and length is not most:
            _require(length <= most, f"expected index {list(index.size)} to be no larger than {list(size)}")


def _same_rank(index: TensorMeta, other: TensorMeta, name: str) -> None:
    """As many dimensions of positions as of what they are in; a number has one."""
    same = max(len(index.size), 1) == max(len(other.size), 1)
    _require(same, f"Index tensor must have the same number of dimensions as {name} tensor")


@demand("gather")
def _gather(self: TensorMeta, dim: int, index: TensorMeta, **_: Any) -> None:
    if not _is_empty(index):
        _same_rank(index, self, "input")
        _within(index, self.size, wrap_dim(dim, len(self.size)))


@demand(*SCATTERS)
def _scatter(
    self: TensorMeta, dim: int, index: TensorMeta, src: Any = None, *_: Any, value: Any = None, **__: Any
) -> None:
    if _is_empty(index):
        return
    require_held(value if src is None else src, self.dtype)
    _same_rank(index, self, "self")
    _within(index, self.size, wrap_dim(dim, len(self.size)))
    if isinstance(src, TensorMeta):
        _same_rank(index, src, "src")
        _within(index, src.size, None)


def _is_empty(meta: TensorMeta) -> bool:
    return any(type(length) is int and length == 0 for length in meta.size)


@demand("index_add", "index_copy", "index_reduce")
def _index_add(
    self: TensorMeta, dim: int, index: TensorMeta, source: TensorMeta, *_: Any, alpha: Any = 1, **__: Any
) -> None:
    require_held(alpha, self.dtype)
    if not self.size or not source.size:
        return
    dim = wrap_dim(dim, len(self.size))
    _same(source.size[dim : dim + 1], index.size or (1,), "number of indices should be equal to source.size(dim)")
    mine, theirs = ((*size[:dim], *size[dim + 1 :]) for size in (self.size, source.size))
    _same(mine, theirs, "source and destination must have the same slice shapes")


@demand("index_put", "_unsafe_index_put")
def _index_put(self: TensorMeta, indices: Sequence[Maybe], values: TensorMeta, accumulate: bool = False) -> None:
    at = 0
    masks = False
    for number, meta in enumerate(indices):
        if meta is not None and meta.dtype.itemsize == 1:  # how many elements a mask chooses is in the data
            masks = True
            unlike = partial(errors.unlike_mask, meta.size, number, self.size, at)
            if len(meta.size) > len(self.size) - at:
                raise unlike()
            for mine, wanted in zip(meta.size, self.size[at:], strict=False):
                layout.demand(mine == wanted, unlike)
            at += len(meta.size)
        else:
            at += 1
    if not masks:
        _spreads(values.size, indexed(self, indices).size)


@demand("put")
def _put(self: TensorMeta, index: TensorMeta, source: TensorMeta, accumulate: bool = False) -> None:
    _require(
        numel(index.size) == numel(source.size), "put_(): expected source and index to have the same number of elements"
    )


@demand("searchsorted.Tensor")
def _searchsorted(sorted_sequence: TensorMeta, self: TensorMeta, *, sorter: Maybe = None, **_: Any) -> None:
    if len(sorted_sequence.size) > 1:
        _same(sorted_sequence.size[:-1], self.size[:-1], "boundaries and values must have the same first dimensions")
    if sorter is not None:
        _same(sorted_sequence.size, sorter.size, "boundary and sorter must have the same size")


@demand("_embedding_bag")
def _embedding_bag(weight: TensorMeta, indices: TensorMeta, offsets: TensorMeta, *options: Any, **named: Any) -> None:
    weights = named.get("per_sample_weights", options[3] if len(options) > 3 else None)
    if weights is not None:
        _same(indices.size, weights.size, "expected per_sample_weights to have the same size as the indices")
