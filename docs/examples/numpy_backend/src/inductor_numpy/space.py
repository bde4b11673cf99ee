"""What generated kernels use: `Space`, the points of a loop nest, and reads and writes of memory at all of them at once.

Flows in: flat arrays and sizes. Flows out: arrays with one dimension a loop, of size 1 along loops that they don't depend on.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

Array = np.ndarray[Any, Any]
inf, nan = np.inf, np.nan


def max(*values: Any) -> Any:
    """The larger one at each point, in an index expression."""
    return functools.reduce(np.maximum, values)


def min(*values: Any) -> Any:
    """The smaller one at each point, in an index expression."""
    return functools.reduce(np.minimum, values)


def each(function: Callable[[float], float], values: Array) -> Array:
    """A function of one float, of each element."""
    found = [function(value) for value in values.ravel().tolist()]
    return np.array(found, values.dtype).reshape(values.shape)


class Space:
    """The points of one loop nest: `outer` loops are independent, over `inner` ones is reduced."""

    def __init__(self, outer: tuple[int, ...], inner: tuple[int, ...]) -> None:
        self.sizes = (*outer, *inner)
        self.rows = (*outer, *(1 for _ in inner))
        """The shape of what is the same for all inner points."""
        self.inner = tuple(range(len(outer), len(self.sizes)))
        self.one = (1,) * len(self.sizes)
        self.empty = 0 in self.sizes

    @property
    def grids(self) -> list[Array]:
        """The loop variables' values, each along its own dimension."""
        return [
            np.arange(size).reshape([size if k == at else 1 for k in range(len(self.sizes))])
            for at, size in enumerate(self.sizes)
        ]

    def filled(self, value: Any, dtype: Any) -> Array:
        """A number, or an index expression's values."""
        return np.asarray(value).astype(dtype) if isinstance(value, np.ndarray) else np.full(self.one, value, dtype)

    def cast(self, value: Array, dtype: Any) -> Array:
        """Converted as torch does: of what an integer can't hold, its lowest bits stay."""
        if value.dtype.kind == "f" and np.dtype(dtype).kind in "iu":
            value = value.astype(np.int64)
        return value.astype(dtype)

    # Memory

    def view(self, memory: Array, offset: int, steps: tuple[int, ...]) -> Array:
        """The elements at `offset` and from there `steps` apart along each loop: memory itself, not a copy."""
        shape = [size if step else 1 for size, step in zip(self.sizes, steps, strict=True)]
        return as_strided(memory[offset:], shape, [step * memory.itemsize for step in steps])

    def gather(self, memory: Array, at: Any, mask: Array | None) -> Array:
        """The elements at computed places; zero, without a look at memory, where `mask` is false."""
        at = self.filled(at, np.int64)
        if mask is None:
            return memory[at]
        if not mask.any():
            return np.zeros(np.broadcast_shapes(at.shape, mask.shape), memory.dtype)
        return np.where(mask, memory[np.where(mask, at, 0)], np.zeros((), memory.dtype))

    def fill(self, memory: Array, offset: int, steps: tuple[int, ...], value: Array) -> None:
        """Write to the elements that `view` gives."""
        target = self.view(memory, offset, steps)
        if np.broadcast_shapes(target.shape, value.shape) == target.shape:
            target[...] = value
        else:  # several points write to one place: any of them may be the last
            at = sum((grid * step for grid, step in zip(self.grids, steps, strict=True)), np.full(self.one, offset))
            self.scatter(memory, at, value)

    def scatter(self, memory: Array, at: Any, value: Array) -> None:
        """Write to computed places."""
        places, values = self._points(at, value)
        memory[places] = values

    def add(self, memory: Array, at: Any, value: Array) -> None:
        """Add to computed places: to one that occurs often, each value."""
        places, values = self._points(at, value)
        np.add.at(memory, places, values)

    def _points(self, at: Any, value: Array) -> tuple[Array, Array]:
        """The places and values of all outer points, and of the inner ones where either depends on them."""
        at = self.filled(at, np.int64)
        shape = np.broadcast_shapes(at.shape, value.shape, self.rows)
        return np.broadcast_to(at, shape).ravel(), np.broadcast_to(value, shape).ravel()

    def checked(self, value: Array, size: int, mask: Array | None, wraps: bool, error: type[Exception]) -> Array:
        """Positions below `size`, from the end if they are negative; or the error that eager raises."""
        if mask is not None:
            value = np.where(mask, value, 0)
        if np.any((value < (-size if wraps else 0)) | (value >= size), where=True if mask is None else mask):
            raise error(f"index out of range for size {size}")
        return np.where(value < 0, value + size, value)

    # Reductions

    def reduce(self, function: Callable[..., Array], value: Array, **how: Any) -> Array:
        """Combined over all inner loops."""
        return function(self._whole(value), axis=self.inner, keepdims=True, **how)

    def position_of(self, function: Callable[..., Array], value: Array) -> Array:
        """Which of the inner points, counted in the order of the loops."""
        rows = self._whole(value)
        flat = rows.reshape(*rows.shape[: len(rows.shape) - len(self.inner)], -1)
        return function(flat, axis=-1).reshape([*flat.shape[:-1], *(1 for _ in self.inner)])

    def _whole(self, value: Array) -> Array:
        """With an element for each inner point."""
        sizes = [size if at in self.inner else value.shape[at] for at, size in enumerate(self.sizes)]
        return np.broadcast_to(value, sizes)
