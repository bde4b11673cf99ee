"""Matrix products."""

from collections.abc import Sequence
from typing import Any

import torch

from symshapes.facts import common_device, opmath_dtype
from symshapes.rules.copies import like
from symshapes.rules.layout import CONJ, TensorMeta, broadcast, demand, fresh, same_shape
from symshapes.rules.pointwise import elementwise
from symshapes.rules.registry import rule


def _check(condition: Any, message: str) -> None:
    demand(condition, lambda: RuntimeError(message))


def _same_dtype(first: TensorMeta, second: TensorMeta) -> None:
    if first.dtype is not second.dtype:
        raise RuntimeError(f"expected m1 and m2 to have the same dtype, but got: {first.dtype} != {second.dtype}")
    common_device([first, second])


@rule("mm")
def mm(self: TensorMeta, mat2: TensorMeta) -> TensorMeta:
    """(n, k) @ (k, m) -> (n, m)."""
    _check(len(self.size) == 2, "self must be a matrix")
    _check(len(mat2.size) == 2, "mat2 must be a matrix")
    _same_dtype(self, mat2)
    _check(
        self.size[1] == mat2.size[0],
        f"mat1 and mat2 shapes cannot be multiplied ({self.size[0]}x{self.size[1]} and {mat2.size[0]}x{mat2.size[1]})",
    )
    return fresh((self.size[0], mat2.size[1]), self)


@rule("mm.dtype")
def mm_dtype(self: TensorMeta, mat2: TensorMeta, out_dtype: torch.dtype) -> TensorMeta:
    """`mm` into a wider dtype."""
    return mm(self, mat2)._replace(dtype=out_dtype)


@rule("addmm", "_addmm_activation")
def addmm(self: TensorMeta, mat1: TensorMeta, mat2: TensorMeta, **_: Any) -> TensorMeta:
    """A matrix product plus something that broadcasts to it."""
    out = mm(mat1, mat2)
    _fits(self, out)
    _same_dtype(self, mat2) if self.size else None
    return out._replace(dtype=self.dtype)


def _fits(self: TensorMeta, out: TensorMeta) -> None:
    if not same_shape(broadcast(self.size, out.size), out.size):
        raise RuntimeError(f"The expanded size of the tensor {list(out.size)} must match {list(self.size)}")


@rule("bmm")
def bmm(self: TensorMeta, mat2: TensorMeta) -> TensorMeta:
    """(b, n, k) @ (b, k, m) -> (b, n, m)."""
    _check(len(self.size) == 3, "batch1 must be a 3D tensor")
    _check(len(mat2.size) == 3, "batch2 must be a 3D tensor")
    _same_dtype(self, mat2)
    batch, rows, inner = self.size
    for same in (mat2.size[0] == batch, mat2.size[1] == inner):
        _check(
            same,
            f"Expected size for first two dimensions of batch2 tensor to be: [{batch}, {inner}] but got: "
            f"[{mat2.size[0]}, {mat2.size[1]}].",
        )
    return fresh((batch, rows, mat2.size[2]), self)


@rule("bmm.dtype")
def bmm_dtype(self: TensorMeta, mat2: TensorMeta, out_dtype: torch.dtype) -> TensorMeta:
    """`bmm` into a wider dtype."""
    return bmm(self, mat2)._replace(dtype=out_dtype)


@rule("baddbmm")
def baddbmm(self: TensorMeta, batch1: TensorMeta, batch2: TensorMeta, **_: Any) -> TensorMeta:
    """Batched products plus something that broadcasts to them."""
    out = bmm(batch1, batch2)
    _fits(self, out)
    return out


@rule("addbmm")
def addbmm(self: TensorMeta, batch1: TensorMeta, batch2: TensorMeta, **_: Any) -> TensorMeta:
    """The sum of batched products plus something that broadcasts to it."""
    return fresh(bmm(batch1, batch2).size[1:], batch1)


