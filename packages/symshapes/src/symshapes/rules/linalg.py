"""Decompositions and solvers of linear algebra, as LAPACK leaves their results: matrices column by column.

On other devices they are other libraries' and their layouts differ: there torch's meta kernels answer (NotImplemented).
"""

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, TypeVar

import torch

from symshapes.facts import result_dtype
from symshapes.rules.layout import Size, TensorMeta, broadcast, contiguous_strides, fresh, same_shape, sure, wrap_dim
from symshapes.rules.pointwise import elementwise
from symshapes.rules.registry import rule

RuleT = TypeVar("RuleT", bound=Callable[..., Any])

_COMPLEX = {torch.float32: torch.complex64, torch.float64: torch.complex128}
_REAL = {complex_: real for real, complex_ in _COMPLEX.items()}


def _on_cpu(rule: RuleT) -> RuleT:
    """The rule where LAPACK computes."""

    @wraps(rule)
    def checked(self: TensorMeta, *args: Any, **kwargs: Any) -> Any:
        return rule(self, *args, **kwargs) if self.device.type == "cpu" else NotImplemented

    return checked  # type: ignore[return-value]


def columns(size: Sequence[Size], like: TensorMeta, dtype: torch.dtype | None = None) -> TensorMeta:
    """A batch of matrices, each column by column."""
    *batch, rows, width = size
    strides = contiguous_strides((*batch, width, rows))
    return fresh(size, like, dtype, stride=(*strides[:-2], strides[-1], strides[-2]))


def _matrix(self: TensorMeta, name: str) -> tuple[Size, Size]:
    if len(self.size) < 2:
        raise RuntimeError(f"{name}: The input tensor must have at least 2 dimensions.")
    return self.size[-2], self.size[-1]


def _square(self: TensorMeta, name: str) -> Size:
    rows, width = _matrix(self, name)
    if rows != width:
        raise RuntimeError(f"{name}: A must be batches of square matrices, but they are {rows} by {width} matrices")
    return rows


def _shorter(rows: Size, width: Size) -> Size:
    return rows if rows is width else torch.sym_min(rows, width)


def _codes(self: TensorMeta, batch: Sequence[Size]) -> TensorMeta:
    return fresh(batch, self, torch.int32)


def _empty(self: TensorMeta) -> TensorMeta:
    return fresh((0,), self)


@rule("linalg_cholesky_ex", "linalg_inv_ex")
@_on_cpu
def square_and_code(self: TensorMeta, *_: Any, **__: Any) -> tuple[TensorMeta, TensorMeta]:
    """A square matrix for each, and LAPACK's code."""
    _square(self, "linalg")
    return columns(self.size, self), _codes(self, self.size[:-2])


@rule("cholesky", "cholesky_inverse")
@_on_cpu
def square(self: TensorMeta, upper: bool = False) -> TensorMeta:
    """A square matrix for each."""
    _square(self, "cholesky")
    return columns(self.size, self)


@rule("cholesky_solve")
@_on_cpu
def cholesky_solve(self: TensorMeta, input2: TensorMeta, upper: bool = False) -> TensorMeta:
    """The solution of a factored system."""
    if _square(input2, "cholesky_solve") != self.size[-2]:
        raise RuntimeError(f"Incompatible matrix sizes for cholesky_solve: {list(input2.size)} and {list(self.size)}")
    batch = broadcast(self.size[:-2], input2.size[:-2])
    return columns((*batch, *self.size[-2:]), self)


@rule("linalg_lu_factor_ex")
@_on_cpu
def lu_factor(self: TensorMeta, *, pivot: bool = True, check_errors: bool = False) -> tuple[TensorMeta, ...]:
    """Both factors in one, the pivots, and LAPACK's code."""
    rows, width = _matrix(self, "linalg.lu_factor")
    batch = self.size[:-2]
    return columns(self.size, self), _codes(self, (*batch, _shorter(rows, width))), _codes(self, batch)


