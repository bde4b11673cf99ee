"""Type promotion against `torch.result_type`."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from symshapes import DimPolicy, ShapeEnv, opmath_dtype
from symshapes.facts import holds_all_of, number_dtype, result_dtype
from symshapes.rules.layout import TensorMeta, contiguous_strides

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


def test_expressions_and_the_default_dtype():
    env = ShapeEnv()
    size = env.create_size(7, "x.size(0)", DimPolicy.DYNAMIC)
    half = size / 2
    for number in (half, half.node.expr):
        assert number_dtype(number) is torch.float32
        assert number_dtype(number, torch.float64) is torch.float64
    for number in (size, size.node.expr, size // 2, (size // 2).node.expr, 3):
        assert number_dtype(number, torch.float64) is torch.int64
    assert number_dtype((size > 9).node.expr) is torch.bool
    assert number_dtype(1j, torch.float64) is torch.complex128
    assert result_dtype([None, 2.0], torch.float64) is torch.float64
    assert result_dtype([], torch.float64) is torch.float64


def test_what_kernels_on_half_types_compute_in():
    assert [opmath_dtype(dtype) for dtype in (torch.float16, torch.bfloat16)] == [torch.float32] * 2
    assert opmath_dtype(torch.complex32) is torch.complex64
    assert all(opmath_dtype(d) is d for d in (torch.float32, torch.float64, torch.complex64, torch.int8, torch.bool))


def test_a_dtype_holds_all_of_narrower_ones():
    assert all(holds_all_of(torch.float32, each) for each in (torch.float32, torch.float16, torch.bfloat16, torch.bool))
    assert not holds_all_of(torch.float16, torch.float32)
    assert not holds_all_of(torch.float16, torch.bfloat16) and not holds_all_of(torch.bfloat16, torch.float16)
