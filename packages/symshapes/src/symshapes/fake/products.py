"""Products of matrices for symbolic sizes, by the ops that torch's C++ takes, which works with plain ints in some releases.

In: fakes of any ranks. Out: calls of `mm`, `addmm`, `bmm` and views, as the C++ would make them.
"""

from typing import Any

import torch
from torch import Tensor

from symshapes.expr.symbols import expr_of, is_unbacked
from symshapes.facts.layout import lies_in_order
from symshapes.rules.layout import broadcast, is_contiguous, numel
from symshapes.rules.views import infer_size


def matmul(input: Tensor, other: Tensor) -> Tensor:
    """`torch.matmul` for any ranks. Raises RuntimeError where a factor is 0-d or sizes do not fit."""
    first, second = input.dim(), other.dim()
    if first == 0 or second == 0:
        raise RuntimeError(f"both arguments to matmul need to be at least 1D, but they are {first}D and {second}D")
    if first == 1 and second == 1:
        return torch.dot(input, other)
    if first == 2 and second == 1:
        return torch.mv(input, other)
    if first == 1 and second == 2:
        return input.unsqueeze(0).mm(other).squeeze(0)
    if first == 2 and second == 2:
        return torch.mm(input, other)
    if _folds(input, other):
        return _folded(input, other)
    matrix = input.t() if first == 2 else input
    if _folds(other.mT, matrix):
        product = _folded(other.mT, matrix)
        return product.mT.contiguous() if first == 2 else product
    if first == 1:
        return matmul(input.unsqueeze(0), other).squeeze(-2)
    if second == 1:
        return matmul(input, other.unsqueeze(-1)).squeeze(-1)
    batch = broadcast(tuple(input.shape[:-2]), tuple(other.shape[:-2]))
    n, k, m = input.shape[-2], input.shape[-1], other.shape[-1]
    left = reshape(input.expand(*batch, n, k), -1, n, k)
    right = reshape(other.expand(*batch, other.shape[-2], m), -1, other.shape[-2], m)
    return torch.ops.aten._unsafe_view.default(torch.bmm(left, right), [*batch, n, m])


def reshape(input: Tensor, *shape: Any, **named: Any) -> Tensor:
    """`torch.reshape`: a view of what lies in order, as the C++ finds out by a hundred questions."""
    if named or not shape or isinstance(shape[0], torch.dtype):
        return torch.Tensor.reshape(input, *shape, **named)
    if lies_in_order(input.shape, input.stride()):
        return input.view(*shape)
    mode = getattr(input, "fake_mode", None)
    env = mode and mode.shape_env
    sizes = tuple(shape[0]) if isinstance(shape[0], (list, tuple)) else shape
    if mode is None or env is None or env.has_open or env.has_unbacked:
        if any(map(is_unbacked, sizes)):  # the C++ takes none for -1
            sizes = infer_size(sizes, numel(tuple(input.shape)))
        return torch.Tensor.reshape(input, sizes)
    return _reshaped(input, sizes, mode.reshaped)


def _reshaped(input: Tensor, shape: tuple[Any, ...], known: dict[Any, tuple[bool, tuple[Any, ...]]]) -> Tensor:
    """`torch.reshape`, by what was found for equal sizes and strides before: every answer was that of the hints."""
    key = tuple(tuple(map(expr_of, numbers)) for numbers in (input.shape, input.stride(), shape))
    found = known.get(key)
    if found is None:
        result = torch.Tensor.reshape(input, *shape)
        known[key] = result.storage_key is input.storage_key, tuple(result.shape)  # type: ignore[attr-defined]
        return result
    is_view, shape = found
    if is_view:
        return input.view(shape)
    return torch.ops.aten._unsafe_view.default(input.clone(memory_format=torch.contiguous_format), shape)


def _folded(many: Tensor, matrix: Tensor) -> Tensor:
    """The product with the batch dimensions of `many` in its rows; `matrix` may be a vector."""
    rows = reshape(many, -1, many.shape[-1])
    product = rows.mm(matrix) if matrix.dim() == 2 else rows.mv(matrix)
    return torch.ops.aten._unsafe_view.default(product, [*many.shape[:-1], *matrix.shape[1:]])


def _folds(many: Tensor, matrix: Tensor) -> bool:
    """Whether the batch dimensions of the left factor go into its rows, to make one matrix product of it."""
    if many.dim() < 3 or matrix.dim() > 2:
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
        rows = torch.addmm(bias, reshape(input, -1, input.shape[-1]), weight.t())
        return rows.view([*input.shape[:-1], weight.shape[0]])
    out = matmul(input, weight.t())
    return out if bias is None else out.add_(bias)
