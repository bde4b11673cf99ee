"""Pooling and resampling."""

from collections.abc import Sequence
from typing import Any

import torch

from symshapes.rules.layout import Size, TensorMeta, fresh, same_shape, strides_for, suggest_format
from symshapes.rules.registry import rule


def _each(values: Sequence[Size] | Size, count: int) -> Sequence[Size]:
    if not isinstance(values, (list, tuple)):
        return [values] * count
    return list(values) * count if len(values) == 1 else values


def _shaped(size: Sequence[Size], like: TensorMeta, dtype: torch.dtype | None = None) -> TensorMeta:
    """A tensor of this size in the memory format of `like`."""
    memory_format = suggest_format(like)
    return TensorMeta(
        tuple(size),
        strides_for(size, memory_format),
        like.dtype if dtype is None else dtype,
        like.device,
    )


def _shaped_3d(size: Sequence[Size], like: TensorMeta) -> TensorMeta:
    """As `_shaped`, but four dimensions are a volume without a batch, and never channels-last."""
    return _shaped(size, like) if len(like.size) == 5 else fresh(size, like)


def pooled_length(length: Size, kernel: Size, stride: Size, padding: Size, dilation: Size, ceil_mode: bool) -> Size:
    """How many windows fit; in ceil mode the last may reach over the end, but must start inside."""
    room = length + 2 * padding - dilation * (kernel - 1) - 1
    if not ceil_mode:
        return room // stride + 1
    windows = (room + stride - 1) // stride + 1
    # By its formula, not by a decision, which would hold for some lengths only.
    return torch.sym_min(windows, (length + padding - 1) // stride + 1)


def pooled(
    self: TensorMeta,
    spatial: int,
    kernel_size: Sequence[Size],
    stride: Sequence[Size] = (),
    padding: Sequence[Size] = (0,),
    dilation: Sequence[Size] = (1,),
    ceil_mode: bool = False,
) -> list[Size]:
    """The size after pooling the last `spatial` dimensions. Raises RuntimeError if nothing is left, or for windows that eager
    refuses."""
    kernel = _each(kernel_size, spatial)
    step = _each(stride, spatial) if stride else kernel
    pad, gap = _each(padding, spatial), _each(dilation, spatial)
    lead = len(self.size) - spatial
    if lead not in (1, 2):
        raise RuntimeError(f"Expected {spatial + 1}D or {spatial + 2}D input, got {list(self.size)}")
    out = list(self.size[:lead])
    for at in range(spatial):
        if kernel[at] < 1 or step[at] < 1 or gap[at] < 1:
            raise RuntimeError("kernel size, stride and dilation should be greater than zero")
        if pad[at] < 0 or 2 * pad[at] > kernel[at]:
            raise RuntimeError(
                f"pad must be non-negative and at most half of kernel size, but got pad={pad[at]} and kernel_size={kernel[at]}"
            )
        length = pooled_length(self.size[lead + at], kernel[at], step[at], pad[at], gap[at], ceil_mode)
        if length < 1:
            raise RuntimeError(
                f"Given input size: {list(self.size)}. Calculated output size: {length}. Output size is too small"
            )
        out.append(length)
    return out


@rule("max_pool2d_with_indices")
def max_pool2d_with_indices(self: TensorMeta, *geometry: Any) -> tuple[TensorMeta, TensorMeta]:
    """The largest of each window, and where it was. `geometry` is that of `pooled`, from the kernel's size on."""
    out = _shaped(pooled(self, 2, *geometry), self)
    return out, out._replace(dtype=torch.int64)


@rule("max_pool3d_with_indices")
def max_pool3d_with_indices(self: TensorMeta, *geometry: Any) -> tuple[TensorMeta, TensorMeta]:
    """The largest of each window, and where it was. `geometry` is that of `pooled`, from the kernel's size on."""
    out = _shaped_3d(pooled(self, 3, *geometry), self)
    return out, out._replace(dtype=torch.int64)


@rule("max_pool2d_with_indices_backward")
def max_pool2d_with_indices_backward(grad_output: TensorMeta, self: TensorMeta, *_: Any) -> TensorMeta:
    """A gradient of the input's size and format."""
    return _shaped(self.size, self)


@rule("max_pool3d_with_indices_backward")
def max_pool3d_with_indices_backward(grad_output: TensorMeta, self: TensorMeta, *_: Any) -> TensorMeta:
    """A gradient of the input's size and format."""
    return _shaped_3d(self.size, self)


def _check_divisor(divisor: int | None) -> None:
    if divisor == 0:
        raise RuntimeError("divisor must be not zero")


@rule("avg_pool2d")
def avg_pool2d(
    self: TensorMeta,
    kernel_size: Sequence[Size],
    stride: Sequence[Size] = (),
    padding: Sequence[Size] = (0,),
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> TensorMeta:
    """The mean of each window."""
    _check_divisor(divisor_override)
    return _shaped(pooled(self, 2, kernel_size, stride, padding, (1,), ceil_mode), self)


@rule("avg_pool3d")
def avg_pool3d(
    self: TensorMeta,
    kernel_size: Sequence[Size],
    stride: Sequence[Size] = (),
    padding: Sequence[Size] = (0,),
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> TensorMeta:
    """The mean of each window, row-major."""
    _check_divisor(divisor_override)
    return fresh(pooled(self, 3, kernel_size, stride, padding, (1,), ceil_mode), self)


@rule("max_unpool2d")
def max_unpool2d(self: TensorMeta, indices: TensorMeta, output_size: Sequence[Size]) -> TensorMeta:
    """Zeros with the values where the largest were; on a GPU row-major."""
    if not same_shape(self.size, indices.size):
        raise RuntimeError(
            f"Expected shape of indices to be same as that of the input tensor ({list(self.size)}) but got indices tensor "
            f"with shape: {list(indices.size)}"
        )
    size = (*self.size[:-2], *output_size)
    return fresh(size, self) if self.device.type == "cuda" else _shaped(size, self)


@rule("max_unpool3d")
def max_unpool3d(self: TensorMeta, indices: TensorMeta, output_size: Sequence[Size], *_: Any) -> TensorMeta:
    """Zeros with the values where the largest were, row-major."""
    if not same_shape(self.size, indices.size):
        raise RuntimeError("Expected shape of indices to be same as that of the input tensor")
    return fresh((*self.size[:-3], *output_size), self)


@rule("fractional_max_pool2d", "fractional_max_pool3d")
def fractional_max_pool(
    self: TensorMeta, kernel_size: Sequence[Size], output_size: Sequence[Size], random_samples: TensorMeta
) -> tuple[TensorMeta, TensorMeta]:
    """The largest of windows at random places, and where it was, row-major."""
    spatial = len(output_size)
    for length, kernel, wanted in zip(self.size[-spatial:], kernel_size, output_size, strict=True):
        if wanted + kernel - 1 > length:
            raise RuntimeError(
                f"fractional_max_pool: pool size ({kernel}) too large relative to input length ({length})"
            )
    out = fresh((*self.size[:-spatial], *output_size), self)
    return out, out._replace(dtype=torch.int64)


@rule("avg_pool2d_backward")
def avg_pool_backward(grad_output: TensorMeta, self: TensorMeta, *_: Any) -> TensorMeta:
    """A gradient of the input's size and format."""
    return _shaped(self.size, self)


@rule(
    "avg_pool3d_backward",
    "_adaptive_avg_pool3d_backward",
    "adaptive_max_pool3d_backward",
    "fractional_max_pool2d_backward",
    "fractional_max_pool3d_backward",
)
def pool3d_backward(grad_output: TensorMeta, self: TensorMeta, *_: Any) -> TensorMeta:
    """A gradient of the input's size, row-major."""
    return fresh(self.size, self)


@rule("_adaptive_avg_pool3d")
def adaptive_avg_pool3d(self: TensorMeta, output_size: Sequence[Size]) -> TensorMeta:
    """Means over as many windows as the result has elements, row-major."""
    return fresh((*self.size[:-3], *output_size), self)


@rule("adaptive_max_pool3d")
def adaptive_max_pool3d(self: TensorMeta, output_size: Sequence[Size]) -> tuple[TensorMeta, TensorMeta]:
    """Maxima over as many windows as the result has elements, and where they were, row-major."""
    out = fresh((*self.size[:-3], *output_size), self)
    return out, out._replace(dtype=torch.int64)


@rule("_adaptive_avg_pool2d")
def adaptive_avg_pool(self: TensorMeta, output_size: Sequence[Size]) -> TensorMeta:
    """Means over as many windows as the result has elements."""
    return _shaped((*self.size[: len(self.size) - len(output_size)], *output_size), self)


@rule("_adaptive_avg_pool2d_backward")
def adaptive_avg_pool_backward(grad_output: TensorMeta, self: TensorMeta) -> TensorMeta:
    """A gradient of the input's size and format."""
    return _shaped(self.size, self)


@rule("adaptive_max_pool2d")
def adaptive_max_pool(self: TensorMeta, output_size: Sequence[Size]) -> tuple[TensorMeta, TensorMeta]:
    """Maxima over as many windows as the result has elements, and where they were."""
    out = _shaped((*self.size[: len(self.size) - len(output_size)], *output_size), self)
    return out, out._replace(dtype=torch.int64)


@rule("adaptive_max_pool2d_backward")
def adaptive_max_pool_backward(grad_output: TensorMeta, self: TensorMeta, indices: TensorMeta) -> TensorMeta:
    """A gradient of the input's size and format."""
    return _shaped(self.size, self)


UPSAMPLERS = (
    "upsample_nearest1d",
    "upsample_nearest2d",
    "upsample_nearest3d",
    "_upsample_nearest_exact1d",
    "_upsample_nearest_exact2d",
    "_upsample_nearest_exact3d",
    "upsample_linear1d",
    "upsample_bilinear2d",
    "upsample_bicubic2d",
    "upsample_trilinear3d",
    "_upsample_bilinear2d_aa",
    "_upsample_bicubic2d_aa",
)


@rule(*UPSAMPLERS)
def upsample(self: TensorMeta, output_size: Sequence[Size], *_: Any) -> TensorMeta:
    """The image at another resolution, in its own format."""
    return _shaped((*self.size[:2], *output_size), self)


@rule(
    "upsample_nearest1d_backward",
    "upsample_nearest2d_backward",
    "_upsample_nearest_exact1d_backward",
    "_upsample_nearest_exact2d_backward",
    "upsample_linear1d_backward",
    "upsample_bilinear2d_backward",
    "upsample_trilinear3d_backward",
    "_upsample_bilinear2d_aa_backward",
    "_upsample_bicubic2d_aa_backward",
)
def upsample_backward(
    grad_output: TensorMeta, output_size: Sequence[Size], input_size: Sequence[Size], *_: Any
) -> TensorMeta:
    """A gradient at the input's resolution, in the gradient's format."""
    return _shaped(input_size, grad_output)


@rule("upsample_nearest3d_backward", "_upsample_nearest_exact3d_backward", "upsample_bicubic2d_backward")
def upsample_backward_row_major(
    grad_output: TensorMeta, output_size: Sequence[Size], input_size: Sequence[Size], *_: Any
) -> TensorMeta:
    """A gradient at the input's resolution, row-major."""
    return fresh(input_size, grad_output)


def _rearranged(size: Sequence[Size], like: TensorMeta) -> TensorMeta:
    """CPU kernels keep the format; CUDA rearranges by reshapes, which make it row-major."""
    return fresh(size, like) if like.device.type == "cuda" else _shaped(size, like)


@rule("pixel_shuffle")
def pixel_shuffle(self: TensorMeta, upscale_factor: int) -> TensorMeta:
    """Channels become pixels."""
    *lead, channels, height, width = self.size
    factor = upscale_factor
    size = (*lead, channels // (factor * factor), height * factor, width * factor)
    return _rearranged(size, self)


@rule("pixel_unshuffle")
def pixel_unshuffle(self: TensorMeta, downscale_factor: int) -> TensorMeta:
    """Pixels become channels."""
    *lead, channels, height, width = self.size
    factor = downscale_factor
    size = (*lead, channels * factor * factor, height // factor, width // factor)
    return _rearranged(size, self)


@rule("channel_shuffle")
def channel_shuffle(self: TensorMeta, groups: int) -> TensorMeta:
    """Channels in another order."""
    return _rearranged(self.size, self)


@rule("im2col")
def im2col(
    self: TensorMeta,
    kernel_size: Sequence[Size],
    dilation: Sequence[Size],
    padding: Sequence[Size],
    stride: Sequence[Size],
) -> TensorMeta:
    """Windows as columns."""
    lead = len(self.size) - 3
    channels = self.size[lead]
    windows: Size = 1
    for at in range(2):
        windows = windows * pooled_length(
            self.size[lead + 1 + at], kernel_size[at], stride[at], padding[at], dilation[at], False
        )
    size = (*self.size[:lead], channels * kernel_size[0] * kernel_size[1], windows)
    return TensorMeta(size, strides_for(size, torch.contiguous_format), self.dtype, self.device)


@rule("col2im")
def col2im(
    self: TensorMeta,
    output_size: Sequence[Size],
    kernel_size: Sequence[Size],
    dilation: Sequence[Size],
    padding: Sequence[Size],
    stride: Sequence[Size],
) -> TensorMeta:
    """Columns as an image: the sum over windows."""
    lead = len(self.size) - 2
    channels = self.size[lead] // (kernel_size[0] * kernel_size[1])
    size = (*self.size[:lead], channels, *output_size)
    return TensorMeta(size, strides_for(size, torch.contiguous_format), self.dtype, self.device)


@rule("grid_sampler_2d_backward", "grid_sampler_3d_backward")
def grid_sampler_backward(
    grad_output: TensorMeta,
    input: TensorMeta,
    grid: TensorMeta,
    interpolation_mode: int,
    padding_mode: int,
    align_corners: bool,
    output_mask: Sequence[bool],
) -> tuple[TensorMeta | None, TensorMeta]:
    """Row-major gradients of the input, None where not asked for, and of the grid."""
    return fresh(input.size, input) if output_mask[0] else None, fresh(grid.size, grid)


@rule("cudnn_grid_sampler_backward")
def cudnn_grid_sampler_backward(input: TensorMeta, grid: TensorMeta, grad_output: TensorMeta) -> tuple[TensorMeta, ...]:
    """Both gradients, row-major."""
    return fresh(input.size, input), fresh(grid.size, grid)


@rule("cudnn_affine_grid_generator")
def cudnn_affine_grid_generator(theta: TensorMeta, n: Size, c: Size, h: Size, w: Size) -> TensorMeta:
    """Two coordinates of each point of n images."""
    return fresh((n, h, w, 2), theta)


@rule("cudnn_affine_grid_generator_backward")
def cudnn_affine_grid_generator_backward(grad: TensorMeta, n: Size, c: Size, h: Size, w: Size) -> TensorMeta:
    """Of the n matrices."""
    return fresh((n, 2, 3), grad)


@rule("cudnn_grid_sampler", "grid_sampler_2d", "grid_sampler_3d")
def grid_sampler(input: TensorMeta, grid: TensorMeta, *_: Any) -> TensorMeta:
    """A sample for each point of the grid."""
    size = (*input.size[:2], *grid.size[1:-1])
    return TensorMeta(size, strides_for(size, torch.contiguous_format), input.dtype, input.device)
