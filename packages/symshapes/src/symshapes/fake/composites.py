"""Composite ops whose C++ works with plain ints only (up to torch 2.12), written again for symbolic sizes.

They take the same way as the C++: the same ops run, in the same order, wherever that does not hang on a size's value.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from symshapes.rules.layout import broadcast, is_contiguous


def matmul(input: Tensor, other: Tensor) -> Tensor:
    """`torch.matmul` for any ranks. Raises RuntimeError where a factor is 0-d or sizes do not fit."""
    first, second = input.dim(), other.dim()
    if first == 0 or second == 0:
        raise RuntimeError(f"both arguments to matmul need to be at least 1D, but they are {first}D and {second}D")
    if first == 1:
        if second == 1:
            return torch.dot(input, other)
        return matmul(input.unsqueeze(0), other).squeeze(-2)
    if second == 1:
        if first == 2:
            return torch.mv(input, other)
        return matmul(input, other.unsqueeze(-1)).squeeze(-1)
    if first == 2 and second == 2:
        return torch.mm(input, other)
    if _folds(input, other):
        rows = input.reshape(-1, input.shape[-1]).mm(other)
        return torch.ops.aten._unsafe_view.default(rows, [*input.shape[:-1], other.shape[-1]])
    if _folds(other.mT, input.mT):
        columns = other.mT
        rows = columns.reshape(-1, columns.shape[-1]).mm(input.mT)
        return rows.view([*columns.shape[:-1], input.shape[-2]]).mT
    batch = broadcast(tuple(input.shape[:-2]), tuple(other.shape[:-2]))
    n, k, m = input.shape[-2], input.shape[-1], other.shape[-1]
    left = input.expand(*batch, n, k).reshape(-1, n, k)
    right = other.expand(*batch, other.shape[-2], m).reshape(-1, other.shape[-2], m)
    return torch.ops.aten._unsafe_view.default(torch.bmm(left, right), [*batch, n, m])


def _folds(many: Tensor, matrix: Tensor) -> bool:
    """Whether the batch dimensions of the left factor go into its rows, to make one matrix product of it."""
    if many.dim() < 3 or matrix.dim() != 2:
        return False
    if matrix.requires_grad:
        return True  # one gradient of the matrix, not one a batch
    size, stride = many.shape, many.stride()
    return all(_known(stride[dim] == stride[dim + 1] * size[dim + 1]) for dim in range(many.dim() - 2))


def _known(condition: Any) -> bool:
    """A comparison's outcome without leaving a guard; False where it hangs on the sizes."""
    return bool(condition.node.statically_known_true()) if isinstance(condition, torch.SymBool) else bool(condition)


def linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """`torch.nn.functional.linear`."""
    if input.dim() == 2 and bias is not None:
        return torch.addmm(bias, input, weight.t())
    if input.dim() > 2 and bias is not None and is_contiguous(input.shape, input.stride()):
        rows = torch.addmm(bias, input.reshape(-1, input.shape[-1]), weight.t())
        return rows.view([*input.shape[:-1], weight.shape[0]])
    out = matmul(input, weight.t())
    return out if bias is None else out.add_(bias)


COMPOSITES: dict[Any, Callable[..., Tensor]] = {
    torch.matmul: matmul,
    torch.Tensor.matmul: matmul,
    torch.Tensor.__matmul__: matmul,
    torch.Tensor.__rmatmul__: lambda right, left: matmul(left, right),
    torch.linalg.matmul: matmul,
    torch.nn.functional.linear: linear,
}