@rule("linalg_ldl_factor_ex")
@_on_cpu
def ldl_factor(self: TensorMeta, *, hermitian: bool = False, check_errors: bool = False) -> tuple[TensorMeta, ...]:
    """Both factors in one, the pivots, and LAPACK's code."""
    _square(self, "torch.linalg.ldl_factor_ex")
    return columns(self.size, self), _codes(self, self.size[:-1]), _codes(self, self.size[:-2])


@rule("_linalg_det")
@_on_cpu
def det(self: TensorMeta) -> tuple[TensorMeta, TensorMeta, TensorMeta]:
    """The determinant, and the factors it came from."""
    _square(self, "linalg.det")
    factors, pivots, _ = lu_factor(self)
    return fresh(self.size[:-2], self), factors, pivots


@rule("_linalg_slogdet")
@_on_cpu
def slogdet(self: TensorMeta) -> tuple[TensorMeta, ...]:
    """Sign and logarithm of the determinant, and the factors they came from."""
    sign, factors, pivots = det(self)
    return sign, sign._replace(dtype=_REAL.get(self.dtype, self.dtype)), factors, pivots


@rule("_linalg_solve_ex")
@_on_cpu
def solve(self: TensorMeta, B: TensorMeta, *, left: bool = True, check_errors: bool = False) -> tuple[TensorMeta, ...]:
    """The solution, and the factors it came from; the right side may be a vector for each matrix."""
    rows = _square(self, "linalg.solve")
    vector = len(B.size) == 1 or (len(B.size) == len(self.size) - 1 and same_shape(B.size, self.size[:-1]))
    right = (*B.size, 1) if vector else B.size
    if vector and not left:
        raise RuntimeError("linalg.solve: Vector broadcasting of the left hand side is not supported for left=False.")
    if right[-2 if left else -1] != rows:
        raise RuntimeError(
            f"linalg.solve: Incompatible shapes of A and B for the equation: {list(self.size)}, {list(B.size)}"
        )
    batch = broadcast(self.size[:-2], right[:-2])
    size = (*batch, *right[-2:])
    solution = columns(size, self) if left else fresh(size, self)
    if vector:
        solution = solution._replace(size=solution.size[:-1], stride=_vector_strides(batch, rows))
    factors = columns(self.size, self)
    return solution, factors, _codes(self, self.size[:-1]), _codes(self, self.size[:-2])


def _vector_strides(batch: Sequence[Size], rows: Size) -> tuple[Size, ...]:
    # What eager makes of it: the result is resized as if the last batch dimension were a column.
    return columns((*batch, rows), TensorMeta((), (), torch.float32, torch.device("cpu"))).stride if batch else (1,)


@rule("linalg_lu_solve")
@_on_cpu
def lu_solve(
    self: TensorMeta, pivots: TensorMeta, B: TensorMeta, *, left: bool = True, adjoint: bool = False
) -> TensorMeta:
    """The solution of a factored system."""
    if B.size[-2 if left else -1] != _square(self, "linalg.lu_solve"):
        raise RuntimeError(f"linalg.lu_solve: Incompatible shapes: {list(self.size)} and {list(B.size)}")
    size = (*broadcast(self.size[:-2], B.size[:-2]), *B.size[-2:])
    return columns(size, self) if left else fresh(size, self)


@rule("linalg_solve_triangular")
@_on_cpu
def solve_triangular(
    self: TensorMeta, B: TensorMeta, *, upper: bool, left: bool = True, unitriangular: bool = False
) -> TensorMeta:
    """The solution of a triangular system; the first argument is the matrix."""
    if B.size[-2 if left else -1] != _square(self, "linalg.solve_triangular"):
        raise RuntimeError(f"linalg.solve_triangular: Incompatible shapes: {list(self.size)} and {list(B.size)}")
    return columns((*broadcast(self.size[:-2], B.size[:-2]), *B.size[-2:]), self)


