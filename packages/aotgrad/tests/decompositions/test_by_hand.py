"""Decompositions that torch's operator samples do not reach: direct calls against the kernels, edges included."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F

import aotgrad

aten = torch.ops.aten
TABLE = aotgrad.core_decompositions()
EDGES = torch.tensor(
    [-math.inf, -30.0, -6.0, -3.0, -1.0, -0.5, -0.0, 0.0, 0.5, 1.0, 3.0, 6.0, 25.0, math.inf, math.nan]
)


def agree(op, *args, exact: bool = False, **kwargs) -> None:
    mine = [a.clone() if isinstance(a, torch.Tensor) else a for a in args]
    expected = op(*[a.clone() if isinstance(a, torch.Tensor) else a for a in args], **kwargs)
    got = TABLE[op](*mine, **kwargs)
    pairs = zip(got, expected) if isinstance(expected, tuple) else [(got, expected)]
    for one, other in pairs:
        assert one.dtype == other.dtype and one.shape == other.shape, (op, one.dtype, other.dtype)
        tolerance = {"rtol": 0, "atol": 0} if exact else {}
        torch.testing.assert_close(one, other, equal_nan=True, **tolerance)


UNARY = """gelu silu mish hardsigmoid hardswish hardtanh leaky_relu elu celu softplus hardshrink softshrink
log_sigmoid_forward sinc frac nan_to_num deg2rad rad2deg""".split()


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", UNARY)
def test_edges(name, dtype):
    # gelu's kernels differ from processor to processor in what 0 * inf gives.
    edges = EDGES[2:-2] if name == "gelu" else EDGES
    agree(getattr(aten, name).default, edges.to(dtype))


BACKWARD = {
    "gelu_backward": (),
    "silu_backward": (),
    "hardsigmoid_backward": (),
    "hardswish_backward": (),
    "hardtanh_backward": (-1.0, 1.0),
    "leaky_relu_backward": (0.1, False),
    "softplus_backward": (1.0, 20.0),
    "threshold_backward": (0.5,),
    "sigmoid_backward": (),
    "tanh_backward": (),
    "hardshrink_backward": (0.5,),
    "softshrink_backward": (0.5,),
}


@pytest.mark.parametrize("name", sorted(BACKWARD))
def test_backward_edges(name):
    x = EDGES[2:-2]  # infinities are left out: kernels differ among themselves in what 0 * inf gives
    agree(getattr(aten, name).default, torch.full_like(x, 1.5), x, *BACKWARD[name])


@pytest.mark.parametrize("is_result", [True, False])
def test_elu_backward(is_result):
    x = F.elu(EDGES[2:-2]) if is_result else EDGES[2:-2]
    agree(aten.elu_backward.default, torch.ones_like(x), 1.2, 1.1, 0.9, is_result, x)


def test_tanh_gelu():
    agree(aten.gelu.default, EDGES[1:-2], approximate="tanh")
    agree(aten.gelu_backward.default, torch.ones(12), EDGES[1:-2], approximate="tanh")


def test_scalars():
    x = EDGES[2:-2]
    agree(aten.rsub.Scalar, x, 2.5, exact=True)
    agree(aten.rsub.Scalar, torch.arange(4), 3, exact=True)
    agree(aten.rsub.Scalar, torch.arange(4, dtype=torch.uint8), 2.5, exact=True)
    agree(aten.lerp.Scalar, x, x + 1, 0.75)


@pytest.mark.parametrize("train", [True, False, None])
def test_native_dropout(train):
    x = torch.randn(4, 5)
    torch.manual_seed(3)
    expected = aten.native_dropout.default(x, 0.3, train)
    torch.manual_seed(3)
    got = TABLE[aten.native_dropout.default](x, 0.3, train)
    torch.testing.assert_close(got, expected)
    agree(aten.native_dropout_backward.default, x, expected[1], 1 / 0.7)


@pytest.mark.parametrize("training", [True, False])
def test_batch_norm_variants(training):
    x, weight, bias = torch.randn(4, 3, 5), torch.randn(3), torch.randn(3)
    mean, var = torch.randn(3), torch.rand(3) + 0.5
    agree(aten._native_batch_norm_legit.default, x, weight, bias, mean, var, training, 0.1, 1e-5)
    agree(aten._native_batch_norm_legit.no_stats, x, weight, bias, True, 0.1, 1e-5)
    ours, theirs = (mean.clone(), var.clone()), (mean.clone(), var.clone())
    TABLE[aten.native_batch_norm.default](x, weight, bias, *ours, training, 0.1, 1e-5)
    aten.native_batch_norm.default(x, weight, bias, *theirs, training, 0.1, 1e-5)
    torch.testing.assert_close(ours, theirs)
    out, *_, reserve = TABLE[aten.cudnn_batch_norm.default](x, weight, bias, *theirs, False, 0.1, 1e-5)
    torch.testing.assert_close(out, F.batch_norm(x, *theirs, weight, bias))
    assert reserve.dtype is torch.uint8


def test_cudnn_batch_norm_backward():
    x, weight, grad = torch.randn(4, 3, 5), torch.randn(3), torch.randn(4, 3, 5)
    _, mean, invstd = aten.native_batch_norm.default(x, weight, None, None, None, True, 0.1, 1e-5)
    expected = aten.native_batch_norm_backward.default(
        grad, x, weight, None, None, mean, invstd, True, 1e-5, [True] * 3
    )
    got = TABLE[aten.cudnn_batch_norm_backward.default](
        x, grad, weight, None, None, mean, invstd, 1e-5, torch.empty(0, dtype=torch.uint8)
    )
    torch.testing.assert_close(got, expected)


def test_fused_rms_norm():
    x, weight = torch.randn(4, 6, requires_grad=True), torch.randn(6, requires_grad=True)
    expected = F.rms_norm(x, (6,), weight, 1e-5)
    out, rstd = TABLE[aten._fused_rms_norm.default](x, [6], weight, 1e-5)
    torch.testing.assert_close(out, expected)
    grad = torch.randn(4, 6)
    theirs = torch.autograd.grad(expected, (x, weight), grad)
    ours = TABLE[aten._fused_rms_norm_backward.default](grad, x, [6], rstd, weight, [True, True])
    torch.testing.assert_close(ours, theirs)


def test_safe_softmax():
    x = torch.randn(3, 4)
    x[1] = -math.inf
    agree(aten._safe_softmax.default, x, -1)


def test_views():
    x = torch.randn(3, 4)
    agree(aten.t.default, x)
    agree(aten.t.default, x[0])
    agree(aten.transpose.int, x, 0, -1)
    agree(aten._reshape_alias.default, x, [4, 3], [3, 1])


def test_class_indices_out_of_the_ordinary():
    x = torch.randn(5, 4)
    target = torch.tensor([0, -100, 3, -100, 1])
    weight = torch.rand(4)
    for reduction in (0, 1, 2):
        agree(aten.nll_loss_forward.default, x, target, weight, reduction, -100)
        grad = torch.randn(5) if reduction == 0 else torch.tensor(2.0)
        total = aten.nll_loss_forward.default(x, target, weight, reduction, -100)[1]
        agree(aten.nll_loss_backward.default, grad, x, target, weight, reduction, -100, total)
    agree(aten.nll_loss_forward.default, x, torch.full((5,), -100), None, 1, -100)


def test_embedding_backward_with_frequencies():
    indices = torch.tensor([[1, 2, 2], [0, 2, 4]])
    for padding in (-1, 2):
        for frequencies in (True, False):
            agree(aten.embedding_dense_backward.default, torch.randn(2, 3, 6), indices, 5, padding, frequencies)


@pytest.mark.parametrize("update", [True, False])
def test_batch_norm_that_chooses_its_kernel(update):
    x, weight, bias, grad = torch.randn(4, 3, 5), torch.randn(3), torch.randn(3), torch.randn(4, 3, 5)
    mean, var = torch.randn(3), torch.rand(3) + 0.5
    op = aten._batch_norm_with_update if update else aten._batch_norm_no_update
    agree(op.default, x, weight, bias, mean, var, 0.1, 1e-5)
    agree(aten._native_batch_norm_legit_no_training.default, x, weight, bias, mean, var, 0.1, 1e-5)
    _, save_mean, save_var, reserve = op.default(x, weight, bias, mean.clone(), var.clone(), 0.1, 1e-5)
    saved = (save_mean, save_var, update, 1e-5, [True, True, True], reserve)
    agree(aten.batch_norm_backward.default, grad, x, weight, mean, var, *saved)


@pytest.mark.parametrize("dim", [0, -1, [0], None])
def test_moments_of_a_number(dim):
    for op in (aten.var.correction, aten.std.correction, aten.var_mean.correction):
        agree(op, torch.tensor(2.5), dim, correction=0)
        agree(op, torch.tensor(2.5), dim, correction=1, keepdim=True)


@pytest.mark.parametrize("shape", [(3, 4), (2, 3, 4, 5)])
def test_what_eager_makes_contiguous(shape):
    x = torch.randn(shape).mT.contiguous().mT
    for op, arguments in (
        (aten.tril.default, ()),
        (aten.triu.default, (1,)),
        (aten.masked_fill.Scalar, (x > 0, 2.0)),
        (aten.masked_fill.Tensor, (x[:1] > 0, torch.tensor(2.0))),
    ):
        for one in (x, x.movedim(0, -1).contiguous().movedim(-1, 0)):
            assert TABLE[op](one, *arguments).stride() == op(one, *arguments).stride()


ROWS, KEYS, GENERIC = 0, 1, 2


def whole_layer(length=5, width=16, heads=4, dtype=torch.float32):
    """Arguments of `_native_multi_head_attention` without a mask."""
    torch.manual_seed(0)
    x = torch.randn(2, length, width, dtype=dtype)
    weights = [torch.randn(size, dtype=dtype) for size in ((3 * width, width), (3 * width,), (width, width), (width,))]
    return x, x, x, width, heads, *weights


def masks(length=5):
    rows = torch.ones(length, length, dtype=torch.bool).triu(1)
    keys = torch.tensor([[0, 0, 0, 1, 1], [0, 0, 0, 0, 1]]).bool()
    blind = rows.clone()
    blind[2] = True  # sees no key: NaN
    generic = (rows | keys[:, None, None]).expand(2, 4, length, length)
    return [(rows, ROWS), (keys, KEYS), (blind, ROWS), (generic, GENERIC), (rows * 0.5, ROWS), (None, None)]


@pytest.mark.parametrize("need_weights, average", [(False, True), (True, True), (True, False)])
@pytest.mark.parametrize("mask, kind", masks())
def test_a_whole_attention_layer(mask, kind, need_weights, average):
    op, given = aten._native_multi_head_attention.default, whole_layer()
    for given in (whole_layer(), (given[0], given[0] + 1, given[0] - 1, *given[3:])):
        expected, weights = op(*given, mask, need_weights, average, kind)
        out, mine = TABLE[op](*given, mask, need_weights, average, kind)
        torch.testing.assert_close(out, expected, equal_nan=True, rtol=1e-4, atol=1e-4)
        assert out.stride() == expected.stride()
        assert (mine is None) == (not need_weights)
        if need_weights:
            torch.testing.assert_close(mine, weights, equal_nan=True)


@pytest.mark.parametrize("use_gelu", [True, False])
@pytest.mark.parametrize("norm_first", [True, False])
@pytest.mark.parametrize("mask, kind", masks())
def test_a_whole_encoder_layer(mask, kind, norm_first, use_gelu):
    x, _, _, *given = whole_layer()
    norms = [torch.randn(16) for _ in range(4)]
    wide = [torch.randn(32, 16), torch.randn(32), torch.randn(16, 32), torch.randn(16)]
    arguments = (x, *given, use_gelu, norm_first, 1e-5, *norms, *wide, mask, kind)
    op = aten._transformer_encoder_layer_fwd.default
    torch.testing.assert_close(TABLE[op](*arguments), op(*arguments), equal_nan=True, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("lead", [(), (3,), (2, 1)])
def test_distances(lead):
    torch.manual_seed(0)
    op = aten._euclidean_dist.default
    one, other = torch.randn(*lead, 7, 4, dtype=torch.float64), torch.randn(*lead, 5, 4, dtype=torch.float64)
    torch.testing.assert_close(TABLE[op](one, other), op(one, other))
    same = TABLE[op](one, one)
    assert same.isfinite().all()  # rounding makes no root of a negative number


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.int32], ids=str)
def test_powers_beyond_what_the_dtype_holds(dtype):
    op = aten.ldexp.Tensor
    x = torch.tensor([2.0**-30, 3.0, 0.0, 1.5, 1.0, 2.0]).to(dtype)
    for power in (
        torch.tensor([140, -140, 300, 3, 2**32 + 1, -(2**31)]),
        torch.tensor([127, -128, 0, 3, 1, 9]).to(torch.int8),
    ):
        agree(op, x, power, exact=True)
    agree(op, x, torch.tensor([0.5, -3.0, 2.0, 0.0, 1.0, -1.0]))


@pytest.mark.parametrize("name", ["xlogy.Tensor", "special_xlog1py.default", "logaddexp.default", "logaddexp2.default"])
def test_strides_are_of_the_first_that_has_any(name):
    packet, overload = name.split(".")
    op = getattr(getattr(aten, packet), overload)
    plain, turned = torch.rand(3, 4, 5), torch.rand(5, 4, 3).permute(2, 1, 0)
    spread = torch.rand(3, 1, 1).expand(3, 4, 5)
    for given in ((turned, plain), (plain, turned), (spread, turned), (turned, spread)):
        assert TABLE[op](*given).stride() == op(*given).stride()
    x, other = torch.tensor([0.0, 0.0, 0.0, 1.0, 1.0]), torch.tensor([math.nan, -1.0, -2.0, math.nan, math.inf])
    agree(op, x, other)


@pytest.mark.parametrize("order", [2, 3, -3, 0.5, 0, math.inf])
def test_norms_of_one_number_are_its_size(order):
    x = torch.tensor([[-2e38], [1e-39], [-0.0], [math.nan]])
    agree(aten.linalg_vector_norm.default, x, order, [1], exact=True)
    agree(aten.dist.default, x[0], torch.zeros(1), order, exact=True)


def test_a_factor_comes_first_in_products_of_vectors():
    x, first, second = torch.zeros(2, 2), torch.tensor([2e20, 1.0]), torch.tensor([2e18, 1.0])
    agree(aten.addr.default, x, first, second, alpha=0.5, exact=True)


def test_what_kernels_refuse_or_read_otherwise_is_left_to_them():
    whole, x, gaps = torch.ones(3, dtype=torch.int32), torch.ones(3), torch.ones(4, 8)[:, ::2]
    left = [
        (aten.addr.default, (torch.ones(3, 3, dtype=torch.int32), whole, whole), {"beta": 0.5}),
        (aten.linalg_vector_norm.default, (x,), {"dtype": torch.complex64}),
        (aten.nansum.default, (x,), {"dtype": torch.complex64}),
        (aten.isin.Tensor_Tensor, (x > 0, x > 0), {}),
        (aten.index_fill.int_Scalar, (x, 0, whole, 2), {}),
        (aten.index_fill.int_Scalar, (x, 0, x > 0, 2), {}),
        (aten.index_fill.int_Tensor, (x, 0, whole, x.sum()), {}),
        (aten.diagonal_scatter.default, (gaps, torch.zeros(4)), {}),
        (aten.index_fill.int_Tensor, (x, 1, whole.long(), x.sum()), {}),
        (aten.scatter_reduce.two, (x, 0, whole.long(), whole, "mean"), {}),
        (aten.addr.default, (x, x[:1], x.sum()), {}),
    ]
    for op, args, kwargs in left:
        assert TABLE[op](*args, **kwargs) is NotImplemented, op


def test_equal():
    x = torch.tensor([1.0, math.nan])
    for other in (x.clone(), torch.ones(2), torch.tensor([1.0, 2.0])):
        assert TABLE[aten.equal.default](other.nan_to_num(), other) == torch.equal(other.nan_to_num(), other)
    assert TABLE[aten.equal.default](x, x) is NotImplemented  # whose elements nobody looks at
    assert TABLE[aten.equal.default](x, torch.ones(3)) is NotImplemented
