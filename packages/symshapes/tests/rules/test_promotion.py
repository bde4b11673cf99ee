"""Type promotion against `torch.result_type`."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from symshapes.rules.layout import TensorMeta, contiguous_strides
from symshapes.rules.promotion import result_dtype

DTYPES = [
    torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16, torch.bfloat16,
    torch.float32, torch.float64, torch.complex64, torch.complex128,
]  # fmt: skip
NUMBERS = [True, 2, 2.5, 2j]


@st.composite
def operands(draw):
    if draw(st.booleans()):
        return draw(st.sampled_from(NUMBERS))
    return torch.zeros(draw(st.sampled_from([(), (2,)])), dtype=draw(st.sampled_from(DTYPES)))


def _meta(value):
    if not isinstance(value, torch.Tensor):
        return value
    return TensorMeta(tuple(value.shape), contiguous_strides(value.shape), value.dtype, value.device)


@given(operands(), operands())
def test_result_dtype(first, second):
    if not isinstance(first, torch.Tensor) and not isinstance(second, torch.Tensor):
        return
    assert result_dtype([_meta(first), _meta(second)]) is torch.result_type(first, second)
