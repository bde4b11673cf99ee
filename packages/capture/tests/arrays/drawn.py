"""Arrays that tests draw: of every dtype that is stood for, plain and laid out otherwise, with what is special among numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st

from capture.arrays.dtypes import TORCH_DTYPES

DTYPES = list(TORCH_DTYPES)
_SPECIAL = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 0.5, -0.5, 2.0])


def numbers(dtype: np.dtype[Any], shape: tuple[int, ...], seed: int, *, special: bool, most: int = 4) -> Any:
    """Numbers of a dtype; ``special``: infinite ones, and no numbers, and the least and greatest integers among them."""
    draw = np.random.default_rng(seed)
    if dtype.kind == "b":
        return draw.integers(0, 2, shape).astype(bool)
    if dtype.kind in "iu":
        small = draw.integers(0 if dtype.kind == "u" else -most, most, shape, endpoint=True).astype(dtype)
        info = np.iinfo(dtype)
        large = draw.integers(info.min, info.max, shape, dtype=dtype, endpoint=True)
        ends = draw.choice(np.array([info.min, info.max], dtype), shape)
        mixed = np.where(draw.random(shape) < 0.2, ends, np.where(draw.random(shape) < 0.3, large, small))
        return np.asarray(mixed if special else small, dtype)
    found = draw.normal(size=shape) * 2
    if dtype.kind == "c":
        return np.asarray(found + 1j * draw.normal(size=shape), dtype)
    return np.asarray(
        np.where(draw.random(shape) < 0.3, draw.choice(_SPECIAL, shape), found) if special else found, dtype
    )


@st.composite
def arrays(draw: Any, shapes: list[tuple[int, ...]], *, special: bool = False, dtypes: list[Any] = DTYPES) -> Any:
    """One array for each shape; some lie in memory in another order."""
    found = []
    for shape in shapes:
        array = numbers(draw(st.sampled_from(dtypes)), shape, draw(st.integers(0, 10**6)), special=special)
        if len(shape) > 1 and draw(st.booleans()):
            array = np.asfortranarray(array)
        found.append(array)
    return found


def near(ours: Any, theirs: Any, scale: float = 1) -> bool:
    """Whether two arrays are alike in dtype, sizes and, up to rounding, elements."""
    if ours.dtype != theirs.dtype or ours.shape != theirs.shape:
        return False
    kinds = {"f": {2: 4e-3, 4: 2e-5, 8: 1e-10}, "c": {8: 2e-4, 16: 1e-10}}
    tolerance = kinds.get(ours.dtype.kind, {}).get(ours.dtype.itemsize, 0) * scale
    return bool(np.allclose(ours, theirs, rtol=tolerance, atol=tolerance, equal_nan=True))