@rule("triangular_solve")
@_on_cpu
def triangular_solve(self: TensorMeta, A: TensorMeta, *_: bool, **__: bool) -> tuple[TensorMeta, TensorMeta]:
    """The solution of a triangular system, and a copy of the matrix; the first argument is the right side."""
    if self.size[-2] != _square(A, "triangular_solve"):
        raise RuntimeError(f"Incompatible matrix sizes for triangular_solve: {list(A.size)} and {list(self.size)}")
    batch = broadcast(self.size[:-2], A.size[:-2])
    return columns((*batch, *self.size[-2:]), self), columns((*batch, *A.size[-2:]), self)


@rule("_linalg_eigh")
@_on_cpu
def eigh(self: TensorMeta, UPLO: str = "L", compute_v: bool = True) -> tuple[TensorMeta, TensorMeta]:
    """Real eigenvalues, and eigenvectors where they are asked for."""
    _square(self, "linalg.eigh")
    values = fresh(self.size[:-1], self, _REAL.get(self.dtype, self.dtype))
    return values, columns(self.size, self) if compute_v else _empty(self)


@rule("linalg_eig")
@_on_cpu
def eig(self: TensorMeta) -> tuple[TensorMeta, TensorMeta]:
    """Complex eigenvalues and eigenvectors."""
    _square(self, "linalg.eig")
    dtype = _COMPLEX.get(self.dtype, self.dtype)
    return fresh(self.size[:-1], self, dtype), columns(self.size, self, dtype)


@rule("_linalg_eigvals", "linalg_eigvals")
@_on_cpu
def eigvals(self: TensorMeta) -> TensorMeta:
    """Complex eigenvalues."""
    return eig(self)[0]


@rule("_linalg_svd")
@_on_cpu
def svd(
    self: TensorMeta, full_matrices: bool = False, compute_uv: bool = True, *, driver: str | None = None
) -> tuple[TensorMeta, TensorMeta, TensorMeta]:
    """U, the singular values, and V transposed."""
    rows, width = _matrix(self, "linalg.svd")
    batch, count = self.size[:-2], _shorter(rows, width)
    values = fresh((*batch, count), self, _REAL.get(self.dtype, self.dtype))
    if not compute_uv:
        return _empty(self), values, _empty(self)
    left, right = (rows, width) if full_matrices else (count, count)
    return columns((*batch, rows, left), self), values, columns((*batch, right, width), self)


@rule("linalg_qr")
@_on_cpu
def qr(A: TensorMeta, mode: str = "reduced") -> tuple[TensorMeta, TensorMeta]:
    """An orthogonal matrix (none in mode "r") and a triangular one."""
    rows, width = _matrix(A, "linalg.qr")
    batch = A.size[:-2]
    between = rows if mode == "complete" else _shorter(rows, width)
    first = _empty(A) if mode == "r" else columns((*batch, rows, between), A)
    return first, columns((*batch, between, width), A)


@rule("geqrf")
@_on_cpu
def geqrf(self: TensorMeta) -> tuple[TensorMeta, TensorMeta]:
    """A QR decomposition as LAPACK keeps it."""
    rows, width = _matrix(self, "torch.geqrf")
    return columns(self.size, self), fresh((*self.size[:-2], _shorter(rows, width)), self)


@rule("linalg_householder_product")
@_on_cpu
def householder_product(input: TensorMeta, tau: TensorMeta) -> TensorMeta:
    """The first columns of a product of reflections."""
    return columns(input.size, input)


@rule("ormqr")
@_on_cpu
def ormqr(self: TensorMeta, input2: TensorMeta, input3: TensorMeta, *_: bool, **__: bool) -> TensorMeta:
    """A matrix times a product of reflections."""
    return columns(input3.size, input3)


@rule("linalg_matrix_exp")
def matrix_exp(self: TensorMeta) -> TensorMeta:
    """The exponential of square matrices, row by row."""
    _square(self, "linalg.matrix_exp")
    return fresh(self.size, self)


