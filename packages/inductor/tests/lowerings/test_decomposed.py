"""Operators that aotgrad decomposes have no lowering: the decomposition serves, other backends too. But for those below."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from aotgrad import core_decompositions
from inductor.lowerings import LOWERINGS
from symshapes import DimPolicy, FakeMode, FakeTensor, ShapeEnv

aten = torch.ops.aten

F32, F64, I64 = torch.ones(2, 4), torch.ones(2, 4, dtype=torch.float64), torch.ones(2, 4, dtype=torch.int64)
IMAGE = torch.ones(1, 1, 2, 2)


def symbolic(value: torch.Tensor) -> FakeTensor:
    """A tensor whose last size may be any."""
    policy = [*[DimPolicy.STATIC] * (value.dim() - 1), DimPolicy.DYNAMIC]
    return FakeMode(ShapeEnv()).from_tensor(value, source="x", policy=policy)


# Each of these decompositions leaves some calls as they are, which the lowering serves: an example of one.
BOTH: dict[Any, Callable[[], Any]] = {
    # Loops compute in the promoted dtype at once; spelled out in operators, that were casts of each operand.
    aten.addcmul.default: lambda: ((F32, F64, F64), {}),
    aten.addcdiv.default: lambda: ((F32, F64, F64), {}),
    aten.xlogy.Tensor: lambda: ((F32, F64), {}),
    aten.logaddexp.default: lambda: ((F32, F64), {}),
    # What is no sum is combined by stores, of which a device says whether it has such.
    aten.scatter_reduce.two: lambda: ((F32, 0, I64 * 0, F32, "amax"), {}),
    # Of integers eager computes in float32.
    aten.deg2rad.default: lambda: ((I64,), {}),
    aten.rad2deg.default: lambda: ((I64,), {}),
    aten.logsumexp.default: lambda: ((I64, [0]), {}),
    # No integer is infinite or NaN: nothing is computed.
    aten.nan_to_num.default: lambda: ((I64,), {}),
    # The product with another alpha than 1 is not rounded.
    aten.rsub.Scalar: lambda: ((F32, 1, 2), {}),
    # In the strides of a memory format; besides, aotgrad puts it into graphs that are traced already.
    aten.full_like.default: lambda: ((IMAGE, 1), {"memory_format": torch.channels_last}),
    # How many parts there are is known, but not as numbers where each one lies.
    aten.split.Tensor: lambda: ((symbolic(F32), 2, 1), {}),
    aten.unbind.int: lambda: ((symbolic(F32), 1), {}),
}


def test_no_operator_has_both() -> None:
    both = {op for op in core_decompositions() if op in LOWERINGS}
    assert both == BOTH.keys()


@pytest.mark.parametrize("op", BOTH, ids=str)
def test_the_decomposition_leaves_something_to_the_lowering(op: Any) -> None:
    args, kwargs = BOTH[op]()
    assert core_decompositions()[op](*args, **kwargs) is NotImplemented
