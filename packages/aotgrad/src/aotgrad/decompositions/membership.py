"""Whether elements are among others, or all equal to others: as in eager's kernel for few others, each is compared with each."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from aotgrad.decompositions.layout import contiguous, has_no_elements
from aotgrad.decompositions.registry import decomposition
from symshapes import FakeTensor, same_sizes

aten = torch.ops.aten

FEW = 32
"""Elements to compare with. Eager's kernel sorts them when they are more than ten times the 0.145th power of what is asked about, 27
for a thousand."""


@decomposition(aten.isin.Tensor_Tensor)
def isin(elements: Tensor, test_elements: Tensor, *, assume_unique: bool = False, invert: bool = False) -> Tensor:
    """Whether each element equals one of `test_elements`, or with `invert` none. Not of many."""
    count = test_elements.numel()
    if (
        type(count) is not int
        or not 0 < count <= FEW
        or has_no_elements(elements)
        or _is_mixed(elements, test_elements)
    ):
        return NotImplemented
    others = aten.view.default(contiguous(test_elements), [count])
    found = aten.any.dim(aten.unsqueeze.default(elements, -1) == others, -1)
    return contiguous(aten.logical_not.default(found) if invert else found)


@decomposition(aten.isin.Tensor_Scalar)
def isin_scalar(elements: Tensor, test_element: Any, *, assume_unique: bool = False, invert: bool = False) -> Tensor:
    """Whether each element equals a number, or with `invert` does not."""
    if has_no_elements(elements) or (isinstance(test_element, float) and not elements.is_floating_point()):
        return NotImplemented
    return contiguous(elements != test_element if invert else elements == test_element)


@decomposition(aten.equal.default)
def equal(self: Tensor, other: Tensor) -> Any:
    """Whether all elements are equal, as a number that is in data. Not of one memory, whose elements the kernel does not look at."""
    alike = self.dtype == other.dtype and self.device == other.device and same_sizes(self, other)
    if not alike or _shares(self, other):
        return NotImplemented
    return aten._local_scalar_dense.default(aten.all.default(self == other))


def _shares(one: Tensor, other: Tensor) -> bool:
    if isinstance(one, FakeTensor) and isinstance(other, FakeTensor):
        return one.storage_key is other.storage_key
    return one is other


def _is_mixed(elements: Tensor, others: Tensor) -> bool:
    kinds = elements.is_complex() or elements.dtype is torch.bool  # the kernel has none for these
    return kinds or elements.dtype != others.dtype or elements.device != others.device
