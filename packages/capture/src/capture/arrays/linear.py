"""NumPy's products, what of its linear algebra has one right result, and its Fourier transforms."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from symshapes import require

from .dtypes import CPU, common
from .elementwise import apply
from .reductions import axes_of, sum_
from .table import Array, Gives, stands_for

Tensor = torch.Tensor


def _pair(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    to = common(a, b)
    if to is torch.bool:
        raise NotImplementedError("products of truths")
    return a.to(to), b.to(to)


def _multiplied(function: Callable[[Tensor, Tensor], Tensor], a: Tensor, b: Tensor) -> Tensor:
    """A product of operands of one dtype, in single precision where that is half."""
    a, b = _pair(a, b)
    return function(a.float(), b.float()).to(a.dtype) if a.dtype is torch.float16 else function(a, b)


@stands_for("dot", method="dot")
def dot(a: Array, b: Array) -> Any:
    """``np.dot``: the last dimension of one with the last but one of the other."""
    if not a.dim() or not b.dim():
        return apply("multiply", a, b)
    if b.dim() <= 2:
        return _multiplied(torch.matmul, a, b)
    return _multiplied(lambda x, y: torch.tensordot(x, y, ([-1], [b.dim() - 2])), a, b)


@stands_for("vdot")
def vdot(a: Array, b: Array) -> Any:
    """``np.vdot``."""
    if a.dtype is torch.bool:
        raise NotImplementedError("products of truths")
    return _multiplied(torch.matmul, apply("conjugate", a).reshape(-1), b.reshape(-1))


@stands_for("inner")
def inner(a: Array, b: Array) -> Any:
    """``np.inner``."""
    return apply("multiply", a, b) if not a.dim() or not b.dim() else _multiplied(torch.inner, a, b)


@stands_for("outer", gives=Gives.ARRAY)
def outer(a: Array, b: Array) -> Any:
    """``np.outer``."""
    return apply("multiply", a.reshape(-1, 1), b.reshape(1, -1))


@stands_for("tensordot", gives=Gives.ARRAY)
def tensordot(a: Array, b: Array, axes: Any = 2) -> Tensor:
    """``np.tensordot``."""
    if not isinstance(axes, int):
        axes = [[each] if isinstance(each, int) else list(each) for each in axes]
    return _multiplied(lambda x, y: torch.tensordot(x, y, axes), a, b)


@stands_for("einsum")
def einsum(subscripts: str, *operands: Array) -> Tensor:
    """``np.einsum`` by letters."""
    if not isinstance(subscripts, str) or len(operands) < 2:
        raise NotImplementedError("np.einsum by numbers, or of one array")
    to = common(*operands)
    if to in (torch.bool, torch.float16):
        raise NotImplementedError(f"np.einsum of {to}")
    found = torch.einsum(subscripts.replace(" ", ""), *(each.to(to) for each in operands))
    return found


@stands_for("kron", gives=Gives.ARRAY)
def kron(a: Array, b: Array) -> Tensor:
    """``np.kron``."""
    return torch.kron(*(each.contiguous() for each in _pair(a, b)))


# Linear algebra


def _floating(a: Tensor) -> Tensor:
    if a.dtype is torch.float16:
        raise TypeError("array type float16 is unsupported in linalg")
    return a if a.dtype.is_floating_point or a.dtype.is_complex else a.double()


@stands_for("linalg.norm")
def norm(x: Array, ord: Any = None, axis: int | Sequence[int] | None = None, keepdims: bool = False) -> Tensor:
    """``np.linalg.norm`` of vectors, and of matrices by their elements."""
    wide = (
        x.float() if x.dtype is torch.float16 else x if x.dtype.is_floating_point or x.dtype.is_complex else x.double()
    )
    to = torch.float16 if x.dtype is torch.float16 else None
    if axis is None and ord is None:
        found = torch.linalg.vector_norm(wide)
        found = found.reshape([1] * x.dim()) if keepdims else found
    else:
        axes = axes_of(x, axis)
        if len(axes) > 2 or (len(axes) == 2 and ord not in (None, "fro")):
            raise NotImplementedError("norms of matrices but that of their elements")
        if isinstance(ord, str) and len(axes) == 1:
            raise ValueError(f"Invalid norm order {ord!r} for vectors")
        found = torch.linalg.vector_norm(wide, 2 if ord in (None, "fro") else ord, axes, keepdims)
    return found if to is None else found.to(to)


@stands_for("linalg.det")
def det(a: Array) -> Tensor:
    """``np.linalg.det``."""
    return torch.linalg.det(_floating(a))


def _told(info: Tensor, message: str) -> None:
    """Have NumPy's error raised where LAPACK tells of one."""
    require((info == 0).all().item(), message, "LinAlgError", "")


@stands_for("linalg.inv", gives=Gives.ARRAY)
def inv(a: Array) -> Tensor:
    """``np.linalg.inv``."""
    found, info = torch.linalg.inv_ex(_floating(a))
    _told(info, "Singular matrix")
    return found


