"""NumPy's ufuncs by torch's operations: dtypes and values against NumPy's, of all pairs of dtypes and numbers of Python's."""

from __future__ import annotations

import itertools
import warnings
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from capture.arrays.elementwise import UFUNCS, apply

from .drawn import DTYPES, near, numbers

#: What may be beside an array: another, or a number, which counts for little.
BESIDE = [*DTYPES, 2, -1, 300, 2.5, True, 2j]
#: Refused though NumPy computes it: what of it differs, or has no kernel.
REFUSED = {
    "power": "negative powers of integers raise", "reciprocal": "of integers", "matmul": "of truths",
    **dict.fromkeys(["maximum", "minimum", "fmax", "fmin", "less", "less_equal", "greater", "greater_equal"], "complex or beyond the dtype"),
    **dict.fromkeys(["equal", "not_equal"], "numbers beyond the dtype"),
}  # fmt: skip


@pytest.mark.parametrize("name", UFUNCS)
@given(st.integers(0, 10**6))
@settings(max_examples=1, deadline=None, derandomize=True)
def test_ufunc(name: str, seed: int) -> None:
    ufunc = getattr(np, name)
    special = name != "matmul"
    pairs = [
        kinds for kinds in itertools.product(BESIDE, repeat=ufunc.nin) if any(isinstance(k, np.dtype) for k in kinds)
    ]
    for at in np.random.default_rng(seed).permutation(len(pairs))[:60]:
        kinds = pairs[at]
        shape = (3, 3) if name == "matmul" else (7,)
        operands = [
            numbers(kind, shape, seed + place, special=special) if isinstance(kind, np.dtype) else kind
            for place, kind in enumerate(kinds)
        ]
        compare(ufunc, operands)


def compare(ufunc: np.ufunc, operands: list[Any]) -> None:
    given = [torch.from_numpy(each) if isinstance(each, np.ndarray) else each for each in operands]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            theirs = ufunc(*operands)
        except (TypeError, ValueError, OverflowError):
            with pytest.raises((TypeError, ValueError, OverflowError, NotImplementedError, RuntimeError)):
                apply(ufunc.__name__, *given)
            return
        try:
            ours = apply(ufunc.__name__, *given)
        except (NotImplementedError, OverflowError) as error:
            assert ufunc.__name__ in REFUSED, f"{operands}: {error}"
            assert "not implemented for" not in str(error), "found out only when a kernel runs"
            return
    pairs = zip(ours, theirs, strict=True) if isinstance(theirs, tuple) else [(ours, theirs)]
    for mine, right in pairs:
        assert near(mine.numpy(), right), (operands, mine, right)
        assert not any(np.shares_memory(mine.numpy(), each) for each in operands if isinstance(each, np.ndarray))


def test_results_in_other_dtypes() -> None:
    x = np.arange(4, dtype=np.float32)
    assert near(apply("add", torch.from_numpy(x), 1, dtype=torch.float64).numpy(), np.add(x, 1, dtype=np.float64))
    with pytest.raises(TypeError):
        apply("add", torch.from_numpy(x), 1, dtype=torch.int32)
