"""What eager refuses whatever the data, the rules refuse with the same words."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from symshapes import DimPolicy, FakeMode, ShapeEnv

REFUSED: list[Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = [
    lambda x, scalar: scalar.roll(1, 0),
    lambda x, scalar: scalar.roll((1, 1), (0, 0)),
    lambda x, scalar: x.roll((1, 2)),
    lambda x, scalar: x.roll(1, (0, 1)),
    lambda x, scalar: x.roll((1, 2), (0,)),
    lambda x, scalar: x.roll(1, 5),
]


@pytest.mark.parametrize("call", REFUSED)
@pytest.mark.parametrize("policy", [DimPolicy.STATIC, DimPolicy.DYNAMIC])
def test_refused_as_in_eager(call: Callable[..., torch.Tensor], policy: DimPolicy) -> None:
    x, scalar = torch.randn(2, 3), torch.tensor(1.0)
    with pytest.raises((RuntimeError, IndexError)) as eager:
        call(x, scalar)
    mode = FakeMode(ShapeEnv())
    fakes = mode.from_tensor(x, source="x", policy=policy), mode.from_tensor(scalar, source="scalar", policy=policy)
    with mode, pytest.raises(eager.type) as found:
        call(*fakes)
    assert str(found.value) == str(eager.value)
