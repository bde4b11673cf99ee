"""NumPy's functions by torch's operations: values, dtypes, sizes and shared memory against NumPy's, of arrays of all dtypes."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from capture.arrays import arrangement, creation, linear, reductions, searching
from capture.arrays.table import FUNCTIONS, METHODS

from .drawn import arrays, near

TABLES = (arrangement, creation, linear, reductions, searching)
Call = Callable[..., Any]
ARRAY = [(3, 4)]
VECTOR = [(5,)]
CUBE = [(2, 3, 2)]
SQUARE = [(3, 3)]
PAIR = [(3, 4), (3, 4)]
VECTORS = [(5,), (3,)]
AXES: list[Call] = [
    lambda f, a: f(a),
    lambda f, a: f(a, 1),
    lambda f, a: f(a, axis=-2),
    lambda f, a: f(a, 0, keepdims=True),
]
SEVERAL: list[Call] = [*AXES, lambda f, a: f(a, (0, 1)), lambda f, a: f(a, (1,), keepdims=True)]
SUMS: list[Call] = [*SEVERAL, lambda f, a: f(a, dtype=np.float64), lambda f, a: f(a, 0, dtype=np.int32)]


def row(shapes: list[tuple[int, ...]], *calls: Call, special: bool = False) -> Any:
    return shapes, calls, special


#: By function: the shapes of its arrays, and calls of it.
CALLS: dict[str, list[Any]] = {
    "sum": [row(ARRAY, *SUMS), row(CUBE, lambda f, a: f(a, (0, 2)), lambda f, a: f(a, ())), row([()], lambda f, a: f(a))],
    "prod": [row(ARRAY, *SUMS), row(CUBE, lambda f, a: f(a, (0, 2), keepdims=True)), row([()], lambda f, a: f(a))],
    "mean": [row(ARRAY, *SUMS), row([()], lambda f, a: f(a))],
    **{name: [row(ARRAY, *SEVERAL, lambda f, a: f(a, ddof=1)), row(CUBE, lambda f, a: f(a, (0, 2)))] for name in ("var", "std")},
    **{
        name: [row(ARRAY, *SEVERAL, special=True), row([()], lambda f, a: f(a))]
        for name in ("max", "min", "amax", "amin", "any", "all")
    },
    "ptp": [row(ARRAY, *SEVERAL)],
    "argmax": [row(ARRAY, *AXES, special=True)],
    "argmin": [row(ARRAY, *AXES, special=True)],
    **{name: [row(ARRAY, lambda f, a: f(a), lambda f, a: f(a, 0), lambda f, a: f(a, 1, np.float64))] for name in ("cumsum", "cumprod")},
    "nansum": [row(ARRAY, *SEVERAL)],
    "nanmean": [row(ARRAY, *SEVERAL)],
    "median": [row(ARRAY, *AXES), row(CUBE, lambda f, a: f(a, (0, 2)))],
    "quantile": [row(ARRAY, lambda f, a: f(a, 0.3), lambda f, a: f(a, 0.9, 1), lambda f, a: f(a, 1.0, axis=0, keepdims=True))],
    "percentile": [row(ARRAY, lambda f, a: f(a, 50), lambda f, a: f(a, 12.5, axis=1))],
    "average": [row(ARRAY, *SEVERAL)],
    "count_nonzero": [row(ARRAY, lambda f, a: f(a))],
    "allclose": [row(PAIR, lambda f, a, b: f(a, b), lambda f, a, b: f(a, a, equal_nan=True), special=True)],
    "isclose": [row(PAIR, lambda f, a, b: f(a, b), lambda f, a, b: f(a, 1), lambda f, a, b: f(a, b, atol=1), special=True)],
    "array_equal": [row(PAIR, lambda f, a, b: f(a, b), lambda f, a, b: f(a, a), special=True)],
    "reshape": [row(ARRAY, lambda f, a: f(a, -1), lambda f, a: f(a, (2, 6)), lambda f, a: f(a, (4, 3)))],
    "ravel": [row(ARRAY, lambda f, a: f(a))],
    "flatten": [row(ARRAY, lambda f, a: f(a))],
    "transpose": [row(CUBE, lambda f, a: f(a), lambda f, a: f(a, (1, 2, 0)))],
    "permute_dims": [row(CUBE, lambda f, a: f(a))],
    "matrix_transpose": [row(CUBE, lambda f, a: f(a))],
    "swapaxes": [row(CUBE, lambda f, a: f(a, 0, -1))],
    "moveaxis": [row(CUBE, lambda f, a: f(a, 0, -1), lambda f, a: f(a, (0, 1), (1, 2)))],
    "expand_dims": [row(ARRAY, lambda f, a: f(a, 0), lambda f, a: f(a, (0, -1)), lambda f, a: f(a, -1))],
    "squeeze": [row([(1, 3, 1)], lambda f, a: f(a), lambda f, a: f(a, 0)), row(ARRAY, lambda f, a: f(a), lambda f, a: f(a, 0))],
    "broadcast_to": [row(VECTOR, lambda f, a: f(a, (2, 5)))],
    "diagonal": [row(ARRAY, lambda f, a: f(a), lambda f, a: f(a, 1)), row(CUBE, lambda f, a: f(a, 0, 1, 2))],
    "trace": [row(ARRAY, lambda f, a: f(a), lambda f, a: f(a, 1)), row(CUBE, lambda f, a: f(a, 0, 1, 2))],
    **{name: [row(s, lambda f, a: f(a)) for s in ([()], VECTOR, ARRAY)] for name in ("atleast_1d", "atleast_2d", "atleast_3d")},
    "copy": [row(ARRAY, lambda f, a: f(a), lambda f, a: f(a, order="C"))],
    "array": [row(ARRAY, lambda f, a: f(a), lambda f, a: f(a, np.float64), lambda f, a: f(a, ndmin=3))],
    "asarray": [row(ARRAY, lambda f, a: f(a), lambda f, a: f(a, np.complex128))],
    "asanyarray": [row(ARRAY, lambda f, a: f(a))],
    "ascontiguousarray": [row(ARRAY, lambda f, a: f(a)), row([()], lambda f, a: f(a))],
    "astype": [row(ARRAY, lambda f, a: f(a, np.float32), lambda f, a: f(a, np.int16), lambda f, a: f(a, bool), lambda f, a: f(a, a.dtype))],
    **{name: [row(PAIR, lambda f, a, b: f([a, b]), lambda f, a, b: f([a, b], 1))] for name in ("concatenate", "concat", "stack")},
    **{
        name: [row(PAIR, lambda f, a, b: f([a, b])), row([(4,), (4,)], lambda f, a, b: f([a, b]))]
        for name in ("vstack", "hstack", "dstack", "column_stack")
    },
    "append": [row(PAIR, lambda f, a, b: f(a, b), lambda f, a, b: f(a, b, 0))],
    "array_split": [row(ARRAY, lambda f, a: f(a, 2), lambda f, a: f(a, 3, axis=1), lambda f, a: f(a, [1, 3], 1))],
    "split": [row(ARRAY, lambda f, a: f(a, 3), lambda f, a: f(a, [1, 3], 1))],
    "tile": [row(ARRAY, lambda f, a: f(a, 2), lambda f, a: f(a, (2, 1)), lambda f, a: f(a, (2, 1, 2)), lambda f, a: f(a, 1))],
    "repeat": [row(ARRAY, lambda f, a: f(a, 2), lambda f, a: f(a, 3, axis=0))],
    "roll": [row(ARRAY, lambda f, a: f(a, 1), lambda f, a: f(a, 2, axis=1), lambda f, a: f(a, (1, 1), (0, 1)))],
    "pad": [row(ARRAY, lambda f, a: f(a, 1), lambda f, a: f(a, ((1, 0), (0, 2))), lambda f, a: f(a, (1, 2)))],
    "tril": [row(ARRAY, lambda f, a: f(a), lambda f, a: f(a, 1))],
    "triu": [row(ARRAY, lambda f, a: f(a), lambda f, a: f(a, -1))],
    "meshgrid": [row(VECTORS, lambda f, a, b: f(a, b), lambda f, a, b: f(a, b, indexing="ij"))],
    "fft.fftshift": [row(ARRAY, lambda f, a: f(a), lambda f, a: f(a, 0))],
    "fft.ifftshift": [row(ARRAY, lambda f, a: f(a), lambda f, a: f(a, 1))],
    "where": [row([*PAIR, (3, 4)], lambda f, c, a, b: f(c, a, b), lambda f, c, a, b: f(c, a, 0), lambda f, c, a, b: f(c, 1, 2.0)), row(ARRAY, lambda f, a: f(a))],
    "clip": [row(ARRAY, lambda f, a: f(a, 0, 2), lambda f, a: f(a, None, 1.5), lambda f, a: f(a, 1, None), special=True)],
    **{name: [row(ARRAY, lambda f, a: f(a), lambda f, a: f(a, 2), lambda f, a: f(a, -1))] for name in ("round", "around")},
    "sort": [row(ARRAY, lambda f, a: f(a), lambda f, a: f(a, 0), lambda f, a: f(a, None), special=True)],
    "argsort": [row(ARRAY, lambda f, a: f(a, kind="stable"), lambda f, a: f(a, axis=0, kind="stable"), special=True)],
    "searchsorted": [row(VECTORS, lambda f, a, b: f(a - a, b), lambda f, a, b: f(a - a, b, "right"))],
    "nonzero": [row(ARRAY, lambda f, a: f(a))],
    "flatnonzero": [row(ARRAY, lambda f, a: f(a))],
    "argwhere": [row(ARRAY, lambda f, a: f(a))],
    "unique": [
        row(ARRAY, lambda f, a: f(a), special=True),
        row(VECTOR, lambda f, a: f(a, True, True, True), lambda f, a: f(a, return_counts=True), special=True),
    ],
    "bincount": [row(VECTOR, lambda f, a: f(abs(a)), lambda f, a: f(abs(a), minlength=9))],
    "take": [row(ARRAY, lambda f, a: f(a, np.array([0, 2])), lambda f, a: f(a, np.array([[1, -1]]), 1), lambda f, a: f(a, np.array(3)))],
    "take_along_axis": [row(ARRAY, lambda f, a: f(a, np.array([[0], [1], [3]]), 1), lambda f, a: f(a, np.array([[0], [-1], [9]]), 1))],
    "diff": [row(ARRAY, lambda f, a: f(a), lambda f, a: f(a, 2), lambda f, a: f(a, axis=0), lambda f, a: f(a, 0))],
    "isin": [row([(3, 4), (3,)], lambda f, a, b: f(a, b), lambda f, a, b: f(a, b, invert=True))],
    "nan_to_num": [row(ARRAY, lambda f, a: f(a), lambda f, a: f(a, nan=2.0, posinf=7.0), special=True)],
    "dot": [
        row([(3, 4), (4, 2)], lambda f, a, b: f(a, b)), row([(4,), (4,)], lambda f, a, b: f(a, b)),
        row([(3, 4), ()], lambda f, a, b: f(a, b)), row([(2, 4), (3, 4, 2)], lambda f, a, b: f(a, b)), row([(3, 4), (4,)], lambda f, a, b: f(a, b)),
    ],
    "vdot": [row([(4,), (4,)], lambda f, a, b: f(a, b)), row(PAIR, lambda f, a, b: f(a, b))],
    "inner": [row(PAIR, lambda f, a, b: f(a, b)), row([(4,), (4,)], lambda f, a, b: f(a, b))],
    "outer": [row(VECTORS, lambda f, a, b: f(a, b))],
    "tensordot": [row(PAIR, lambda f, a, b: f(a, b), lambda f, a, b: f(a, b, (1, 1)), lambda f, a, b: f(a, b, ([0], [0])))],
    "einsum": [row(PAIR, lambda f, a, b: f("ij,kj->ik", a, b), lambda f, a, b: f("ij,ij->", a, b), lambda f, a, b: f("i j, i j -> j", a, b))],
    "kron": [row([(2, 2), (2, 3)], lambda f, a, b: f(a, b))],
    "linalg.norm": [row(ARRAY, lambda f, a: f(a), lambda f, a: f(a, "fro"), lambda f, a: f(a, 1, 0), lambda f, a: f(a, axis=1, keepdims=True), lambda f, a: f(a, np.inf, 1))],
    "linalg.det": [row(SQUARE, lambda f, a: f(a))],
    "linalg.inv": [row(SQUARE, lambda f, a: f(a @ a.T + np.eye(3, dtype=a.dtype)), lambda f, a: f(a * 0))],
    "linalg.solve": [
        row([(3, 3), (3,)], lambda f, a, b: f(a @ a.T + np.eye(3, dtype=a.dtype), b)), row(SQUARE, lambda f, a: f(a * 0, a)),
        row([(2, 3, 3), (3, 2)], lambda f, a, b: f(a @ a.swapaxes(1, 2) + np.eye(3, dtype=a.dtype), b)),
    ],
    "linalg.cholesky": [row(SQUARE, lambda f, a: f(a @ a.T + np.eye(3, dtype=a.dtype)), lambda f, a: f(-a @ a.T))],
    "linalg.eigvalsh": [row(SQUARE, lambda f, a: f(a + a.T))],
    "linalg.svdvals": [row(ARRAY, lambda f, a: f(a))],
    "linalg.matrix_power": [row(SQUARE, lambda f, a: f(a, 3), lambda f, a: f(a, 0), lambda f, a: f(a, 1))],
    "cov": [row(ARRAY, lambda f, a: f(a))],
    "convolve": [row(VECTORS, *(lambda f, a, b, mode=mode: f(a, b, mode) for mode in ("full", "same", "valid")), lambda f, a, b: f(b, a))],
    **{
        f"fft.{name}": [row(ARRAY, lambda f, a: f(a), lambda f, a: f(a, 5), lambda f, a: f(a, axis=0, norm="ortho"))]
        for name in ("fft", "ifft", "rfft", "irfft")
    },
    **{f"fft.{name}": [row(CUBE, lambda f, a: f(a), lambda f, a: f(a, axes=(0, 1)))] for name in ("fft2", "ifft2", "fftn", "ifftn")},
    **{name: [row([], *(lambda f, d=d: f((2, 3), d) for d in (np.int32, np.float32)), lambda f: f(3), lambda f: f((2, 0)))] for name in ("zeros", "ones")},
    "empty": [row([], lambda f: f((0, 3)), lambda f: f(0, np.int8))],
    "full": [row([], lambda f: f((2, 3), 7), lambda f: f(3, 2.5), lambda f: f(2, True), lambda f: f(2, 1, np.float32))],
    **{name: [row(ARRAY, lambda f, a: f(a), lambda f, a: f(a, np.float32))] for name in ("zeros_like", "ones_like")},
    "empty_like": [row([(0, 3)], lambda f, a: f(a), lambda f, a: f(a, np.int8))],
    "full_like": [row(ARRAY, lambda f, a: f(a, 1), lambda f, a: f(a, 2, np.float32))],
    "arange": [row([], lambda f: f(5), lambda f: f(2, 9, 3), lambda f: f(0, 1, 0.1), lambda f: f(5.0), lambda f: f(9, 2, -2), lambda f: f(1.5, 9.0, 0.3), lambda f: f(3, dtype=np.float64))],
    "linspace": [row([], lambda f: f(0, 1), lambda f: f(-1.5, 3.7, 9), lambda f: f(0, 1, 5, False), lambda f: f(2, 2, 3), lambda f: f(0, 1, 1), lambda f: f(0, 7, 4, dtype=np.float32))],
    "eye": [row([], lambda f: f(3), lambda f: f(2, 4, 1), lambda f: f(3, k=-1, dtype=np.int32))],
    "identity": [row([], lambda f: f(3), lambda f: f(2, np.float32))],
    "tri": [row([], lambda f: f(3), lambda f: f(2, 4, 1))],
    "fft.fftfreq": [row([], lambda f: f(4), lambda f: f(5, 0.1), lambda f: f(1))],
    "fft.rfftfreq": [row([], lambda f: f(4), lambda f: f(5, 0.1))],
}  # fmt: skip


def test_every_entry_is_called() -> None:
    assert TABLES
    assert set(CALLS) == {*FUNCTIONS, *METHODS}


@pytest.mark.parametrize("name", CALLS)
@given(st.data())
@settings(max_examples=4, deadline=None, derandomize=True)
def test_function(name: str, data: Any) -> None:
    entry = FUNCTIONS.get(name) or METHODS[name]
    theirs = _numpy_function(name)
    if theirs is None:
        return
    for shapes, calls, special in CALLS[name]:
        drawn = data.draw(arrays(shapes, special=special))
        for call in calls:
            compare(call, theirs, entry.function, drawn)


def _numpy_function(name: str) -> Any:
    if name not in FUNCTIONS:
        return getattr(np.ndarray, name)
    try:
        return functools.reduce(getattr, name.split("."), np)
    except AttributeError:
        return None


def compare(call: Call, theirs: Any, ours: Any, drawn: list[Any]) -> None:
    """One call by NumPy and by what stands for it: like results, over like memory, and the arguments as they were."""
    before = [each.copy() for each in drawn]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            right = call(theirs, *drawn)
        except (TypeError, ValueError, IndexError, OverflowError, np.linalg.LinAlgError):
            with pytest.raises((TypeError, ValueError, IndexError, OverflowError, NotImplementedError, RuntimeError)):
                call(_over_arrays(ours), *drawn)
            return
        try:
            mine = call(_over_arrays(ours), *drawn)
        except NotImplementedError as error:
            assert "not implemented for" not in str(error), "found out only when a kernel runs"
            return
    rights, mines = (list(x) if isinstance(x, tuple | list) else [x] for x in (right, mine))
    assert len(rights) == len(mines)
    for one, other in zip(mines, rights, strict=True):
        assert near(one, np.asarray(other), 5), (drawn, one, other)
        for array in drawn:
            assert np.shares_memory(one, array) == np.shares_memory(other, array), (drawn, one)
    assert all(near(now, then) for now, then in zip(drawn, before, strict=True))


def _over_arrays(function: Any) -> Any:
    """A function over tensors as one over arrays."""

    def convert(value: Any) -> Any:
        if isinstance(value, np.ndarray):
            return torch.from_numpy(value)
        if isinstance(value, np.dtype) or (isinstance(value, type) and issubclass(value, np.generic | bool)):
            return torch.from_numpy(np.zeros((), value)).dtype
        return [convert(each) for each in value] if isinstance(value, list) else value

    def call(*args: Any, **kwargs: Any) -> Any:
        found = function(*map(convert, args), **{name: convert(value) for name, value in kwargs.items()})
        if isinstance(found, tuple | list):
            return [each.numpy() for each in found]
        return found.numpy()

    return call