@rule("linalg_lu", "lu_unpack")
@_on_cpu
def lu(self: TensorMeta, *args: Any, pivot: bool = True, **__: Any) -> tuple[TensorMeta, ...]:
    """Permutation, lower and upper factor, row by row."""
    if not pivot or args[1:] or __:
        return NotImplemented
    rows, width = _matrix(self, "linalg.lu")
    batch, count = self.size[:-2], _shorter(rows, width)
    return fresh((*batch, rows, rows), self), fresh((*batch, rows, count), self), fresh((*batch, count, width), self)


@rule("linalg_cross")
def cross(self: TensorMeta, other: TensorMeta, *, dim: int = -1) -> TensorMeta:
    """The cross product along a dimension of length 3, row-major."""
    if len(self.size) != len(other.size):
        raise RuntimeError("linalg.cross: inputs must have the same number of dimensions.")
    size = broadcast(self.size, other.size)
    at = wrap_dim(dim, len(size))
    if self.size[at] != 3 or other.size[at] != 3:
        raise RuntimeError(
            f"linalg.cross: inputs dimension {dim} must have length 3. Got {self.size[at]} and {other.size[at]}"
        )
    return fresh(size, self, result_dtype([self, other]))


@rule("linalg_pinv.atol_rtol_tensor")
def pinv(self: TensorMeta, **_: Any) -> TensorMeta:
    """The pseudoinverse, row by row."""
    rows, width = _matrix(self, "linalg.pinv")
    return fresh((*self.size[:-2], width, rows), self)


@rule("_linalg_check_errors")
def check_errors(info: TensorMeta, api_name: str, *, is_matrix: bool) -> None:
    """A check of data: nothing comes back."""


@rule("_cdist_forward", "_euclidean_dist")
def cdist(x1: TensorMeta, x2: TensorMeta, p: float = 2.0, compute_mode: int | None = None) -> TensorMeta:
    """The distance of each row of one matrix to each of another."""
    if x1.size[-1] != x2.size[-1]:
        raise RuntimeError(f"X1 and X2 must have the same number of columns. X1: {x1.size[-1]} X2: {x2.size[-1]}")
    batch = broadcast(x1.size[:-2], x2.size[:-2])
    return fresh((*batch, x1.size[-2], x2.size[-2]), x1)


@rule("_cdist_backward")
def cdist_backward(grad: TensorMeta, x1: TensorMeta, x2: TensorMeta, p: float, cdist: TensorMeta) -> TensorMeta:
    """The gradient of the first matrices, before batch dimensions that were repeated are summed; of nothing zeros like them."""
    batch = broadcast(x1.size[:-2], x2.size[:-2])
    if any(sure(size == 0) for size in (*batch, *x1.size[-2:], x2.size[-2])):
        return fresh(x1.size, x1)
    return fresh((*batch, *x1.size[-2:]), x1)


@rule("_pdist_forward")
def pdist(self: TensorMeta, p: float = 2.0) -> TensorMeta:
    """The distances between the rows of a matrix."""
    rows = self.size[0]
    return fresh((rows * (rows - 1) // 2,), self)


@rule("_pdist_backward")
def pdist_backward(grad: TensorMeta, self: TensorMeta, p: float, pdist: TensorMeta) -> TensorMeta:
    """The gradient of the matrix."""
    return fresh(self.size, self)


@rule("renorm")
def renorm(self: TensorMeta, p: Any, dim: int, maxnorm: Any) -> TensorMeta:
    """Parts scaled down to a norm, row-major."""
    return fresh(self.size, self)


@rule("frexp.Tensor")
def frexp(self: TensorMeta) -> tuple[TensorMeta, TensorMeta]:
    """Mantissas, and exponents as int32."""
    out = elementwise([self])
    return out, out._replace(dtype=torch.int32)
