"""Ops that make tensors out of sizes and numbers."""

import math
from collections.abc import Sequence
from typing import Any

import torch

from symshapes.facts import number_dtype
from symshapes.rules.copies import like
from symshapes.rules.layout import (
    Size,
    TensorMeta,
    contiguous_strides,
    demand,
    fresh,
    strides_for,
    strides_in_order,
    suggest_format,
)
from symshapes.rules.pointwise import elementwise
from symshapes.rules.registry import rule


def made(
    size: Sequence[Size],
    dtype: torch.dtype | None,
    device: Any,
    memory_format: torch.memory_format | None = None,
) -> TensorMeta:
    """A fresh tensor; no dtype means the default one, no device the CPU (torch fills in a default device earlier)."""
    size = tuple(size)
    for length in size:
        demand(
            length >= 0,
            lambda: RuntimeError(f"Trying to create tensor with negative dimension {length}: {list(size)}"),  # noqa: B023
        )
    if memory_format is None or memory_format is torch.preserve_format:
        memory_format = torch.contiguous_format
    return TensorMeta(
        size,
        strides_for(size, memory_format),
        dtype or torch.get_default_dtype(),
        torch.device("cpu" if device is None else device),
    )


@rule(
    "empty.memory_format", "zeros", "_efficientzerotensor", "ones", "rand", "randn", "rand.generator", "randn.generator"
)
def empty(
    size: Sequence[Size],
    *,
    generator: Any = None,
    dtype: torch.dtype | None = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: bool | None = None,
    memory_format: torch.memory_format | None = None,
) -> TensorMeta:
    """A tensor of this size."""
    return made(size, dtype, device, memory_format)


@rule("full")
def full(
    size: Sequence[Size], fill_value: Any, *, dtype: torch.dtype | None = None, device: Any = None, **_: Any
) -> TensorMeta:
    """The dtype follows the value."""
    return made(size, dtype or number_dtype(fill_value), device)


@rule("randint")
def randint(
    high: Size, size: Sequence[Size], *, dtype: torch.dtype | None = torch.int64, device: Any = None, **_: Any
) -> TensorMeta:
    """Integers below `high`."""
    return made(size, dtype or torch.int64, device)


@rule("randint.low")
def randint_low(
    low: Size,
    high: Size,
    size: Sequence[Size],
    *,
    dtype: torch.dtype | None = torch.int64,
    device: Any = None,
    **_: Any,
) -> TensorMeta:
    """Integers from `low` and below `high`."""
    return made(size, dtype or torch.int64, device)


@rule("randperm")
def randperm(n: Size, *, dtype: torch.dtype | None = torch.int64, device: Any = None, **_: Any) -> TensorMeta:
    """The numbers below n in random order."""
    return made((n,), dtype or torch.int64, device)


@rule("empty_strided")
def empty_strided(
    size: Sequence[Size], stride: Sequence[Size], *, dtype: torch.dtype | None = None, device: Any = None, **_: Any
) -> TensorMeta:
    """A tensor with the strides given."""
    return made(size, dtype, device)._replace(stride=tuple(stride))


@rule("empty_permuted")
def empty_permuted(
    size: Sequence[Size],
    physical_layout: Sequence[int],
    *,
    dtype: torch.dtype | None = None,
    device: Any = None,
    **_: Any,
) -> TensorMeta:
    """A dense tensor whose dimensions lie in memory in the order given, outermost first."""
    return made(size, dtype, device)._replace(stride=strides_in_order(size, list(physical_layout)[::-1]))


@rule("scalar_tensor")
def scalar_tensor(s: Any, *, dtype: torch.dtype | None = None, device: Any = None, **_: Any) -> TensorMeta:
    """A 0-d tensor of the default dtype, whatever the number."""
    return made((), dtype, device)


def _range_dtype(values: Sequence[Any]) -> torch.dtype:
    if any(isinstance(value, (float, torch.SymFloat)) for value in values):
        return torch.get_default_dtype()
    return torch.int64


@rule("arange", "arange.start", "arange.start_step")
def arange(*bounds: Any, dtype: torch.dtype | None = None, device: Any = None, **_: Any) -> TensorMeta:
    """The count is the distance in steps, rounded up."""
    start, end, step = {1: (0, *bounds, 1), 2: (*bounds, 1), 3: bounds}[len(bounds)]
    found = dtype or _range_dtype([start, end, step])
    if found is torch.bool:
        raise NotImplementedError(f"\"arange_{torch.device(device or 'cpu').type}\" not implemented for 'Bool'")
    integers = all(isinstance(value, (int, torch.SymInt)) for value in (start, end, step))
    if not isinstance(step, torch.SymInt) and step == 0:
        raise RuntimeError("step must be nonzero")
    demand(
        end >= start if step > 0 else end <= start,
        lambda: RuntimeError("upper bound and larger bound inconsistent with step sign"),
    )
    if integers:
        count: Size = (end - start + step - (1 if step > 0 else -1)) // step
    elif found is torch.int64:
        count = math.ceil((torch.sym_int(end) - torch.sym_int(start)) / torch.sym_int(step))
    else:
        count = math.ceil((torch.sym_float(end) - torch.sym_float(start)) / torch.sym_float(step))
    return made((count,), found, device)


