"""Whole programs, compiled and eager: values, layout, aliasing, effects, gradients."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn


def randn(*size: int, grad: bool = False, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    generator = torch.Generator().manual_seed(sum(size) + 1)
    return torch.randn(*size, generator=generator, dtype=dtype).requires_grad_(grad)


def functional(module: nn.Module):
    """A module as a function of its input, parameters and buffers."""
    names = [name for name, _ in module.named_parameters()] + [name for name, _ in module.named_buffers()]
    tensors = [*module.parameters(), *module.buffers()]

    def run(*args):
        count = len(args) - len(names)
        out = torch.func.functional_call(module, dict(zip(names, args[count:])), args[:count])
        return out if isinstance(out, tuple) else (out,)

    return run, tensors


def test_pointwise(check):
    check(lambda x: (x.sin() + 1,), randn(3, 4))
    check(lambda x, y: (x * y, x - y), randn(3, 4, grad=True), randn(4, grad=True))


def test_mlp(check):
    model = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.LayerNorm(16), nn.Linear(16, 4), nn.Softmax(-1))
    run, tensors = functional(model)
    check(run, randn(5, 8), *tensors)
    with torch.no_grad():
        check(run, randn(5, 8), *tensors)


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 6, 3, padding=1)
        self.bn = nn.BatchNorm2d(6)
        self.head = nn.Linear(6, 4)

    def forward(self, x):
        x = F.relu(self.bn(self.conv(x)), inplace=True)
        x = F.max_pool2d(x, 2)
        return self.head(F.adaptive_avg_pool2d(x, 1).flatten(1))


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize("training", [True, False])
def test_convolution_with_batch_norm(check, training, layout):
    run, tensors = functional(Net().train(training))
    check(run, randn(2, 3, 8, 8).to(memory_format=layout), *tensors)


def test_batch_norm_alone_in_bfloat16(check):
    run, tensors = functional(nn.BatchNorm1d(4))
    check(run, randn(6, 4, grad=True).to(torch.bfloat16).detach().requires_grad_(), *tensors, tolerance=LOOSE)


LOOSE = {"rtol": 5e-2, "atol": 5e-2}


def test_embedding_and_cross_entropy(check):
    def run(tokens, table, weight):
        hidden = F.embedding(tokens, table, padding_idx=0)
        return (F.cross_entropy(hidden @ weight, tokens, ignore_index=1),)

    tokens = torch.tensor([0, 3, 1, 2, 3])
    check(run, tokens, randn(5, 8, grad=True), randn(8, 5, grad=True))


def test_dropout_draws_eagers_numbers(check):
    check(lambda x: (F.dropout(x, 0.3),), randn(6, 6, grad=True))
    check(lambda x: (F.dropout(F.relu(F.dropout(x, 0.5)), 0.3),), randn(6, 6))
    check(lambda x: (F.alpha_dropout(x, 0.4, True),), randn(6, 6, grad=True))
    check(lambda x: (F.dropout2d(x, 0.4),), randn(2, 3, 4, 4, grad=True))


def test_random_ops_draw_eagers_numbers(check):
    def run(x):
        torch.rand(7)  # nobody uses it, but it moves the generator
        y = torch.empty_like(x).uniform_(-1, 1)
        z = torch.empty(3).normal_(2.0, 0.5)
        return (
            x + y,
            z,
            torch.randn_like(x),
            torch.randint(0, 9, (4,)),
            torch.randperm(6),
            torch.bernoulli(x.sigmoid()),
        )

    check(run, randn(3, 4))


def test_lstm(check):
    run, tensors = functional(nn.LSTM(6, 5, num_layers=2, bidirectional=True))
    check(run, randn(4, 2, 6, grad=True), *tensors)


def test_gru(check):
    run, tensors = functional(nn.GRU(6, 5, batch_first=True))
    check(run, randn(4, 2, 6, grad=True), *tensors)


@pytest.mark.parametrize("masked", [True, False])
def test_attention(check, masked):
    def run(q, k, v, mask):
        if masked:
            return (F.scaled_dot_product_attention(q, k, v, attn_mask=mask),)
        return (F.scaled_dot_product_attention(q, k, v, is_causal=True),)

    shape = (2, 2, 5, 8)
    check(run, *(randn(*shape, grad=True) for _ in range(3)), randn(5, 5))


def test_transformer_layer(check):
    run, tensors = functional(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, norm_first=True))
    check(run, randn(2, 5, 8, grad=True), *tensors)


def test_shared_inputs_add_their_gradients(check):
    check(lambda x, y: (x * y + x, (x + y).sum()), randn(3, grad=True), randn(3, grad=True))


def test_gradient_of_an_unused_input_is_none(check):
    check(lambda x, y: (x * 2,), randn(3, grad=True), randn(3, grad=True))


def test_integer_and_boolean_results(check):
    check(lambda x: (x.argmax(), x > 0, x * 2, 3, None, "s"), randn(5, grad=True))


def test_only_integer_results_of_an_input_that_requires_grad(check):
    check(lambda x: (x.argmax(0), x.detach() + 1), randn(5, 2, grad=True))


def test_no_grad_regions_and_detach(check):
    def run(x):
        with torch.no_grad():
            scale = x.abs().max()
        return (x / scale, (x.detach() * x).sum())

    check(run, randn(4, grad=True))


def test_autocast_inside(check):
    def run(x, w):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            hidden = F.linear(x, w)
        return (hidden, F.linear(x, w))

    check(run, randn(4, 8, grad=True), randn(3, 8, grad=True), tolerance=LOOSE)


def test_autocast_outside(check):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        check(
            lambda x, w: (F.linear(x, w), F.softmax(x @ w.t(), -1)),
            randn(4, 8, grad=True),
            randn(3, 8),
            tolerance=LOOSE,
        )
        check(lambda x, w: (F.linear(x, w),), randn(4, 8), randn(3, 8), tolerance=LOOSE)


def test_constants(check):
    def run(x):
        table = torch.tensor([1.0, 2.0, 3.0])
        table[1] = 5.0
        return (x * table, torch.tensor(2.5) * x, torch.tensor([1, 2]), x.new_tensor([4.0]))

    check(run, randn(2, 3, grad=True))


def test_structured_results(check):
    check(lambda x: {"a": x + 1, "b": [x * 2, (x.sum(),)]}, randn(3, grad=True))
    check(lambda x: x + 1, randn(3, grad=True))
    check(lambda x: (x + 1).shape, randn(3, 4))


def test_foreach(check):
    def run(x, y, z):
        torch._foreach_mul_([x, y], 2.0)
        torch._foreach_add_([x, y], [z, z])
        return (x + y,)

    check(run, randn(3), randn(3), randn(3))


def test_optimizer_step_in_a_graph(check):
    def run(p, g, m):
        with torch.no_grad():
            m.mul_(0.9).add_(g, alpha=0.1)
            p.addcdiv_(m, g.abs().sqrt_().add_(1e-3), value=-0.01)
        return ()

    check(run, randn(4, grad=True), randn(4), randn(4))


def test_complex(check):
    check(lambda x: (torch.fft.rfft(x).abs(),), randn(8, grad=True))
    check(lambda x: (torch.view_as_complex(x) * 2j,), randn(4, 2))


@pytest.mark.parametrize(
    ("query", "mask"),
    [
        ((2, 4, 6, 8), (3, 1, 1, 6, 6)),
        ((2, 4, 6, 8), (1, 1, 1, 6, 6)),
        ((1, 4, 6, 8), (3, 1, 6, 6)),
        ((1, 6, 8), (4, 6, 6)),
        ((2, 4, 1, 8), (2, 4, 3, 1)),
    ],
)
def test_a_mask_larger_than_the_scores_is_refused(query, mask):
    from aotgrad import compile

    def attend(query, mask):
        return F.scaled_dot_product_attention(query, query, query, mask)

    graph = torch.fx.symbolic_trace(attend)
    inputs = randn(*query), randn(*mask)
    with pytest.raises(RuntimeError) as eager:
        attend(*inputs)
    with pytest.raises(RuntimeError) as refused:
        compile(graph, inputs, inference_compiler=lambda graph, _: graph)(*inputs)
    assert str(refused.value) == str(eager.value)