@stands_for("linalg.solve", gives=Gives.ARRAY)
def solve(a: Array, b: Array) -> Tensor:
    """``np.linalg.solve``: of one dimension, the second is a vector."""
    to = common(_floating(a), _floating(b))
    column = b.dim() == 1
    found, info = torch.linalg.solve_ex(a.to(to), (b.unsqueeze(-1) if column else b).to(to))
    _told(info, "Singular matrix")
    return found.squeeze(-1) if column else found


@stands_for("linalg.cholesky", gives=Gives.ARRAY)
def cholesky(a: Array, *, upper: bool = False) -> Tensor:
    """``np.linalg.cholesky``."""
    found, info = torch.linalg.cholesky_ex(_floating(a), upper=upper)
    _told(info, "Matrix is not positive definite")
    return found


@stands_for("linalg.eigvalsh", gives=Gives.ARRAY)
def eigvalsh(a: Array, UPLO: str = "L") -> Tensor:
    """``np.linalg.eigvalsh``."""
    return torch.linalg.eigvalsh(_floating(a), UPLO=UPLO.upper())


@stands_for("linalg.svdvals", gives=Gives.ARRAY)
def svdvals(x: Array) -> Tensor:
    """``np.linalg.svdvals``."""
    return torch.linalg.svdvals(_floating(x))


@stands_for("linalg.matrix_power", gives=Gives.ARRAY)
def matrix_power(a: Array, n: int) -> Tensor:
    """``np.linalg.matrix_power``, not of the inverse."""
    if n < 0 or a.dtype in (torch.bool, torch.float16):
        raise NotImplementedError("powers of a matrix's inverse, or in half precision")
    return a if n == 1 else torch.linalg.matrix_power(a, n).clone()


@stands_for("cov", gives=Gives.ARRAY)
def cov(m: Array) -> Any:
    """``np.cov`` of variables in rows."""
    if m.dim() != 2 or m.dtype.is_complex or m.dtype is torch.float16:
        raise NotImplementedError("np.cov but of real numbers in two dimensions")
    x = m.double()
    x = x - x.mean(1, keepdim=True)
    return x @ x.T / max(m.shape[1] - 1, 0) if isinstance(m.shape[1], int) and m.shape[1] > 1 else _none()


def _none() -> Tensor:
    raise NotImplementedError("np.cov of single observations")


@stands_for("convolve", gives=Gives.ARRAY)
def convolve(a: Array, v: Array, mode: str = "full") -> Tensor:
    """``np.convolve``."""
    if mode not in ("full", "same", "valid") or a.dim() != 1 or v.dim() != 1:
        raise NotImplementedError("np.convolve of several dimensions")
    n, k = a.shape[0], v.shape[0]
    if not isinstance(n, int) or not isinstance(k, int) or not n or not k:
        raise NotImplementedError("np.convolve of elements whose number may vary")
    if k > n:
        a, v, n, k = v, a, k, n
    a, v = _pair(a, v)
    if a.dtype is torch.float16:
        raise NotImplementedError("np.convolve in half precision")
    beside = torch.zeros(k - 1, dtype=a.dtype, device=CPU)
    found = torch.cat([beside, a, beside]).unfold(0, k, 1) * v.flip(0)
    found = sum_(found, 1, found.dtype)
    if mode == "full":
        return found
    return found.narrow(0, (k - 1) // 2, n) if mode == "same" else found.narrow(0, k - 1, n - k + 1)


# Fourier transforms


def _transform(name: str) -> Callable[..., Tensor]:
    function = getattr(torch.fft, name)

    def transform(a: Array, n: int | None = None, axis: int = -1, norm: str | None = None) -> Tensor:
        if a.dtype is torch.float16:
            raise NotImplementedError("a Fourier transform in half precision")
        if a.dtype.is_complex and name in ("rfft", "ihfft"):
            raise TypeError("complex numbers, of which there is no real transform")
        found: Tensor = function(_floating(a), n, axis, norm)
        return found.resolve_conj()

    transform.__name__ = transform.__qualname__ = f"_{name}"
    return transform


def _transform_of_several(name: str) -> Callable[..., Tensor]:
    function = getattr(torch.fft, name)

    def transform(a: Array, s: Any = None, axes: Any = None, norm: str | None = None) -> Tensor:
        if a.dtype is torch.float16 or s is not None:
            raise NotImplementedError("a Fourier transform in half precision, or of other sizes")
        if name.endswith("2"):
            axes = (-2, -1) if axes is None else axes
        found: Tensor = function(_floating(a), None, axes, norm)
        return found.resolve_conj()

    transform.__name__ = transform.__qualname__ = f"_{name}"
    return transform


for _make, _names in (
    (_transform, ("fft", "ifft", "rfft", "irfft")),
    (_transform_of_several, ("fft2", "ifft2", "fftn", "ifftn")),
):
    for _name in _names:
        globals()[f"_{_name}"] = stands_for(f"fft.{_name}", gives=Gives.ARRAY)(_make(_name))