@rule("linspace", "logspace")
def linspace(
    start: Any, end: Any, steps: Size, *args: Any, dtype: torch.dtype | None = None, device: Any = None, **_: Any
) -> TensorMeta:
    """`steps` numbers between two."""
    found = dtype
    if found is None and any(isinstance(value, complex) for value in (start, end)):
        found = number_dtype(1j)
    return made((steps,), found, device)


@rule("eye", "eye.m")
def eye(
    n: Size, m: Size | None = None, *, dtype: torch.dtype | None = None, device: Any = None, **_: Any
) -> TensorMeta:
    """An identity matrix."""
    return made((n, n if m is None else m), dtype, device)


@rule("empty_like", "zeros_like", "ones_like", "rand_like", "randn_like")
def empty_like(
    self: TensorMeta,
    *,
    dtype: torch.dtype | None = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: bool | None = None,
    memory_format: torch.memory_format | None = None,
) -> TensorMeta:
    """A tensor of the same size and, unless told otherwise, format."""
    return like(self, dtype, None if device is None else torch.device(device), memory_format)


@rule("full_like")
def full_like(self: TensorMeta, fill_value: Any, **options: Any) -> TensorMeta:
    """The dtype is the input's, whatever the value."""
    return empty_like(self, **options)


@rule("randint_like")
def randint_like(self: TensorMeta, high: Size, **options: Any) -> TensorMeta:
    """Integers, in the input's dtype."""
    return empty_like(self, **options)


@rule("randint_like.low_dtype")
def randint_like_low(self: TensorMeta, low: Size, high: Size, **options: Any) -> TensorMeta:
    """Integers, in the input's dtype."""
    return empty_like(self, **options)


@rule("new_empty", "new_zeros", "new_ones")
def new_empty(
    self: TensorMeta, size: Sequence[Size], *, dtype: torch.dtype | None = None, device: Any = None, **_: Any
) -> TensorMeta:
    """A tensor of this size with the input's dtype and device."""
    return made(size, dtype or self.dtype, device or self.device)


@rule("new_full")
def new_full(self: TensorMeta, size: Sequence[Size], fill_value: Any, **options: Any) -> TensorMeta:
    """A filled tensor with the input's dtype and device."""
    return new_empty(self, size, **options)


@rule("new_empty_strided")
def new_empty_strided(self: TensorMeta, size: Sequence[Size], stride: Sequence[Size], **options: Any) -> TensorMeta:
    """A tensor with the strides given and the input's dtype and device."""
    return new_empty(self, size, **options)._replace(stride=tuple(stride))


@rule("bernoulli", "bernoulli.p", "_standard_gamma", "_sample_dirichlet", "poisson", "binomial")
def random_like(self: TensorMeta, *args: Any, **kwargs: Any) -> TensorMeta:
    """Random numbers in the input's size, row-major."""
    return fresh(self.size, self)


@rule("_standard_gamma_grad", "_dirichlet_grad")
def sample_gradient(self: TensorMeta, *others: TensorMeta) -> TensorMeta:
    """What a sample changes by with its distribution's parameters, row-major."""
    return fresh(self.size, self)


@rule("multinomial")
def multinomial(self: TensorMeta, num_samples: Size, replacement: bool = False, *, generator: Any = None) -> TensorMeta:
    """Indices of samples, one row a distribution."""
    size = (*self.size[:-1], num_samples)
    return TensorMeta(size, contiguous_strides(size), torch.int64, self.device)


@rule("normal.Tensor_float", "normal.Tensor_Tensor", "normal.float_Tensor")
def normal(*args: Any, generator: Any = None) -> TensorMeta:
    """Random numbers around means with deviations."""
    tensors = [value for value in args if isinstance(value, TensorMeta)]
    out = elementwise(tensors)
    return fresh(out.size, out)


@rule("normal.float_float")
def normal_numbers(
    mean: float,
    std: float,
    size: Sequence[Size],
    *,
    generator: Any = None,
    dtype: torch.dtype | None = None,
    device: Any = None,
    **_: Any,
) -> TensorMeta:
    """Random numbers of one distribution."""
    return made(size, dtype, device)


@rule("native_dropout")
def native_dropout(input: TensorMeta, p: float, train: bool | None) -> tuple[TensorMeta, TensorMeta]:
    """The input with zeros, and the mask (bool) of what was kept."""
    out = like(input)
    return out, out._replace(dtype=torch.bool)


@rule("native_dropout_backward")
def native_dropout_backward(grad_output: TensorMeta, mask: TensorMeta, scale: float) -> TensorMeta:
    """Elementwise over gradient, mask and scale; the CUDA kernel keeps no format but channels-last."""
    if grad_output.device.type == "cuda":
        stride = strides_for(grad_output.size, suggest_format(grad_output))
        return fresh(grad_output.size, grad_output, stride=stride)
    return elementwise([grad_output, mask, scale])


@rule("_fused_dropout")
def fused_dropout(self: TensorMeta, p: float, generator: Any = None) -> tuple[TensorMeta, TensorMeta]:
    """CUDA's dropout: the input with zeros, and the mask (uint8)."""
    out = like(self)
    return out, out._replace(dtype=torch.uint8)
