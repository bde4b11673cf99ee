"""Recurrent layers whose kernels answer in another dtype than they were asked in, on processors that have them."""

import pytest
import torch

from symshapes import FakeMode


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_gradients_of_an_lstm_layer_are_float32(dtype: torch.dtype) -> None:
    with FakeMode():
        x, state, output = (torch.empty(size, dtype=dtype) for size in ((5, 2, 8), (2, 8), (5, 2, 8)))
        weights = [torch.empty(size, dtype=dtype) for size in ((32, 8), (32, 8), (32,), (32,))]
        options = (False, 2, 8, 1, True, True, False, [], False, torch.empty(0, dtype=torch.uint8))
        gradients = torch.ops.aten.mkldnn_rnn_layer_backward.default(
            x, *weights, state, state, output, state, state, output, state, state, *options
        )
    expected = [x, *weights, state, state]
    assert [tuple(g.shape) for g in gradients] == [tuple(t.shape) for t in expected]
    assert {g.dtype for g in gradients} == {torch.float32}