@rule("mv")
def mv(self: TensorMeta, vec: TensorMeta) -> TensorMeta:
    """(n, k) @ (k) -> (n)."""
    _same_dtype(self, vec)
    _check(
        len(self.size) == 2 and len(vec.size) == 1,
        f"vector + matrix @ vector expected, got {len(self.size)}, {len(vec.size)}",
    )
    _check(
        self.size[1] == vec.size[0],
        f"size mismatch, got input ({self.size[0]}), mat ({self.size[0]}x{self.size[1]}), vec ({vec.size[0]})",
    )
    return fresh((self.size[0],), self)


@rule("addmv")
def addmv(self: TensorMeta, mat: TensorMeta, vec: TensorMeta, **_: Any) -> TensorMeta:
    """A matrix-vector product plus something that broadcasts to it."""
    return mv(mat, vec)


@rule("addr")
def addr(self: TensorMeta, vec1: TensorMeta, vec2: TensorMeta, **_: Any) -> TensorMeta:
    """An outer product plus something that broadcasts to it."""
    column = TensorMeta((vec1.size[0], 1), (vec1.stride[0], 0), vec1.dtype, vec1.device)
    return elementwise([self, column, vec2])


@rule("vdot")
def vdot(self: TensorMeta, other: TensorMeta) -> TensorMeta:
    """`dot` with the first vector conjugated; of a lazily conjugated second one the result is conjugated lazily."""
    return dot(self, other)._replace(flags=CONJ & other.flags & ~self.flags)


@rule("dot")
def dot(self: TensorMeta, tensor: TensorMeta) -> TensorMeta:
    """(n) . (n) -> a number."""
    _check(
        len(self.size) == 1 and len(tensor.size) == 1,
        f"1D tensors expected, but got {len(self.size)}D and {len(tensor.size)}D tensors",
    )
    if self.dtype is not tensor.dtype:
        raise RuntimeError(f"dot : expected both vectors to have same dtype, but found {self.dtype} and {tensor.dtype}")
    common_device([self, tensor])
    _check(
        self.size[0] == tensor.size[0],
        f"inconsistent tensor size, expected tensor [{self.size[0]}] and src [{tensor.size[0]}] to have the same number "
        "of elements",
    )
    return fresh((), self)._replace(flags=CONJ & self.flags & tensor.flags)


@rule("linear")
def linear(input: TensorMeta, weight: TensorMeta, bias: TensorMeta | None = None) -> TensorMeta:
    """(..., k) @ (m, k)^T -> (..., m)."""
    _same_dtype(input, weight)
    _check(
        input.size[-1] == weight.size[-1],
        f"mat1 and mat2 shapes cannot be multiplied ({list(input.size)} and {list(weight.size[::-1])})",
    )
    return fresh((*input.size[:-1], *weight.size[:-1]), input)


@rule("_weight_norm_interface")
def weight_norm(v: TensorMeta, g: TensorMeta, dim: int = 0) -> tuple[TensorMeta, TensorMeta]:
    """A weight of a given norm, and the norms it had, which halves are too coarse for."""
    return like(v), fresh(g.size, g, dtype=opmath_dtype(g.dtype), stride=g.stride)


@rule("_trilinear")
def trilinear(
    i1: TensorMeta,
    i2: TensorMeta,
    i3: TensorMeta,
    expand1: Sequence[int],
    expand2: Sequence[int],
    expand3: Sequence[int],
    sumdim: Sequence[int],
    unroll_dim: int = 1,
) -> TensorMeta:
    """The product of three tensors with new dimensions where they are expanded, summed over dimensions."""
    sizes = []
    for meta, expanded in ((i1, expand1), (i2, expand2), (i3, expand3)):
        size = list(meta.size)
        for dim in sorted(expanded):
            size.insert(dim, 1)
        sizes.append(size)
    out = broadcast(*sizes)
    return fresh([length for dim, length in enumerate(out) if dim not in sumdim], i1)
