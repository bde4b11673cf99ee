"""Refusals in eager's words: an operation on fakes that fails raises what the same on tensors raises."""

import pytest
import torch

from symshapes import FakeMode


def _f(*size, dtype=torch.float32):
    return torch.zeros(size, dtype=dtype)


REFUSED = {
    "copy of another size": lambda t: t(2, 3).copy_(t(2, 4)),
    "copy of a greater size": lambda t: t(1, 3).copy_(t(2, 3)),
    "copy of more dimensions": lambda t: t(3).copy_(t(2, 3)),
    "in place, of a greater size": lambda t: t(1, 3).add_(t(2, 3)),
    "sizes": lambda t: t(2, 3) + t(2, 4),
    "dtypes": lambda t: t(3, dtype=torch.int64).add_(t(3)),
    "unsigned": lambda t: t(3, dtype=torch.uint16).add_(t(3)),
    "complex": lambda t: t(3, dtype=torch.float64).add_(t(3, dtype=torch.complex128)),
}


@pytest.mark.parametrize("case", REFUSED)
def test_words(case):
    with pytest.raises(RuntimeError) as eager:
        REFUSED[case](_f)
    mode = FakeMode()
    with pytest.raises(RuntimeError) as faked, mode:
        REFUSED[case](_f)
    assert str(faked.value) == str(eager.value)
